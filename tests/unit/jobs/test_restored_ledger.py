"""A ledger brought back from a backup, beside a book that has gone on without it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.core.errors import ServiceUnavailableError, StoreError
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState, SubmissionBatch, WriteReceipt
from bot.execution.gate.gate import ExecutionPolicy
from bot.jobs.reconciliation import RESTORED_EVENT, RestoredLedgerContext, reconcile_restored_ledger
from bot.store.backups import create_backup
from bot.store.ledger import open_ledger
from bot.store.restore import read_restore_mark, restore_backup, restore_mark_path
from bot.store.schema import MIGRATIONS
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakeSubmitter
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture

BringBack = Callable[[JobsFixture, Path], AbstractAsyncContextManager[JobsFixture]]


class FakeUnreadableBook(FakeSubmitter):
    """A book that can be written and not be read, with an answer or an error."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if self.error:
            raise self.error
        return [WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN) for intent in batch.intents]


def backup(jobs_fixture: JobsFixture) -> Path:
    return create_backup(
        jobs_fixture.path / "ledger.sqlite", jobs_fixture.path / "backups", at=jobs_fixture.clock.now()
    ).path


@asynccontextmanager
async def brought_back(jobs_fixture: JobsFixture, source: Path) -> AsyncIterator[JobsFixture]:
    """The house after a restore from the file: the same venue and book, an older ledger."""
    path = jobs_fixture.path / "again" / "ledger.sqlite"
    restore_backup(source, path, migrations=MIGRATIONS, at=jobs_fixture.clock.now())
    async with open_ledger(path, now=jobs_fixture.clock.now()) as ledger:
        yield JobsFixture(
            ledger=ledger,
            path=path.parent,
            clock=jobs_fixture.clock,
            venue=jobs_fixture.venue,
            book=jobs_fixture.book,
            mode=jobs_fixture.mode,
        )


async def settle(jobs_fixture: JobsFixture) -> None:
    lanes = {VENUE: ExecutionPolicy(venue=VENUE, mode=jobs_fixture.mode, primary_forecaster=FIRST, account="me")}
    await reconcile_restored_ledger(
        RestoredLedgerContext(
            path=jobs_fixture.path / "ledger.sqlite",
            ledger=jobs_fixture.ledger,
            execution_policies=lanes,
            outbox=jobs_fixture.outbox(lanes),
            clock=jobs_fixture.clock,
        )
    )


async def forecast(jobs_fixture: JobsFixture, *keys: str, **changes: object) -> None:
    jobs_fixture.offer(*keys, **changes)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()


async def states(jobs_fixture: JobsFixture) -> dict[IntentState, int]:
    rows = await jobs_fixture.ledger.submissions.batches(states=[*IntentState])
    return {state: sum(row.counts.get(state, 0) for row in rows) for state in {s for row in rows for s in row.counts}}


async def note(jobs_fixture: JobsFixture) -> str:
    [event] = await jobs_fixture.ledger.events.recent(9, RESTORED_EVENT)
    return event.text


async def test_a_ledger_that_was_not_restored_is_left_alone(jobs_fixture: JobsFixture) -> None:
    await settle(jobs_fixture)
    assert await jobs_fixture.ledger.events.recent(9) == []


async def test_until_what_stands_is_settled_nothing_leaves_and_the_reason_is_on_record(
    jobs_fixture: JobsFixture,
) -> None:
    await forecast(jobs_fixture, "rain")
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        assert await again.submit() == "0 planned, 1 held, 0 acknowledged"
        [made] = await again.history()
        [row] = await again.ledger.submissions.decisions(made.id)
        assert isinstance(row.decision, HoldDecision)
        assert "restored from a backup" in row.decision.why
        assert jobs_fixture.book.writes == []
        await settle(again)
        await again.clock.advance(600)
        assert await again.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_what_waited_in_the_backup_and_has_left_since_is_not_sent_again(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    await forecast(jobs_fixture, "rain", batch="round 1")
    jobs_fixture.offer("snow", batch="round 1")
    await jobs_fixture.discover()
    # Rain waits for snow, so the backup holds it as planned.
    assert await jobs_fixture.submit() == "1 planned, 0 held, 0 acknowledged"
    source = backup(jobs_fixture)
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "1 planned, 0 held, 2 acknowledged"
    async with brought_back(jobs_fixture, source) as again:
        assert await states(again) == {IntentState.PLANNED: 1}
        await settle(again)
        assert await states(again) == {IntentState.ACKED: 1}
        assert len(jobs_fixture.book.writes) == 2
        assert "1 unknown writes settled" in await note(again)


async def test_what_waited_in_the_backup_and_never_left_is_sent(jobs_fixture: JobsFixture) -> None:
    await forecast(jobs_fixture, "rain", batch="round 1")
    jobs_fixture.offer("snow", batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.submit()
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        await settle(again)
        assert await states(again) == {IntentState.ABSENT: 1}
        await again.discover()
        await again.forecast()
        assert await again.submit() == "1 planned, 0 held, 2 acknowledged"


async def test_what_was_acknowledged_and_is_not_there_any_more_is_sent_again(jobs_fixture: JobsFixture) -> None:
    await forecast(jobs_fixture, "rain", "snow")
    await jobs_fixture.submit()
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        jobs_fixture.book.standing_intents.popitem()
        with capture_logs() as logs:
            await settle(again)
        assert "1 acknowledged writes not at the venue any more; submissions continue" in await note(again)
        assert [entry["event"] for entry in logs] == ["ledger was restored"]
        assert read_restore_mark(again.path / "ledger.sqlite") is None
        assert await again.submit() == "0 planned, 0 held, 1 acknowledged"
        assert len(jobs_fixture.book.standing_intents) == 2


async def test_a_venue_in_live_use_waits_for_a_person(jobs_fixture: JobsFixture) -> None:
    await forecast(jobs_fixture, "rain")
    await jobs_fixture.submit()
    jobs_fixture.mode = ExecutionMode.LIVE
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        await settle(again)
        mark = restore_mark_path(again.path / "ledger.sqlite")
        assert (
            f"nothing is submitted: check {VENUE} for what was sent since that backup, then delete {mark}"
            in await note(again)
        )
        assert again.kill_switch.halt_reason() is not None
        mark.unlink()
        assert again.kill_switch.halt_reason() is None


@pytest.mark.parametrize(
    "book",
    [FakeUnreadableBook(), FakeUnreadableBook(ServiceUnavailableError("503"))],
    ids=["no answer", "unavailable"],
)
async def test_what_cannot_be_settled_keeps_everything_back(
    jobs_fixture: JobsFixture, book: FakeUnreadableBook
) -> None:
    await forecast(jobs_fixture, "rain", batch="round 1")
    jobs_fixture.offer("snow", batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.submit()
    jobs_fixture.book = book
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        await settle(again)
        assert "nothing is submitted: 1 writes are still unknown" in await note(again)
        await again.forecast()
        assert await again.submit() == "0 planned, 1 held, 0 acknowledged"
        assert book.writes == []


async def test_a_venue_that_cannot_say_whether_the_acknowledged_stands_keeps_everything_back(
    jobs_fixture: JobsFixture,
) -> None:
    await forecast(jobs_fixture, "rain")
    await jobs_fixture.submit()
    jobs_fixture.book = FakeUnreadableBook(ServiceUnavailableError("503"))
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        await settle(again)
        assert "nothing is submitted: a venue does not answer (503)" in await note(again)
        assert again.kill_switch.halt_reason() is not None


async def test_a_failing_ledger_is_not_taken_for_a_silent_venue(jobs_fixture: JobsFixture) -> None:
    await forecast(jobs_fixture, "rain")
    await jobs_fixture.submit()
    jobs_fixture.book = FakeUnreadableBook(StoreError("the disk is full"))
    async with brought_back(jobs_fixture, backup(jobs_fixture)) as again:
        with pytest.raises(StoreError):
            await settle(again)
        assert again.kill_switch.halt_reason() is not None


async def test_only_an_acknowledgement_can_be_taken_back(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.refuse_all("closed")
    await forecast(jobs_fixture, "rain")
    await jobs_fixture.submit()
    [row] = await jobs_fixture.ledger.submissions.batches(states=[IntentState.REFUSED])
    with pytest.raises(StoreError, match="no acknowledgement to revoke"):
        await jobs_fixture.ledger.submissions.revoke_acknowledgements(
            [row.batch], detail="", at=jobs_fixture.clock.now()
        )
