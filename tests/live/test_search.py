"""The engines against the real services: only with --run-live, and only those whose settings are in the environment.

Each engine reads its settings from the variables that config.toml would name, for instance
``FOXCAST_SEARCH__BRAVE__SETTINGS__KEY``; google_news needs none. A search costs what the service takes for one.
"""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.api import PluginContext, SearchResult, SearchSpec
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import RetryingHttpClient
from plugins.search import asknews, brave, duckduckgo, exa, google_news, perplexity, searxng, serper, tavily

PLUGINS = (asknews, brave, duckduckgo, exa, google_news, perplexity, searxng, serper, tavily)
SPECS: list[SearchSpec[Any]] = [spec for plugin in PLUGINS for spec in plugin.foxcast_search_engines()]
QUERY = "European Central Bank interest rate decision"
# An hour, so that a service that knows days alone shows what it does with the rest of the day.
CUTOFF = datetime(2025, 6, 5, 13, tzinfo=UTC)

# The whole address space: these tests are there to leave this machine.
pytestmark = [pytest.mark.live, pytest.mark.allow_hosts(["0.0.0.0/0", "::/0"]), pytest.mark.timeout(120)]


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[PluginContext]:
    clock = SystemClock()
    async with RetryingHttpClient(clock=clock, random=SeededRandom(0)) as http:
        yield PluginContext(clock=clock, http=http, folder=tmp_path)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_a_search_finds_pages(spec: SearchSpec[Any], context: PluginContext) -> None:
    hits = await _search(spec, context, None)
    assert hits
    assert len({hit.url for hit in hits}) == len(hits)
    assert all(hit.title for hit in hits)
    assert any(hit.snippet for hit in hits)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.bounds_dates], ids=lambda spec: spec.name)
async def test_a_search_before_a_moment_finds_older_pages_only(spec: SearchSpec[Any], context: PluginContext) -> None:
    hits = await _search(spec, context, CUTOFF)
    dates = [hit.published_at for hit in hits if hit.published_at is not None]
    assert hits
    assert all(date < CUTOFF for date in dates)
    # A bound that the service did not take would leave nothing near it.
    assert not dates or max(dates) > CUTOFF - timedelta(days=400)


async def _search(spec: SearchSpec[Any], context: PluginContext, before: datetime | None) -> list[SearchResult]:
    prefix = f"FOXCAST_SEARCH__{spec.name.upper()}__SETTINGS__"
    given = {name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)}
    try:
        settings = spec.settings.model_validate(given)
    except ValidationError as error:
        missing = ", ".join(f"{prefix}{str(fault['loc'][0]).upper()}" for fault in error.errors(include_input=False))
        pytest.skip(f"set {missing}")
    async with spec.open(settings, context) as engine:
        return list(await engine.search(QUERY, before=before, limit=10))
