"""A gateway for each test, on a ledger of its own."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.config.schema import LlmSection
from bot.store.ledger import BALLAST_FILE
from bot.testing.clock import FakeClock
from tests.unit.llm import gateway_fixture as rigs
from tests.unit.llm.gateway_fixture import NOON, GatewayFixture, make_blank


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty ledger."""
    return make_blank(tmp_path_factory.mktemp("blank"))


@pytest.fixture
def path(blank: Path, tmp_path: Path) -> Path:
    """Where the ledger is."""
    shutil.copy(blank / "ledger.sqlite", tmp_path)
    (tmp_path / BALLAST_FILE).hardlink_to(blank / BALLAST_FILE)
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


OpenRig = Callable[..., AbstractAsyncContextManager[GatewayFixture]]


@pytest.fixture
def open_rig(path: Path, clock: FakeClock) -> OpenRig:
    """Open a gateway on the ledger of this test; opened again, it is another process on the same ledger."""

    def opened(section: LlmSection | None = None, **given: Any) -> AbstractAsyncContextManager[GatewayFixture]:
        return rigs.open_rig(path, clock, section=section or rigs.section(), **given)

    return opened


@pytest.fixture
async def rig(open_rig: OpenRig) -> AsyncIterator[GatewayFixture]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(open_rig())
