"""A gateway for each test, on a ledger of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.config.schema import LlmSection
from bot.testing.clock import FakeClock
from tests.unit.llm import gateway_fixture as rigs
from tests.unit.llm.gateway_fixture import NOON, GatewayFixture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
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
