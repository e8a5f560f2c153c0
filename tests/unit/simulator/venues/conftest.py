"""Venues that listen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.simulator.venues.manifold_client import RawManifoldClient, open_manifold
from tests.unit.simulator.venues.metaculus_client import RawMetaculusClient, open_metaculus


@pytest.fixture
async def manifold() -> AsyncIterator[RawManifoldClient]:
    async with open_manifold() as here:
        yield here


@pytest.fixture
async def metaculus() -> AsyncIterator[RawMetaculusClient]:
    """A Metaculus as its open code is."""
    async with open_metaculus(metaculus_production=False) as here:
        yield here


@pytest.fixture
async def metaculus_production() -> AsyncIterator[RawMetaculusClient]:
    """A Metaculus as the documents describe the real site."""
    async with open_metaculus(metaculus_production=True) as here:
        yield here
