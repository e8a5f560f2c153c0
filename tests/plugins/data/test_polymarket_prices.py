"""Replies in the form of docs/facts/polymarket.md: CLOB markets, Gamma markets and the Data API's prices-history."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import MalformedDataError, NotFoundError, PluginSettings, RequestRejectedError
from bot.testing.data_contract import UNRELATED_QUESTION, TimeSeriesContract
from plugins.data.polymarket_prices import (
    CONDITION_PATTERN,
    PolymarketPrices,
    PolymarketPricesSettings,
    foxcast_data_sources,
)
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

CONDITION_ID = "0x3e6cb7ad03e2687d0befe8706bb9ac276b3d74c0a8c7e02bf3c6b796e25601c0"
YES, NO = "7" * 77, "8" * 77
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
SETTINGS = PolymarketPricesSettings(days=20)
MARKET_URL = f"https://clob.polymarket.com/markets/{CONDITION_ID}"


def market(*outcomes: tuple[str, str]) -> dict[str, Any]:
    return {
        "condition_id": CONDITION_ID,
        "question_id": "0x01",
        "question": "Will the harbour freeze over?",
        "market_slug": "will-the-harbour-freeze-over",
        "closed": True,
        "is_50_50_outcome": False,
        "tokens": [
            {"token_id": token, "outcome": outcome, "price": 1, "winner": outcome == "Yes"}
            for token, outcome in outcomes
        ],
    }


def history(*prices: tuple[datetime, Any]) -> dict[str, Any]:
    rows = [{"timestamp": int(at.timestamp()), "price": price, "resolution_seconds": 43200} for at, price in prices]
    return {"data": rows, "pagination": {"limit": 10000, "has_more": False, "next_cursor": None}}


def url(start: datetime, end: datetime) -> str:
    span = f"start={int(start.timestamp())}&end={int(end.timestamp())}"
    return f"https://data-api.polymarket.com/v2/prices-history?token_id={YES}&{span}&bucket_seconds=43200"


START = datetime(2026, 2, 13, tzinfo=UTC)
MIDDLE = datetime(2026, 2, 28, tzinfo=UTC)
PAGES: dict[str, bytes | Exception] = {
    MARKET_URL: as_json(market((NO, "No"), (YES, "Yes"))),
    url(START, MIDDLE): as_json(history((datetime(2026, 2, 27, 12, tzinfo=UTC), 0.42))),
    url(MIDDLE, BEFORE): as_json(
        history(
            (datetime(2026, 3, 2, tzinfo=UTC), 0.5),
            (datetime(2026, 3, 2, 12, tzinfo=UTC), 0.55),
            (datetime(2026, 3, 4, 23, 59, 59, tzinfo=UTC), 0.6),
            (datetime(2026, 3, 5, tzinfo=UTC), 1.0),
        )
    ),
}


class TestPolymarketPrices(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = PAGES
    now = NOW
    name = CONDITION_ID
    before = BEFORE
    beyond = str(int(datetime(2026, 3, 5, tzinfo=UTC).timestamp())).encode()
    missing = "no-such-market"


async def test_the_price_of_yes_is_read_in_windows_of_fifteen_days(tmp_path: Path) -> None:
    context, http = web(PAGES, tmp_path, now=NOW)
    found = await PolymarketPrices(SETTINGS, context).series(CONDITION_ID, before=BEFORE)
    assert points(found) == {
        "2026-02-27": 0.42,
        "2026-02-28": 0.42,
        "2026-03-01": 0.42,
        "2026-03-02": 0.55,
        "2026-03-03": 0.55,
        "2026-03-04": 0.6,
    }
    assert http.requested_urls == list(PAGES)


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_request_ends_with_the_last_whole_day(before: datetime, tmp_path: Path) -> None:
    body = as_json(market((YES, "Yes"), (NO, "No")) | history((datetime(2020, 1, 1, tzinfo=UTC), 0.5)))
    context, http = answered(body, tmp_path, now=NOW)
    await PolymarketPrices(PolymarketPricesSettings(), context).series(CONDITION_ID, before=before)
    windows = [asked_in(request.url) for request in http.requests[1:]]
    assert len(windows) == 4
    assert all(int(window["end"]) - int(window["start"]) == 15 * 86_400 for window in windows)
    assert [window["start"] for window in windows[1:]] == [window["end"] for window in windows[:-1]]
    last = datetime.fromtimestamp(int(windows[-1]["end"]) - 1, UTC)
    assert last.isoformat() == f"{LAST_DAYS[before]}T23:59:59+00:00"


LISTS = {"outcomes": ["Yes", "No"], "clobTokenIds": [YES, NO]}
FOLDED = {key: as_json(value).decode() for key, value in LISTS.items()}


@pytest.mark.parametrize("lists", [LISTS, FOLDED], ids=["lists", "lists as text"])
async def test_a_market_may_be_named_by_its_address(lists: dict[str, Any], tmp_path: Path) -> None:
    gamma = "https://gamma-api.polymarket.com/markets/slug/will-the-harbour-freeze-over"
    pages = PAGES | {gamma: as_json({"id": "1", "conditionId": CONDITION_ID, **lists})}
    context, http = web(pages, tmp_path, now=NOW)
    found = await PolymarketPrices(SETTINGS, context).series("will-the-harbour-freeze-over", before=BEFORE)
    assert found.values[-1] == 0.6
    assert http.requested_urls[0] == gamma


async def test_a_market_without_yes_is_refused(tmp_path: Path) -> None:
    context, _ = web({MARKET_URL: as_json(market((NO, "Down"), (YES, "Up")))}, tmp_path, now=NOW)
    with pytest.raises(RequestRejectedError, match=r"no outcome Yes but Down, Up$"):
        await PolymarketPrices(SETTINGS, context).series(CONDITION_ID, before=BEFORE)
    context, _ = web({MARKET_URL: as_json(market((NO, "Down"), (YES, "[" * 30_000)))}, tmp_path, now=NOW)
    with pytest.raises(RequestRejectedError) as refused:
        await PolymarketPrices(SETTINGS, context).series(CONDITION_ID, before=BEFORE)
    assert len(str(refused.value)) < 300


async def test_a_market_that_had_no_price_yet_is_not_found(tmp_path: Path) -> None:
    empty = as_json(history())
    nothing = PAGES | {url(START, MIDDLE): empty, url(MIDDLE, BEFORE): as_json({"data": None})}
    context, _ = web(nothing, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="nothing before"):
        await PolymarketPrices(SETTINGS, context).series(CONDITION_ID, before=BEFORE)


@pytest.mark.parametrize("price", [1.01, -0.1, "NaN", None, True])
async def test_an_odd_price_is_a_contract_error(price: object, tmp_path: Path) -> None:
    pages = PAGES | {url(START, MIDDLE): as_json(history((START + timedelta(days=1), price)))}
    context, _ = web(pages, tmp_path, now=NOW)
    with pytest.raises(MalformedDataError):
        await PolymarketPrices(SETTINGS, context).series(CONDITION_ID, before=BEFORE)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "7", '["' + YES, "null"])
async def test_lists_that_are_no_lists_are_a_contract_error(text: str, tmp_path: Path) -> None:
    body = as_json({"outcomes": ["Yes", "No"], "clobTokenIds": text})
    context, _ = answered(body, tmp_path, now=NOW)
    with pytest.raises(MalformedDataError):
        await PolymarketPrices(SETTINGS, context).series("a-slug", before=BEFORE)


def test_every_real_question_names_its_market(shared: Path, tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    source = PolymarketPrices(SETTINGS, context)
    named = names_of_all(source, real_questions(shared, "polymarket"))
    assert len(named) == len(set(named)) == 798
    assert all(CONDITION_PATTERN.fullmatch(name) for name in named)
    by_address = names_of_all(source, (replace(q, source_id="") for q in real_questions(shared, "polymarket")))
    assert all("/" not in name and not CONDITION_PATTERN.fullmatch(name) for name in by_address)


def test_a_question_elsewhere_with_the_address_of_a_market_names_it(tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    source = PolymarketPrices(SETTINGS, context)
    linked = replace(UNRELATED_QUESTION, url="https://polymarket.com/event/winter/will-the-harbour-freeze-over?tid=1")
    assert list(source.series_names(linked)) == ["will-the-harbour-freeze-over"]
