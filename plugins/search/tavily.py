"""Tavily: search made for agents, with the text of pages; needs a key (``Authorization: Bearer``).

Source: the service's reference of ``POST /search``. The bound is in whole days (``end_date``, that day included), by
the day of publication or of the last change. Only the topic ``news`` returns dates, so hits of the others are undated.
A used-up plan (432, 433) is raised as RequestRejectedError with the service's own words.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator

from bot.api import (
    Json,
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

MAX_BYTES = 32_000_000
MAX_RESULTS = 20
# The service refuses longer queries.
MAX_CHARS = 400
TEXT_CHARS = 200_000


class TavilySettings(PluginSettings):
    """The key, and how to search."""

    key: SecretStr
    """The API key."""

    base_url: ServiceAddress = "https://api.tavily.com"
    """Address of the service."""

    topic: Literal["general", "news", "finance"] = "general"
    """What is searched; only `news` brings dates."""

    depth: Literal["basic", "advanced"] = "basic"
    """How thoroughly; `advanced` costs two credits a search instead of one."""

    country: str | None = Field(default=None, pattern=r"^[a-z][a-z ]+$")
    """Country whose results come first, by its English name (`united states`); only with topic `general`. Unset:
    none."""

    @model_validator(mode="after")
    def _require_general_topic(self) -> Self:
        if self.country is not None and self.topic != "general":
            message = "the service accepts a country only with topic = 'general'; remove country or change topic"
            raise ValueError(message)
        return self


class _Result(BaseModel):
    url: str
    title: str | None = None
    content: str | None = None
    raw_content: str | None = None
    published_date: str | None = None


class _Reply(BaseModel):
    results: list[_Result]


class TavilySearch:
    """Implements SearchEngine."""

    def __init__(self, settings: TavilySettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits with text; a query is cut to the 400 characters that the service accepts."""
        asked: dict[str, Json] = {
            "query": query[:MAX_CHARS],
            "topic": self._settings.topic,
            "search_depth": self._settings.depth,
            "max_results": min(limit, MAX_RESULTS),
            "include_raw_content": "text",
            "include_answer": False,
        }
        if self._settings.country is not None:
            asked["country"] = self._settings.country
        if before is not None:
            asked["end_date"] = last_day_before(before).isoformat()
        url = f"{self._settings.base_url.rstrip('/')}/search"
        headers = {"Authorization": f"Bearer {self._settings.key.get_secret_value()}"}
        body = await self._http.post(url, asked, max_bytes=MAX_BYTES, headers=headers)
        reply = parse_reply(_Reply, body, engine="tavily")
        return published_before(
            [self._to_search_result(result) for result in reply.results if is_web_address(result.url)], before, limit
        )

    def _to_search_result(self, result: _Result) -> SearchResult:
        return SearchResult(
            url=result.url,
            title=plain_snippet(result.title or "", longest=500),
            snippet=plain_snippet(result.content or ""),
            published_at=parse_date(result.published_date, now=self._clock.now()),
            text=plain_snippet(result.raw_content or "", longest=TEXT_CHARS),
        )


@asynccontextmanager
async def open_tavily(settings: TavilySettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield TavilySearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[TavilySettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="tavily",
            summary="Web or news search with the text of pages and a date bound in days; needs a key",
            bounds_dates=True,
            settings=TavilySettings,
            open=open_tavily,
        )
    ]
