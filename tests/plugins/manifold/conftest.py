"""The fake venue that listens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.plugins.manifold.stand import Stand, standing


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as here:
        yield here
