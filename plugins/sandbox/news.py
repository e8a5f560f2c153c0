"""The press of the simulated world as a search engine: results have the date of publication and the whole text.

Like real engines it shows articles as they are today: one that was rewritten later comes with its old date.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel

from bot.api import PluginContext, SearchEngine, SearchResult, plain_snippet
from plugins.sandbox.settings import SandboxSettings, parse_reply

ENGINE = "sandbox_news"
MAX_BYTES = 4_000_000
MAX_RESULTS = 20
# The maximum length of a hit.
TITLE_CHARS, TEXT_CHARS = 500, 20_000


class _Result(BaseModel):
    url: str
    title: str
    outlet: str
    snippet: str
    text: str
    published: AwareDatetime


class _Reply(BaseModel):
    # An answer without this field is not from the sandbox.
    simulation: Literal[True]
    results: list[_Result]


class SandboxNews:
    """Implements SearchEngine."""

    def __init__(self, settings: SandboxSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        asked = {"q": query, "n": str(min(limit, MAX_RESULTS))}
        if before is not None:
            asked["before"] = before.astimezone(UTC).isoformat()
        body = await self._http.get(self._settings.request_url("search", asked), max_bytes=MAX_BYTES)
        hits = [
            _to_search_result(result)
            for result in parse_reply(_Reply, body, ENGINE).results
            if _is_web_address(result.url)
        ]
        return [hit for hit in hits if before is None or hit.published_at is None or hit.published_at < before][:limit]


@asynccontextmanager
async def open_news(settings: SandboxSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    """Yield the engine; there is nothing to close."""
    yield SandboxNews(settings, context)


def _to_search_result(result: _Result) -> SearchResult:
    return SearchResult(
        url=result.url,
        title=plain_snippet(f"{result.title} ({result.outlet}, simulation)", longest=TITLE_CHARS),
        snippet=plain_snippet(result.snippet),
        text=plain_snippet(result.text, longest=TEXT_CHARS),
        published_at=result.published.astimezone(UTC),
    )


def _is_web_address(url: str) -> bool:
    return url.startswith(("https://", "http://")) and url.isprintable()
