"""The data sources against the real services: only with --run-live, and only those whose settings are there.

Each source reads its settings from the variables that config.toml would name, for instance
``FOXCAST_DATA__FRED__SETTINGS__KEY``; all but fred and acled need none.
"""

import os
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.api import DataSpec, NotFoundError, PluginContext, PluginSettings, TimeSeries
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import RetryingHttpClient
from plugins.data import acled, dbnomics, fred, manifold_prices, polymarket_prices, wikipedia, yahoo

CUTOFF = datetime(2025, 10, 26, tzinfo=UTC)
# Series of questions of the round that was due on that day, with the age that their last value may have.
SERIES = [
    (acled, "Sri Lanka/Protests", 1),
    (dbnomics, "meteofrance/TEMPERATURE/celsius.07607.D", 10),
    (fred, "DGS10", 10),
    (manifold_prices, "K8qazyZJ3tXyuLlzkkyk", 1),
    (polymarket_prices, "0x3e6cb7ad03e2687d0befe8706bb9ac276b3d74c0a8c7e02bf3c6b796e25601c0", 1),
    (yahoo, "URI", 5),
]

# The whole address space: these tests are there to leave this machine.
pytestmark = [pytest.mark.live, pytest.mark.allow_hosts(["0.0.0.0/0", "::/0"]), pytest.mark.timeout(120)]


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[PluginContext]:
    clock = SystemClock()
    async with RetryingHttpClient(clock=clock, random=SeededRandom(0)) as http:
        yield PluginContext(clock=clock, http=http, folder=tmp_path)


@pytest.mark.parametrize(("plugin", "name", "days"), SERIES, ids=[plugin.SOURCE for plugin, _, _ in SERIES])
async def test_a_series_ends_shortly_before_the_moment(
    plugin: Any, name: str, days: int, context: PluginContext
) -> None:
    found = await _series(plugin, name, context)
    assert len(found.dates) > 10
    assert all(a < b for a, b in pairwise(found.dates))
    assert CUTOFF.date() - timedelta(days=days) <= found.dates[-1] < CUTOFF.date()


@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        (dbnomics, "meteofrance/TEMPERATURE/celsius.00000.D"),
        (fred, "NOSUCHSERIES123"),
        (manifold_prices, "nosuchmarket12345678"),
        (polymarket_prices, "no-such-market-anywhere-123"),
        (yahoo, "NOSUCHTICKER123"),
    ],
    ids=lambda value: getattr(value, "SOURCE", "missing"),
)
async def test_an_unknown_series_is_not_found(plugin: Any, name: str, context: PluginContext) -> None:
    with pytest.raises(NotFoundError):
        await _series(plugin, name, context)


async def test_a_market_price_is_the_one_that_the_benchmark_froze(context: PluginContext) -> None:
    """The question set of 2025-10-26 has 0.979920031255855 at 2025-10-16T00:00Z."""
    found = await _series(manifold_prices, "K8qazyZJ3tXyuLlzkkyk", context)
    assert found.values[found.dates.index(date(2025, 10, 15))] == pytest.approx(0.979920031255855, abs=0.02)


@pytest.mark.parametrize(("page", "word"), [("FIDE_rankings", "Carlsen"), ("List_of_infectious_diseases", "Vaccine")])
async def test_a_page_is_read_as_it_stood_with_its_tables(page: str, word: str, context: PluginContext) -> None:
    (spec,) = wikipedia.foxcast_data_sources()
    assert spec.pages is not None
    async with spec.pages(spec.settings(), context) as source:
        address = f"https://en.wikipedia.org/wiki/{page}"
        headings = await source.page_headings(address, before=CUTOFF)
        passages = [await source.section(address, name, before=CUTOFF) for name in headings]
    assert all(passage.revised_at < CUTOFF for passage in passages)
    assert any(word in passage.text and " | " in passage.text for passage in passages)


async def _series(plugin: Any, name: str, context: PluginContext) -> TimeSeries:
    (spec,) = plugin.foxcast_data_sources()
    async with spec.open(_settings(spec), context) as source:
        found: TimeSeries = await source.series(name, before=CUTOFF)
    return found


def _settings(spec: DataSpec[Any]) -> PluginSettings:
    prefix = f"FOXCAST_DATA__{spec.name.upper()}__SETTINGS__"
    given = {name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)}
    try:
        settings: PluginSettings = spec.settings.model_validate(given)
    except ValidationError as error:
        missing = ", ".join(f"{prefix}{str(fault['loc'][0]).upper()}" for fault in error.errors(include_input=False))
        pytest.skip(f"set {missing}")
    return settings
