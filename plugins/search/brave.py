"""Brave Search: an index of its own that bounds results by date; needs a key (``X-Subscription-Token``).

Source: the service's reference of ``GET /res/v1/web/search``. The date of a page is its ``page_age``; the bound is in
whole days, so results published later on the last day are dropped here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field, SecretStr

from bot.api import (
    PluginContext,
    PluginSettings,
    SearchEngine,
    SearchResult,
    SearchSpec,
    hookimpl,
    parse_date,
    plain_snippet,
)
from plugins.search._search_results import (
    ServiceAddress,
    is_web_address,
    last_day_before,
    parse_reply,
    published_before,
)

MAX_BYTES = 4_000_000
MAX_RESULTS = 20
# The service refuses longer queries.
MAX_CHARS, MAX_WORDS = 400, 50
EARLIEST_DAY = "1970-01-01"


class BraveSettings(PluginSettings):
    """The key, and where and for whom to search."""

    key: SecretStr
    """The subscription token."""

    base_url: ServiceAddress = "https://api.search.brave.com"
    """Address of the service."""

    country: str = Field(default="US", pattern=r"^([A-Z]{2}|ALL)$")
    """Country whose results come first, as two letters, or `ALL`."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}(-[a-z]+)?$")
    """Language of results."""

    safesearch: Literal["off", "moderate", "strict"] = "moderate"
    """How strictly adult pages are left out."""

    extra_snippets: bool = True
    """Request up to five more snippets of each page; not every subscription has them."""


class _Result(BaseModel):
    title: str | None = None
    url: str
    description: str | None = None
    page_age: str | None = None
    age: str | None = None
    extra_snippets: list[str] | None = None


class _ResultSection(BaseModel):
    results: list[_Result]


class _Reply(BaseModel):
    # Present in every answer; ``web`` is missing where nothing was found.
    type: Literal["search"]
    web: _ResultSection | None = None


class BraveSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: BraveSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits; a query is cut to the 50 words and 400 characters that the service accepts."""
        asked = {
            "q": " ".join(query.split()[:MAX_WORDS])[:MAX_CHARS],
            "count": str(min(limit, MAX_RESULTS)),
            "country": self._settings.country,
            "search_lang": self._settings.language,
            "safesearch": self._settings.safesearch,
            "result_filter": "web",
            "text_decorations": "false",
            "extra_snippets": str(self._settings.extra_snippets).lower(),
        }
        if before is not None:
            asked["freshness"] = f"{EARLIEST_DAY}to{last_day_before(before)}"
        url = f"{self._settings.base_url.rstrip('/')}/res/v1/web/search?{urlencode(asked)}"
        headers = {"X-Subscription-Token": self._settings.key.get_secret_value(), "Accept": "application/json"}
        body = await self._http.get(url, max_bytes=MAX_BYTES, headers=headers)
        reply = parse_reply(_Reply, body, engine="brave")
        return published_before(
            [
                self._to_search_result(result)
                for result in (reply.web.results if reply.web else [])
                if is_web_address(result.url)
            ],
            before,
            limit,
        )

    def _to_search_result(self, result: _Result) -> SearchResult:
        snippets = [result.description or "", *(result.extra_snippets or ())]
        return SearchResult(
            url=result.url,
            title=plain_snippet(result.title or "", longest=500),
            snippet=plain_snippet("\n".join(snippets)),
            published_at=parse_date(result.page_age or result.age, now=self._clock.now()),
        )


@asynccontextmanager
async def open_brave(settings: BraveSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield BraveSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[BraveSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="brave",
            summary="Web search with a date bound in days and up to six snippets a page; needs a key",
            bounds_dates=True,
            settings=BraveSettings,
            open=open_brave,
        )
    ]
