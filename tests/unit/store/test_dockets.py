from datetime import timedelta

import pytest

from bot.domain.question import QuestionRef
from bot.errors import NotFound
from tests.unit.store.conftest import NOON, Scribe

HOUR = timedelta(hours=1)


async def test_a_docket_holds_the_question_as_it_is_now_its_intent_and_its_lock(scribe: Scribe) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    send = scribe.send(forecast)
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    await scribe.ledger.schedule.lock(forecast.ref, forecaster=None, reason="under review", until=None, now=NOON)
    restated = await scribe.ask(title="Will it rain in July?")
    [docket] = await scribe.ledger.dockets.of([(forecast.ref, "us")], now=NOON)
    assert docket.question == restated
    assert docket.standing == send.intent
    assert docket.locked == "under review"


async def test_dockets_come_in_the_order_they_were_asked_for(scribe: Scribe) -> None:
    refs = [(await scribe.ask(key)).ref for key in ("rain", "snow", "hail")]
    asked = [(ref, "us") for ref in (*refs[::-1], refs[0])]
    dockets = await scribe.ledger.dockets.of(asked, now=NOON)
    assert [docket.question.ref for docket in dockets] == [ref for ref, _ in asked]
    assert [(docket.standing, docket.locked) for docket in dockets] == [(None, None)] * 4


async def test_a_docket_knows_nothing_of_other_accounts_and_of_locks_that_ran_out(scribe: Scribe) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=scribe.send(forecast), at=NOON)
    await scribe.ledger.schedule.lock(forecast.ref, forecaster=None, reason="wait", until=NOON + HOUR, now=NOON)
    [docket] = await scribe.ledger.dockets.of([(forecast.ref, "them")], now=NOON + HOUR)
    assert (docket.standing, docket.locked) == (None, None)


async def test_a_docket_of_an_unknown_question_is_refused(scribe: Scribe) -> None:
    with pytest.raises(NotFound, match="lantern:sleet"):
        await scribe.ledger.dockets.of([(QuestionRef("lantern", "sleet"), "us")], now=NOON)
