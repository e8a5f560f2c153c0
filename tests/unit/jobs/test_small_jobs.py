"""Jobs of a few lines: backups, and doing many things at once."""

from datetime import timedelta

import pytest

from bot.core.errors import StoreError
from bot.jobs.ledger_maintenance import BackupContext, back_up_ledger
from bot.store.backups import list_backups
from tests.unit.jobs.conftest import JobsFixture


async def test_a_backup_is_made_and_old_ones_go(house: JobsFixture) -> None:
    folder = house.path / "backups"
    parts = BackupContext(path=house.path / "ledger.sqlite", folder=folder, clock=house.clock)
    for _ in range(2):
        assert "old ones removed" not in await back_up_ledger(parts)
        await house.clock.advance(timedelta(minutes=5).total_seconds())
    assert (await back_up_ledger(parts)).endswith("1 old ones removed")
    newest, _ = [copy for copy in list_backups(folder, "ledger") if not copy.label]
    assert newest.made_at == house.clock.now()


async def test_a_backup_that_cannot_be_made_is_an_error(house: JobsFixture) -> None:
    parts = BackupContext(path=house.path / "nothing.sqlite", folder=house.path / "backups", clock=house.clock)
    with pytest.raises(StoreError):
        await back_up_ledger(parts)
