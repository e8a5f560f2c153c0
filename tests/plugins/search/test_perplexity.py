"""Replies in the form of the service's reference for POST /search."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.perplexity import PerplexitySearch, PerplexitySettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NEW_YEAR, NOON, SECOND_LATER, as_json

SETTINGS = PerplexitySettings(key=SecretStr("pplx-not-a-real-key"))
REPLY = {
    "results": [
        {
            "title": "Lanterns lit",
            "url": "https://harbour.example/lanterns",
            "snippet": "## Harbour\n\nAll seven lanterns are lit.\u202e",
            "date": "2026-03-04",
            "last_updated": "2026-03-09",
        },
        {"title": "Older", "url": "https://older.example/", "snippet": "Old.", "date": "2025-11-30"},
        {"title": "Undated", "url": "https://undated.example/", "snippet": "Any time.", "date": None},
    ],
    "id": "e38104d5-6bd7-4d82-bc4e-0a21179d1f77",
}


async def search(
    answer: object, *, settings: PerplexitySettings = SETTINGS, limit: int = 10
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    engine = PerplexitySearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search("lanterns", before=None, limit=limit)
    return list(hits), http.requests[0]


class TestPerplexity(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "pplx-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json(REPLY)
    empty = as_json({"results": [], "id": "0"})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"results": {"0": "x"}}),
        as_json({"choices": []}),
        as_json({"results": [None]}),
    )
    # The day named is itself excluded.
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "03/05/2026",
        SECOND_LATER: "03/06/2026",
        NOON: "03/06/2026",
        LEAP_DAY: "03/01/2024",
        NEW_YEAR: "01/01/2026",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        assert isinstance(asked.body, dict)
        return asked.body.get("search_before_date_filter")


async def test_the_request_is_the_documented_one() -> None:
    settings = PerplexitySettings(key=SecretStr("k"), country="GB", tokens_per_page=256)
    _, asked = await search(REPLY, settings=settings, limit=99)
    assert asked.url == "https://api.perplexity.ai/search"
    assert asked.headers == {"Authorization": "Bearer k"}
    assert asked.body == {
        "query": "lanterns",
        "max_results": 20,
        "max_tokens_per_page": 256,
        "max_tokens": 5_120,
        "country": "GB",
    }


async def test_there_is_room_for_the_whole_extract_of_every_page() -> None:
    _, asked = await search(REPLY, limit=10)
    assert isinstance(asked.body, dict)
    assert (asked.body["max_tokens_per_page"], asked.body["max_tokens"]) == (2_048, 20_480)


async def test_an_extract_is_kept_whole_and_the_snippet_is_its_beginning() -> None:
    (hit,), _ = await search({"results": [{"url": "https://a.example", "title": "t", "snippet": "w" * 9_000}]})
    assert (len(hit.snippet), len(hit.text)) == (500, 9_000)


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    assert hits[0] == SearchResult(
        url="https://harbour.example/lanterns",
        title="Lanterns lit",
        snippet="## Harbour\n\nAll seven lanterns are lit.",
        published_at=datetime(2026, 3, 4, tzinfo=UTC),
        text="## Harbour\n\nAll seven lanterns are lit.",
    )
    assert [hit.published_at for hit in hits[1:]] == [datetime(2025, 11, 30, tzinfo=UTC), None]


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^perplexity: results\.1\.snippet: "):
        await search({"results": [REPLY["results"][0], {"url": "https://a.example", "snippet": 1}]})
