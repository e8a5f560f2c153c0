"""The last look before a write: checks, the brake, the mode, and whose turn it is."""

import asyncio
from collections.abc import Sequence

import pytest

from bot.core.errors import FoxcastError, RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.submissions import (
    ExecutionMode,
    HoldDecision,
    Intent,
    IntentState,
    SealedRequest,
    SubmissionBatch,
    WriteReceipt,
)
from bot.testing.exchange import FakeExchange, WriteFailure
from tests.unit.execution.outbox.conftest import FaultyExchange, OutboxFixture

S = IntentState
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


async def test_what_the_last_check_objects_to_goes_back_to_the_gate(trading: OutboxFixture) -> None:
    async def old(_: Intent) -> str | None:
        return "the plan is 90 s old"

    trading.recheck = old
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), trading.exchange.placed_orders) == (S.SUPERSEDED, [])
    decisions = await trading.jobs_fixture.ledger.submissions.decisions(intent.forecast)
    assert decisions[-1].decision == HoldDecision(
        why="back to the gate: the plan is 90 s old", until=trading.jobs_fixture.clock.now()
    )


@pytest.mark.parametrize("error", [ServiceUnavailableError("503"), RequestRejectedError("gone")], ids=repr)
async def test_a_check_that_cannot_be_made_is_an_objection(trading: OutboxFixture, error: FoxcastError) -> None:
    async def fail(_: Intent) -> str | None:
        raise error

    trading.recheck = fail
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), trading.exchange.placed_orders) == (S.SUPERSEDED, [])


async def test_a_failing_ledger_under_a_check_ends_the_pass(trading: OutboxFixture) -> None:
    async def fail(_: Intent) -> str | None:
        message = "the disk is full"
        raise StoreError(message)

    trading.recheck = fail
    await trading.plan(await trading.forecast())
    with pytest.raises(StoreError, match="the disk is full"):
        await trading.outbox().flush()


async def test_a_brake_that_is_pulled_while_a_request_is_sealed_stops_it(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    def pull(made: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        trading.jobs_fixture.kill_switch.stop_file.touch()
        return made

    faulty_exchange.seals = pull
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), faulty_exchange.placed_orders) == (S.PLANNED, [])


async def test_what_is_stopped_while_its_request_is_sealed_goes_back_to_the_gate(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    objections: list[str] = []

    async def look(_: Intent) -> str | None:
        return objections[0] if objections else None

    def halt(made: Sequence[SealedRequest]) -> Sequence[SealedRequest]:
        objections.append("disarmed meanwhile")
        return made

    trading.recheck, faulty_exchange.seals = look, halt
    intent = await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), faulty_exchange.placed_orders) == (S.SUPERSEDED, [])
    assert await trading.jobs_fixture.ledger.submissions.attempts([intent.id]) == []


@pytest.mark.parametrize(
    ("decided", "now"),
    [
        (ExecutionMode.PAPER, ExecutionMode.LIVE),
        (ExecutionMode.LIVE, ExecutionMode.PAPER),
        (ExecutionMode.LIVE, ExecutionMode.APPROVE),
    ],
)
async def test_what_was_decided_in_another_mode_is_not_sent(
    trading: OutboxFixture, decided: ExecutionMode, now: ExecutionMode
) -> None:
    trading.mode = decided
    intent = await trading.plan(await trading.forecast())
    trading.mode = now
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), trading.exchange.placed_orders) == (S.SUPERSEDED, [])


@pytest.mark.parametrize(
    ("decided", "now"), [(ExecutionMode.PAPER, ExecutionMode.LIVE), (ExecutionMode.LIVE, ExecutionMode.PAPER)]
)
async def test_a_doubt_of_the_other_mode_is_not_read_from_this_side(
    trading: OutboxFixture, decided: ExecutionMode, now: ExecutionMode
) -> None:
    trading.mode, trading.exchange.next_failures = decided, [WriteFailure.REPLY_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    trading.mode, trading.exchange = now, FakeExchange(trading.jobs_fixture.clock)
    await trading.jobs_fixture.clock.advance(FENCE_S)
    assert await trading.outbox().reconcile() == 0
    assert await trading.state(intent) is S.UNKNOWN


async def test_of_one_account_one_write_is_under_way_and_a_write_that_was_broken_off_is_unknown(
    trading: OutboxFixture,
) -> None:
    under_way, most = 0, 0
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeExchange):
        async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            entered.set()
            try:
                await go_on.wait()
            finally:
                under_way -= 1
            return await super().submit(batch)

    trading.exchange = Slow(trading.jobs_fixture.clock)
    first, second = [await trading.plan(await trading.forecast(key)) for key in ("rain", "snow")]
    outbox = trading.outbox()
    broken_off = asyncio.create_task(outbox.flush())
    await entered.wait()
    other = asyncio.create_task(outbox.flush())
    # Long enough for it to come as far as it can.
    await trading.jobs_fixture.ledger.submissions.batches(states=[*S])
    broken_off.cancel()
    go_on.set()
    await asyncio.gather(broken_off, other, return_exceptions=True)
    assert most == 1
    states = [await trading.state(first), await trading.state(second)]
    assert sorted(states) == [S.ACKED, S.SENDING]
    await outbox.reconcile()
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await outbox.reconcile()
    assert sorted([await trading.state(first), await trading.state(second)]) == [S.ACKED, S.SUPERSEDED]
    assert len(trading.exchange.placed_orders) == 1
