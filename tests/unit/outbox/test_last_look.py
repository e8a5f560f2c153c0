"""The last look before a write: checks, the brake, the mode, and whose turn it is."""

import asyncio
from collections.abc import Sequence

import pytest

from bot.domain.submission import Batch, Hold, Intent, IntentState, Mode, Receipt, Sealed
from bot.errors import FoxcastError, Rejected, StoreError, Unavailable
from bot.testing.exchange import MemoryExchange, Mishap
from tests.unit.outbox.conftest import Floor, Odd

S = IntentState
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


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


async def test_what_is_stopped_while_its_request_is_sealed_goes_back_to_the_gate(floor: Floor, odd: Odd) -> None:
    objections: list[str] = []

    async def look(_: Intent) -> str | None:
        return objections[0] if objections else None

    def halt(made: Sequence[Sealed]) -> Sequence[Sealed]:
        objections.append("disarmed meanwhile")
        return made

    floor.recheck, odd.seals = look, halt
    intent = await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), odd.placed) == (S.SUPERSEDED, [])
    assert await floor.house.ledger.submissions.attempts([intent.id]) == []


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
