"""What the outbox does with answers that are missing, late, wrong or errors."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bot.core.errors import AuthenticationError, RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.submissions import IntentState, SubmissionBatch, WriteReceipt
from bot.testing.venue import FakeSubmitter
from tests.unit.jobs.conftest import JobsFixture


class FakeFailingVenue(FakeSubmitter):
    """A book whose answer to a write is an error, or leaves out some receipts."""

    def __init__(self, *, error: BaseException | None = None, receipts: int = 0) -> None:
        super().__init__()
        self.error = error
        self.receipts = receipts
        self.unreadable: BaseException | None = None

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if self.unreadable:
            raise self.unreadable
        return await super().read_submissions(batch)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts = await super().submit(batch)
        if self.error:
            raise self.error
        return receipts[: self.receipts]


class FakeFixedAnswerVenue(FakeSubmitter):
    """A book that gives one answer to everything and counts how often it was asked."""

    def __init__(self, state: IntentState) -> None:
        super().__init__()
        self.state = state
        self.asked = 0

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.asked += 1
        return [WriteReceipt(intent=intent.id, state=self.state, detail="so it says") for intent in batch.intents]


async def submitted(jobs_fixture: JobsFixture, *keys: str) -> dict[IntentState, int]:
    jobs_fixture.offer(*keys, batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    return await counts(jobs_fixture)


async def counts(jobs_fixture: JobsFixture) -> dict[IntentState, int]:
    [row] = await jobs_fixture.ledger.submissions.batches(states=[*IntentState])
    return dict(row.counts)


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("503"),
        RequestRejectedError("no"),
        AuthenticationError("401"),
        OSError("gone"),
        TimeoutError(),
        KeyError("id"),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_is_no_proof_of_anything_and_reading_back_settles_it(
    jobs_fixture: JobsFixture, error: BaseException
) -> None:
    jobs_fixture.book = FakeFailingVenue(error=error)
    assert await submitted(jobs_fixture, "rain", "snow") == {IntentState.UNKNOWN: 2}
    assert await jobs_fixture.reconcile() == "2 unknown writes settled"
    assert await counts(jobs_fixture) == {IntentState.ACKED: 2}
    assert len(jobs_fixture.book.writes) == 2


async def test_an_intent_without_a_receipt_is_unknown(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book = FakeFailingVenue(receipts=1)
    assert await submitted(jobs_fixture, "rain", "snow") == {IntentState.ACKED: 1, IntentState.UNKNOWN: 1}


@pytest.mark.parametrize("state", sorted({*IntentState} - {"acked", "refused", "unknown", "absent"}))
async def test_an_answer_that_is_none_is_unknown(jobs_fixture: JobsFixture, state: IntentState) -> None:
    jobs_fixture.book = FakeFixedAnswerVenue(state)
    assert await submitted(jobs_fixture, "rain") == {IntentState.UNKNOWN: 1}


async def test_a_batch_that_came_back_incomplete_goes_again_with_the_next_intent_or_after_hours(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.book = saying = FakeFixedAnswerVenue(IntentState.ABSENT)
    assert await submitted(jobs_fixture, "rain") == {IntentState.PLANNED: 1}
    await jobs_fixture.clock.advance(1)
    jobs_fixture.offer("snow", batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "1 planned, 0 held, 0 acknowledged"
    assert saying.asked == 2
    # In the same instant snow was planned and came back, so it counts as new once more.
    await jobs_fixture.clock.advance(1)
    for _ in range(3):
        await jobs_fixture.submit()
    assert saying.asked == 3
    await jobs_fixture.clock.advance(6 * 3600)
    jobs_fixture.book.state = IntentState.ACKED
    assert await jobs_fixture.submit() == "0 planned, 0 held, 2 acknowledged"


async def test_a_ledger_that_fails_under_the_writer_is_no_doubt_but_an_end(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book = FakeFailingVenue(error=StoreError("the disk is full"))
    with pytest.raises(StoreError, match="the disk is full"):
        await submitted(jobs_fixture, "rain")
    assert await counts(jobs_fixture) == {IntentState.SENDING: 1}
    assert await jobs_fixture.outbox({}).recover() == 1


async def test_a_venue_that_cannot_be_read_leaves_its_own_intents_in_doubt_and_a_failing_ledger_ends_the_pass(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.book = FakeFailingVenue(error=ServiceUnavailableError("503"))
    assert await submitted(jobs_fixture, "rain") == {IntentState.UNKNOWN: 1}
    jobs_fixture.book.unreadable = ServiceUnavailableError("503")
    with capture_logs() as logs:
        assert await jobs_fixture.reconcile() == "0 unknown writes settled"
    assert [(entry["event"], entry["error"]) for entry in logs] == [("cannot be read back", "503")]
    jobs_fixture.book.unreadable = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        await jobs_fixture.reconcile()
    assert await counts(jobs_fixture) == {IntentState.UNKNOWN: 1}


async def test_a_venue_that_is_not_in_use_is_neither_written_nor_read(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.lose_next_reply()
    assert await submitted(jobs_fixture, "rain") == {IntentState.UNKNOWN: 1}
    closed = replace(jobs_fixture.outbox({}), submitters={})
    assert (await closed.reconcile(), await closed.flush()) == (0, 0)
    stock = await closed.reconcile_after_restore()
    assert (stock.settled, stock.revoked, stock.doubtful) == (0, 0, 0)
    assert await counts(jobs_fixture) == {IntentState.UNKNOWN: 1}


async def test_a_brake_holds_back_what_was_decided_before_it(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain", "snow", batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    (jobs_fixture.path / "STOP").touch()
    assert await jobs_fixture.submit() == "0 planned, 2 held, 0 acknowledged"
    (jobs_fixture.path / "STOP").unlink()
    await jobs_fixture.clock.advance(600)
    jobs_fixture.book.lose_next_request()
    await jobs_fixture.submit()
    (jobs_fixture.path / "STOP").touch()
    assert await jobs_fixture.reconcile() == "2 unknown writes settled"
    assert await jobs_fixture.submit() == "0 planned, 0 held, 0 acknowledged"
    assert await counts(jobs_fixture) == {IntentState.ABSENT: 2}
    (jobs_fixture.path / "STOP").unlink()
    assert await jobs_fixture.submit() == "0 planned, 0 held, 2 acknowledged"
    assert len(jobs_fixture.book.writes) == 2


async def test_what_stands_at_a_venue_that_is_not_in_use_is_not_taken_back(jobs_fixture: JobsFixture) -> None:
    assert await submitted(jobs_fixture, "rain") == {IntentState.ACKED: 1}
    jobs_fixture.book.standing_intents.clear()
    outbox = jobs_fixture.outbox({})
    closed = replace(outbox, submitters={})
    assert (await closed.reconcile_after_restore()).revoked == 0
    assert (await outbox.reconcile_after_restore()).revoked == 1


async def test_forecasts_that_stand_are_repeated_with_what_joins_their_batch(jobs_fixture: JobsFixture) -> None:
    assert await submitted(jobs_fixture, "rain") == {IntentState.ACKED: 1}
    await jobs_fixture.clock.advance(1)
    assert await submitted(jobs_fixture, "snow") == {IntentState.ACKED: 2}
    # One write of rain alone, and one of both.
    assert [intent.ref.key for intent in jobs_fixture.book.writes].count("rain") == 2


async def test_every_forecast_that_the_venue_lost_is_revoked_after_a_restore(
    jobs_fixture: JobsFixture,
) -> None:
    for key in ("rain", "snow", "hail"):
        jobs_fixture.offer(key)
        await jobs_fixture.discover()
        await jobs_fixture.forecast()
        assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    jobs_fixture.book.standing_intents.clear()
    assert (await jobs_fixture.outbox({}).reconcile_after_restore()).revoked == 3
