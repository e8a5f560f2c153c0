"""Replies in the form of the service's reference for GET /res/v1/web/search."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr, ValidationError

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.brave import BraveSearch, BraveSettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NEW_YEAR, NOON, SECOND_LATER, as_json

SETTINGS = BraveSettings(key=SecretStr("BSA-not-a-real-key"))
REPLY = {
    "type": "search",
    "query": {"original": "lanterns", "more_results_available": True},
    "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": False}]},
    "web": {
        "type": "search",
        "family_friendly": True,
        "results": [
            {
                "type": "search_result",
                "title": "Lanterns &amp; lamps",
                "url": "https://harbour.example/lanterns",
                "is_source_local": False,
                "description": "The <strong>lanterns</strong> are lit\u0000 at dusk.",
                "page_age": "2026-03-04T08:12:00",
                "age": "March 4, 2026",
                "language": "en",
                "meta_url": {"scheme": "https", "hostname": "harbour.example"},
                "extra_snippets": ["Seven were counted.", "None was broken."],
            },
            {
                "title": "Old lanterns",
                "url": "https://museum.example/old",
                "description": "From 1890.",
                "age": "2 days ago",
            },
            {"title": "Undated", "url": "http://undated.example/", "description": None, "page_age": None},
        ],
    },
}


async def search(
    answer: object, *, settings: BraveSettings = SETTINGS, query: str = "q", limit: int = 10
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(answer if isinstance(answer, bytes) else as_json(answer))
    engine = BraveSearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search(query, before=None, limit=limit)
    return list(hits), http.requests[0]


class TestBrave(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "BSA-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json(REPLY)
    empty = as_json({"type": "search", "query": {"original": "nothing"}})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"type": "ErrorResponse", "error": {"status": 200}}),
        as_json({"type": "search", "web": []}),
        as_json({"type": "search", "web": {"results": {}}}),
        as_json({"type": "search", "web": {"results": [{"title": "No address"}]}}),
    )
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "1970-01-01to2026-03-04",
        SECOND_LATER: "1970-01-01to2026-03-05",
        NOON: "1970-01-01to2026-03-05",
        LEAP_DAY: "1970-01-01to2024-02-29",
        NEW_YEAR: "1970-01-01to2025-12-31",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        return parse_qs(urlsplit(asked.url).query).get("freshness", [None])[0]


async def test_the_request_is_the_documented_one() -> None:
    _, asked = await search(REPLY, query="who & what", limit=7)
    parts = urlsplit(asked.url)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://api.search.brave.com/res/v1/web/search"
    assert parse_qs(parts.query) == {
        "q": ["who & what"],
        "count": ["7"],
        "country": ["US"],
        "search_lang": ["en"],
        "safesearch": ["moderate"],
        "result_filter": ["web"],
        "text_decorations": ["false"],
        "extra_snippets": ["true"],
    }
    assert asked.headers == {"X-Subscription-Token": "BSA-not-a-real-key", "Accept": "application/json"}
    assert asked.body is None


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    assert hits == [
        SearchResult(
            url="https://harbour.example/lanterns",
            title="Lanterns & lamps",
            snippet="The lanterns are lit at dusk.\nSeven were counted.\nNone was broken.",
            published_at=datetime(2026, 3, 4, 8, 12, tzinfo=UTC),
        ),
        SearchResult(
            url="https://museum.example/old",
            title="Old lanterns",
            snippet="From 1890.",
            published_at=datetime(2026, 3, 8, 12, tzinfo=UTC),
        ),
        SearchResult(url="http://undated.example/", title="Undated", snippet="", published_at=None),
    ]


async def test_no_more_than_twenty_results_are_asked_for() -> None:
    _, asked = await search(REPLY, limit=1000)
    assert "&count=20&" in asked.url


async def test_a_query_is_cut_to_what_the_service_takes() -> None:
    for query in ("word " * 80, "w" * 900):
        _, asked = await search(REPLY, query=query)
        (sent,) = parse_qs(urlsplit(asked.url).query)["q"]
        assert len(sent) <= 400
        assert len(sent.split()) <= 50


async def test_a_fault_names_the_field() -> None:
    answer = {
        "type": "search",
        "web": {"results": [{"title": "x", "url": "https://a.example"}, {"title": "x", "url": 7}]},
    }
    with pytest.raises(MalformedDataError, match=r"^brave: web\.results\.1\.url: "):
        await search(answer)


async def test_a_hit_without_an_address_of_the_web_is_left_out() -> None:
    results = [
        {"title": "x", "url": url} for url in ("ftp://a.example", "javascript:x", "https://b.example/\u0000", "")
    ]
    hits, _ = await search(
        {"type": "search", "web": {"results": [*results, {"title": "x", "url": "https://c.example"}]}}
    )
    assert [hit.url for hit in hits] == ["https://c.example"]


async def test_a_long_snippet_is_cut() -> None:
    results = [{"title": "t" * 9_000, "url": "https://a.example", "description": "d" * 90_000}]
    (hit,), _ = await search({"type": "search", "web": {"results": results}})
    assert (len(hit.title), len(hit.snippet)) == (500, 5_000)


async def test_another_address_is_used_where_one_is_set() -> None:
    settings = BraveSettings(key=SecretStr("k"), base_url="http://127.0.0.1:8080/", country="ALL", extra_snippets=False)
    _, asked = await search(REPLY, settings=settings)
    assert asked.url.startswith("http://127.0.0.1:8080/res/v1/web/search?")
    assert "country=ALL" in asked.url
    assert "extra_snippets=false" in asked.url


@pytest.mark.parametrize(
    "url", ["http://api.example", "ftp://127.0.0.1", "http://localhost.example", "api.example", ""]
)
def test_a_key_is_not_sent_unencrypted_beyond_this_machine(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        BraveSettings(key=SecretStr("k"), base_url=url)


def test_a_key_is_required() -> None:
    with pytest.raises(ValidationError, match="key"):
        BraveSettings.model_validate({})
