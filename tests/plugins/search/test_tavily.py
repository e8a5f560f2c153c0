"""Replies in the form of the service's reference for POST /search; dates as the topic news brings them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr, ValidationError

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.tavily import TavilySearch, TavilySettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NEW_YEAR, NOON, SECOND_LATER, as_json

SETTINGS = TavilySettings(key=SecretStr("tvly-not-a-real-key"))
REPLY = {
    "query": "lanterns",
    "answer": None,
    "images": [],
    "results": [
        {
            "title": "Lanterns lit",
            "url": "https://harbour.example/lanterns",
            "content": "All seven <b>lanterns</b> are lit.",
            "score": 0.81,
            "raw_content": "Harbour news\n\nAll seven lanterns are lit.",
            "published_date": "Wed, 04 Mar 2026 22:15:00 GMT",
        },
        {"title": "A lamp", "url": "https://lamp.example/", "content": "One lamp.", "score": 0.4, "raw_content": None},
        {
            "title": "Older",
            "url": "https://older.example/",
            "content": "Long ago.",
            "score": 0.2,
            "raw_content": "Long ago, and far away.",
            "published_date": "Sun, 01 Feb 2026 00:00:00 GMT",
        },
    ],
    "response_time": 1.67,
    "request_id": "123e4567-e89b-12d3-a456-426614174111",
}


async def search(
    answer: object, *, settings: TavilySettings = SETTINGS, query: str = "lanterns", limit: int = 10
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    engine = TavilySearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search(query, before=None, limit=limit)
    return list(hits), http.requests[0]


class TestTavily(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "tvly-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json(REPLY)
    empty = as_json({"query": "nothing", "results": [], "response_time": 0.5})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"detail": {"error": "no"}}),
        as_json({"results": "none"}),
        as_json({"results": [{"title": "t"}]}),
    )
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "2026-03-04",
        SECOND_LATER: "2026-03-05",
        NOON: "2026-03-05",
        LEAP_DAY: "2024-02-29",
        NEW_YEAR: "2025-12-31",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        assert isinstance(asked.body, dict)
        assert not {"days", "time_range"} & asked.body.keys(), "the service refuses these beside end_date"
        return asked.body.get("end_date")


async def test_the_request_is_the_documented_one() -> None:
    _, asked = await search(REPLY, query="q" * 900, limit=50)
    assert asked.url == "https://api.tavily.com/search"
    assert asked.headers == {"Authorization": "Bearer tvly-not-a-real-key"}
    assert asked.body == {
        "query": "q" * 400,
        "topic": "general",
        "search_depth": "basic",
        "max_results": 20,
        "include_raw_content": "text",
        "include_answer": False,
    }


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    assert hits[0] == SearchResult(
        url="https://harbour.example/lanterns",
        title="Lanterns lit",
        snippet="All seven lanterns are lit.",
        published_at=datetime(2026, 3, 4, 22, 15, tzinfo=UTC),
        text="Harbour news\n\nAll seven lanterns are lit.",
    )
    assert (hits[1].published_at, hits[1].text) == (None, "")
    assert hits[2].published_at == datetime(2026, 2, 1, tzinfo=UTC)


async def test_a_country_is_sent_with_the_general_topic() -> None:
    _, asked = await search(REPLY, settings=TavilySettings(key=SecretStr("k"), country="south korea", depth="advanced"))
    assert isinstance(asked.body, dict)
    assert (asked.body["country"], asked.body["search_depth"]) == ("south korea", "advanced")


def test_a_country_with_another_topic_is_refused() -> None:
    with pytest.raises(ValidationError, match="remove country or change topic"):
        TavilySettings(key=SecretStr("k"), topic="news", country="france")


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^tavily: results\.0\.content: "):
        await search({"results": [{"url": "https://a.example", "content": ["many"]}]})
