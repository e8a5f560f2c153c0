"""Venues that listen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.testing.venues.bots import Bots, bot_world
from tests.unit.testing.venues.mana import Mana, mana_world


@pytest.fixture
async def mana() -> AsyncIterator[Mana]:
    async with mana_world() as here:
        yield here


@pytest.fixture
async def bots() -> AsyncIterator[Bots]:
    """A Metaculus as its open code is."""
    async with bot_world(production=False) as here:
        yield here


@pytest.fixture
async def production() -> AsyncIterator[Bots]:
    """A Metaculus as the documents describe the real site."""
    async with bot_world(production=True) as here:
        yield here
