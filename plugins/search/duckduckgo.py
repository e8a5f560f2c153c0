"""DuckDuckGo through ddgs, which reads result pages: no key and no promise; it breaks when a page changes.

The library makes its own requests, with its own client, so neither our limits nor our errors apply there: it runs in a
thread, one search at a time, with a time-out. It returns no dates and refuses to search before a moment. A page that
refuses us looks like one without results. Source: ddgs 9.16 as installed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from bot.api import (
    ConfigError,
    LeakError,
    PluginContext,
    PluginSettings,
    RequestRejectedError,
    SearchEngine,
    SearchResult,
    SearchSpec,
    ServiceUnavailableError,
    hookimpl,
    plain_snippet,
)
from plugins.search._search_results import is_web_address, malformed_reply

# Only by these words does the library tell an empty page from a fault.
NO_RESULTS_MESSAGE = "No results found."


class DuckDuckGoSettings(PluginSettings):
    """How to search."""

    region: str = Field(default="us-en", pattern=r"^[a-z]{2}-[a-z]{2}$")
    """Country and language of results."""

    safesearch: Literal["on", "moderate", "off"] = "moderate"
    """How strictly adult pages are left out."""

    freshness: Literal["d", "w", "m", "y"] | None = None
    """The largest age of results: a day (`d`), week, month or year; unset: any."""

    timeout_s: int = Field(default=20, ge=1, le=120)
    """Seconds that a search may take."""


class DdgsClient(Protocol):
    """The part of the library's class DDGS that is used."""

    def text(self, query: str, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the library's signature
        """Return results; raises DDGSException, also where there are none."""
        ...


class _Result(BaseModel):
    href: str
    title: str | None = None
    body: str | None = None


_RESULTS_ADAPTER = TypeAdapter(list[_Result])


class DuckDuckGoSearch:
    """Implements SearchEngine; ``connect`` makes the library's searcher for a time-out in seconds."""

    def __init__(
        self, settings: DuckDuckGoSettings, *, connect: Callable[..., DdgsClient], fault: type[Exception]
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._fault = fault
        self._turn = asyncio.Lock()

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` undated hits; raises LeakError where a moment is given."""
        if before is not None:
            message = "duckduckgo cannot bound the dates of what it finds; use another engine where a cutoff is set"
            raise LeakError(message)
        if not query.strip():
            message = "duckduckgo: the query is empty"
            raise RequestRejectedError(message)
        async with self._turn:
            results = _parse_results(await self._ask(query, limit))
        return [
            SearchResult(
                url=result.href,
                title=plain_snippet(result.title or "", longest=500),
                snippet=plain_snippet(result.body or ""),
                published_at=None,
            )
            for result in results
            if is_web_address(result.href)
        ][:limit]

    async def _ask(self, query: str, limit: int) -> object:
        timeout_s = self._settings.timeout_s
        options = {
            "region": self._settings.region,
            "safesearch": self._settings.safesearch,
            "timelimit": self._settings.freshness,
            "max_results": limit,
            "backend": "duckduckgo",
        }
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.to_thread(lambda: self._connect(timeout=timeout_s).text(query, **options))
        except TimeoutError as error:
            # The thread runs until the library's own time-out; its answer is lost.
            message = f"duckduckgo: no answer within {timeout_s} s"
            raise ServiceUnavailableError(message) from error
        except self._fault as error:
            if str(error) == NO_RESULTS_MESSAGE:
                return []
            # The library's own message may hold the whole request.
            message = f"duckduckgo: {type(error).__name__}"
            raise ServiceUnavailableError(message) from None


@asynccontextmanager
async def open_duckduckgo(
    settings: DuckDuckGoSettings,
    context: PluginContext,  # noqa: ARG001 - the library brings its own HTTP
) -> AsyncIterator[SearchEngine]:
    """Yield the engine; raises ConfigError where the library is not installed."""
    try:
        from ddgs import DDGS  # noqa: PLC0415 - an extra that most installations do without
        from ddgs.exceptions import DDGSException  # noqa: PLC0415 - as above
    except ImportError as error:
        message = "the search engine duckduckgo needs the package ddgs; run: pip install 'foxcast[duckduckgo]'"
        raise ConfigError(message) from error
    yield DuckDuckGoSearch(settings, connect=DDGS, fault=DDGSException)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[DuckDuckGoSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="duckduckgo",
            summary="Web search by reading result pages; no key, no dates, breaks often",
            settings=DuckDuckGoSettings,
            open=open_duckduckgo,
        )
    ]


def _parse_results(results: object) -> list[_Result]:
    try:
        return _RESULTS_ADAPTER.validate_python(results)
    except ValidationError as error:
        raise malformed_reply(error, engine="duckduckgo") from None
