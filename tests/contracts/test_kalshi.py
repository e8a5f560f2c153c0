"""The contract kits on the Kalshi reader, on records in the documented forms."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from bot.api import PluginContext, PluginSettings, VenueSpec
from bot.core.interfaces import QuestionReader
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.venue_contracts import QuestionReaderContract, VenueContract
from plugins.kalshi import foxcast_venues
from plugins.kalshi.api_client import QueryParameters, build_url
from plugins.kalshi.reader import KalshiReader
from plugins.kalshi.settings import KalshiSettings
from tests.plugins.kalshi.records import event, market, quoted, series, settled

SPEC: VenueSpec[Any] = foxcast_venues()[0]
SETTINGS = KalshiSettings()
RACE = event(quoted("A", "0.58", "0.62"), quoted("B", "0.29", "0.31"), mutually_exclusive=True, number=30)
PLAIN = event(market("A"), market("B"))
CLOSED = event(settled(market("A"), "yes", "1.0000"), number=29)


def pages() -> Mapping[str, bytes]:
    """The open list in one page, and outcomes."""
    asked: QueryParameters = {"status": "open", "with_nested_markets": "true", "limit": 200, "min_close_ts": 1767232800}
    found: dict[str, object] = {
        build_url(SETTINGS, "series"): {"series": [series()]},
        build_url(SETTINGS, "series/KXDEMO"): {"series": series()},
        build_url(SETTINGS, "events", asked): {"events": [RACE, PLAIN], "cursor": ""},
    }
    for one in (RACE, PLAIN, CLOSED):
        url = build_url(SETTINGS, f"events/{one['event_ticker']}", {"with_nested_markets": "true"})
        found[url] = {"event": one}
        for child in one["markets"]:
            found[build_url(SETTINGS, f"markets/{child['ticker']}")] = {"market": child}
    for tickers in ("KXDEMO-26DEC31-B", "KXDEMO-26DEC31-A"):
        query: QueryParameters = {"tickers": tickers, "mve_filter": "exclude", "limit": 100}
        won = [settled(child, "yes", "1.0000") for child in PLAIN["markets"]]
        found[build_url(SETTINGS, "markets", query)] = {"markets": won, "cursor": ""}
    return {url: json.dumps(answer).encode() for url, answer in found.items()}


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = SETTINGS
    remote_settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()


class TestFinding(QuestionReaderContract):
    spec = SPEC

    @pytest.fixture
    def http(self) -> FakeHttpClient:
        return FakeHttpClient(pages())

    @pytest.fixture
    def finder(self, http: FakeHttpClient, tmp_path: Any) -> QuestionReader:
        return KalshiReader(SETTINGS, PluginContext(clock=FakeClock(), http=http, folder=tmp_path))

    @pytest.fixture
    def reached(self, http: FakeHttpClient) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(url.split("/")[2] for url in http.requested_urls)

    @pytest.fixture
    def hosts(self) -> frozenset[str]:
        return frozenset({"external-api.kalshi.com"})

    @pytest.fixture
    def unfit(self) -> str | None:
        return "KXDEMO-26DEC29-A"
