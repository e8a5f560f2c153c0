"""A tool factory over a real ledger."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.store.ledger import BALLAST_FILE, open_ledger
from bot.testing.clock import FakeClock
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty ledger, made once."""
    folder = tmp_path_factory.mktemp("blank")

    async def make() -> None:
        async with open_ledger(folder / "ledger.sqlite", now=CUTOFF):
            pass

    asyncio.run(make())
    return folder


@pytest.fixture
async def research(blank: Path, tmp_path: Path) -> AsyncIterator[ResearchFixture]:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(blank / path.name, path)
    (tmp_path / BALLAST_FILE).hardlink_to(blank / BALLAST_FILE)
    async with open_ledger(path, now=CUTOFF) as ledger:
        yield ResearchFixture(ledger=ledger, clock=FakeClock(CUTOFF))
