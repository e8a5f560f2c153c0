"""AskNews: an archive of news with machine-written summaries and exact times; needs a key (Bearer).

Sources: the service's SDK for ``GET /v1/news/search``, its page on rate limits. The smallest plan allows one request at
a time and one in ten seconds for the whole account, so searches of this engine wait for each other. Callers give up
after half a minute, so a search that would wait too long for an answer fails at once and makes room for the others.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field, SecretStr

from bot.api import (
    PluginContext,
    PluginSettings,
    SearchEngine,
    SearchResult,
    SearchSpec,
    ServiceUnavailableError,
    hookimpl,
)
from plugins.search._search_results import ServiceAddress, is_web_address, parse_reply, published_before, search_result

MAX_BYTES = 16_000_000
MAX_RESULTS = 100
# Half of the time of a search; the other half is for the answer.
MAX_WAIT_S = 15.0


class AskNewsSettings(PluginSettings):
    """The key, what to search, and how fast."""

    key: SecretStr
    """The API key."""

    base_url: ServiceAddress = "https://api.asknews.app"
    """Address of the service."""

    method: Literal["nl", "kw", "both"] = "nl"
    """Search by meaning (`nl`), by keywords (`kw`), or by both."""

    archive: bool = True
    """Search the archive, at five requests a search; false searches the last 48 hours, at one."""

    days_back: int = Field(default=365, ge=1, le=36_500)
    """Days before the cutoff that an article may be old."""

    interval_s: float = Field(default=10.0, ge=0.0)
    """Seconds between two requests; above 15, a search does not wait for another."""


class _Article(BaseModel):
    article_url: str
    title: str | None = None
    eng_title: str | None = None
    summary: str | None = None
    key_points: list[str] | None = None
    pub_date: str | None = None


class _Reply(BaseModel):
    as_dicts: list[_Article]


class AskNewsSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: AskNewsSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock
        self._lock = asyncio.Lock()
        self._free_at = 0.0
        self._queue_length = 0

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits, once it is this search's turn.

        Raises ServiceUnavailableError if that would take too long.
        """
        end = (before or self._clock.now()) - timedelta(microseconds=1)
        asked = {
            "query": query,
            "n_articles": str(min(limit, MAX_RESULTS)),
            "return_type": "dicts",
            "method": self._settings.method,
            "historical": str(self._settings.archive).lower(),
            "start_timestamp": str(int((end - timedelta(days=self._settings.days_back)).timestamp())),
        }
        if before is not None:
            # The second that contains the last moment before the bound; results from later in it are dropped below.
            asked["end_timestamp"] = str(int(end.timestamp()))
        reply = parse_reply(
            _Reply,
            await self._get(f"{self._settings.base_url.rstrip('/')}/v1/news/search?{urlencode(asked)}"),
            engine="asknews",
        )
        return published_before(
            [self._to_search_result(article) for article in reply.as_dicts if is_web_address(article.article_url)],
            before,
            limit,
        )

    async def _get(self, url: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._settings.key.get_secret_value()}", "Accept": "application/json"}
        self._require_short_queue()
        self._queue_length += 1
        try:
            async with self._lock:
                return await self._ask(url, headers)
        finally:
            self._queue_length -= 1

    def _require_short_queue(self) -> None:
        rest_s = max(0.0, self._free_at - self._clock.monotonic())
        wait_s = rest_s + self._queue_length * self._settings.interval_s
        if wait_s > MAX_WAIT_S:
            message = f"asknews: {self._queue_length} searches wait before this one, which takes {wait_s:.0f} s"
            raise ServiceUnavailableError(message, retry_after_s=wait_s)

    async def _ask(self, url: str, headers: dict[str, str]) -> bytes:
        if (wait_s := self._free_at - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(wait_s)
        try:
            return await self._http.get(url, max_bytes=MAX_BYTES, headers=headers)
        finally:
            # From the end, because the reader may have tried more than once.
            self._free_at = self._clock.monotonic() + self._settings.interval_s

    def _to_search_result(self, article: _Article) -> SearchResult:
        # The service plans to replace summaries by key points; most articles have both.
        excerpt = "\n".join(part for part in (article.summary, *(article.key_points or ())) if part)
        return search_result(
            article.article_url, article.eng_title or article.title, excerpt, article.pub_date, self._clock
        )


@asynccontextmanager
async def open_asknews(settings: AskNewsSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield AskNewsSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[AskNewsSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="asknews",
            summary="News of many languages as summaries, with an exact date bound; slow, needs a key",
            bounds_dates=True,
            settings=AskNewsSettings,
            open=open_asknews,
        )
    ]
