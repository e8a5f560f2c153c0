"""Jobs of a few lines: backups, and doing many things at once."""

from datetime import timedelta

import pytest

from bot.core.errors import StoreError
from bot.jobs.ledger_maintenance import BackupContext, back_up_ledger
from bot.store.backups import list_backups
from tests.unit.jobs.conftest import JobsFixture


async def test_a_backup_is_made_and_old_ones_go(jobs_fixture: JobsFixture) -> None:
    folder = jobs_fixture.path / "backups"
    parts = BackupContext(path=jobs_fixture.path / "ledger.sqlite", folder=folder, clock=jobs_fixture.clock)
    for _ in range(2):
        assert "old ones removed" not in await back_up_ledger(parts)
        await jobs_fixture.clock.advance(timedelta(minutes=5).total_seconds())
    assert (await back_up_ledger(parts)).endswith("1 old ones removed")
    newest, _ = [copy for copy in list_backups(folder, "ledger") if not copy.label]
    assert newest.made_at == jobs_fixture.clock.now()


async def test_a_backup_that_cannot_be_made_is_an_error(jobs_fixture: JobsFixture) -> None:
    parts = BackupContext(
        path=jobs_fixture.path / "nothing.sqlite", folder=jobs_fixture.path / "backups", clock=jobs_fixture.clock
    )
    with pytest.raises(StoreError):
        await back_up_ledger(parts)
