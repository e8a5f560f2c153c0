from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError, StoreError
from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.submissions import (
    FINAL_INTENT_STATES,
    ExecutionMode,
    HoldDecision,
    IntentState,
    SendDecision,
    WriteReceipt,
)
from bot.store.decisions import SnapshotRequest
from bot.store.submissions import NEXT_INTENT_STATES
from tests.unit.store.conftest import NOON, LedgerFixture

S = IntentState
# docs/facts/reliability.md#outbox, read by hand; and from sending to absent, for a write that
# provably did not happen because its batch was not complete.
LEGAL = {
    (S.PLANNED, S.READY), (S.PLANNED, S.SUPERSEDED), (S.READY, S.SENDING), (S.READY, S.SUPERSEDED),
    (S.SENDING, S.ACKED), (S.SENDING, S.REFUSED), (S.SENDING, S.UNKNOWN), (S.SENDING, S.ABSENT), (S.UNKNOWN, S.ACKED),
    (S.UNKNOWN, S.ABSENT), (S.UNKNOWN, S.IN_DOUBT), (S.ABSENT, S.PLANNED),
}  # fmt: skip
# One way to each state, from planned.
WAYS = {
    S.PLANNED: (),
    S.READY: (S.READY,),
    S.SENDING: ("attempt",),
    S.ACKED: ("attempt", S.ACKED),
    S.REFUSED: ("attempt", S.REFUSED),
    S.UNKNOWN: ("attempt", S.UNKNOWN),
    S.ABSENT: ("attempt", S.UNKNOWN, S.ABSENT),
    S.IN_DOUBT: ("attempt", S.UNKNOWN, S.IN_DOUBT),
    S.SUPERSEDED: (S.SUPERSEDED,),
}


async def planned(ledger_fixture: LedgerFixture, key: str = "rain", probability: float = 0.3) -> SendDecision:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask(key), probability)
    return await decide(ledger_fixture, forecast)


async def decide(ledger_fixture: LedgerFixture, forecast: Forecast) -> SendDecision:
    send = ledger_fixture.send(forecast)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    return send


async def bring(ledger_fixture: LedgerFixture, intent: str, state: IntentState) -> None:
    for move in WAYS[state]:
        if isinstance(move, IntentState):
            await ledger_fixture.ledger.submissions.move_intent(intent, move, detail="so it went", at=NOON)
        else:
            await ledger_fixture.ledger.submissions.begin_attempt([intent], at=NOON)


def states(ledger_fixture: LedgerFixture) -> dict[str, str]:
    return dict(ledger_fixture.rows("select id, state from intent"))


def test_the_machine_is_the_one_of_the_design() -> None:
    assert {(old, new) for old, nexts in NEXT_INTENT_STATES.items() for new in nexts} == LEGAL
    assert {state for state in S if not NEXT_INTENT_STATES[state]} == FINAL_INTENT_STATES | {S.IN_DOUBT}


@pytest.mark.parametrize("old", S)
async def test_an_intent_moves_only_along_the_machine(ledger_fixture: LedgerFixture, old: IntentState) -> None:
    for new in S:
        intent = (await planned(ledger_fixture, key=new.value)).intent.id
        await bring(ledger_fixture, intent, old)
        # Nothing is on the wire without an attempt, so marking is no way there.
        if old is new or ((old, new) in LEGAL and new is not S.SENDING):
            await ledger_fixture.ledger.submissions.move_intent(intent, new, detail="", at=NOON)
            assert states(ledger_fixture)[intent] == new
        else:
            with pytest.raises(StoreError, match=f"cannot go .*to {new}"):
                await ledger_fixture.ledger.submissions.move_intent(intent, new, detail="", at=NOON)
            assert states(ledger_fixture)[intent] == old


async def test_a_decision_to_send_plans_its_intent_in_one_go(ledger_fixture: LedgerFixture) -> None:
    send = await planned(ledger_fixture)
    (row,) = await ledger_fixture.ledger.submissions.intents("lantern", "us", "2026-03-01")
    assert (row.intent, row.state, row.mode, row.planned_at) == (send.intent, S.PLANNED, ExecutionMode.PAPER, NOON)
    (decision,) = await ledger_fixture.ledger.submissions.decisions(send.intent.forecast)
    assert (decision.decision, decision.at) == (send, NOON)


async def test_a_decision_to_hold_is_kept_with_its_reason(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    hold = HoldDecision(why="not armed", until=NOON)
    assert await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON) == hold
    assert [row.decision for row in await ledger_fixture.ledger.submissions.decisions(forecast.id)] == [hold]
    assert await ledger_fixture.ledger.submissions.read_standing(forecast.ref, "us") is None


async def test_the_same_hold_said_again_is_one_decision(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    for hold in (
        HoldDecision(why="halted", until=NOON),
        HoldDecision(why="halted", until=NOON),
        HoldDecision(why="not armed", until=NOON),
    ):
        await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    reasons = [row.decision.why for row in await ledger_fixture.ledger.submissions.decisions(forecast.id)]
    assert reasons == ["halted", "not armed"]


async def test_planning_twice_is_planning_once(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    for _ in range(2):
        await decide(ledger_fixture, forecast)
    assert len(states(ledger_fixture)) == 1
    assert len(await ledger_fixture.ledger.submissions.decisions(forecast.id)) == 2


@pytest.mark.parametrize("waiting", [S.PLANNED, S.READY, S.ABSENT])
async def test_a_newer_forecast_takes_the_place_of_one_that_waits(
    ledger_fixture: LedgerFixture, waiting: IntentState
) -> None:
    old = (await planned(ledger_fixture)).intent
    await bring(ledger_fixture, old.id, waiting)
    new = (await planned(ledger_fixture, probability=0.6)).intent
    assert states(ledger_fixture) == {old.id: "superseded", new.id: "planned"}
    assert await ledger_fixture.ledger.submissions.read_standing(old.ref, "us") == new


@pytest.mark.parametrize("doubt", [S.SENDING, S.UNKNOWN, S.IN_DOUBT])
async def test_nothing_is_planned_over_an_intent_that_may_be_on_its_way(
    ledger_fixture: LedgerFixture, doubt: IntentState
) -> None:
    old = (await planned(ledger_fixture)).intent
    await bring(ledger_fixture, old.id, doubt)
    newer = await ledger_fixture.forecast(await ledger_fixture.ask(), 0.6)
    stored = await ledger_fixture.ledger.submissions.decide(
        forecast_id=newer.id, decision=ledger_fixture.send(newer), at=NOON
    )
    assert isinstance(stored, HoldDecision)
    assert f"{old.id} of the same question is {doubt}" in stored.why
    assert states(ledger_fixture) == {old.id: doubt.value}
    assert await ledger_fixture.ledger.forecasts.held(10, now=NOON) == [newer]


async def test_nothing_is_planned_for_a_forecast_that_was_renewed_while_it_was_decided_on(
    ledger_fixture: LedgerFixture,
) -> None:
    old = await ledger_fixture.forecast(await ledger_fixture.ask(), 0.3)
    newer = await ledger_fixture.forecast(await ledger_fixture.ask(), 0.6)
    stored = await ledger_fixture.ledger.submissions.decide(
        forecast_id=old.id, decision=ledger_fixture.send(old), at=NOON
    )
    assert stored == HoldDecision(why=f"superseded by revision {newer.revision}", until=NOON)
    assert states(ledger_fixture) == {}
    assert isinstance(await decide(ledger_fixture, newer), SendDecision)
    assert list(states(ledger_fixture).values()) == ["planned"]


async def test_what_is_acknowledged_stands_beside_what_is_planned_next(ledger_fixture: LedgerFixture) -> None:
    old = (await planned(ledger_fixture)).intent
    await bring(ledger_fixture, old.id, S.ACKED)
    new = (await planned(ledger_fixture, probability=0.6)).intent
    assert states(ledger_fixture) == {old.id: "acked", new.id: "planned"}
    assert await ledger_fixture.ledger.submissions.read_standing(old.ref, "us") == new
    await bring(ledger_fixture, new.id, S.REFUSED)
    assert await ledger_fixture.ledger.submissions.read_standing(old.ref, "us") == old


async def test_an_attempt_is_on_record_before_the_wire_and_settled_after_it(ledger_fixture: LedgerFixture) -> None:
    intent = (await planned(ledger_fixture)).intent
    (attempt,) = await ledger_fixture.ledger.submissions.begin_attempt([intent.id], at=NOON)
    assert attempt == derive_id("attempt", intent.id, "1")
    assert [row.intent for row in await ledger_fixture.ledger.submissions.sending()] == [intent]
    receipt = WriteReceipt(intent=intent.id, state=S.ACKED, reference="file.json", detail="written")
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON)
    assert ledger_fixture.rows("select id, number, state, reference, detail from attempt") == [
        (attempt, 1, "acked", "file.json", "written")
    ]
    assert await ledger_fixture.ledger.submissions.sending() == []


async def test_an_intent_proved_absent_is_sent_again_as_a_new_attempt(ledger_fixture: LedgerFixture) -> None:
    intent = (await planned(ledger_fixture)).intent
    await bring(ledger_fixture, intent.id, S.ABSENT)
    (second,) = await ledger_fixture.ledger.submissions.begin_attempt([intent.id], at=NOON)
    assert second == derive_id("attempt", intent.id, "2")
    assert ledger_fixture.rows("select number, state from attempt order by number") == [(1, "absent"), (2, "sending")]


async def test_attempts_begin_all_together_or_not_at_all(ledger_fixture: LedgerFixture) -> None:
    first, second = (await planned(ledger_fixture, "rain")).intent, (await planned(ledger_fixture, "snow")).intent
    await bring(ledger_fixture, second.id, S.ACKED)
    with pytest.raises(StoreError, match="is acked and cannot be sent"):
        await ledger_fixture.ledger.submissions.begin_attempt([first.id, second.id], at=NOON)
    assert states(ledger_fixture) == {first.id: "planned", second.id: "acked"}


async def test_a_late_receipt_does_not_undo_a_proof(ledger_fixture: LedgerFixture) -> None:
    intent = (await planned(ledger_fixture)).intent
    await bring(ledger_fixture, intent.id, S.ACKED)
    await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=intent.id, state=S.UNKNOWN)], at=NOON)
    assert states(ledger_fixture) == {intent.id: "acked"}


async def test_a_receipt_for_what_was_never_sent_is_refused(ledger_fixture: LedgerFixture) -> None:
    intent = (await planned(ledger_fixture)).intent
    with pytest.raises(StoreError, match="cannot go from planned to acked"):
        await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=intent.id, state=S.ACKED)], at=NOON)
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent="none", state=S.ACKED)], at=NOON)


async def test_batches_are_counted_by_state(ledger_fixture: LedgerFixture) -> None:
    sends = [await planned(ledger_fixture, key) for key in ("rain", "snow", "hail")]
    await bring(ledger_fixture, sends[0].intent.id, S.ACKED)
    (row,) = await ledger_fixture.ledger.submissions.batches(states=[S.PLANNED])
    assert (row.venue, row.account, row.batch, row.mode) == ("lantern", "us", "2026-03-01", ExecutionMode.PAPER)
    assert (row.planned, row.acked, row.counts) == (2, 1, {S.PLANNED: 2, S.ACKED: 1})
    assert row.closes_at == ledger_fixture.question().closes_at
    assert await ledger_fixture.ledger.submissions.batches(states=[S.UNKNOWN]) == []
    assert await ledger_fixture.ledger.submissions.batches(states=[]) == []


async def test_a_question_without_a_batch_gives_its_own_close_and_the_soonest_comes_first(
    ledger_fixture: LedgerFixture,
) -> None:
    closes = [NOON + timedelta(days=days) for days in (9, 2, 5)]
    for number, closes_at in enumerate(closes):
        question = await ledger_fixture.ask(f"question {number}", batch=None, closes_at=closes_at)
        send = ledger_fixture.send(await ledger_fixture.forecast(question))
        alone = replace(send, intent=replace(send.intent, batch=send.intent.id))
        await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=alone, at=NOON)
    rows = await ledger_fixture.ledger.submissions.batches(states=[S.PLANNED])
    assert [row.closes_at for row in rows] == sorted(closes)


async def test_a_hold_with_other_figures_is_the_same_decision_with_the_newest_of_them(
    ledger_fixture: LedgerFixture,
) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    holds = [
        HoldDecision(why="YES stands at 0.97, outside the band 0.05 to 0.95", until=NOON),
        HoldDecision(why="YES stands at 0.968, outside the band 0.05 to 0.95", until=NOON + timedelta(minutes=1)),
        HoldDecision(why="NO stands at 0.968, outside the band 0.05 to 0.95", until=NOON),
    ]
    for hold in holds:
        await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    decisions = await ledger_fixture.ledger.submissions.decisions(forecast.id)
    assert [row.decision for row in decisions] == holds[1:]


async def test_what_stands_on_paper_stands_nowhere_else(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    submissions = ledger_fixture.ledger.submissions
    sent = {}
    for mode, probability in ((ExecutionMode.LIVE, 0.3), (ExecutionMode.PAPER, 0.4)):
        forecast = await ledger_fixture.forecast(question, probability)
        send = replace(ledger_fixture.send(forecast), mode=mode)
        await submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
        await bring(ledger_fixture, send.intent.id, S.ACKED)
        sent[mode] = send.intent
    ref, account, batch = question.ref, sent[ExecutionMode.LIVE].account, sent[ExecutionMode.LIVE].batch
    assert await submissions.read_standing(ref, account, paper=False) == sent[ExecutionMode.LIVE]
    assert await submissions.read_standing(ref, account, paper=True) == sent[ExecutionMode.PAPER]
    assert await submissions.read_standing(ref, account) == sent[ExecutionMode.PAPER]
    there = {
        paper: {row.intent.id for row in await submissions.intents(ref.venue, account, batch, paper=paper)}
        for paper in (False, True, None)
    }
    live, on_paper = sent[ExecutionMode.LIVE].id, sent[ExecutionMode.PAPER].id
    assert there == {False: {live}, True: {on_paper}, None: {live, on_paper}}
    [snapshot] = await ledger_fixture.ledger.decision_snapshots.read_snapshots(
        [SnapshotRequest(ref=ref, forecaster="plain", revision=2, account=account, paper=False)], now=NOON
    )
    assert snapshot.standing_intent == sent[ExecutionMode.LIVE]
