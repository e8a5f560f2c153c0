"""The fake venue that listens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.plugins.manifold.fixture import ManifoldFixture, open_fixture


@pytest.fixture
async def manifold(tmp_path: Path) -> AsyncIterator[ManifoldFixture]:
    async with open_fixture(tmp_path) as here:
        yield here
