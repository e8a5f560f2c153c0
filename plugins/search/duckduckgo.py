"""DuckDuckGo by way of ddgs, which reads result pages: no key and no promise; it breaks when a page changes.

The library makes its own requests, with its own client, so neither our limits nor our errors hold there: it runs in a
thread, one search at a time, with a time-out. It brings no dates and refuses to search before a moment. A page that
refuses us looks like one without results. Source: ddgs 9.16 as installed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bot.api import (
    ConfigError,
    Hit,
    LeakError,
    Rejected,
    SearchEngine,
    SearchSpec,
    Settings,
    Unavailable,
    Workplace,
    hookimpl,
    plain_snippet,
)
from plugins.search._results import is_web, unlike

# The library tells an empty page from a fault by these words alone.
NOTHING = "No results found."


class DuckDuckGoSettings(Settings):
    """How to search."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    region: str = Field(default="us-en", pattern=r"^[a-z]{2}-[a-z]{2}$")
    """Country and language of the results."""

    safesearch: Literal["on", "moderate", "off"] = "moderate"
    """How strictly pages for adults are left out."""

    freshness: Literal["d", "w", "m", "y"] | None = None
    """How old results may be, counted back from today: a day, week, month or year."""

    timeout_s: int = Field(default=20, ge=1, le=120)
    """How long a search may take."""


class Library(Protocol):
    """What is used of the library's class DDGS."""

    def text(self, query: str, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the library's signature
        """Return results; raises DDGSException, also where there are none."""
        ...


class _Result(BaseModel):
    href: str
    title: str | None = None
    body: str | None = None


_RESULTS = TypeAdapter(list[_Result])


class DuckDuckGo:
    """Implements the port SearchEngine; ``connect`` makes the library's searcher for a time-out in seconds."""

    def __init__(
        self, settings: DuckDuckGoSettings, *, connect: Callable[..., Library], fault: type[Exception]
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._fault = fault
        self._turn = asyncio.Lock()

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        """Return at most ``limit`` undated hits; raises LeakError where a moment is given."""
        if before is not None:
            message = "duckduckgo cannot bound the dates of what it finds; use another engine where a cutoff is set"
            raise LeakError(message)
        if not query.strip():
            message = "duckduckgo: the query is empty"
            raise Rejected(message)
        async with self._turn:
            results = _parsed(await self._ask(query, limit))
        return [
            Hit(
                url=result.href,
                title=plain_snippet(result.title or "", longest=500),
                snippet=plain_snippet(result.body or ""),
                published_at=None,
            )
            for result in results
            if is_web(result.href)
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
            # The thread goes on until the library's own time-out, its answer is lost.
            message = f"duckduckgo: no answer within {timeout_s} s"
            raise Unavailable(message) from error
        except self._fault as error:
            if str(error) == NOTHING:
                return []
            # The library's own message may hold the whole request.
            message = f"duckduckgo: {type(error).__name__}"
            raise Unavailable(message) from None


@asynccontextmanager
async def open_duckduckgo(
    settings: DuckDuckGoSettings,
    workplace: Workplace,  # noqa: ARG001 - the library brings its own HTTP
) -> AsyncIterator[SearchEngine]:
    """Yield the engine; raises ConfigError where the library is not installed."""
    try:
        from ddgs import DDGS  # noqa: PLC0415 - an extra that most installations do without
        from ddgs.exceptions import DDGSException  # noqa: PLC0415 - as above
    except ImportError as error:
        message = "the search engine duckduckgo needs the package ddgs; run: pip install 'foxcast[duckduckgo]'"
        raise ConfigError(message) from error
    yield DuckDuckGo(settings, connect=DDGS, fault=DDGSException)


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


def _parsed(results: object) -> list[_Result]:
    try:
        return _RESULTS.validate_python(results)
    except ValidationError as error:
        raise unlike(error, engine="duckduckgo") from None
