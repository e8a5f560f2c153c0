"""Orders through the outbox: sealed before they are sent, believed absent only from their fence on, never twice."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.orders import OrderSide
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.outbox.outbox import reconcile_batch
from bot.store.submissions import OutcomeAdoption
from bot.testing.exchange import WriteFailure
from tests.unit.execution.outbox.conftest import FaultyExchange, OutboxFixture
from tests.unit.jobs.conftest import VENUE

S = IntentState
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


async def test_an_order_is_sealed_sent_and_acknowledged(trading: OutboxFixture) -> None:
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 1
    [placed] = trading.exchange.placed_orders
    [attempt] = await trading.jobs_fixture.ledger.submissions.attempts([intent.id])
    assert attempt.sealed is not None
    assert (attempt.sealed.tag, attempt.reference, placed.intent) == (placed.tag, placed.tag, intent.id)
    assert [fill.cash for fill in await trading.jobs_fixture.ledger.submissions.fills(intent.id)] == [-10.0]
    assert await trading.outbox().flush() == 0


async def test_the_request_is_on_disk_before_the_wire_is_touched(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    seen: list[tuple[S, str]] = []

    class Looking(FaultyExchange):
        async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
            [attempt] = await trading.jobs_fixture.ledger.submissions.attempts([batch.intents[0].id])
            assert attempt.sealed == replace(batch.sealed[0], question=None)
            seen.append((await trading.state(batch.intents[0]), attempt.sealed.body))
            return await super().submit(batch)

    trading.exchange = Looking(trading.jobs_fixture.clock)
    await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    assert [state for state, _ in seen] == [S.SENDING]
    assert faulty_exchange.placed_orders == []


async def test_an_absence_before_the_fence_proves_nothing_and_from_it_on_everything(trading: OutboxFixture) -> None:
    trading.exchange.next_failures = [WriteFailure.REQUEST_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    assert await trading.state(intent) is S.UNKNOWN
    await trading.jobs_fixture.clock.advance(FENCE_S - 0.01)
    assert await trading.outbox().reconcile() == 0
    assert await trading.state(intent) is S.UNKNOWN
    await trading.jobs_fixture.clock.advance(0.01)
    assert await trading.outbox().reconcile() == 1
    assert await trading.state(intent) is S.SUPERSEDED
    [forecast] = await trading.jobs_fixture.ledger.forecasts.held(9, now=trading.jobs_fixture.clock.now())
    again = await trading.plan(forecast)
    assert await trading.outbox().flush() == 1
    assert [placed.intent for placed in trading.exchange.placed_orders] == [again.id]


async def test_by_a_clock_that_was_set_forward_no_fence_lies_behind(trading: OutboxFixture) -> None:
    trading.exchange.next_failures = [WriteFailure.REQUEST_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    trading.jobs_fixture.clock.set_wall_clock(600.0)
    trading.clock_fault = "is off by +600.0 s"
    assert await trading.outbox().reconcile() == 0
    assert await trading.state(intent) is S.UNKNOWN
    trading.jobs_fixture.clock.set_wall_clock(-600.0)
    trading.clock_fault = ""
    await trading.jobs_fixture.clock.advance(FENCE_S)
    assert await trading.outbox().reconcile() == 1
    assert await trading.state(intent) is S.SUPERSEDED


async def test_an_effect_that_comes_late_is_found_and_not_made_again(trading: OutboxFixture) -> None:
    trading.exchange.next_failures, trading.exchange.late_s = [WriteFailure.LATE], 25.0
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    for _ in range(6):
        assert await trading.state(intent) in {S.UNKNOWN, S.ACKED}
        await trading.jobs_fixture.clock.advance(10)
        await trading.outbox().reconcile()
        await trading.outbox().flush()
    assert await trading.state(intent) is S.ACKED
    assert len(trading.exchange.placed_orders) == 1


async def test_a_stale_reading_does_not_hide_an_order(trading: OutboxFixture) -> None:
    trading.exchange.next_failures, trading.exchange.late_s, trading.exchange.stale_s = [WriteFailure.LATE], 29.0, 15.0
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    for _ in range(20):
        await trading.jobs_fixture.clock.advance(3)
        await trading.outbox().reconcile()
    assert await trading.state(intent) is S.ACKED


async def test_reconciling_twice_changes_nothing(trading: OutboxFixture, snapshot: Callable[[], list[str]]) -> None:
    trading.exchange.next_failures = [WriteFailure.REQUEST_LOST, WriteFailure.REPLY_LOST]
    for key in ("rain", "snow", "hail"):
        await trading.plan(await trading.forecast(key))
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(60)
    assert await trading.outbox().reconcile() == 2
    once = snapshot()
    assert await trading.outbox().reconcile() == 0
    assert snapshot() == once


async def test_the_part_that_was_not_filled_is_released_when_it_can_be_filled_no_more(trading: OutboxFixture) -> None:
    trading.exchange.fill_share = 0.25
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    submissions = trading.jobs_fixture.ledger.submissions
    assert len(await submissions.resting()) == 1
    trading.exchange.fill_resting(0.5)
    await trading.jobs_fixture.clock.advance(5)
    await trading.outbox().reconcile()
    assert [fill.shares for fill in await submissions.fills(intent.id)] == [5.0, 7.5]
    assert len(await submissions.resting()) == 1
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    assert await submissions.resting() == []
    [(cost,)] = outbox_rows(trading, "select cost from intent")
    assert cost == pytest.approx(6.25)


async def test_an_acknowledged_order_that_the_venue_lists_no_more_keeps_its_cost_and_people_are_told(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.fill_share = 0.0
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    assert outbox_rows(trading, "select cost from intent") == [(10.0,)]
    assert trading.alarms == []
    await trading.jobs_fixture.clock.advance(600.0)
    await trading.outbox().reconcile()
    await trading.outbox().reconcile()
    assert await trading.state(intent) is S.ACKED
    assert outbox_rows(trading, "select cost from intent") == [(10.0,)]
    [alarm] = trading.alarms
    assert f"the order {intent.id} on {VENUE}:rain was accepted, but the venue lists neither it nor a fill" in alarm
    assert await trading.jobs_fixture.ledger.submissions.resting() == []


@pytest.mark.parametrize("filled", [0.0, 0.25])
async def test_a_person_frees_what_an_order_reserves_that_its_venue_lists_no_more(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, filled: float
) -> None:
    faulty_exchange.fill_share = filled
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    adoption = OutcomeAdoption(intent=intent.id, state=S.ABSENT, by="ann", why="seen on the site")
    with pytest.raises(StoreError, match="its outcome cannot be reported"):
        await trading.outbox().adopt(adoption)
    await trading.jobs_fixture.clock.advance(FENCE_S + 600.0)
    await trading.outbox().reconcile()
    await trading.outbox().adopt(adoption)
    assert await trading.state(intent) is S.ACKED
    assert outbox_rows(trading, "select cost from intent") == [(10.0 * filled,)]
    with pytest.raises(StoreError, match="its outcome cannot be reported"):
        await trading.outbox().adopt(adoption)


async def test_an_order_that_ended_without_a_fill_costs_nothing(trading: OutboxFixture) -> None:
    trading.exchange.fill_share = 0.0
    await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    assert outbox_rows(trading, "select cost from intent") == [(0.0,)]
    assert trading.alarms == []


async def test_an_order_that_is_listed_late_costs_what_it_took(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    """It was filled by others, and the list that it was first looked for in at its fence did not show it."""
    faulty_exchange.fill_share = 0.0
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    faulty_exchange.fill_resting()
    faulty_exchange.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    faulty_exchange.reads = lambda found: found
    await trading.outbox().reconcile()
    assert await trading.state(intent) is S.ACKED
    assert outbox_rows(trading, "select cost from intent") == [(pytest.approx(10.0),)]


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("503"),
        ServiceUnavailableError("the daily limit of the signer is used up", retry_after_s=3600.0),
        MalformedDataError("odd"),
        KeyError("id"),
    ],
    ids=repr,
)
async def test_an_order_that_cannot_be_sealed_now_reserves_nothing_and_is_planned_again(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, error: Exception
) -> None:
    def fail(_: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        raise error

    faulty_exchange.seals = fail
    intent = await trading.plan(await trading.forecast())
    with capture_logs() as logs:
        assert await trading.outbox().flush() == 0
    assert [entry["event"] for entry in logs] == ["cannot be sealed"]
    assert (await trading.state(intent), faulty_exchange.placed_orders) == (S.SUPERSEDED, [])
    permissions, now = trading.jobs_fixture.ledger.permissions, trading.jobs_fixture.clock.now()
    assert await permissions.unsettled_cost(VENUE, "me", paper=False) == 0.0
    [*_, last] = await trading.jobs_fixture.ledger.submissions.decisions(intent.forecast)
    wait = timedelta(seconds=getattr(error, "retry_after_s", None) or 60.0)
    assert isinstance(last.decision, HoldDecision)
    assert last.decision.until == now + wait
    assert last.decision.why.startswith("back to the gate: its request cannot be made now: ")
    assert str(error.args[0]) in last.decision.why


async def test_a_comment_that_cannot_be_sealed_now_waits(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    def fail(_: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        message = "503"
        raise ServiceUnavailableError(message)

    order = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 1
    faulty_exchange.seals = fail
    comment = await trading.comment(order)
    assert await trading.outbox().flush() == 0
    assert await trading.state(comment) is S.PLANNED


async def test_a_ledger_that_fails_while_sealing_ends_the_pass(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    def fail(_: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        message = "the disk is full"
        raise StoreError(message)

    faulty_exchange.seals = fail
    await trading.plan(await trading.forecast())
    with pytest.raises(StoreError, match="the disk is full"):
        await trading.outbox().flush()


@pytest.mark.parametrize("raised", [True, False])
async def test_an_order_without_a_request_is_thought_of_again_later(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, *, raised: bool
) -> None:
    def none(_: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        if raised:
            message = "no such market"
            raise RequestRejectedError(message)
        return []

    faulty_exchange.seals = none
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), faulty_exchange.placed_orders) == (S.SUPERSEDED, [])
    why = "no such market" if raised else "its request cannot be made"
    [*_, last] = await trading.jobs_fixture.ledger.submissions.decisions(intent.forecast)
    now = trading.jobs_fixture.clock.now()
    assert last.decision == HoldDecision(why=f"back to the gate: {why}", until=now + timedelta(minutes=10))
    assert await trading.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9) == []


async def test_what_is_no_order_and_has_no_request_is_refused_for_good(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    order = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 1
    before = len(await trading.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9))
    faulty_exchange.seals = lambda _: []
    intent = await trading.comment(order)
    assert await trading.outbox().flush() == 0
    assert await trading.state(intent) is S.REFUSED
    [attempt] = await trading.jobs_fixture.ledger.submissions.attempts([intent.id])
    assert attempt.detail == "its request cannot be made"
    row, *others = await trading.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9)
    assert len(others) == before
    assert (row.kind, row.body) == ("refused", {"intent": intent.id, "detail": "its request cannot be made"})


async def test_an_order_that_never_arrives_is_written_ever_more_rarely(trading: OutboxFixture) -> None:
    trading.exchange.next_failures = [WriteFailure.NOT_SENT] * 99
    forecast = await trading.forecast()
    began, writes = trading.jobs_fixture.clock.now(), list[float]()
    for _ in range(60):
        if (
            forecast in [*await trading.jobs_fixture.ledger.forecasts.held(9, now=trading.jobs_fixture.clock.now())]
            or not writes
        ):
            await trading.plan(forecast)
            await trading.outbox().flush()
            writes.append((trading.jobs_fixture.clock.now() - began).total_seconds())
        await trading.jobs_fixture.clock.advance(30.0)
    assert writes == [0.0, 30.0, 60.0, 90.0, 150.0, 270.0, 510.0, 990.0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: [replace(made[0], intent="another")],
        lambda made: [replace(made[0], intent="another", question=None)],
        lambda made: [made[0], made[0]],
        lambda made: [made[0], replace(made[0], tag="another")],
        lambda made: [replace(made[0], tag="")],
        lambda made: [replace(made[0], tag="", body="", question=None)],
        lambda made: [replace(made[0], fence=made[0].fence.replace(tzinfo=None))],
        lambda made: [replace(made[0], body="\ud800")],
    ],
    ids=[
        "of another intent",
        "without a question",
        "two",
        "two tags",
        "no tag",
        "nothing",
        "fence without zone",
        "no bytes",
    ],
)
async def test_a_request_that_makes_no_sense_is_not_sent(
    trading: OutboxFixture,
    faulty_exchange: FaultyExchange,
    spoil: Callable[[Sequence[SealedRequest]], Sequence[SealedRequest]],
) -> None:
    faulty_exchange.seals = spoil
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), faulty_exchange.placed_orders) == (S.SUPERSEDED, [])


async def test_a_tag_that_is_used_already_is_not_sent(trading: OutboxFixture, faulty_exchange: FaultyExchange) -> None:
    faulty_exchange.seals = lambda made: [replace(one, tag="the same") for one in made]
    first = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    second = await trading.plan(await trading.forecast("snow"))
    with capture_logs() as logs:
        assert await trading.outbox().flush() == 0
    assert any(entry["event"] == "not sent" for entry in logs)
    assert (await trading.state(first), await trading.state(second)) == (S.ACKED, S.PLANNED)
    assert len(faulty_exchange.placed_orders) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda said: [*said, replace(said[0], state=S.REFUSED)],
        lambda said: [replace(said[0], fills=(replace(said[0].fills[0], shares=-1.0),))],
        lambda said: [replace(said[0], fills=(replace(said[0].fills[0], price=1.5),))],
        lambda said: [replace(said[0], fills=(replace(said[0].fills[0], cash=float("nan")),))],
    ],
    ids=["contradiction", "negative shares", "price above one", "not a number"],
)
async def test_an_answer_that_makes_no_sense_is_no_answer(
    trading: OutboxFixture,
    faulty_exchange: FaultyExchange,
    spoil: Callable[[Sequence[WriteReceipt]], Sequence[WriteReceipt]],
) -> None:
    faulty_exchange.answers = spoil
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    assert await trading.state(intent) is S.UNKNOWN
    await trading.outbox().reconcile()
    assert await trading.state(intent) is S.ACKED
    assert len(faulty_exchange.placed_orders) == 1


async def test_what_no_reading_settles_is_parked_with_an_alarm_and_a_person_ends_it(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.next_failures = [WriteFailure.REQUEST_LOST]
    faulty_exchange.reads = lambda found: [replace(one, state=S.UNKNOWN, detail="the page is empty") for one in found]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(FENCE_S + 3590)
    await trading.outbox().reconcile()
    assert (await trading.state(intent), trading.alarms) == (S.UNKNOWN, [])
    await trading.jobs_fixture.clock.advance(30)
    await trading.outbox().reconcile()
    assert await trading.state(intent) is S.IN_DOUBT
    [alarm] = trading.alarms
    assert f"intent {intent.id} on {VENUE}:rain is in doubt and counts as spent (the page is empty)" in alarm
    await trading.outbox().reconcile()
    assert len(trading.alarms) == 1
    newer = await trading.jobs_fixture.ledger.submissions.decide(
        forecast_id=intent.forecast,
        decision=HoldDecision(why="asked again"),
        at=trading.jobs_fixture.clock.now(),
    )
    assert isinstance(newer, HoldDecision)
    await trading.outbox().adopt(OutcomeAdoption(intent=intent.id, state=S.ABSENT, by="ann", why="not on the page"))
    assert await trading.state(intent) is S.SUPERSEDED


async def test_a_reading_that_goes_wrong_in_any_way_settles_nothing_and_ends_nothing(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    def fail(_: Sequence[WriteReceipt]) -> Sequence[WriteReceipt]:
        raise KeyError

    faulty_exchange.next_failures, faulty_exchange.reads = [WriteFailure.REPLY_LOST], fail
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    with capture_logs() as logs:
        assert await trading.outbox().reconcile() == 0
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("cannot be read back", "error")]
    assert await trading.state(intent) is S.UNKNOWN


@pytest.mark.parametrize(("mode", "then"), [(ExecutionMode.LIVE, S.UNKNOWN), (ExecutionMode.PAPER, S.SUPERSEDED)])
async def test_after_a_restore_an_absence_without_a_request_on_record_is_proof_on_paper_alone(
    trading: OutboxFixture, mode: ExecutionMode, then: S
) -> None:
    trading.mode = mode
    intent = await trading.plan(await trading.forecast())
    stock = await trading.outbox().reconcile_after_restore()
    assert await trading.state(intent) is then
    assert stock.doubtful == (then is S.UNKNOWN)
    await trading.jobs_fixture.clock.advance(3600)
    await trading.outbox().reconcile()
    assert await trading.state(intent) is (S.IN_DOUBT if then is S.UNKNOWN else then)


async def test_after_a_restore_no_order_is_made_again(trading: OutboxFixture, faulty_exchange: FaultyExchange) -> None:
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [replace(one, state=S.ABSENT) for one in found]
    assert (await trading.outbox().reconcile_after_restore()).revoked == 0
    assert await trading.state(intent) is S.ACKED


async def test_one_bad_reading_after_a_long_pause_leaves_nothing_in_doubt(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.next_failures = [WriteFailure.REPLY_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    shown = iter([False, True])
    faulty_exchange.reads = lambda found: found if next(shown) else []
    await trading.jobs_fixture.clock.advance(FENCE_S + 7200)
    assert await trading.outbox().reconcile() == 1
    assert (await trading.state(intent), trading.alarms) == (S.ACKED, [])


async def test_without_an_alarm_the_journal_says_what_is_in_doubt(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.next_failures = [WriteFailure.REQUEST_LOST]
    faulty_exchange.reads = lambda _: []
    await trading.plan(await trading.forecast())
    outbox = replace(trading.outbox(), alert=None)
    await outbox.flush()
    await trading.jobs_fixture.clock.advance(FENCE_S + 3600)
    await outbox.reconcile()
    [event] = await trading.jobs_fixture.ledger.events.recent(9, "alert")
    assert "is in doubt and counts as spent (no receipt)" in event.text


async def test_an_order_that_did_not_leave_this_machine_is_decided_anew_at_once(trading: OutboxFixture) -> None:
    trading.exchange.next_failures = [WriteFailure.NOT_SENT]
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert await trading.state(intent) is S.SUPERSEDED
    assert len(await trading.jobs_fixture.ledger.forecasts.held(9, now=trading.jobs_fixture.clock.now())) == 1


def outbox_rows(trading: OutboxFixture, sql: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(trading.jobs_fixture.path / "ledger.sqlite")
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


@pytest.mark.parametrize(
    ("closing", "change", "acknowledged"),
    [
        ("the position limit", {"title": "Will it snow?"}, 1),
        ("", {"title": "Will it snow?"}, 0),
        ("", {}, 1),
    ],
)
async def test_a_sale_regardless_of_the_forecast_is_sent_though_the_question_changed(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, closing: str, change: dict[str, Any], acknowledged: int
) -> None:
    intent = await trading.plan(await trading.forecast(), side=OrderSide.SELL, closing=closing)
    changed = replace(await trading.jobs_fixture.ledger.questions.get(intent.ref), **change)
    faulty_exchange.seals = lambda made: [replace(one, question=changed) for one in made]
    assert await trading.outbox().flush() == acknowledged


async def test_a_sale_whose_process_died_as_it_was_sent_is_reported(trading: OutboxFixture) -> None:
    sale = await trading.plan(await trading.forecast(), side=OrderSide.SELL, closing="stop-loss: too little")
    other = await trading.plan(await trading.forecast("snow"))
    known = trading.jobs_fixture
    await known.ledger.submissions.begin_attempt([sale.id, other.id], at=known.clock.now())
    assert await trading.outbox().recover() == 2
    assert [f"stop-loss: too little: order {sale.id}" in one for one in trading.alarms] == [True]


def count_readings(exchange: FaultyExchange) -> list[int]:
    """Return how many receipts each reading gives, as they are made."""
    readings: list[int] = []

    def read(found: Sequence[WriteReceipt]) -> Sequence[WriteReceipt]:
        readings.append(len(found))
        return found

    exchange.reads = read
    return readings


async def test_a_batch_is_read_back_at_once_and_not_at_all_when_it_was_settled_meanwhile(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    readings = count_readings(faulty_exchange)
    faulty_exchange.next_failures = [WriteFailure.REPLY_LOST] * 2
    for forecast in [await trading.forecast(key, batch="round 1") for key in ("rain", "snow")]:
        await trading.plan(forecast, batch="round 1")
    await trading.outbox().flush()
    [row] = await trading.jobs_fixture.ledger.submissions.batches(states=[S.UNKNOWN])
    session = trading.outbox()._open_session(VENUE)  # noqa: SLF001 - what the outbox hands over
    for settled in (2, 0):
        assert (await reconcile_batch(session, row), readings) == (settled, [2])


async def test_while_the_program_stops_nothing_more_is_read_back(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.next_failures = [WriteFailure.REPLY_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    assert await replace(trading.outbox(), is_stopping=lambda: True).reconcile() == 0
    assert await trading.state(intent) is S.UNKNOWN
    assert await trading.outbox().reconcile() == 1


async def test_an_order_that_rests_is_not_read_while_the_program_stops_nor_where_its_venue_is_not_in_use(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    readings, faulty_exchange.fill_share = count_readings(faulty_exchange), 0.0
    await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    outbox = trading.outbox()
    for closed in (replace(outbox, is_stopping=lambda: True), replace(outbox, submitters={})):
        assert (await closed.reconcile(), readings) == (0, [])
    assert (await outbox.reconcile(), readings) == (0, [1])


@pytest.mark.parametrize("is_forecast_already", [False, True])
async def test_a_question_that_changed_before_the_write_is_forecast_again_at_once_unless_it_was(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, *, is_forecast_already: bool
) -> None:
    jobs = trading.jobs_fixture
    intent = await trading.plan(await trading.forecast())
    changed = replace(await jobs.ledger.questions.get(intent.ref), title="Will it snow?")
    if is_forecast_already:
        await jobs.clock.advance(3 * 3600)
        jobs.offer("rain", title="Will it snow?")
        await jobs.discover()
        changed = await jobs.ledger.questions.get(intent.ref)
        await jobs.forecast()
    forecasts = len(await jobs.history())
    faulty_exchange.seals = lambda _: [SealedRequest.without_request(intent, changed)]
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), len(faulty_exchange.placed_orders)) == (S.SUPERSEDED, 0)
    if not is_forecast_already:
        # A list that still shows the old text does not replace what the writer read.
        jobs.offer("rain")
        await jobs.discover()
        assert (await jobs.ledger.questions.get(intent.ref)).title == "Will it snow?"
    await jobs.clock.advance(3600)
    await jobs.forecast()
    assert len(await jobs.history()) == 2
    assert forecasts == (2 if is_forecast_already else 1)
