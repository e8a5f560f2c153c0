"""Short names that the tests of the Metaculus writer share."""

from typing import Any

from bot.api import IntentAction, IntentState, Question
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from plugins.metaculus.question_names import question_ref
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.records import intent

ACKED, REFUSED, UNKNOWN, ABSENT = IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT
FORECAST, COMMENT = "/api/questions/forecast/", "/api/comments/create/"


def ref(there: There) -> Any:
    return question_ref(there.post, there.id)


def remark(there: There, text: str = "Because of the wind.", name: str = "remark") -> Any:
    return intent(ref(there), action=IntentAction.COMMENT, text=text, name=name)


async def asked(site: MetaculusFixture, there: There) -> Question:
    """The question as the ledger would hold it."""
    return await site.reader.find_question(ref(there).key)
