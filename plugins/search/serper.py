"""Serper: the results of Google as JSON; needs a key (``X-API-KEY``).

Sources: the service's playground for ``POST /search``; the date range is Google's own ``tbs=cdr:1``, in whole days
with both ends included. Google dates few pages, in words (``Mar 4, 2026``, ``3 days ago``).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bot.api import Can, Hit, Json, SearchEngine, SearchSpec, Settings, Workplace, hookimpl
from plugins.search._results import Address, hit, in_time, is_web, parsed

MAX_BYTES = 4_000_000
MAX_RESULTS = 100
EARLIEST = "1/1/1990"


class SerperSettings(Settings):
    """The key, and for whom to search."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    key: SecretStr
    """The API key."""

    base_url: Address = "https://google.serper.dev"
    """Where the service is."""

    country: str = Field(default="us", pattern=r"^[a-z]{2}$")
    """The country of the one who asks, by its two letters (Google's ``gl``)."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}(-[a-z]{2})?$")
    """The language of the result page (Google's ``hl``); only dates in English are understood."""


class _Result(BaseModel):
    link: str
    title: str | None = None
    snippet: str | None = None
    date: str | None = None


class _Reply(BaseModel):
    organic: list[_Result]


class Serper:
    """Implements the port SearchEngine."""

    def __init__(self, settings: SerperSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http
        self._clock = workplace.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        """Return at most ``limit`` hits; the service counts more than ten results as two searches."""
        asked: dict[str, Json] = {
            "q": query,
            "num": min(limit, MAX_RESULTS),
            "gl": self._settings.country,
            "hl": self._settings.language,
        }
        if before is not None:
            asked["tbs"] = f"cdr:1,cd_min:{EARLIEST},cd_max:{_last_day(before)}"
        url = f"{self._settings.base_url.rstrip('/')}/search"
        headers = {"X-API-KEY": self._settings.key.get_secret_value()}
        body = await self._http.post(url, asked, max_bytes=MAX_BYTES, headers=headers)
        reply = parsed(_Reply, body, engine="serper")
        return in_time([self._hit(result) for result in reply.organic if is_web(result.link)], before, limit)

    def _hit(self, result: _Result) -> Hit:
        return hit(result.link, result.title, result.snippet, result.date, self._clock)


@asynccontextmanager
async def open_serper(settings: SerperSettings, workplace: Workplace) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield Serper(settings, workplace)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SerperSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="serper",
            summary="The results of Google with a date bound in days; needs a key",
            abilities=frozenset({Can.SEARCH_BEFORE_DATE}),
            settings=SerperSettings,
            open=open_serper,
        )
    ]


def _last_day(before: datetime) -> str:
    """Return, as month/day/year, the last day (UTC) of which at least a moment lies before the bound."""
    last = before.astimezone(UTC) - timedelta(microseconds=1)
    return f"{last.month}/{last.day}/{last.year}"
