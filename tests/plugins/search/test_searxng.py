"""Replies in the form of the project's search API with format=json."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.searxng import SearxngSearch, SearxngSettings, foxcast_search_engines
from tests.plugins.search.shared_values import as_json

SETTINGS = SearxngSettings(base_url="http://searx.home.example:8888/")
REPLY = {
    "query": "lanterns",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://harbour.example/lanterns",
            "title": "Lanterns lit",
            "content": "All seven lanterns are lit.",
            "publishedDate": "2026-03-04T08:12:00",
            "engine": "bing",
            "engines": ["bing", "yahoo"],
            "positions": [1],
            "score": 2.0,
            "category": "general",
        },
        {"url": "https://lamp.example/", "title": "Lamps", "content": "", "publishedDate": None, "engine": "yahoo"},
        {"title": "A box of facts without an address", "template": "keyvalue.html"},
        {"url": "magnet:?xt=urn:btih:0", "title": "No page", "content": "x", "engine": "torrents"},
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": ["lamps"],
    "unresponsive_engines": [["brave", "timeout"]],
}


async def search(answer: object, settings: SearxngSettings = SETTINGS) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    engine = SearxngSearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search("who & what", before=None, limit=10)
    return list(hits), http.requests[0]


class TestSearxng(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    reply = as_json(REPLY)
    empty = as_json({"query": "nothing", "number_of_results": 0, "results": []})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"results": None}),
        as_json({"results": [[]]}),
        as_json({"results": [{"url": 1}]}),
    )


async def test_the_request_is_the_documented_one() -> None:
    settings = SearxngSettings(
        base_url="https://searx.example", categories="general,news", language="de", time_range="month"
    )
    _, asked = await search(REPLY, settings)
    assert asked.url.startswith("https://searx.example/search?")
    assert parse_qs(urlsplit(asked.url).query) == {
        "q": ["who & what"],
        "format": ["json"],
        "categories": ["general,news"],
        "language": ["de"],
        "time_range": ["month"],
    }
    assert asked.headers == {"Accept": "application/json"}


async def test_a_reply_becomes_hits_without_what_has_no_address() -> None:
    hits, asked = await search(REPLY)
    assert asked.url.startswith("http://searx.home.example:8888/search?")
    assert hits == [
        SearchResult(
            url="https://harbour.example/lanterns",
            title="Lanterns lit",
            snippet="All seven lanterns are lit.",
            published_at=datetime(2026, 3, 4, 8, 12, tzinfo=UTC),
        ),
        SearchResult(url="https://lamp.example/", title="Lamps", snippet="", published_at=None),
    ]


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^searxng: results\.0\.content: "):
        await search({"results": [{"url": "https://a.example", "content": {}}]})


def test_the_address_of_an_instance_is_required() -> None:
    with pytest.raises(ValidationError, match="base_url"):
        SearxngSettings.model_validate({})
    with pytest.raises(ValidationError, match="base_url"):
        SearxngSettings(base_url="searx.example")
