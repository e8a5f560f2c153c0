from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError
from bot.core.forecasts import ForecasterSetup, TrialLimits
from bot.core.questions import QuestionRef
from bot.store.decisions import SnapshotRequest
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)


def asked(ref: QuestionRef, *, account: str = "us", forecaster: str = "plain", revision: int = 1) -> SnapshotRequest:
    return SnapshotRequest(ref=ref, forecaster=forecaster, revision=revision, account=account)


async def test_a_docket_holds_the_question_as_it_is_now_its_intent_and_its_lock(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    send = ledger_fixture.send(forecast)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    await ledger_fixture.ledger.schedule.lock(
        forecast.ref, forecaster=None, reason="under review", until=None, now=NOON
    )
    restated = await ledger_fixture.ask(title="Will it rain in July?")
    [snapshot] = await ledger_fixture.ledger.decision_snapshots.read_snapshots([asked(forecast.ref)], now=NOON)
    assert snapshot.question == restated
    assert snapshot.standing_intent == send.intent
    assert snapshot.locked == "under review"


async def test_dockets_come_in_the_order_they_were_asked_for(ledger_fixture: LedgerFixture) -> None:
    refs = [(await ledger_fixture.ask(key)).ref for key in ("rain", "snow", "hail")]
    wanted = [*refs[::-1], refs[0]]
    dockets = await ledger_fixture.ledger.decision_snapshots.read_snapshots([asked(ref) for ref in wanted], now=NOON)
    assert [snapshot.question.ref for snapshot in dockets] == wanted
    assert [(snapshot.standing_intent, snapshot.locked) for snapshot in dockets] == [(None, None)] * 4


async def test_a_docket_knows_nothing_of_other_accounts_and_of_locks_that_ran_out(
    ledger_fixture: LedgerFixture,
) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    await ledger_fixture.ledger.submissions.decide(
        forecast_id=forecast.id, decision=ledger_fixture.send(forecast), at=NOON
    )
    await ledger_fixture.ledger.schedule.lock(forecast.ref, forecaster=None, reason="wait", until=NOON + HOUR, now=NOON)
    [snapshot] = await ledger_fixture.ledger.decision_snapshots.read_snapshots(
        [asked(forecast.ref, account="them")], now=NOON + HOUR
    )
    assert (snapshot.standing_intent, snapshot.locked) == (None, None)


async def test_a_docket_of_an_unknown_question_is_refused(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError, match="lantern:sleet"):
        await ledger_fixture.ledger.decision_snapshots.read_snapshots(
            [asked(QuestionRef("lantern", "sleet"))], now=NOON
        )


async def test_a_lock_of_one_forecaster_is_in_its_dockets_alone(ledger_fixture: LedgerFixture) -> None:
    ref = (await ledger_fixture.ask()).ref
    await ledger_fixture.ledger.schedule.lock(ref, forecaster="plain", reason="under review", until=None, now=NOON)
    dockets = await ledger_fixture.ledger.decision_snapshots.read_snapshots(
        [asked(ref), asked(ref, forecaster="other")], now=NOON
    )
    assert [snapshot.locked for snapshot in dockets] == ["under review", None]


async def test_the_successor_is_the_newest_completed_revision_of_the_same_forecaster(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask()
    for probability in (0.3, 0.4, 0.5):
        await ledger_fixture.forecast(question, probability)
    await ledger_fixture.begin(question)
    revisions = [asked(question.ref, revision=number) for number in (1, 2, 3)]
    beside = asked(question.ref, forecaster="other")
    dockets = await ledger_fixture.ledger.decision_snapshots.read_snapshots([*revisions, beside], now=NOON)
    assert [snapshot.successor for snapshot in dockets] == [3, 3, None, None]


async def test_a_docket_tells_which_forecast_was_made_with_knowledge_of_the_future(
    ledger_fixture: LedgerFixture,
) -> None:
    question = await ledger_fixture.ask()
    for clairvoyant in (True, False, None):
        setup = (
            None
            if clairvoyant is None
            else ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits(), clairvoyant=clairvoyant)
        )
        await ledger_fixture.forecast(question, setup=setup)
    revisions = [asked(question.ref, revision=number) for number in (1, 2, 3, 4)]
    dockets = await ledger_fixture.ledger.decision_snapshots.read_snapshots(revisions, now=NOON)
    assert [snapshot.clairvoyant for snapshot in dockets] == [True, False, False, False]
