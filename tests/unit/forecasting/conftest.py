"""A tool factory over a real ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture


@pytest.fixture
async def research(tmp_path: Path) -> AsyncIterator[ResearchFixture]:
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=CUTOFF) as ledger:
        yield ResearchFixture(ledger=ledger, clock=FakeClock(CUTOFF))
