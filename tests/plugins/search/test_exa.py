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
from plugins.search.exa import ExaSearch, ExaSettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NOON, SECOND_LATER, as_json

SETTINGS = ExaSettings(key=SecretStr("exa-not-a-real-key"))
RESULTS = [
    {
        "id": "https://harbour.example/lanterns",
        "title": "Lanterns of the harbour",
        "url": "https://harbour.example/lanterns",
        "publishedDate": "2026-03-04T23:59:59.500Z",
        "author": "A. Keeper",
        "score": 0.42,
        "text": "All seven lanterns\u0000 are lit.\n\n\n\nThe keeper counted them.",
        "image": "https://harbour.example/lamp.png",
    },
    {"id": "2", "title": None, "url": "https://untitled.example/", "publishedDate": None, "text": "Words."},
    {"id": "3", "title": "Old", "url": "https://old.example/", "publishedDate": "2020-02-01", "author": None},
]
REPLY = {
    "requestId": "b5947044c4b78efa9552a7c89b306d95",
    "resolvedSearchType": "neural",
    "results": RESULTS,
    "costDollars": {"total": 0.005},
}


async def search(
    answer: object, *, settings: ExaSettings = SETTINGS, before: datetime | None = None, limit: int = 10
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    engine = ExaSearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search("who lights the lanterns?", before=before, limit=limit)
    return list(hits), http.requests[0]


class TestExa(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "exa-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json({"requestId": "1", "results": [RESULTS[0], RESULTS[2]]})
    empty = as_json({"requestId": "0", "results": []})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"results": None}),
        as_json({"results": ["https://a.example"]}),
        as_json({"error": "no"}),
    )
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "2026-03-05T00:00:00.000Z",
        SECOND_LATER: "2026-03-05T00:00:01.000Z",
        NOON: "2026-03-05T12:00:00.000Z",
        LEAP_DAY: "2024-03-01T00:00:00.000Z",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        assert isinstance(asked.body, dict)
        return asked.body.get("endPublishedDate")


async def test_the_request_is_the_documented_one() -> None:
    _, asked = await search(REPLY, limit=500)
    assert asked.url == "https://api.exa.ai/search"
    assert asked.headers == {"x-api-key": "exa-not-a-real-key"}
    assert asked.body == {
        "query": "who lights the lanterns?",
        "type": "auto",
        "numResults": 100,
        "contents": {"text": {"maxCharacters": 10_000}},
    }


async def test_the_settings_reach_the_request() -> None:
    settings = ExaSettings(key=SecretStr("k"), kind="fast", category="news", country="DE", text_chars=500)
    _, asked = await search(REPLY, settings=settings)
    assert isinstance(asked.body, dict)
    assert (asked.body["type"], asked.body["category"], asked.body["userLocation"]) == ("fast", "news", "DE")
    assert asked.body["contents"] == {"text": {"maxCharacters": 500}}


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    text = "All seven lanterns are lit.\n\nThe keeper counted them."
    assert hits == [
        SearchResult(
            url="https://harbour.example/lanterns",
            title="Lanterns of the harbour",
            snippet=text,
            published_at=datetime(2026, 3, 4, 23, 59, 59, 500_000, tzinfo=UTC),
            text=text,
        ),
        SearchResult(url="https://untitled.example/", title="", snippet="Words.", published_at=None, text="Words."),
        SearchResult(
            url="https://old.example/", title="Old", snippet="", published_at=datetime(2020, 2, 1, tzinfo=UTC)
        ),
    ]


async def test_the_snippet_is_the_beginning_of_the_text_and_both_are_cut() -> None:
    (hit,), _ = await search({"results": [{"url": "https://a.example", "title": "t", "text": "w" * 300_000}]})
    assert (len(hit.snippet), len(hit.text)) == (500, 200_000)


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^exa: results\.0\.publishedDate: "):
        await search({"results": [{"url": "https://a.example", "publishedDate": 20260304}]})
