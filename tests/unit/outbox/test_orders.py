"""Orders through the outbox: sealed before they are sent, believed absent only from their fence on, never twice."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.domain.submission import Batch, Hold, IntentState, Mode, Receipt, Sealed
from bot.errors import ContractError, Rejected, StoreError, Unavailable
from bot.store.submissions import Adoption
from bot.testing.exchange import Mishap
from tests.unit.jobs.conftest import VENUE
from tests.unit.outbox.conftest import Floor, Odd

S = IntentState
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


async def test_an_order_is_sealed_sent_and_acknowledged(floor: Floor) -> None:
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 1
    [placed] = floor.exchange.placed
    [attempt] = await floor.house.ledger.submissions.attempts([intent.id])
    assert attempt.sealed is not None
    assert (attempt.sealed.tag, attempt.reference, placed.intent) == (placed.tag, placed.tag, intent.id)
    assert [fill.cash for fill in await floor.house.ledger.submissions.fills(intent.id)] == [-10.0]
    assert await floor.outbox().flush() == 0


async def test_the_request_is_on_disk_before_the_wire_is_touched(floor: Floor, odd: Odd) -> None:
    seen: list[tuple[S, str]] = []

    class Looking(Odd):
        async def submit(self, batch: Batch) -> Sequence[Receipt]:
            [attempt] = await floor.house.ledger.submissions.attempts([batch.intents[0].id])
            assert attempt.sealed == replace(batch.sealed[0], question=None)
            seen.append((await floor.state(batch.intents[0]), attempt.sealed.body))
            return await super().submit(batch)

    floor.exchange = Looking(floor.house.clock)
    await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    assert [state for state, _ in seen] == [S.SENDING]
    assert odd.placed == []


async def test_an_absence_before_the_fence_proves_nothing_and_from_it_on_everything(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.REQUEST_LOST]
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    assert await floor.state(intent) is S.UNKNOWN
    await floor.house.clock.advance(FENCE_S - 0.01)
    assert await floor.outbox().reconcile() == 0
    assert await floor.state(intent) is S.UNKNOWN
    await floor.house.clock.advance(0.01)
    assert await floor.outbox().reconcile() == 1
    assert await floor.state(intent) is S.SUPERSEDED
    [forecast] = await floor.house.ledger.forecasts.held(9, now=floor.house.clock.now())
    again = await floor.plan(forecast)
    assert await floor.outbox().flush() == 1
    assert [placed.intent for placed in floor.exchange.placed] == [again.id]


async def test_by_a_clock_that_was_set_forward_no_fence_lies_behind(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.REQUEST_LOST]
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    floor.house.clock.step(600.0)
    floor.clock_fault = "is off by +600.0 s"
    assert await floor.outbox().reconcile() == 0
    assert await floor.state(intent) is S.UNKNOWN
    floor.house.clock.step(-600.0)
    floor.clock_fault = ""
    await floor.house.clock.advance(FENCE_S)
    assert await floor.outbox().reconcile() == 1
    assert await floor.state(intent) is S.SUPERSEDED


async def test_an_effect_that_comes_late_is_found_and_not_made_again(floor: Floor) -> None:
    floor.exchange.mishaps, floor.exchange.late_s = [Mishap.LATE], 25.0
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    for _ in range(6):
        assert await floor.state(intent) in {S.UNKNOWN, S.ACKED}
        await floor.house.clock.advance(10)
        await floor.outbox().reconcile()
        await floor.outbox().flush()
    assert await floor.state(intent) is S.ACKED
    assert len(floor.exchange.placed) == 1


async def test_a_stale_reading_does_not_hide_an_order(floor: Floor) -> None:
    floor.exchange.mishaps, floor.exchange.late_s, floor.exchange.stale_s = [Mishap.LATE], 29.0, 15.0
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    for _ in range(20):
        await floor.house.clock.advance(3)
        await floor.outbox().reconcile()
    assert await floor.state(intent) is S.ACKED


async def test_reconciling_twice_changes_nothing(floor: Floor, snapshot: Callable[[], list[str]]) -> None:
    floor.exchange.mishaps = [Mishap.REQUEST_LOST, Mishap.REPLY_LOST]
    for key in ("rain", "snow", "hail"):
        await floor.plan(await floor.forecast(key))
    await floor.outbox().flush()
    await floor.house.clock.advance(60)
    assert await floor.outbox().reconcile() == 2
    once = snapshot()
    assert await floor.outbox().reconcile() == 0
    assert snapshot() == once


async def test_the_part_that_was_not_filled_is_released_when_it_can_be_filled_no_more(floor: Floor) -> None:
    floor.exchange.portion = 0.25
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    submissions = floor.house.ledger.submissions
    assert len(await submissions.resting()) == 1
    floor.exchange.trade(0.5)
    await floor.house.clock.advance(5)
    await floor.outbox().reconcile()
    assert [fill.shares for fill in await submissions.fills(intent.id)] == [5.0, 7.5]
    assert len(await submissions.resting()) == 1
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert await submissions.resting() == []
    [(cost,)] = floor_rows(floor, "select cost from intent")
    assert cost == pytest.approx(6.25)


async def test_an_acknowledged_order_that_the_venue_lists_no_more_keeps_its_cost_and_people_are_told(
    floor: Floor, odd: Odd
) -> None:
    odd.portion = 0.0
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    odd.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert floor_rows(floor, "select cost from intent") == [(10.0,)]
    assert floor.alarms == []
    await floor.house.clock.advance(600.0)
    await floor.outbox().reconcile()
    await floor.outbox().reconcile()
    assert await floor.state(intent) is S.ACKED
    assert floor_rows(floor, "select cost from intent") == [(10.0,)]
    [alarm] = floor.alarms
    assert f"the order {intent.id} on {VENUE}:rain was taken, and the venue lists neither it nor a fill" in alarm
    assert await floor.house.ledger.submissions.resting() == []


async def test_an_order_that_ended_without_a_fill_costs_nothing(floor: Floor) -> None:
    floor.exchange.portion = 0.0
    await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert floor_rows(floor, "select cost from intent") == [(0.0,)]
    assert floor.alarms == []


async def test_an_order_that_is_listed_late_costs_what_it_took(floor: Floor, odd: Odd) -> None:
    """It was filled by others, and the list that it was first looked for in at its fence did not show it."""
    odd.portion = 0.0
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    odd.trade()
    odd.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    odd.reads = lambda found: found
    await floor.outbox().reconcile()
    assert await floor.state(intent) is S.ACKED
    assert floor_rows(floor, "select cost from intent") == [(pytest.approx(10.0),)]


@pytest.mark.parametrize("error", [Unavailable("503"), ContractError("odd"), KeyError("id")], ids=repr)
async def test_what_cannot_be_sealed_now_has_not_left_and_waits(floor: Floor, odd: Odd, error: Exception) -> None:
    def fail(_: Sequence[Sealed]) -> Sequence[Sealed]:
        raise error

    odd.seals = fail
    intent = await floor.plan(await floor.forecast())
    with capture_logs() as logs:
        assert await floor.outbox().flush() == 0
    assert [entry["event"] for entry in logs] == ["cannot be sealed"]
    assert (await floor.state(intent), odd.placed) == (S.PLANNED, [])
    odd.seals = lambda made: made
    assert await floor.outbox().flush() == 1


async def test_a_ledger_that_fails_while_sealing_ends_the_pass(floor: Floor, odd: Odd) -> None:
    def fail(_: Sequence[Sealed]) -> Sequence[Sealed]:
        message = "the disk is full"
        raise StoreError(message)

    odd.seals = fail
    await floor.plan(await floor.forecast())
    with pytest.raises(StoreError, match="the disk is full"):
        await floor.outbox().flush()


@pytest.mark.parametrize("raised", [True, False])
async def test_an_order_without_a_request_is_thought_of_again_later(floor: Floor, odd: Odd, *, raised: bool) -> None:
    def none(_: Sequence[Sealed]) -> Sequence[Sealed]:
        if raised:
            message = "no such market"
            raise Rejected(message)
        return []

    odd.seals = none
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), odd.placed) == (S.SUPERSEDED, [])
    why = "no such market" if raised else "its request cannot be made"
    [*_, last] = await floor.house.ledger.submissions.decisions(intent.forecast)
    now = floor.house.clock.now()
    assert last.decision == Hold(why=f"back to the gate: {why}", until=now + timedelta(minutes=10))
    assert await floor.house.ledger.leave.audited(limit=9) == []


async def test_what_is_no_order_and_has_no_request_is_refused_for_good(floor: Floor, odd: Odd) -> None:
    order = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 1
    before = len(await floor.house.ledger.leave.audited(limit=9))
    odd.seals = lambda _: []
    intent = await floor.comment(order)
    assert await floor.outbox().flush() == 0
    assert await floor.state(intent) is S.REFUSED
    [attempt] = await floor.house.ledger.submissions.attempts([intent.id])
    assert attempt.detail == "its request cannot be made"
    row, *others = await floor.house.ledger.leave.audited(limit=9)
    assert len(others) == before
    assert (row.kind, row.body) == ("refused", {"intent": intent.id, "detail": "its request cannot be made"})


async def test_an_order_that_never_arrives_is_written_ever_more_rarely(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.NOT_SENT] * 99
    forecast = await floor.forecast()
    began, writes = floor.house.clock.now(), list[float]()
    for _ in range(60):
        if forecast in [*await floor.house.ledger.forecasts.held(9, now=floor.house.clock.now())] or not writes:
            await floor.plan(forecast)
            await floor.outbox().flush()
            writes.append((floor.house.clock.now() - began).total_seconds())
        await floor.house.clock.advance(30.0)
    assert writes == [0.0, 30.0, 60.0, 90.0, 150.0, 270.0, 510.0, 990.0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: [replace(made[0], intent="another")],
        lambda made: [made[0], made[0]],
        lambda made: [replace(made[0], tag="")],
        lambda made: [replace(made[0], fence=made[0].fence.replace(tzinfo=None))],
        lambda made: [replace(made[0], body="\ud800")],
    ],
    ids=["of another intent", "two", "no tag", "fence without zone", "no bytes"],
)
async def test_a_request_that_makes_no_sense_is_not_sent(
    floor: Floor, odd: Odd, spoil: Callable[[Sequence[Sealed]], Sequence[Sealed]]
) -> None:
    odd.seals = spoil
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), odd.placed) == (S.PLANNED, [])


async def test_a_tag_that_is_used_already_is_not_sent(floor: Floor, odd: Odd) -> None:
    odd.seals = lambda made: [replace(one, tag="the same") for one in made]
    first = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    second = await floor.plan(await floor.forecast("snow"))
    with capture_logs() as logs:
        assert await floor.outbox().flush() == 0
    assert any(entry["event"] == "not sent" for entry in logs)
    assert (await floor.state(first), await floor.state(second)) == (S.ACKED, S.PLANNED)
    assert len(odd.placed) == 1


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
    floor: Floor, odd: Odd, spoil: Callable[[Sequence[Receipt]], Sequence[Receipt]]
) -> None:
    odd.answers = spoil
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    assert await floor.state(intent) is S.UNKNOWN
    await floor.outbox().reconcile()
    assert await floor.state(intent) is S.ACKED
    assert len(odd.placed) == 1


async def test_what_no_reading_settles_is_parked_with_an_alarm_and_a_person_ends_it(floor: Floor, odd: Odd) -> None:
    odd.mishaps = [Mishap.REQUEST_LOST]
    odd.reads = lambda found: [replace(one, state=S.UNKNOWN, detail="the page is empty") for one in found]
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    await floor.house.clock.advance(FENCE_S + 3590)
    await floor.outbox().reconcile()
    assert (await floor.state(intent), floor.alarms) == (S.UNKNOWN, [])
    await floor.house.clock.advance(30)
    await floor.outbox().reconcile()
    assert await floor.state(intent) is S.IN_DOUBT
    [alarm] = floor.alarms
    assert f"intent {intent.id} on {VENUE}:rain is in doubt and counts as spent (the page is empty)" in alarm
    await floor.outbox().reconcile()
    assert len(floor.alarms) == 1
    newer = await floor.house.ledger.submissions.decide(
        forecast_id=intent.forecast,
        decision=Hold(why="asked again"),
        at=floor.house.clock.now(),
    )
    assert isinstance(newer, Hold)
    await floor.outbox().adopt(Adoption(intent=intent.id, state=S.ABSENT, by="ann", why="not on the page"))
    assert await floor.state(intent) is S.SUPERSEDED


async def test_a_reading_that_goes_wrong_in_any_way_settles_nothing_and_ends_nothing(floor: Floor, odd: Odd) -> None:
    def fail(_: Sequence[Receipt]) -> Sequence[Receipt]:
        raise KeyError

    odd.mishaps, odd.reads = [Mishap.REPLY_LOST], fail
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    with capture_logs() as logs:
        assert await floor.outbox().reconcile() == 0
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("cannot be read back", "error")]
    assert await floor.state(intent) is S.UNKNOWN


@pytest.mark.parametrize(("mode", "then"), [(Mode.LIVE, S.UNKNOWN), (Mode.PAPER, S.SUPERSEDED)])
async def test_after_a_restore_an_absence_without_a_request_on_record_is_proof_on_paper_alone(
    floor: Floor, mode: Mode, then: S
) -> None:
    floor.mode = mode
    intent = await floor.plan(await floor.forecast())
    stock = await floor.outbox().take_stock()
    assert await floor.state(intent) is then
    assert stock.doubtful == (then is S.UNKNOWN)
    await floor.house.clock.advance(3600)
    await floor.outbox().reconcile()
    assert await floor.state(intent) is (S.IN_DOUBT if then is S.UNKNOWN else then)


async def test_after_a_restore_no_order_is_made_again(floor: Floor, odd: Odd) -> None:
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    odd.reads = lambda found: [replace(one, state=S.ABSENT) for one in found]
    assert (await floor.outbox().take_stock()).revoked == 0
    assert await floor.state(intent) is S.ACKED


async def test_without_an_alarm_the_journal_says_what_is_in_doubt(floor: Floor, odd: Odd) -> None:
    odd.mishaps = [Mishap.REQUEST_LOST]
    odd.reads = lambda _: []
    await floor.plan(await floor.forecast())
    outbox = replace(floor.outbox(), alarm=None)
    await outbox.flush()
    await floor.house.clock.advance(FENCE_S + 3600)
    await outbox.reconcile()
    [event] = await floor.house.ledger.journal.recent(9, "alert")
    assert "is in doubt and counts as spent (no receipt)" in event.text


async def test_an_order_that_did_not_leave_this_machine_is_decided_anew_at_once(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.NOT_SENT]
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert await floor.state(intent) is S.SUPERSEDED
    assert len(await floor.house.ledger.forecasts.held(9, now=floor.house.clock.now())) == 1


def floor_rows(floor: Floor, sql: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(floor.house.path / "ledger.sqlite")
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()
