"""Orders through the outbox: sealed before they are sent, believed absent only from their fence on, never twice."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bot.domain.submission import Batch, Hold, Intent, IntentAction, IntentState, Mode, Receipt, Sealed
from bot.errors import ContractError, FoxcastError, Rejected, StoreError, Unavailable
from bot.ports import Clock
from bot.testing.exchange import MemoryExchange, Mishap
from tests.unit.jobs.conftest import VENUE
from tests.unit.outbox.conftest import Floor

S = IntentState
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


class Odd(MemoryExchange):
    """An exchange whose requests are made, or whose answers are given, as the test says."""

    seals: Callable[[Sequence[Sealed]], Sequence[Sealed]] = staticmethod(lambda made: made)
    reads: Callable[[Sequence[Receipt]], Sequence[Receipt]] = staticmethod(lambda found: found)
    answers: Callable[[Sequence[Receipt]], Sequence[Receipt]] = staticmethod(lambda said: said)

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        return self.seals(await super().seal(batch))

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        return self.reads(await super().standing(batch))

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        return self.answers(await super().submit(batch))


@pytest.fixture
def odd(floor: Floor) -> Odd:
    exchange = Odd(floor.house.clock)
    floor.exchange = exchange
    return exchange


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
            assert attempt.sealed == batch.sealed[0]
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


async def test_an_acknowledged_order_that_the_venue_lists_no_more_keeps_its_acknowledgement(
    floor: Floor, odd: Odd
) -> None:
    odd.portion = 0.0
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    odd.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert await floor.state(intent) is S.ACKED
    assert floor_rows(floor, "select cost from intent") == [(0.0,)]


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
async def test_what_has_no_request_is_refused_without_a_write(floor: Floor, odd: Odd, *, raised: bool) -> None:
    def none(_: Sequence[Sealed]) -> Sequence[Sealed]:
        if raised:
            message = "no such market"
            raise Rejected(message)
        return []

    odd.seals = none
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), odd.placed) == (S.REFUSED, [])
    [attempt] = await floor.house.ledger.submissions.attempts([intent.id])
    assert attempt.detail == ("no such market" if raised else "its request cannot be made")


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
    await floor.outbox().adopt(intent.id, S.ABSENT, "ann", "not on the page")
    assert await floor.state(intent) is S.SUPERSEDED


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


async def test_what_the_last_check_objects_to_goes_back_to_the_gate(floor: Floor) -> None:
    async def old(_: Intent) -> str | None:
        return "the plan is 90 s old"

    floor.recheck = old
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), floor.exchange.placed) == (S.SUPERSEDED, [])
    decisions = await floor.house.ledger.submissions.decisions(intent.forecast)
    assert decisions[-1].decision == Hold(why="back to the gate: the plan is 90 s old", until=floor.house.clock.now())


@pytest.mark.parametrize("error", [Unavailable("503"), Rejected("gone")], ids=repr)
async def test_a_check_that_cannot_be_made_is_an_objection(floor: Floor, error: FoxcastError) -> None:
    async def fail(_: Intent) -> str | None:
        raise error

    floor.recheck = fail
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), floor.exchange.placed) == (S.SUPERSEDED, [])


async def test_a_failing_ledger_under_a_check_ends_the_pass(floor: Floor) -> None:
    async def fail(_: Intent) -> str | None:
        message = "the disk is full"
        raise StoreError(message)

    floor.recheck = fail
    await floor.plan(await floor.forecast())
    with pytest.raises(StoreError, match="the disk is full"):
        await floor.outbox().flush()


async def test_a_brake_that_is_pulled_while_a_request_is_sealed_stops_it(floor: Floor, odd: Odd) -> None:
    def pull(made: Sequence[Sealed]) -> Sequence[Sealed]:
        floor.house.brake.stop_file.touch()
        return made

    odd.seals = pull
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), odd.placed) == (S.PLANNED, [])


@pytest.mark.parametrize(
    ("decided", "now"), [(Mode.PAPER, Mode.LIVE), (Mode.LIVE, Mode.PAPER), (Mode.LIVE, Mode.APPROVE)]
)
async def test_what_was_decided_in_another_mode_is_not_sent(floor: Floor, decided: Mode, now: Mode) -> None:
    floor.mode = decided
    intent = await floor.plan(await floor.forecast())
    floor.mode = now
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), floor.exchange.placed) == (S.SUPERSEDED, [])


@pytest.mark.parametrize(("decided", "now"), [(Mode.PAPER, Mode.LIVE), (Mode.LIVE, Mode.PAPER)])
async def test_a_doubt_of_the_other_mode_is_not_read_from_this_side(floor: Floor, decided: Mode, now: Mode) -> None:
    floor.mode, floor.exchange.mishaps = decided, [Mishap.REPLY_LOST]
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    floor.mode, floor.exchange = now, MemoryExchange(floor.house.clock)
    await floor.house.clock.advance(FENCE_S)
    assert await floor.outbox().reconcile() == 0
    assert await floor.state(intent) is S.UNKNOWN


async def test_of_one_account_one_write_is_under_way_and_a_write_that_was_broken_off_is_unknown(floor: Floor) -> None:
    under_way, most = 0, 0
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryExchange):
        async def submit(self, batch: Batch) -> Sequence[Receipt]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            entered.set()
            try:
                await go_on.wait()
            finally:
                under_way -= 1
            return await super().submit(batch)

    floor.exchange = Slow(floor.house.clock)
    first, second = [await floor.plan(await floor.forecast(key)) for key in ("rain", "snow")]
    outbox = floor.outbox()
    broken_off = asyncio.create_task(outbox.flush())
    await entered.wait()
    other = asyncio.create_task(outbox.flush())
    # Long enough for it to come as far as it can.
    await floor.house.ledger.submissions.batches(states=[*S])
    broken_off.cancel()
    go_on.set()
    await asyncio.gather(broken_off, other, return_exceptions=True)
    assert most == 1
    states = [await floor.state(first), await floor.state(second)]
    assert sorted(states) == [S.ACKED, S.SENDING]
    await outbox.reconcile()
    await floor.house.clock.advance(FENCE_S)
    await outbox.reconcile()
    assert sorted([await floor.state(first), await floor.state(second)]) == [S.ACKED, S.SUPERSEDED]
    assert len(floor.exchange.placed) == 1


async def test_an_order_that_did_not_leave_this_machine_is_decided_anew_at_once(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.NOT_SENT]
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert await floor.state(intent) is S.SUPERSEDED
    assert len(await floor.house.ledger.forecasts.held(9, now=floor.house.clock.now())) == 1


async def test_a_comment_follows_what_it_belongs_to(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    talking.mishaps = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment), talking.said) == (S.UNKNOWN, S.PLANNED, [])
    await floor.outbox().reconcile()
    assert await floor.outbox().flush() == 1
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])
    assert await floor.outbox().flush() == 0


async def test_a_comment_in_doubt_is_read_back_alone_and_holds_back_nothing_else(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    talking.mumbles = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment)) == (S.ACKED, S.UNKNOWN)
    await floor.house.ledger.submissions.decide(
        forecast_id=intent.forecast, decision=Hold(why="later"), at=floor.house.clock.now()
    )
    await floor.outbox().flush()
    await floor.outbox().reconcile()
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])


@pytest.mark.parametrize("fate", [S.REFUSED, S.SUPERSEDED])
async def test_a_comment_on_what_never_stood_is_not_made(floor: Floor, fate: S) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    if fate is S.REFUSED:
        talking.mishaps = [Mishap.REFUSED]
        await floor.outbox().flush()
    else:
        await floor.house.ledger.submissions.abandon(intent.id, why="old", at=floor.house.clock.now())
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment), talking.said) == (fate, S.SUPERSEDED, [])


async def test_a_comment_that_did_not_get_through_goes_again_after_a_while(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    comment = await floor.comment(await floor.plan(await floor.forecast()))
    talking.mishaps = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    await floor.outbox().reconcile()
    talking.mumbles = [Mishap.NOT_SENT]
    await floor.house.clock.advance(1)
    await floor.outbox().flush()
    for _ in range(3):
        await floor.outbox().flush()
    assert talking.said == []
    await floor.house.clock.advance(300)
    await floor.outbox().flush()
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])


async def test_a_withdrawal_that_must_wait_stays_planned(floor: Floor) -> None:
    async def halted(_: Intent) -> str | None:
        return "halted"

    forecast = await floor.forecast()
    name = "withdrawal"
    intent = await floor.plan(forecast)
    away = await floor.decide(
        replace(intent, id=name, batch=name, action=IntentAction.WITHDRAW, order=None, predictions={})
    )
    floor.recheck = halted
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), await floor.state(away)) == (S.SUPERSEDED, S.PLANNED)


class Talking(MemoryExchange):
    """An exchange where things are said, too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.said: list[str] = []
        self.mumbles: list[Mishap] = []

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().seal(batch)
        return [Sealed(intent=intent.id, tag=f"comment {intent.id}", body=intent.text)]

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().submit(batch)
        mishap = self.mumbles.pop(0) if self.mumbles else None
        if mishap is Mishap.NOT_SENT:
            return [Receipt(intent=intent.id, state=S.ABSENT)]
        self.said.append(intent.id)
        return [Receipt(intent=intent.id, state=S.UNKNOWN if mishap else S.ACKED)]

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().standing(batch)
        return [Receipt(intent=intent.id, state=S.ACKED if intent.id in self.said else S.ABSENT)]


def floor_rows(floor: Floor, sql: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(floor.house.path / "ledger.sqlite")
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()
