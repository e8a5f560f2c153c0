"""Feeds in the form that news.google.com/rss/search gives: RSS 2.0 with pubDate and source."""

from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from bot.api import MalformedDataError, PluginContext, PluginSettings, SearchResult
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient, RecordedRequest
from bot.testing.search_contract import NOW, ODD_RESPONSES, SearchEngineContract
from plugins.search.google_news import GoogleNewsSearch, GoogleNewsSettings, foxcast_search_engines
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NOON, SECOND_LATER

SETTINGS = GoogleNewsSettings(days_back=365)
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><rss version="2.0"><channel><title>q</title>'
TAIL = "</channel></rss>"
DATED = """<item><title>Lanterns lit - Harbour Post</title><link>https://news.google.com/rss/articles/CBMiAA?oc=5</link>
<guid isPermaLink="false">CBMiAA</guid><pubDate>Wed, 04 Mar 2026 22:15:00 GMT</pubDate>
<description>&lt;a href="https://news.google.com/rss/articles/CBMiAA?oc=5" target="_blank"&gt;Lanterns lit&lt;/a&gt;
&amp;nbsp;&lt;font color="#6f6f6f"&gt;Harbour Post&lt;/font&gt;</description>
<source url="https://harbour.example">Harbour Post</source></item>"""
OLDER = """<item><title>Old lamps - Museum</title><link>https://news.google.com/rss/articles/CBMiAB</link>
<pubDate>Sun, 01 Feb 2026 08:00:00 GMT</pubDate><description>Old lamps</description></item>"""
UNDATED = "<item><title>Undated</title><link>https://news.google.com/rss/articles/CBMiAC</link></item>"


async def search(
    feed: str | bytes, *, settings: GoogleNewsSettings = SETTINGS, before: datetime | None = None
) -> tuple[list[SearchResult], RecordedRequest]:
    http = FixedResponseClient(feed if isinstance(feed, bytes) else feed.encode())
    engine = GoogleNewsSearch(settings, PluginContext(clock=FakeClock(NOW), http=http, folder=Path()))
    hits = await engine.search("who & what", before=before, limit=10)
    return list(hits), http.requests[0]


class TestGoogleNews(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    reply = f"{HEAD}{DATED}{OLDER}{UNDATED}{TAIL}".encode()
    empty = f"{HEAD}{TAIL}".encode()
    odd_responses = (
        *ODD_RESPONSES,
        b"<rss version='2.0'></rss>",
        b"<feed xmlns='http://www.w3.org/2005/Atom'></feed>",
        f"{HEAD}<item><title>no address</title></item>{TAIL}".encode(),
        f"{HEAD}<item><link>javascript:x</link></item>{TAIL}".encode(),
        f"{HEAD}{DATED}".encode(),
    )
    # ``before:`` excludes the day it names.
    expected_date_bounds: ClassVar = {
        MIDNIGHT: "after:2025-03-04 before:2026-03-05",
        SECOND_LATER: "after:2025-03-05 before:2026-03-06",
        NOON: "after:2025-03-05 before:2026-03-06",
        LEAP_DAY: "after:2023-03-01 before:2024-03-01",
    }

    def date_bound_of(self, asked: RecordedRequest) -> object:
        (query,) = parse_qs(urlsplit(asked.url).query)["q"]
        _, after, rest = query.rpartition("after:")
        return f"{after}{rest}" if after else None


async def test_the_request_is_the_one_others_found() -> None:
    _, asked = await search(f"{HEAD}{TAIL}", settings=GoogleNewsSettings(country="AT", language="de"))
    parts = urlsplit(asked.url)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://news.google.com/rss/search"
    assert parse_qs(parts.query) == {"q": ["who & what"], "hl": ["de-AT"], "gl": ["AT"], "ceid": ["AT:de"]}


async def test_a_feed_becomes_hits() -> None:
    hits, _ = await search(f"{HEAD}{DATED}{UNDATED}{TAIL}")
    assert hits == [
        SearchResult(
            url="https://news.google.com/rss/articles/CBMiAA?oc=5",
            title="Lanterns lit - Harbour Post",
            snippet="Lanterns lit\nHarbour Post",
            published_at=datetime(2026, 3, 4, 22, 15, tzinfo=UTC),
            source_url="https://harbour.example",
        ),
        SearchResult(url="https://news.google.com/rss/articles/CBMiAC", title="Undated", snippet="", published_at=None),
    ]


async def test_before_a_moment_an_undated_article_is_dropped() -> None:
    hits, _ = await search(f"{HEAD}{DATED}{OLDER}{UNDATED}{TAIL}", before=MIDNIGHT)
    assert [hit.title for hit in hits] == ["Lanterns lit - Harbour Post", "Old lamps - Museum"]


@pytest.mark.parametrize(
    "source", ["<source/>", "<source url=''/>", "<source url='javascript:x'/>", "<source url='x'/>"]
)
async def test_a_publisher_without_an_address_of_the_web_has_none(source: str) -> None:
    hits, _ = await search(f"{HEAD}{OLDER.replace('</item>', source + '</item>')}{TAIL}")
    assert [hit.source_url for hit in hits] == [""]


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^google_news: item 1: link: "):
        await search(f"{HEAD}{DATED}<item><title>x</title></item>{TAIL}")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_feed_that_declares_entities_is_refused(encoding: str) -> None:
    bomb = '<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    feed = f"{bomb}<rss><channel><item><title>&b;</title><link>https://a.example</link></item></channel></rss>"
    with pytest.raises(MalformedDataError):
        await search(feed.encode(encoding))
