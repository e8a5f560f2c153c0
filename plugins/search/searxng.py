"""SearXNG: a metasearch engine that you run yourself; needs no key, but an instance that allows JSON.

Source: the project's page on its search API. Its ``time_range`` counts back from today, so it cannot bound dates and
refuses to search before a moment. An instance without ``json`` among its formats answers 403, which is raised as
AuthenticationError: add it to ``search.formats`` in the instance's ``settings.yml``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from bot.api import LeakError, PluginContext, PluginSettings, SearchEngine, SearchResult, SearchSpec, hookimpl
from plugins.search._search_results import is_web_address, parse_reply, search_result

MAX_BYTES = 8_000_000


class SearxngSettings(PluginSettings):
    """The address of the instance, and what it searches."""

    base_url: str = Field(pattern=r"^https?://")
    """Address of the instance, such as `http://127.0.0.1:8888`."""

    categories: str = Field(default="general", pattern=r"^[a-z ]+(,[a-z ]+)*$")
    """Categories to search, separated by commas (`general,news`)."""

    language: str = Field(default="en", pattern=r"^(all|auto|[a-z]{2}(-[A-Z]{2})?)$")
    """Language of results, or `all`."""

    time_range: Literal["day", "month", "year"] | None = None
    """The largest age of results; unset: any."""


class _Result(BaseModel):
    # Some kinds of result have none.
    url: str | None = None
    title: str | None = None
    content: str | None = None
    published: str | None = Field(default=None, alias="publishedDate")


class _Reply(BaseModel):
    results: list[_Result]


class SearxngSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: SearxngSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits of the first page; raises LeakError where a moment is given."""
        if before is not None:
            message = "searxng cannot bound the dates of what it finds; use another engine where a cutoff is set"
            raise LeakError(message)
        asked = {
            "q": query,
            "format": "json",
            "categories": self._settings.categories,
            "language": self._settings.language,
        }
        if self._settings.time_range is not None:
            asked["time_range"] = self._settings.time_range
        url = f"{self._settings.base_url.rstrip('/')}/search?{urlencode(asked)}"
        reply = parse_reply(
            _Reply,
            await self._http.get(url, max_bytes=MAX_BYTES, headers={"Accept": "application/json"}),
            engine="searxng",
        )
        return [
            self._to_search_result(result, result.url)
            for result in reply.results
            if result.url and is_web_address(result.url)
        ][:limit]

    def _to_search_result(self, result: _Result, url: str) -> SearchResult:
        return search_result(url, result.title, result.content, result.published, self._clock)


@asynccontextmanager
async def open_searxng(settings: SearxngSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield SearxngSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SearxngSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="searxng",
            summary="Metasearch with your own instance; no key, no date bound",
            settings=SearxngSettings,
            open=open_searxng,
        )
    ]
