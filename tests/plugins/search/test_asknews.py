"""Replies in the form of the service's SDK (SearchResponse) for GET /v1/news/search."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from bot.api import HttpClient, MalformedDataError, PluginContext, PluginSettings, SearchResult, ServiceUnavailableError
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.asknews import AskNewsSearch, AskNewsSettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NOON, SECOND_LATER, as_json

SETTINGS = AskNewsSettings(key=SecretStr("ask-not-a-real-key"))
REPLY = {
    "as_dicts": [
        {
            "article_url": "https://harbour.example/lanterns",
            "article_id": "6a1f8f0a-37a3-4d8e-9b0a-3a6e6b2a0001",
            "classification": ["World"],
            "country": "DE",
            "eng_title": "Lanterns lit in the harbour",
            "title": "Laternen im Hafen brennen",
            "summary": "All seven lanterns are lit.",
            "key_points": ["Seven lanterns"],
            "pub_date": "2026-03-04T23:59:59Z",
            "language": "de",
            "sentiment": 1,
            "as_string_key": "1",
        },
        {
            "article_url": "https://older.example/",
            "title": "Older",
            "eng_title": "",
            "summary": "Old.",
            "pub_date": "2026-02-01T10:00:00+02:00",
            "as_string_key": "2",
        },
    ],
    "as_string": None,
    "offset": 10,
}


def engine(http: HttpClient, clock: FakeClock, settings: AskNewsSettings = SETTINGS) -> AskNewsSearch:
    return AskNewsSearch(settings, PluginContext(clock=clock, http=http, folder=Path()))


async def search(answer: object, settings: AskNewsSettings = SETTINGS) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(as_json(answer))
    hits = await engine(http, FakeClock(NOW), settings).search("who & what", before=None, limit=500)
    return list(hits), http.requests[0]


class TestAskNews(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    secret = "ask-not-a-real-key"  # noqa: S105 - looked for in what is sent
    reply = as_json(REPLY)
    empty = as_json({"as_dicts": [], "as_string": None, "offset": None})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"as_dicts": None, "as_string": "<doc>"}),
        as_json({"as_dicts": [{"title": "no address"}]}),
    )
    # The last second of which at least a moment lies before the bound: 1772668800 is 2026-03-05T00:00:00Z (date -u -d).
    expected_date_bounds: ClassVar = {
        MIDNIGHT: 1_772_668_799,
        SECOND_LATER: 1_772_668_800,
        NOON: 1_772_711_999,
        NOON + timedelta(milliseconds=1): 1_772_712_000,
        LEAP_DAY: 1_709_251_199,
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        found = parse_qs(urlsplit(asked.url).query).get("end_timestamp")
        return None if found is None else int(found[0])


async def test_the_request_is_the_documented_one() -> None:
    _, asked = await search(REPLY)
    parts = urlsplit(asked.url)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://api.asknews.app/v1/news/search"
    # 2025-03-10T11:59:59Z: a year before the clock of the test.
    assert parse_qs(parts.query) == {
        "query": ["who & what"],
        "n_articles": ["100"],
        "return_type": ["dicts"],
        "method": ["nl"],
        "historical": ["true"],
        "start_timestamp": ["1741607999"],
    }
    assert asked.headers == {"Authorization": "Bearer ask-not-a-real-key", "Accept": "application/json"}


async def test_the_settings_reach_the_request() -> None:
    settings = AskNewsSettings(key=SecretStr("k"), method="both", archive=False, days_back=2)
    _, asked = await search(REPLY, settings)
    sent = parse_qs(urlsplit(asked.url).query)
    assert (sent["method"], sent["historical"]) == (["both"], ["false"])
    assert sent["start_timestamp"] == ["1772971199"]


async def test_a_reply_becomes_hits() -> None:
    hits, _ = await search(REPLY)
    assert hits == [
        SearchResult(
            url="https://harbour.example/lanterns",
            title="Lanterns lit in the harbour",
            snippet="All seven lanterns are lit.\nSeven lanterns",
            published_at=datetime(2026, 3, 4, 23, 59, 59, tzinfo=UTC),
        ),
        SearchResult(
            url="https://older.example/",
            title="Older",
            snippet="Old.",
            published_at=datetime(2026, 2, 1, 8, tzinfo=UTC),
        ),
    ]


async def test_an_article_without_a_summary_tells_its_key_points() -> None:
    article = {"article_url": "https://a.example/", "title": "A", "key_points": ["One.", "Two."]}
    (hit,), _ = await search({"as_dicts": [article]})
    assert hit.snippet == "One.\nTwo."


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^asknews: as_dicts\.0\.article_url: "):
        await search({"as_dicts": [{"article_url": 5}]})


async def test_searches_wait_ten_seconds_for_each_other() -> None:
    http, clock = FixedResponseClient(as_json(REPLY)), FakeClock(NOW)
    shared = engine(http, clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(shared.search("q", before=None, limit=1))
        sent = []
        for seconds in (0.0, 9.9, 0.1):
            await clock.advance(seconds)
            sent.append(len(http.requests))
    assert sent == [1, 1, 2]


async def test_a_search_that_would_stand_in_line_too_long_fails_at_once() -> None:
    http, clock = FixedResponseClient(as_json(REPLY)), FakeClock(NOW)
    shared = engine(http, clock)
    await shared.search("q", before=None, limit=1)
    second = asyncio.create_task(shared.search("q", before=None, limit=1))
    await clock.advance(4.0)
    # 6 seconds until the second is sent, and 10 after it.
    with pytest.raises(ServiceUnavailableError, match="searches wait before this one") as caught:
        await shared.search("q", before=None, limit=1)
    assert caught.value.retry_after_s == 16.0
    await clock.advance(1.0)
    third = asyncio.create_task(shared.search("q", before=None, limit=1))
    await clock.advance(15.0)
    assert (len(await second), len(await third), len(http.requests)) == (1, 1, 3)


async def test_a_search_that_was_given_up_leaves_the_line() -> None:
    http, clock = FixedResponseClient(as_json(REPLY)), FakeClock(NOW)
    shared = engine(http, clock)
    await shared.search("q", before=None, limit=1)
    for _ in range(3):
        waiting = asyncio.create_task(shared.search("q", before=None, limit=1))
        await clock.advance(1.0)
        waiting.cancel()
        await asyncio.wait([waiting])
    last = asyncio.create_task(shared.search("q", before=None, limit=1))
    await clock.advance(7.0)
    assert len(await last) == 1


async def test_a_search_that_failed_takes_its_time_too() -> None:
    http, clock = FixedResponseClient(ServiceUnavailableError("503")), FakeClock(NOW)
    shared = engine(http, clock)
    with pytest.raises(ServiceUnavailableError):
        await shared.search("q", before=None, limit=1)
    http.answer = as_json(REPLY)
    second = asyncio.create_task(shared.search("q", before=None, limit=1))
    await clock.advance(9.9)
    assert not second.done()
    await clock.advance(0.1)
    assert len(await second) == 1


async def test_a_larger_plan_need_not_wait() -> None:
    http, clock = FixedResponseClient(as_json(REPLY)), FakeClock(NOW)
    shared = engine(http, clock, AskNewsSettings(key=SecretStr("k"), interval_s=0.0))
    for _ in range(3):
        await shared.search("q", before=None, limit=1)
    assert len(http.requests) == 3
