"""Perplexity Search: ranked results with long extracts of pages, no written answer; needs a key (Bearer).

Source: the service's reference of ``POST /search`` and its guide to date filters. The bound is a day that is itself
excluded (``search_before_date_filter``, month/day/year), by the day of publication; a page may have changed since.
Extracts are as long as two bounds allow: one for each page and one for all pages together, which is 10,000 tokens by
default.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, Field, SecretStr

from bot.api import (
    Json,
    PluginContext,
    PluginSettings,
    SearchEngine,
    SearchResult,
    SearchSpec,
    hookimpl,
    plain_snippet,
)
from plugins.search._search_results import ServiceAddress, is_web_address, parse_reply, published_before, search_result

MAX_BYTES = 8_000_000
MAX_RESULTS = 20
TEXT_CHARS = 200_000
SNIPPET_CHARS = 500


class PerplexitySettings(PluginSettings):
    """The key, and how to search."""

    key: SecretStr
    """The API key."""

    base_url: ServiceAddress = "https://api.perplexity.ai"
    """Address of the service."""

    country: str | None = Field(default=None, pattern=r"^[A-Z]{2}$")
    """Country whose results come first, as two letters; unset: none."""

    tokens_per_page: int = Field(default=2048, ge=1, le=10_000)
    """Tokens of the extract of each page."""


class _Result(BaseModel):
    url: str
    title: str | None = None
    snippet: str | None = None
    date: str | None = None


class _Reply(BaseModel):
    results: list[_Result]


class PerplexitySearch:
    """Implements SearchEngine."""

    def __init__(self, settings: PerplexitySettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits; the text is the extract of the page, the snippet its beginning."""
        results = min(limit, MAX_RESULTS)
        asked: dict[str, Json] = {
            "query": query,
            "max_results": results,
            "max_tokens_per_page": self._settings.tokens_per_page,
            "max_tokens": results * self._settings.tokens_per_page,
        }
        if self._settings.country is not None:
            asked["country"] = self._settings.country
        if before is not None:
            asked["search_before_date_filter"] = _first_day_after(before)
        url = f"{self._settings.base_url.rstrip('/')}/search"
        headers = {"Authorization": f"Bearer {self._settings.key.get_secret_value()}"}
        reply = parse_reply(
            _Reply, await self._http.post(url, asked, max_bytes=MAX_BYTES, headers=headers), engine="perplexity"
        )
        return published_before(
            [self._to_search_result(result) for result in reply.results if is_web_address(result.url)], before, limit
        )

    def _to_search_result(self, result: _Result) -> SearchResult:
        text = plain_snippet(result.snippet or "", longest=TEXT_CHARS)
        found = search_result(result.url, result.title, None, result.date, self._clock)
        return replace(found, snippet=text[:SNIPPET_CHARS], text=text)


@asynccontextmanager
async def open_perplexity(settings: PerplexitySettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield PerplexitySearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[PerplexitySettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="perplexity",
            summary="Web search with long extracts and a date bound in days; needs a key",
            bounds_dates=True,
            settings=PerplexitySettings,
            open=open_perplexity,
        )
    ]


def _first_day_after(before: datetime) -> str:
    """Return, as month/day/year, the first day (UTC) that begins at the bound or after it."""
    last = before.astimezone(UTC) - timedelta(microseconds=1)
    return f"{last + timedelta(days=1):%m/%d/%Y}"
