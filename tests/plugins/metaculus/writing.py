"""What the tests of the writer share: short names for what is there, and for what is said of it."""

from typing import Any

from bot.api import IntentAction, IntentState, Question
from bot.testing.venues.metaculus_state import Question as There
from plugins.metaculus.terms import ref_of
from tests.plugins.metaculus.conftest import Site
from tests.plugins.metaculus.records import intent

ACKED, REFUSED, UNKNOWN, ABSENT = IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT
FORECAST, COMMENT = "/api/questions/forecast/", "/api/comments/create/"


def ref(there: There) -> Any:
    return ref_of(there.post, there.id)


def remark(there: There, text: str = "Because of the wind.", name: str = "remark") -> Any:
    return intent(ref(there), action=IntentAction.COMMENT, text=text, name=name)


async def asked(site: Site, there: There) -> Question:
    """The question as the ledger would hold it."""
    return await site.reader.find(ref(there).key)
