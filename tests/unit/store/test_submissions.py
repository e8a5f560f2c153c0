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


async def planned(scribe: LedgerFixture, key: str = "rain", probability: float = 0.3) -> SendDecision:
    forecast = await scribe.forecast(await scribe.ask(key), probability)
    return await decide(scribe, forecast)


async def decide(scribe: LedgerFixture, forecast: Forecast) -> SendDecision:
    send = scribe.send(forecast)
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    return send


async def bring(scribe: LedgerFixture, intent: str, state: IntentState) -> None:
    for move in WAYS[state]:
        if isinstance(move, IntentState):
            await scribe.ledger.submissions.move_intent(intent, move, detail="so it went", at=NOON)
        else:
            await scribe.ledger.submissions.begin_attempt([intent], at=NOON)


def states(scribe: LedgerFixture) -> dict[str, str]:
    return dict(scribe.rows("select id, state from intent"))


def test_the_machine_is_the_one_of_the_design() -> None:
    assert {(old, new) for old, nexts in NEXT_INTENT_STATES.items() for new in nexts} == LEGAL
    assert {state for state in S if not NEXT_INTENT_STATES[state]} == FINAL_INTENT_STATES | {S.IN_DOUBT}


@pytest.mark.parametrize("old", S)
async def test_an_intent_moves_only_along_the_machine(scribe: LedgerFixture, old: IntentState) -> None:
    for new in S:
        intent = (await planned(scribe, key=new.value)).intent.id
        await bring(scribe, intent, old)
        # Nothing is on the wire without an attempt, so marking is no way there.
        if old is new or ((old, new) in LEGAL and new is not S.SENDING):
            await scribe.ledger.submissions.move_intent(intent, new, detail="", at=NOON)
            assert states(scribe)[intent] == new
        else:
            with pytest.raises(StoreError, match=f"cannot go .*to {new}"):
                await scribe.ledger.submissions.move_intent(intent, new, detail="", at=NOON)
            assert states(scribe)[intent] == old


async def test_a_decision_to_send_plans_its_intent_in_one_go(scribe: LedgerFixture) -> None:
    send = await planned(scribe)
    (row,) = await scribe.ledger.submissions.intents("lantern", "us", "2026-03-01")
    assert (row.intent, row.state, row.mode, row.planned_at) == (send.intent, S.PLANNED, ExecutionMode.PAPER, NOON)
    (decision,) = await scribe.ledger.submissions.decisions(send.intent.forecast)
    assert (decision.decision, decision.at) == (send, NOON)


async def test_a_decision_to_hold_is_kept_with_its_reason(scribe: LedgerFixture) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    hold = HoldDecision(why="not armed", until=NOON)
    assert await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON) == hold
    assert [row.decision for row in await scribe.ledger.submissions.decisions(forecast.id)] == [hold]
    assert await scribe.ledger.submissions.read_standing(forecast.ref, "us") is None


async def test_the_same_hold_said_again_is_one_decision(scribe: LedgerFixture) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    for hold in (
        HoldDecision(why="halted", until=NOON),
        HoldDecision(why="halted", until=NOON),
        HoldDecision(why="not armed", until=NOON),
    ):
        await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    reasons = [row.decision.why for row in await scribe.ledger.submissions.decisions(forecast.id)]
    assert reasons == ["halted", "not armed"]


async def test_planning_twice_is_planning_once(scribe: LedgerFixture) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    for _ in range(2):
        await decide(scribe, forecast)
    assert len(states(scribe)) == 1
    assert len(await scribe.ledger.submissions.decisions(forecast.id)) == 2


@pytest.mark.parametrize("waiting", [S.PLANNED, S.READY, S.ABSENT])
async def test_a_newer_forecast_takes_the_place_of_one_that_waits(scribe: LedgerFixture, waiting: IntentState) -> None:
    old = (await planned(scribe)).intent
    await bring(scribe, old.id, waiting)
    new = (await planned(scribe, probability=0.6)).intent
    assert states(scribe) == {old.id: "superseded", new.id: "planned"}
    assert await scribe.ledger.submissions.read_standing(old.ref, "us") == new


@pytest.mark.parametrize("doubt", [S.SENDING, S.UNKNOWN, S.IN_DOUBT])
async def test_nothing_is_planned_over_an_intent_that_may_be_on_its_way(
    scribe: LedgerFixture, doubt: IntentState
) -> None:
    old = (await planned(scribe)).intent
    await bring(scribe, old.id, doubt)
    newer = await scribe.forecast(await scribe.ask(), 0.6)
    stored = await scribe.ledger.submissions.decide(forecast_id=newer.id, decision=scribe.send(newer), at=NOON)
    assert isinstance(stored, HoldDecision)
    assert f"{old.id} of the same question is {doubt}" in stored.why
    assert states(scribe) == {old.id: doubt.value}
    assert await scribe.ledger.forecasts.held(10, now=NOON) == [newer]


async def test_what_is_acknowledged_stands_beside_what_is_planned_next(scribe: LedgerFixture) -> None:
    old = (await planned(scribe)).intent
    await bring(scribe, old.id, S.ACKED)
    new = (await planned(scribe, probability=0.6)).intent
    assert states(scribe) == {old.id: "acked", new.id: "planned"}
    assert await scribe.ledger.submissions.read_standing(old.ref, "us") == new
    await bring(scribe, new.id, S.REFUSED)
    assert await scribe.ledger.submissions.read_standing(old.ref, "us") == old


async def test_an_attempt_is_on_record_before_the_wire_and_settled_after_it(scribe: LedgerFixture) -> None:
    intent = (await planned(scribe)).intent
    (attempt,) = await scribe.ledger.submissions.begin_attempt([intent.id], at=NOON)
    assert attempt == derive_id("attempt", intent.id, "1")
    assert [row.intent for row in await scribe.ledger.submissions.sending()] == [intent]
    receipt = WriteReceipt(intent=intent.id, state=S.ACKED, reference="file.json", detail="written")
    await scribe.ledger.submissions.settle([receipt], at=NOON)
    assert scribe.rows("select id, number, state, reference, detail from attempt") == [
        (attempt, 1, "acked", "file.json", "written")
    ]
    assert await scribe.ledger.submissions.sending() == []


async def test_an_intent_proved_absent_is_sent_again_as_a_new_attempt(scribe: LedgerFixture) -> None:
    intent = (await planned(scribe)).intent
    await bring(scribe, intent.id, S.ABSENT)
    (second,) = await scribe.ledger.submissions.begin_attempt([intent.id], at=NOON)
    assert second == derive_id("attempt", intent.id, "2")
    assert scribe.rows("select number, state from attempt order by number") == [(1, "absent"), (2, "sending")]


async def test_attempts_begin_all_together_or_not_at_all(scribe: LedgerFixture) -> None:
    first, second = (await planned(scribe, "rain")).intent, (await planned(scribe, "snow")).intent
    await bring(scribe, second.id, S.ACKED)
    with pytest.raises(StoreError, match="is acked and cannot be sent"):
        await scribe.ledger.submissions.begin_attempt([first.id, second.id], at=NOON)
    assert states(scribe) == {first.id: "planned", second.id: "acked"}


async def test_a_late_receipt_does_not_undo_a_proof(scribe: LedgerFixture) -> None:
    intent = (await planned(scribe)).intent
    await bring(scribe, intent.id, S.ACKED)
    await scribe.ledger.submissions.settle([WriteReceipt(intent=intent.id, state=S.UNKNOWN)], at=NOON)
    assert states(scribe) == {intent.id: "acked"}


async def test_a_receipt_for_what_was_never_sent_is_refused(scribe: LedgerFixture) -> None:
    intent = (await planned(scribe)).intent
    with pytest.raises(StoreError, match="cannot go from planned to acked"):
        await scribe.ledger.submissions.settle([WriteReceipt(intent=intent.id, state=S.ACKED)], at=NOON)
    with pytest.raises(NotFoundError):
        await scribe.ledger.submissions.settle([WriteReceipt(intent="none", state=S.ACKED)], at=NOON)


async def test_batches_are_counted_by_state(scribe: LedgerFixture) -> None:
    sends = [await planned(scribe, key) for key in ("rain", "snow", "hail")]
    await bring(scribe, sends[0].intent.id, S.ACKED)
    (row,) = await scribe.ledger.submissions.batches(states=[S.PLANNED])
    assert (row.venue, row.account, row.batch, row.mode) == ("lantern", "us", "2026-03-01", ExecutionMode.PAPER)
    assert (row.planned, row.acked, row.counts) == (2, 1, {S.PLANNED: 2, S.ACKED: 1})
    assert row.closes_at == scribe.question().closes_at
    assert await scribe.ledger.submissions.batches(states=[S.UNKNOWN]) == []
    assert await scribe.ledger.submissions.batches(states=[]) == []


async def test_a_question_without_a_batch_gives_its_own_close_and_the_soonest_comes_first(
    scribe: LedgerFixture,
) -> None:
    closes = [NOON + timedelta(days=days) for days in (9, 2, 5)]
    for number, closes_at in enumerate(closes):
        question = await scribe.ask(f"question {number}", batch=None, closes_at=closes_at)
        send = scribe.send(await scribe.forecast(question))
        alone = replace(send, intent=replace(send.intent, batch=send.intent.id))
        await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=alone, at=NOON)
    rows = await scribe.ledger.submissions.batches(states=[S.PLANNED])
    assert [row.closes_at for row in rows] == sorted(closes)


async def test_a_hold_with_other_figures_is_the_same_decision_with_the_newest_of_them(scribe: LedgerFixture) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    holds = [
        HoldDecision(why="YES stands at 0.97, outside the band 0.05 to 0.95", until=NOON),
        HoldDecision(why="YES stands at 0.968, outside the band 0.05 to 0.95", until=NOON + timedelta(minutes=1)),
        HoldDecision(why="NO stands at 0.968, outside the band 0.05 to 0.95", until=NOON),
    ]
    for hold in holds:
        await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    decisions = await scribe.ledger.submissions.decisions(forecast.id)
    assert [row.decision for row in decisions] == holds[1:]


async def test_what_stands_on_paper_stands_nowhere_else(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    submissions = scribe.ledger.submissions
    sent = {}
    for mode, probability in ((ExecutionMode.LIVE, 0.3), (ExecutionMode.PAPER, 0.4)):
        forecast = await scribe.forecast(question, probability)
        send = replace(scribe.send(forecast), mode=mode)
        await submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
        await bring(scribe, send.intent.id, S.ACKED)
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
    [snapshot] = await scribe.ledger.decision_snapshots.read_snapshots(
        [SnapshotRequest(ref=ref, forecaster="plain", revision=2, account=account, paper=False)], now=NOON
    )
    assert snapshot.standing_intent == sent[ExecutionMode.LIVE]
