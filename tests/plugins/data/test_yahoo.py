"""Replies in the form that client libraries of the chart describe (no official documentation exists)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest

from bot.api import MalformedDataError, NotFoundError, PluginSettings, RequestRejectedError
from bot.testing.data_contract import TimeSeriesContract
from plugins.data.yahoo import YahooFinance, YahooSettings, foxcast_data_sources
from tests.plugins.data.shared_values import (
    LAST_DAYS,
    answered,
    as_json,
    asked_in,
    names_of_all,
    points,
    real_questions,
    web,
)

SETTINGS = YahooSettings(years=1)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
NOW = datetime(2026, 3, 5, 9, tzinfo=UTC)
LATER = datetime(2026, 11, 22, 9, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")
HOST = "https://query1.finance.yahoo.com/v8/finance/chart"


def opening(text: str, zone: str = "America/New_York", hour: int = 9, minute: int = 30) -> int:
    day = datetime.fromisoformat(text)
    return int(day.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(zone)).timestamp())


def chart(
    closes: Mapping[int, float | None],
    *,
    zone: str = "America/New_York",
    closing: int | None = None,
    splits: object = None,
    **meta: Any,
) -> dict[str, Any]:
    end = opening("2026-11-20", zone, hour=16, minute=0) if closing is None else closing
    result = {
        "meta": {
            "currency": "USD",
            "symbol": "URI",
            "exchangeName": "NYQ",
            "instrumentType": "EQUITY",
            "firstTradeDate": 882455400,
            "gmtoffset": -18000,
            "timezone": "EST",
            "exchangeTimezoneName": zone,
            "priceHint": 2,
            "currentTradingPeriod": {"regular": {"timezone": "EST", "start": end - 23_400, "end": end}},
            "dataGranularity": "1d",
            "range": "",
            **meta,
        },
        "timestamp": list(closes),
        "indicators": {
            "quote": [{"close": list(closes.values()), "volume": [1] * len(closes)}],
            "adjclose": [{"adjclose": [0.01] * len(closes)}],
        },
    }
    if splits is not None:
        result["events"] = {"splits": splits}
    return {"chart": {"result": [result], "error": None}}


def url(start: datetime, end: datetime, ticker: str = "URI") -> str:
    span = f"period1={int(start.timestamp())}&period2={int(end.timestamp())}"
    return f"{HOST}/{ticker}?{span}&interval=1d&events=split"


FIRST = url(datetime(2025, 3, 4, tzinfo=UTC), BEFORE)
# From a day earlier on, because a session in the east begins on the day before.
SINCE = url(datetime(2026, 3, 4, tzinfo=UTC), LATER)
CLOSES = {
    opening("2026-03-02"): 700.25,
    opening("2026-03-03"): 329.3999938965,
    opening("2026-03-04"): 710.5,
    opening("2026-03-05"): 999.0,
}


class TestYahoo(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = {FIRST: as_json(chart(CLOSES))}
    now = NOW
    name = "URI"
    before = BEFORE
    beyond = str(opening("2026-03-05")).encode()
    missing = "NOSUCH"


async def closes(body: object, folder: Path, *, before: datetime = BEFORE) -> dict[str, float]:
    context, _ = answered(as_json(body), folder, now=before)
    return points(await YahooFinance(SETTINGS, context).series("URI", before=before))


async def test_the_close_is_read_not_the_one_adjusted_for_dividends(tmp_path: Path) -> None:
    # 329.4 in single precision is 329.3999938965.
    assert await closes(chart(CLOSES), tmp_path) == {"2026-03-02": 700.25, "2026-03-03": 329.4, "2026-03-04": 710.5}


async def test_it_asks_as_a_browser(tmp_path: Path) -> None:
    context, http = answered(as_json(chart(CLOSES)), tmp_path, now=NOW)
    await YahooFinance(SETTINGS, context).series("URI", before=BEFORE)
    assert [request.headers["User-Agent"].partition("/")[0] for request in http.requests] == ["Mozilla"]


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_request_ends_with_the_last_whole_day(before: datetime, tmp_path: Path) -> None:
    context, http = answered(as_json(chart({opening("2020-01-02"): 1.0})), tmp_path, now=before)
    await YahooFinance(SETTINGS, context).series("URI", before=before)
    (request,) = http.requests
    last = datetime.fromtimestamp(int(asked_in(request.url)["period2"]) - 1, UTC)
    assert last.isoformat() == f"{LAST_DAYS[before]}T23:59:59+00:00"


@pytest.mark.parametrize(
    ("zone", "hour", "last"),
    [
        # 16:00 in New York and in Tokyo is before the midnight; in Honolulu it is not.
        ("America/New_York", 9, "2026-03-04"),
        ("Asia/Tokyo", 9, "2026-03-04"),
        ("Pacific/Honolulu", 9, "2026-03-03"),
    ],
)
async def test_a_session_counts_once_it_is_over_at_its_exchange(
    zone: str, hour: int, last: str, tmp_path: Path
) -> None:
    days = ("2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05")
    body = chart({opening(day, zone, hour): 1.0 for day in days}, zone=zone)
    assert list(await closes(body, tmp_path))[-1] == last


async def test_without_trading_hours_a_day_counts_once_it_is_over_there(tmp_path: Path) -> None:
    body = chart(CLOSES, currentTradingPeriod=None)
    assert list(await closes(body, tmp_path)) == ["2026-03-02", "2026-03-03"]


async def test_dates_are_those_of_the_exchange(tmp_path: Path) -> None:
    # 09:30 on 3 March in Auckland is still 2 March in UTC.
    body = chart({opening("2026-03-03", "Pacific/Auckland"): 5.0}, zone="Pacific/Auckland")
    assert await closes(body, tmp_path) == {"2026-03-03": 5.0}


async def test_a_split_after_the_moment_is_undone(tmp_path: Path) -> None:
    split = {"date": opening("2026-06-10"), "numerator": 4.0, "denominator": 1.0, "splitRatio": "4:1"}
    reverse = {"date": opening("2026-07-10"), "numerator": 1.0, "denominator": 2.0, "splitRatio": "1:2"}
    known = {"date": opening("2026-03-03"), "numerator": 10.0, "denominator": 1.0, "splitRatio": "10:1"}
    events = {str(event["date"]): event for event in (split, reverse, known)}
    pages = {
        FIRST: as_json(chart(CLOSES)),
        SINCE: as_json(chart({opening("2026-06-10"): 1.0}, splits=events)),
    }
    context, http = web(pages, tmp_path, now=LATER)
    found = await YahooFinance(SETTINGS, context).series("URI", before=BEFORE)
    # 4 shares for 1, then 1 for 2: twice what the chart says today.
    assert points(found) == {"2026-03-02": 1400.5, "2026-03-03": 658.8, "2026-03-04": 1421.0}
    assert http.requested_urls == list(pages)


@pytest.mark.parametrize(
    ("day", "close"),
    [
        # 10:00 on 5 March in Sydney is 23:00 on 4 March in UTC; the last close that was known is from 4 March.
        ("2026-03-05", 1500.0),
        ("2026-03-04", 150.0),
    ],
)
async def test_a_split_counts_by_the_day_of_its_exchange(day: str, close: float, tmp_path: Path) -> None:
    zone = "Australia/Sydney"
    closing = opening("2026-11-20", zone, hour=16, minute=0)
    split = {"date": opening(day, zone, hour=10, minute=0), "numerator": 10.0, "denominator": 1.0}
    known = {opening("2026-03-03", zone, 10, 0): 140.0, opening("2026-03-04", zone, 10, 0): 150.0}
    later = chart({opening("2026-03-06", zone, 10, 0): 151.0}, zone=zone, closing=closing, splits={"1": split})
    pages = {FIRST: as_json(chart(known, zone=zone, closing=closing)), SINCE: as_json(later)}
    context, _ = web(pages, tmp_path, now=LATER)
    found = await YahooFinance(SETTINGS, context).series("URI", before=BEFORE)
    assert points(found)["2026-03-04"] == close


async def test_where_nothing_was_traded_since_nothing_is_undone(tmp_path: Path) -> None:
    context, _ = web({FIRST: as_json(chart(CLOSES)), SINCE: RequestRejectedError("400")}, tmp_path, now=LATER)
    found = await YahooFinance(SETTINGS, context).series("URI", before=BEFORE)
    assert found.values[0] == 700.25


async def test_a_close_that_the_chart_left_out_is_taken_from_the_quote_of_that_session(tmp_path: Path) -> None:
    open_ended = dict.fromkeys(CLOSES, 1.0) | {opening("2026-03-04"): None}
    at = opening("2026-03-04", hour=16, minute=0)
    body = chart(open_ended, regularMarketTime=at, regularMarketPrice=712.75)
    assert (await closes(body, tmp_path))["2026-03-04"] == 712.75


async def test_a_quote_from_another_session_or_from_after_the_moment_is_no_close(tmp_path: Path) -> None:
    open_ended = dict.fromkeys(CLOSES, 1.0) | {opening("2026-03-04"): None}
    for day, hour in (("2026-03-05", 16), ("2026-03-03", 16), ("2026-03-04", 19)):
        body = chart(open_ended, regularMarketTime=opening(day, hour=hour), regularMarketPrice=712.75)
        assert list(await closes(body, tmp_path)) == ["2026-03-02", "2026-03-03"]


async def test_a_second_bar_of_a_session_replaces_the_first(tmp_path: Path) -> None:
    body = chart({opening("2026-03-04"): 1.0, opening("2026-03-04", hour=16, minute=0): 2.0})
    assert await closes(body, tmp_path) == {"2026-03-04": 2.0}


async def test_a_chart_of_nothing_is_not_found(tmp_path: Path) -> None:
    nothing = {"chart": {"result": None, "error": {"code": "Not Found", "description": "No data found"}}}
    with pytest.raises(NotFoundError, match="no chart of URI"):
        await closes(nothing, tmp_path)
    empty = chart({})
    with pytest.raises(NotFoundError, match="nothing before"):
        await closes(empty, tmp_path)


@pytest.mark.parametrize(
    "odd",
    [
        chart({opening("2026-03-04"): 1.0}, exchangeTimezoneName="Middle/Earth"),
        chart({opening("2026-03-04"): 1.0}, exchangeTimezoneName="../etc/passwd"),
        chart({opening("2026-03-04"): "1,0"}),  # type: ignore[dict-item] # odd on purpose
        chart({10**17: 1.0}),
        {"chart": {"result": [{"meta": {"exchangeTimezoneName": "UTC"}, "indicators": {"quote": []}}]}},
    ],
)
async def test_an_odd_chart_is_a_contract_error(odd: object, tmp_path: Path) -> None:
    with pytest.raises(MalformedDataError):
        await closes(odd, tmp_path)


async def test_fewer_closes_than_sessions_are_a_contract_error(tmp_path: Path) -> None:
    body = chart(CLOSES)
    body["chart"]["result"][0]["timestamp"].pop()
    with pytest.raises(MalformedDataError, match="3 sessions for 4 closes"):
        await closes(body, tmp_path)


async def test_numbers_beyond_floats_are_a_contract_error(tmp_path: Path) -> None:
    body = as_json(chart({opening("2026-03-04"): 1.5}))
    for number in (b"NaN", b"Infinity", b"1e999"):
        context, _ = answered(body.replace(b"[1.5]", b"[%s]" % number), tmp_path, now=BEFORE)
        with pytest.raises(MalformedDataError):
            await YahooFinance(SETTINGS, context).series("URI", before=BEFORE)


async def test_a_ticker_cannot_leave_its_place_in_the_address(tmp_path: Path) -> None:
    context, http = answered(NotFoundError("404"), tmp_path, now=NOW)
    with pytest.raises(NotFoundError):
        await YahooFinance(SETTINGS, context).series("../x?a=^GSPC", before=BEFORE)
    assert http.requests[0].url.startswith(f"{HOST}/..%2Fx%3Fa%3D%5EGSPC?period1=")


def test_every_real_question_names_its_series(shared: Path, tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    named = names_of_all(YahooFinance(SETTINGS, context), real_questions(shared, "yfinance"))
    assert len(named) == len(set(named)) == 393
    assert all(name.isascii() and name.isalpha() and name.isupper() for name in named)
