"""AskNews: an archive of news with machine-written summaries and exact times; needs a key (Bearer).

Sources: the service's SDK for ``GET /v1/news/search``, its page on rate limits. The smallest plan allows one request
at a time and one in ten seconds, whoever asks, so searches of this engine wait for each other. Whoever asks gives up
after half a minute, so a search that would stand in line too long for an answer fails at once and leaves the engine to
the others.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bot.api import Can, Hit, SearchEngine, SearchSpec, Settings, Unavailable, Workplace, hookimpl
from plugins.search._results import Address, hit, in_time, is_web, parsed

MAX_BYTES = 16_000_000
MAX_RESULTS = 100
# Half of what a search may take; the other half is for the answer.
LONGEST_WAIT_S = 15.0


class AskNewsSettings(Settings):
    """The key, what to search, and how fast."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    key: SecretStr
    """The API key."""

    base_url: Address = "https://api.asknews.app"
    """Where the service is."""

    method: Literal["nl", "kw", "both"] = "nl"
    """Search by meaning, by keywords, or by both."""

    archive: bool = True
    """Search the archive, at five requests a search; false searches the last 48 hours only, at one."""

    days_back: int = Field(default=365, ge=1, le=36_500)
    """How old an article may be, in days before the bound."""

    interval_s: float = Field(default=10.0, ge=0.0)
    """Time from one request to the next, in seconds; larger plans allow less. Above 15, no search waits for another."""


class _Article(BaseModel):
    article_url: str
    title: str | None = None
    eng_title: str | None = None
    summary: str | None = None
    key_points: list[str] | None = None
    pub_date: str | None = None


class _Reply(BaseModel):
    as_dicts: list[_Article]


class AskNews:
    """Implements the port SearchEngine."""

    def __init__(self, settings: AskNewsSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http
        self._clock = workplace.clock
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        self._in_line = 0

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        """Return at most ``limit`` hits, once it is this search's turn; raises Unavailable if that is too far off."""
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
            # The second that holds the last moment before the bound; what comes later in it is dropped below.
            asked["end_timestamp"] = str(int(end.timestamp()))
        reply = parsed(
            _Reply,
            await self._get(f"{self._settings.base_url.rstrip('/')}/v1/news/search?{urlencode(asked)}"),
            engine="asknews",
        )
        return in_time([self._hit(article) for article in reply.as_dicts if is_web(article.article_url)], before, limit)

    async def _get(self, url: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._settings.key.get_secret_value()}", "Accept": "application/json"}
        self._require_short_line()
        self._in_line += 1
        try:
            async with self._turn:
                return await self._ask(url, headers)
        finally:
            self._in_line -= 1

    def _require_short_line(self) -> None:
        rest_s = max(0.0, self._free_at - self._clock.monotonic())
        wait_s = rest_s + self._in_line * self._settings.interval_s
        if wait_s > LONGEST_WAIT_S:
            message = f"asknews: {self._in_line} searches are in line before this one, that takes {wait_s:.0f} s"
            raise Unavailable(message, retry_after_s=wait_s)

    async def _ask(self, url: str, headers: dict[str, str]) -> bytes:
        if (wait_s := self._free_at - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(wait_s)
        try:
            return await self._http.get(url, max_bytes=MAX_BYTES, headers=headers)
        finally:
            # From the end, because the reader may have tried more than once.
            self._free_at = self._clock.monotonic() + self._settings.interval_s

    def _hit(self, article: _Article) -> Hit:
        # The service means to replace summaries by key points; most articles have both.
        excerpt = "\n".join(part for part in (article.summary, *(article.key_points or ())) if part)
        return hit(article.article_url, article.eng_title or article.title, excerpt, article.pub_date, self._clock)


@asynccontextmanager
async def open_asknews(settings: AskNewsSettings, workplace: Workplace) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield AskNews(settings, workplace)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[AskNewsSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="asknews",
            summary="News of many languages as summaries, with an exact date bound; slow, needs a key",
            abilities=frozenset({Can.SEARCH_BEFORE_DATE}),
            settings=AskNewsSettings,
            open=open_asknews,
        )
    ]
