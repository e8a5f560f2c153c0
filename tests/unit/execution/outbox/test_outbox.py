"""What the outbox does with answers that are missing, late, wrong or errors."""

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

    def __init__(self, *, error: Exception | None = None, receipts: int = 0) -> None:
        super().__init__()
        self.error = error
        self.receipts = receipts
        self.unreadable: Exception | None = None

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


async def submitted(house: JobsFixture, *keys: str) -> dict[IntentState, int]:
    house.offer(*keys, batch="round 1")
    await house.discover()
    await house.forecast()
    await house.submit()
    return await counts(house)


async def counts(house: JobsFixture) -> dict[IntentState, int]:
    [row] = await house.ledger.submissions.batches(states=[*IntentState])
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
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_is_no_proof_of_anything_and_reading_back_settles_it(
    house: JobsFixture, error: Exception
) -> None:
    house.book = FakeFailingVenue(error=error)
    assert await submitted(house, "rain", "snow") == {IntentState.UNKNOWN: 2}
    assert await house.reconcile() == "2 unknown writes settled"
    assert await counts(house) == {IntentState.ACKED: 2}
    assert len(house.book.writes) == 2


async def test_an_intent_without_a_receipt_is_unknown(house: JobsFixture) -> None:
    house.book = FakeFailingVenue(receipts=1)
    assert await submitted(house, "rain", "snow") == {IntentState.ACKED: 1, IntentState.UNKNOWN: 1}


@pytest.mark.parametrize("state", sorted({*IntentState} - {"acked", "refused", "unknown", "absent"}))
async def test_an_answer_that_is_none_is_unknown(house: JobsFixture, state: IntentState) -> None:
    house.book = FakeFixedAnswerVenue(state)
    assert await submitted(house, "rain") == {IntentState.UNKNOWN: 1}


async def test_a_batch_that_came_back_incomplete_goes_again_with_the_next_intent_or_after_hours(
    house: JobsFixture,
) -> None:
    house.book = saying = FakeFixedAnswerVenue(IntentState.ABSENT)
    assert await submitted(house, "rain") == {IntentState.PLANNED: 1}
    await house.clock.advance(1)
    house.offer("snow", batch="round 1")
    await house.discover()
    await house.forecast()
    assert await house.submit() == "1 planned, 0 held, 0 acknowledged"
    assert saying.asked == 2
    # In the same instant snow was planned and came back, so it counts as new once more.
    await house.clock.advance(1)
    for _ in range(3):
        await house.submit()
    assert saying.asked == 3
    await house.clock.advance(6 * 3600)
    house.book.state = IntentState.ACKED
    assert await house.submit() == "0 planned, 0 held, 2 acknowledged"


async def test_a_ledger_that_fails_under_the_writer_is_no_doubt_but_an_end(house: JobsFixture) -> None:
    house.book = FakeFailingVenue(error=StoreError("the disk is full"))
    with pytest.raises(StoreError, match="the disk is full"):
        await submitted(house, "rain")
    assert await counts(house) == {IntentState.SENDING: 1}
    assert await house.outbox({}).recover() == 1


async def test_a_venue_that_cannot_be_read_leaves_its_own_intents_in_doubt_and_a_failing_ledger_ends_the_pass(
    house: JobsFixture,
) -> None:
    house.book = FakeFailingVenue(error=ServiceUnavailableError("503"))
    assert await submitted(house, "rain") == {IntentState.UNKNOWN: 1}
    house.book.unreadable = ServiceUnavailableError("503")
    with capture_logs() as logs:
        assert await house.reconcile() == "0 unknown writes settled"
    assert [(entry["event"], entry["error"]) for entry in logs] == [("cannot be read back", "503")]
    house.book.unreadable = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        await house.reconcile()
    assert await counts(house) == {IntentState.UNKNOWN: 1}


async def test_a_venue_that_is_not_in_use_is_neither_written_nor_read(house: JobsFixture) -> None:
    house.book.lose_next_reply()
    assert await submitted(house, "rain") == {IntentState.UNKNOWN: 1}
    closed = replace(house.outbox({}), submitters={})
    assert (await closed.reconcile(), await closed.flush()) == (0, 0)
    stock = await closed.reconcile_after_restore()
    assert (stock.settled, stock.revoked, stock.doubtful) == (0, 0, 0)
    assert await counts(house) == {IntentState.UNKNOWN: 1}


async def test_a_brake_holds_back_what_was_decided_before_it(house: JobsFixture) -> None:
    house.offer("rain", "snow", batch="round 1")
    await house.discover()
    await house.forecast()
    (house.path / "STOP").touch()
    assert await house.submit() == "0 planned, 2 held, 0 acknowledged"
    (house.path / "STOP").unlink()
    await house.clock.advance(600)
    house.book.lose_next_request()
    await house.submit()
    (house.path / "STOP").touch()
    assert await house.reconcile() == "2 unknown writes settled"
    assert await house.submit() == "0 planned, 0 held, 0 acknowledged"
    assert await counts(house) == {IntentState.ABSENT: 2}
    (house.path / "STOP").unlink()
    assert await house.submit() == "0 planned, 0 held, 2 acknowledged"
    assert len(house.book.writes) == 2


async def test_what_stands_at_a_venue_that_is_not_in_use_is_not_taken_back(house: JobsFixture) -> None:
    assert await submitted(house, "rain") == {IntentState.ACKED: 1}
    house.book.standing_intents.clear()
    outbox = house.outbox({})
    closed = replace(outbox, submitters={})
    assert (await closed.reconcile_after_restore()).revoked == 0
    assert (await outbox.reconcile_after_restore()).revoked == 1
