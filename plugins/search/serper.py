"""Serper: the results of Google as JSON; needs a key (``X-API-KEY``).

Sources: the service's playground for ``POST /search``; the date range is Google's own ``tbs=cdr:1``, in whole days
with both ends included. Google dates few pages, in words (``Mar 4, 2026``, ``3 days ago``).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, Field, SecretStr

from bot.api import Json, PluginContext, PluginSettings, SearchEngine, SearchResult, SearchSpec, hookimpl
from plugins.search._search_results import ServiceAddress, is_web_address, parse_reply, published_before, search_result

MAX_BYTES = 4_000_000
MAX_RESULTS = 100
EARLIEST_DAY = "1/1/1990"


class SerperSettings(PluginSettings):
    """The key, and for whom to search."""

    key: SecretStr
    """The API key."""

    base_url: ServiceAddress = "https://google.serper.dev"
    """Address of the service."""

    country: str = Field(default="us", pattern=r"^[a-z]{2}$")
    """Country of the person who asks, as two letters (Google's `gl`)."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}(-[a-z]{2})?$")
    """Language of the result page (Google's `hl`); only English dates are understood."""


class _Result(BaseModel):
    link: str
    title: str | None = None
    snippet: str | None = None
    date: str | None = None


class _Reply(BaseModel):
    organic: list[_Result]


class SerperSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: SerperSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits; the service counts more than ten results as two searches."""
        asked: dict[str, Json] = {
            "q": query,
            "num": min(limit, MAX_RESULTS),
            "gl": self._settings.country,
            "hl": self._settings.language,
        }
        if before is not None:
            asked["tbs"] = f"cdr:1,cd_min:{EARLIEST_DAY},cd_max:{_format_last_day(before)}"
        url = f"{self._settings.base_url.rstrip('/')}/search"
        headers = {"X-API-KEY": self._settings.key.get_secret_value()}
        body = await self._http.post(url, asked, max_bytes=MAX_BYTES, headers=headers)
        reply = parse_reply(_Reply, body, engine="serper")
        return published_before(
            [self._to_search_result(result) for result in reply.organic if is_web_address(result.link)], before, limit
        )

    def _to_search_result(self, result: _Result) -> SearchResult:
        return search_result(result.link, result.title, result.snippet, result.date, self._clock)


@asynccontextmanager
async def open_serper(settings: SerperSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield SerperSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SerperSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="serper",
            summary="The results of Google with a date bound in days; needs a key",
            bounds_dates=True,
            settings=SerperSettings,
            open=open_serper,
        )
    ]


def _format_last_day(before: datetime) -> str:
    """Return, as month/day/year, the last day (UTC) that begins before the bound."""
    last = before.astimezone(UTC) - timedelta(microseconds=1)
    return f"{last.month}/{last.day}/{last.year}"
