"""Google News as a feed: headlines with exact times; needs no key.

There is no reference, only the operators ``after:`` and ``before:`` of the search, in whole days. Others measured that
``before:`` alone lets later articles through and that both together do not, so both are sent. Results without a date,
or with a later one, are dropped here: the engine may bound dates because each article carries its own. The addresses
are Google's, which redirect to the publisher; the feed names the publisher too, and ``SearchResult.source_url`` passes
that on.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from pydantic import Field

from bot.api import (
    MalformedDataError,
    PluginContext,
    PluginSettings,
    SearchEngine,
    SearchResult,
    SearchSpec,
    hookimpl,
    parse_date,
    plain_snippet,
)
from plugins.search._search_results import is_web_address

MAX_BYTES = 4_000_000


class GoogleNewsSettings(PluginSettings):
    """Whose edition is searched, and how far back."""

    base_url: str = Field(default="https://news.google.com", pattern=r"^https?://")
    """Address of the service."""

    country: str = Field(default="US", pattern=r"^[A-Z]{2}$")
    """Country of the edition, as two letters."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}$")
    """Language of the edition."""

    days_back: int = Field(default=3650, ge=1, le=36_500)
    """Days before the cutoff that an article may be old."""


class GoogleNewsSearch:
    """Implements SearchEngine."""

    def __init__(self, settings: GoogleNewsSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` hits; where a moment is given, only those whose date is known."""
        country, language = self._settings.country, self._settings.language
        asked = {
            "q": query if before is None else f"{query} {self._date_operators(before)}",
            "hl": f"{language}-{country}",
            "gl": country,
            "ceid": f"{country}:{language}",
        }
        url = f"{self._settings.base_url.rstrip('/')}/rss/search?{urlencode(asked)}"
        items = _feed_items(await self._http.get(url, max_bytes=MAX_BYTES))
        hits = [self._to_search_result(item, number) for number, item in enumerate(items)]
        return [hit for hit in hits if before is None or (hit.published_at and hit.published_at < before)][:limit]

    def _date_operators(self, before: datetime) -> str:
        # ``before:`` excludes the day that it names.
        last = before.astimezone(UTC) - timedelta(microseconds=1)
        first = last - timedelta(days=self._settings.days_back)
        return f"after:{first.date()} before:{last.date() + timedelta(days=1)}"

    def _to_search_result(self, item: ET.Element, number: int) -> SearchResult:
        url = (item.findtext("link") or "").strip()
        if not is_web_address(url):
            message = f"google_news: item {number}: link: no address of the web"
            raise MalformedDataError(message)
        return SearchResult(
            url=url,
            title=plain_snippet(item.findtext("title") or "", longest=500),
            snippet=plain_snippet(item.findtext("description") or ""),
            published_at=parse_date(item.findtext("pubDate"), now=self._clock.now()),
            source_url=_publisher_url(item),
        )


@asynccontextmanager
async def open_google_news(settings: GoogleNewsSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield GoogleNewsSearch(settings, context)


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[GoogleNewsSettings]]:
    """Offer the one engine of this plugin."""
    return [
        SearchSpec(
            name="google_news",
            summary="Headlines with exact times, bounded by date; no key, no text",
            bounds_dates=True,
            settings=GoogleNewsSettings,
            first_config=True,
            open=open_google_news,
        )
    ]


def _publisher_url(item: ET.Element) -> str:
    source = item.find("source")
    url = "" if source is None else source.get("url", "").strip()
    return url if is_web_address(url) else ""


def _feed_items(body: bytes) -> list[ET.Element]:
    """Return the articles of a feed.

    Raises MalformedDataError for another document, and for one that declares entities.
    """
    try:
        text = body.decode()
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            message = "google_news: the answer is not a feed: it declares a document type"
            raise MalformedDataError(message)
        feed = ET.fromstring(text)  # noqa: S314 - without a document type there is nothing to expand
    except (ET.ParseError, ValueError) as error:
        message = f"google_news: the answer is not XML: {error}"
        raise MalformedDataError(message) from error
    channel = feed.find("channel")
    if feed.tag != "rss" or channel is None:
        message = f"google_news: there is no channel: the answer is <{feed.tag[:50]}>"
        raise MalformedDataError(message)
    return channel.findall("item")
