"""Orders, sealed requests, fills and comments in the ledger, and what a person says of a doubt."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from sqlite_utils import Database

from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.permissions import ApprovalState, SubmissionApproval
from bot.core.submissions import (
    ExecutionMode,
    GateDecision,
    HoldDecision,
    Intent,
    IntentAction,
    IntentState,
    SealedRequest,
    SendDecision,
    WriteReceipt,
)
from bot.store import permissions
from bot.store.submission_attempts import WriteAuditEvent
from bot.store.submissions import OutcomeAdoption, SubmissionStore
from tests.unit.store.conftest import NOON, LedgerFixture

S = IntentState
MINUTE = timedelta(minutes=1)


def request(intent: Intent, tag: str = "", *, fence_min: float | None = 1.0) -> SealedRequest:
    fence = None if fence_min is None else NOON + fence_min * MINUTE
    return SealedRequest(
        intent=intent.id, tag=tag or f"tag of {intent.id}", body=f'{{"bet":"{intent.id}"}}', fence=fence
    )


async def planned(ledger_fixture: LedgerFixture, key: str = "rain") -> Intent:
    send = ledger_fixture.order(await ledger_fixture.forecast(await ledger_fixture.ask(key)))
    stored = await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert isinstance(stored, SendDecision)
    return stored.intent


async def sent(ledger_fixture: LedgerFixture, key: str = "rain", *, fence_min: float | None = 1.0) -> Intent:
    intent = await planned(ledger_fixture, key)
    sealed = [request(intent, fence_min=fence_min)]
    await ledger_fixture.ledger.submissions.begin_attempt([intent.id], at=NOON, sealed=sealed)
    return intent


def state(ledger_fixture: LedgerFixture, intent: Intent) -> str:
    return str(dict(ledger_fixture.rows("select id, state from intent"))[intent.id])


def cost(ledger_fixture: LedgerFixture, intent: Intent) -> float:
    return float(dict(ledger_fixture.rows("select id, cost from intent"))[intent.id])


async def test_an_order_is_kept_whole_with_what_it_stands_or_falls_with_and_the_market_it_was_planned_on(
    ledger_fixture: LedgerFixture,
) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    send = ledger_fixture.order(forecast)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    row = await ledger_fixture.ledger.submissions.get(send.intent.id)
    assert (row.intent, row.state) == (send.intent, S.PLANNED)
    assert [one.decision for one in await ledger_fixture.ledger.submissions.decisions(forecast.id)] == [send]
    assert ledger_fixture.rows("select currency, cost, event, creator, category from intent") == [
        ("COIN", 10.0, "June", "someone", "weather")
    ]
    [(body,)] = ledger_fixture.rows("select order_body from intent")
    assert json.loads(body)["terms"] == {"tick": 0.01}


async def test_a_request_is_on_record_before_the_wire_byte_for_byte(ledger_fixture: LedgerFixture) -> None:
    intent = await planned(ledger_fixture)
    sealed = replace(request(intent), body='{ "a":1.50,\n"b": "ü"}')
    await ledger_fixture.ledger.submissions.begin_attempt([intent.id], at=NOON, sealed=[sealed])
    [attempt] = await ledger_fixture.ledger.submissions.attempts([intent.id])
    assert (attempt.sealed, attempt.state, attempt.number) == (sealed, S.SENDING, 1)


async def test_a_tag_of_another_intent_is_refused_and_nothing_goes_on_the_wire(ledger_fixture: LedgerFixture) -> None:
    first, second = await sent(ledger_fixture), await planned(ledger_fixture, "snow")
    with pytest.raises(MalformedDataError, match=f"belongs to intent {first.id} too"):
        await ledger_fixture.ledger.submissions.begin_attempt(
            [second.id], at=NOON, sealed=[request(second, f"tag of {first.id}")]
        )
    assert state(ledger_fixture, second) == "planned"
    await ledger_fixture.ledger.submissions.begin_attempt([second.id], at=NOON, sealed=[request(second)])


async def test_requests_of_an_intent_are_read_newest_first(ledger_fixture: LedgerFixture) -> None:
    send = ledger_fixture.send(await ledger_fixture.forecast(await ledger_fixture.ask()))
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    for tag in ("one", "two"):
        sealed = [request(send.intent, tag)]
        await ledger_fixture.ledger.submissions.begin_attempt([send.intent.id], at=NOON, sealed=sealed)
        await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=send.intent.id, state=S.ABSENT)], at=NOON)
    attempts = await ledger_fixture.ledger.submissions.attempts([send.intent.id])
    assert [one.sealed.tag for one in attempts if one.sealed] == ["two", "one"]


@pytest.mark.parametrize("found", [S.ABSENT, S.UNKNOWN])
async def test_an_order_that_did_not_arrive_is_decided_anew_under_another_name(
    ledger_fixture: LedgerFixture, found: S
) -> None:
    intent = await sent(ledger_fixture)
    submissions = ledger_fixture.ledger.submissions
    if found is S.UNKNOWN:
        await submissions.settle([WriteReceipt(intent=intent.id, state=S.UNKNOWN)], at=NOON)
        assert await ledger_fixture.ledger.forecasts.held(10, now=NOON) == []
    await submissions.settle([WriteReceipt(intent=intent.id, state=S.ABSENT, detail="no connection")], at=NOON)
    assert state(ledger_fixture, intent) == "superseded"
    assert await submissions.read_standing(intent.ref, "us") is None
    [forecast] = await ledger_fixture.ledger.forecasts.held(10, now=NOON)
    again = await submissions.decide(forecast_id=forecast.id, decision=ledger_fixture.order(forecast), at=NOON)
    assert isinstance(again, SendDecision)
    assert again.intent.id == again.intent.batch != intent.id
    assert state(ledger_fixture, again.intent) == "planned"
    verdicts = [one.decision.why for one in await submissions.decisions(forecast.id)]
    assert verdicts == ["paper", f"back to the gate: the order {intent.id} did not arrive (no connection)", "paper"]
    # Deciding that once more finds the one that is planned.
    assert await submissions.decide(forecast_id=forecast.id, decision=ledger_fixture.order(forecast), at=NOON) == again


async def test_a_forecast_that_did_not_arrive_waits_to_be_sent_as_it_is(ledger_fixture: LedgerFixture) -> None:
    send = ledger_fixture.send(await ledger_fixture.forecast(await ledger_fixture.ask()))
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    await ledger_fixture.ledger.submissions.begin_attempt([send.intent.id], at=NOON)
    await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=send.intent.id, state=S.ABSENT)], at=NOON)
    assert state(ledger_fixture, send.intent) == "absent"


async def test_fills_are_kept_once_however_often_they_are_told(ledger_fixture: LedgerFixture) -> None:
    intent = await sent(ledger_fixture)
    first, second = ledger_fixture.fill("1"), ledger_fixture.fill("2", shares=2.0)
    for fills in ((first,), (first,), (first, second), (second,)):
        receipt = WriteReceipt(intent=intent.id, state=S.ACKED, fills=fills)
        await ledger_fixture.ledger.submissions.settle([receipt], at=NOON)
    assert await ledger_fixture.ledger.submissions.fills(intent.id) == [first, second]
    assert cost(ledger_fixture, intent) == 10.0


async def test_what_an_order_cannot_cost_any_more_is_released_at_its_fence_and_not_before(
    ledger_fixture: LedgerFixture,
) -> None:
    intent = await sent(ledger_fixture)
    receipt = WriteReceipt(intent=intent.id, state=S.ACKED, fills=(ledger_fixture.fill("1"),))
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON + 2 * MINUTE, as_of=NOON)
    assert cost(ledger_fixture, intent) == 10.0
    assert [row.intent for row in await ledger_fixture.ledger.submissions.resting()] == [intent]
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON + 2 * MINUTE, as_of=NOON + MINUTE)
    assert cost(ledger_fixture, intent) == pytest.approx(2.0)
    assert await ledger_fixture.ledger.submissions.resting() == []


async def test_an_order_found_after_its_fence_costs_what_it_took(ledger_fixture: LedgerFixture) -> None:
    intent = await sent(ledger_fixture)
    await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=intent.id, state=S.UNKNOWN)], at=NOON)
    assert cost(ledger_fixture, intent) == 10.0
    receipt = WriteReceipt(intent=intent.id, state=S.ACKED, fills=(ledger_fixture.fill("1"),))
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON + MINUTE)
    assert cost(ledger_fixture, intent) == pytest.approx(2.0)
    assert await ledger_fixture.ledger.submissions.resting() == []


@pytest.mark.parametrize("filled", [True, False])
async def test_an_order_without_a_fence_costs_what_it_took_where_it_says_so(
    ledger_fixture: LedgerFixture, *, filled: bool
) -> None:
    intent = await sent(ledger_fixture, fence_min=None)
    fills = (ledger_fixture.fill("1"),) if filled else ()
    await ledger_fixture.ledger.submissions.settle(
        [WriteReceipt(intent=intent.id, state=S.ACKED, fills=fills)], at=NOON
    )
    assert cost(ledger_fixture, intent) == pytest.approx(2.0 if filled else 10.0)


async def test_an_order_that_took_more_than_was_reserved_counts_for_all_of_it(ledger_fixture: LedgerFixture) -> None:
    intent = await sent(ledger_fixture)
    receipt = WriteReceipt(intent=intent.id, state=S.ACKED, fills=(ledger_fixture.fill("1", shares=24.0),))
    await ledger_fixture.ledger.submissions.settle([receipt], at=NOON)
    assert cost(ledger_fixture, intent) == pytest.approx(12.0)


async def test_a_rule_decides_on_what_the_transaction_sees(ledger_fixture: LedgerFixture) -> None:
    forecasts = [await ledger_fixture.forecast(await ledger_fixture.ask(key)) for key in ("rain", "snow", "hail")]

    def rule(database: Database, number: int) -> GateDecision:
        (used,) = database.execute("select coalesce(sum(cost), 0) from intent").fetchone()
        if used + 10.0 > 20.0:
            return HoldDecision(why=f"{used:g} of 20 are at stake")
        return ledger_fixture.order(forecasts[number])

    stored = [
        await ledger_fixture.ledger.submissions.decide_by(
            partial(rule, number=number), forecast_id=forecast.id, at=NOON
        )
        for number, forecast in enumerate(forecasts)
    ]
    assert [isinstance(one, SendDecision) for one in stored] == [True, True, False]
    assert stored[2] == HoldDecision(why="20 of 20 are at stake")
    assert ledger_fixture.rows("select count(*), sum(cost) from intent") == [(2, 20.0)]


async def test_a_rule_that_fails_stores_nothing(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())

    def rule(_: Database) -> GateDecision:
        raise NotFoundError

    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.submissions.decide_by(rule, forecast_id=forecast.id, at=NOON)
    assert await ledger_fixture.ledger.submissions.decisions(forecast.id) == []
    assert await ledger_fixture.ledger.forecasts.undecided(9) == [forecast]


async def test_a_comment_goes_beside_its_forecast_and_neither_supersedes_the_other(
    ledger_fixture: LedgerFixture,
) -> None:
    intent = await planned(ledger_fixture)
    submissions = ledger_fixture.ledger.submissions
    comment = ledger_fixture.comment(intent)
    await submissions.decide(forecast_id=intent.forecast, decision=comment, at=NOON)
    assert {state(ledger_fixture, intent), state(ledger_fixture, comment.intent)} == {"planned"}
    assert await submissions.read_standing(intent.ref, "us") == intent
    rows = await submissions.batches(states=[S.PLANNED])
    assert [(row.batch, row.comments) for row in rows] == [(intent.batch, False), (comment.intent.batch, True)]
    assert await submissions.intents("lantern", "us", comment.intent.batch) == []
    [said] = await submissions.comments("lantern", "us", comment.intent.batch)
    assert (said.intent, said.intent.text) == (comment.intent, "It was dry.")
    assert await submissions.parent_intent_state(comment.intent.id) is S.PLANNED
    await submissions.abandon(comment.intent.id, why="nobody asked", at=NOON)
    assert await ledger_fixture.ledger.forecasts.held(9, now=NOON) == []


async def test_a_withdrawal_takes_the_place_of_a_forecast_that_waits(ledger_fixture: LedgerFixture) -> None:
    send = ledger_fixture.send(await ledger_fixture.forecast(await ledger_fixture.ask()))
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    gone = replace(send.intent, id="away", batch="away", action=IntentAction.WITHDRAW, predictions={})
    withdrawal = replace(send, intent=gone)
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=withdrawal, at=NOON)
    assert (state(ledger_fixture, send.intent), state(ledger_fixture, gone)) == ("superseded", "planned")


async def test_what_waits_can_be_taken_back_and_comes_before_the_gate_again(ledger_fixture: LedgerFixture) -> None:
    intent = await planned(ledger_fixture)
    await ledger_fixture.ledger.submissions.abandon(intent.id, why="the plan is 90 s old", at=NOON)
    assert state(ledger_fixture, intent) == "superseded"
    [forecast] = await ledger_fixture.ledger.forecasts.held(9, now=NOON)
    assert forecast.id == intent.forecast
    other = await sent(ledger_fixture, "snow")
    with pytest.raises(StoreError, match="is sending and cannot be superseded"):
        await ledger_fixture.ledger.submissions.abandon(other.id, why="too late", at=NOON)


@pytest.mark.parametrize("batch", [None, "2026-03-01"])
async def test_each_time_that_it_is_taken_back_it_gets_an_unused_id_and_stays_in_its_round(
    ledger_fixture: LedgerFixture, batch: str | None
) -> None:
    send = ledger_fixture.order(await ledger_fixture.forecast(await ledger_fixture.ask()))
    send = send if batch is None else replace(send, intent=replace(send.intent, batch=batch))
    submissions, names = ledger_fixture.ledger.submissions, list[str]()
    for _ in range(4):
        await submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
        standing = await submissions.read_standing(send.intent.ref, "us")
        assert standing is not None
        assert standing.batch == (batch or standing.id)
        names.append(standing.id)
        await submissions.abandon(standing.id, why="too old", at=NOON)
    assert (names[0], len(set(names))) == (send.intent.id, 4)


async def test_what_is_refused_before_the_wire_has_an_attempt_that_says_so(ledger_fixture: LedgerFixture) -> None:
    intent = await planned(ledger_fixture)
    await ledger_fixture.ledger.submissions.refuse([intent.id], why="the market has no such answer", at=NOON)
    [attempt] = await ledger_fixture.ledger.submissions.attempts([intent.id])
    assert (attempt.state, attempt.detail, attempt.sealed) == (S.REFUSED, "the market has no such answer", None)
    assert state(ledger_fixture, intent) == "refused"


@pytest.mark.parametrize("doubt", [S.UNKNOWN, S.IN_DOUBT])
@pytest.mark.parametrize(("said", "then"), [(S.ACKED, "acked"), (S.ABSENT, "superseded")])
async def test_a_person_settles_a_doubt(ledger_fixture: LedgerFixture, doubt: S, said: S, then: str) -> None:
    intent = await sent(ledger_fixture)
    for step in dict.fromkeys((S.UNKNOWN, doubt)):
        await ledger_fixture.ledger.submissions.move_intent(intent.id, step, detail="", at=NOON)
    adoption = OutcomeAdoption(intent=intent.id, state=said, by="ann", why="seen on the page")
    await ledger_fixture.ledger.submissions.adopt(adoption, at=NOON + MINUTE)
    assert state(ledger_fixture, intent) == then
    [attempt] = await ledger_fixture.ledger.submissions.attempts([intent.id])
    assert (attempt.state, attempt.detail) == (said, "ann says so: seen on the page")
    assert len(await ledger_fixture.ledger.forecasts.held(9, now=NOON + MINUTE)) == (said is S.ABSENT)


async def test_a_person_cannot_say_what_is_not_so_yet_or_needs_no_word(ledger_fixture: LedgerFixture) -> None:
    intent = await sent(ledger_fixture)
    adopt = ledger_fixture.ledger.submissions.adopt
    with pytest.raises(StoreError, match="is sending, so its outcome cannot be reported"):
        await adopt(OutcomeAdoption(intent=intent.id, state=S.ACKED, by="ann"), at=NOON)
    await ledger_fixture.ledger.submissions.move_intent(intent.id, S.UNKNOWN, detail="", at=NOON)
    with pytest.raises(StoreError, match="may still take effect until 2026-03-01 12:01:"):
        await adopt(OutcomeAdoption(intent=intent.id, state=S.ABSENT, by="ann"), at=NOON)
    with pytest.raises(StoreError, match="refused settles nothing"):
        await adopt(OutcomeAdoption(intent=intent.id, state=S.REFUSED, by="ann"), at=NOON + MINUTE)
    with pytest.raises(NotFoundError):
        await adopt(OutcomeAdoption(intent="none", state=S.ACKED, by="ann"), at=NOON)
    assert state(ledger_fixture, intent) == "unknown"


async def test_each_live_write_and_each_word_of_a_person_is_told_to_the_audit_in_its_own_transaction(
    ledger_fixture: LedgerFixture,
) -> None:
    told: list[WriteAuditEvent] = []
    source = ledger_fixture.ledger.submissions
    submissions = SubmissionStore(source.writer, source.readers, lambda _, trail: told.append(trail))
    for key, mode in (("rain", ExecutionMode.LIVE), ("snow", ExecutionMode.PAPER)):
        send = replace(ledger_fixture.order(await ledger_fixture.forecast(await ledger_fixture.ask(key))), mode=mode)
        await submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
        sealed = request(send.intent)
        await submissions.begin_attempt([send.intent.id], at=NOON, sealed=[sealed])
        assert [trail.kind for trail in told] == ["write"]
        await submissions.settle([WriteReceipt(intent=send.intent.id, state=S.UNKNOWN, detail="503")], at=NOON)
        if mode is ExecutionMode.LIVE:
            assert [trail.kind for trail in told] == ["write", "answer"]
            assert told[0].body["tag"] == sealed.tag
            assert told[1].body["state"] == "unknown"
            await submissions.adopt(OutcomeAdoption(intent=send.intent.id, state=S.ACKED, by="ann"), at=NOON)
            assert (told[2].kind, told[2].actor) == ("adopt", "ann")
            del told[1:]
    assert len(told) == 1


@pytest.mark.parametrize("mode", [ExecutionMode.APPROVE, ExecutionMode.PAPER])
async def test_an_approval_is_used_up_when_its_order_goes_on_the_wire_and_not_before(
    ledger_fixture: LedgerFixture, mode: ExecutionMode
) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    send = replace(ledger_fixture.order(forecast), mode=mode)
    approval = SubmissionApproval(
        id="a1",
        forecast=forecast.id,
        venue=send.intent.ref.venue,
        cost=10.0,
        state=ApprovalState.APPROVED,
        asked_at=NOON,
        expires_at=NOON + timedelta(hours=1),
        by="ann",
    )
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.request_approval(database, replace(approval, state=ApprovalState.ASKED))
    )
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.answer_approval(database, approval, at=NOON)
    )
    submissions, states = ledger_fixture.ledger.submissions, list[ApprovalState]()

    async def look() -> None:
        found = await ledger_fixture.ledger.permissions.approval(forecast.id)
        assert found is not None
        states.append(found.state)

    await submissions.decide(forecast_id=forecast.id, decision=send, at=NOON)
    await look()
    await submissions.begin_attempt([send.intent.id], at=NOON)
    await look()
    last = ApprovalState.USED if mode is ExecutionMode.APPROVE else ApprovalState.APPROVED
    assert states == [ApprovalState.APPROVED, last]
