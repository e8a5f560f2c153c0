"""Exa: search by meaning that brings the text of pages; needs a key (``x-api-key``).

Source: the service's reference of ``POST /search``. The bound is a moment (``endPublishedDate``). The text is as the
service last read the page, which may be after the day on which it was published.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bot.api import Can, Hit, Json, SearchEngine, SearchSpec, Settings, Workplace, hookimpl, parse_date, plain_snippet
from plugins.search._results import Address, in_time, is_web, parsed

MAX_BYTES = 32_000_000
MAX_RESULTS = 100
TEXT_CHARS = 200_000
SNIPPET_CHARS = 500


class ExaSettings(Settings):
    """The key, and how to search."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    key: SecretStr
    """The API key."""

    base_url: Address = "https://api.exa.ai"
    """Where the service is."""

    kind: Literal["auto", "neural", "fast"] = "auto"
    """How it searches; ``auto`` leaves the choice to the service."""

    category: Literal["news", "research paper", "financial report"] | None = None
    """Search only pages of this kind."""

    country: str | None = Field(default=None, pattern=r"^[A-Z]{2}$")
    """The country of the one who asks, by its two letters."""

    text_chars: int = Field(default=10_000, ge=500, le=TEXT_CHARS)
    """How much text of each page to bring, in characters."""


class _Result(BaseModel):
    url: str
    title: str | None = None
    published: str | None = Field(default=None, alias="publishedDate")
    text: str | None = None


class _Reply(BaseModel):
    results: list[_Result]


class Exa:
    """Implements the port SearchEngine."""

    def __init__(self, settings: ExaSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http
        self._clock = workplace.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
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
        reply = parsed(_Reply, body, engine="exa")
        return in_time([self._hit(result) for result in reply.results if is_web(result.url)], before, limit)

    def _hit(self, result: _Result) -> Hit:
        text = plain_snippet(result.text or "", longest=TEXT_CHARS)
        return Hit(
            url=result.url,
            title=plain_snippet(result.title or "", longest=500),
            snippet=text[:SNIPPET_CHARS],
            published_at=parse_date(result.published, now=self._clock.now()),
            text=text,
        )


@asynccontextmanager
async def open_exa(settings: ExaSettings, workplace: Workplace) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield Exa(settings, workplace)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[ExaSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="exa",
            summary="Search by meaning with the text of pages and an exact date bound; needs a key",
            abilities=frozenset({Can.SEARCH_BEFORE_DATE, Can.SEARCH_TEXT}),
            settings=ExaSettings,
            open=open_exa,
        )
    ]
