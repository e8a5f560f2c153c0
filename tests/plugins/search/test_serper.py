"""Replies in the form of the service's playground for POST /search."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.serper import SerperSearch, SerperSettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NEW_YEAR, NOON, SECOND_LATER, as_json

SETTINGS = SerperSettings(key=SecretStr("serper-not-a-real-key"))
REPLY = {
    "searchParameters": {"q": "lanterns", "gl": "us", "hl": "en", "num": 10, "type": "search", "engine": "google"},
    "knowledgeGraph": {"title": "Lantern", "type": "Lighting"},
    "organic": [
        {
            "title": "Lanterns lit",
            "link": "https://harbour.example/lanterns",
            "snippet": "All seven lanterns are lit ...",
            "date": "Mar 4, 2026",
            "sitelinks": [{"title": "More", "link": "https://harbour.example/more"}],
            "position": 1,
        },
        {"title": "Lamps", "link": "https://lamp.example/", "snippet": "Lamps.", "date": "3 days ago", "position": 2},
        {"title": "Undated", "link": "https://undated.example/", "snippet": "Any time.", "position": 3},
    ],
    "peopleAlsoAsk": [],
    "credits": 1,
}


async def search(
    answer: object, *, settings: SerperSettings = SETTINGS, limit: int = 10
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    engine = SerperSearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search("lanterns", before=None, limit=limit)
    return list(hits), http.requests[0]


class TestSerper(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "serper-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json(REPLY)
    empty = as_json({"searchParameters": {"q": "nothing"}, "organic": [], "credits": 1})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"message": "no"}),
        as_json({"organic": {}}),
        as_json({"organic": [{"title": "t"}]}),
    )
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "cdr:1,cd_min:1/1/1990,cd_max:3/4/2026",
        SECOND_LATER: "cdr:1,cd_min:1/1/1990,cd_max:3/5/2026",
        NOON: "cdr:1,cd_min:1/1/1990,cd_max:3/5/2026",
        LEAP_DAY: "cdr:1,cd_min:1/1/1990,cd_max:2/29/2024",
        NEW_YEAR: "cdr:1,cd_min:1/1/1990,cd_max:12/31/2025",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        assert isinstance(asked.body, dict)
        return asked.body.get("tbs")


async def test_the_request_is_the_documented_one() -> None:
    settings = SerperSettings(key=SecretStr("k"), country="de", language="de")
    _, asked = await search(REPLY, settings=settings, limit=7)
    assert asked.url == "https://google.serper.dev/search"
    assert asked.headers == {"X-API-KEY": "k"}
    assert asked.body == {"q": "lanterns", "num": 7, "gl": "de", "hl": "de"}


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    assert hits[0] == SearchResult(
        url="https://harbour.example/lanterns",
        title="Lanterns lit",
        snippet="All seven lanterns are lit ...",
        published_at=datetime(2026, 3, 4, tzinfo=UTC),
    )
    assert [hit.published_at for hit in hits[1:]] == [datetime(2026, 3, 7, 12, tzinfo=UTC), None]


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^serper: organic\.0\.link: "):
        await search({"organic": [{"title": "t", "link": None}]})
