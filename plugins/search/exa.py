"""Exa: search by meaning that returns the text of pages; needs a key (``x-api-key``).

Source: the service's reference of ``POST /search``. The bound is a moment (``endPublishedDate``). The text is from the
service's last visit to the page, which may be after the day on which it was published.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

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
from plugins.search._search_results import ServiceAddress, is_web_address, parse_reply, published_before

MAX_BYTES = 32_000_000
MAX_RESULTS = 100
TEXT_CHARS = 200_000
SNIPPET_CHARS = 500


class ExaSettings(PluginSettings):
    """The key, and how to search."""

    key: SecretStr
    """The API key."""

    base_url: ServiceAddress = "https://api.exa.ai"
    """Address of the service."""

    kind: Literal["auto", "neural", "fast"] = "auto"
    """How it searches; `auto` leaves the choice to the service."""

    category: Literal["news", "research paper", "financial report"] | None = None
    """The only kind of pages to search; unset: all."""

    country: str | None = Field(default=None, pattern=r"^[A-Z]{2}$")
    """Country of the person who asks, as two letters; unset: none."""

    text_chars: int = Field(default=10_000, ge=500, le=TEXT_CHARS)
    """Characters of text that are fetched of each page."""


class _Result(BaseModel):
    url: str
    title: str | None = None
    published: str | None = Field(default=None, alias="publishedDate")
    text: str | None = None


class _Reply(BaseModel):
    results: list[_Result]


class ExaSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: ExaSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits with text; the snippet is the beginning of the text."""
        asked: dict[str, Json] = {
            "query": query,
            "type": self._settings.kind,
            "numResults": min(limit, MAX_RESULTS),
            "contents": {"text": {"maxCharacters": self._settings.text_chars}},
        }
        if self._settings.category is not None:
            asked["category"] = self._settings.category
        if self._settings.country is not None:
            asked["userLocation"] = self._settings.country
        if before is not None:
            asked["endPublishedDate"] = before.astimezone(UTC).isoformat(timespec="milliseconds")[:23] + "Z"
        url = f"{self._settings.base_url.rstrip('/')}/search"
        headers = {"x-api-key": self._settings.key.get_secret_value()}
        body = await self._http.post(url, asked, max_bytes=MAX_BYTES, headers=headers)
        reply = parse_reply(_Reply, body, engine="exa")
        return published_before(
            [self._to_search_result(result) for result in reply.results if is_web_address(result.url)], before, limit
        )

    def _to_search_result(self, result: _Result) -> SearchResult:
        text = plain_snippet(result.text or "", longest=TEXT_CHARS)
        return SearchResult(
            url=result.url,
            title=plain_snippet(result.title or "", longest=500),
            snippet=text[:SNIPPET_CHARS],
            published_at=parse_date(result.published, now=self._clock.now()),
            text=text,
        )


@asynccontextmanager
async def open_exa(settings: ExaSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield ExaSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[ExaSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="exa",
            summary="Search by meaning with the text of pages and an exact date bound; needs a key",
            bounds_dates=True,
            settings=ExaSettings,
            open=open_exa,
        )
    ]
