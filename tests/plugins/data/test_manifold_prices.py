"""Replies in the form of the venue's GET /v0/bets (docs/facts/manifold.md#resolution)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import MalformedDataError, NotFoundError, PluginSettings, RequestRejectedError
from bot.testing.data_contract import UNRELATED_QUESTION, TimeSeriesContract
from bot.testing.http import RecordedRequest
from plugins.data.manifold_prices import PAGE_SIZE, ManifoldPrices, ManifoldPricesSettings, foxcast_data_sources
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

MARKET = "K8qazyZJ3tXyuLlzkkyk"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
SETTINGS = ManifoldPricesSettings(days=4)
SINCE = datetime(2026, 3, 1, tzinfo=UTC)


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def bet(at: datetime, earlier: float, later: float, **more: Any) -> dict[str, Any]:
    return {
        "id": f"bet-{ms(at)}",
        "userId": "u1",
        "contractId": MARKET,
        "outcome": "YES",
        "amount": 10,
        "orderAmount": 10,
        "shares": 18.2,
        "isFilled": True,
        "isCancelled": False,
        "fills": [{"matchedBetId": None, "amount": 10, "shares": 18.2, "timestamp": ms(at)}],
        "probBefore": earlier,
        "probAfter": later,
        "fees": {"creatorFee": 0, "platformFee": 0, "liquidityFee": 0},
        "createdTime": ms(at),
        "isRedemption": False,
        **more,
    }


def url(span: str, limit: int, market: str = f"contractId={MARKET}") -> str:
    return f"https://api.manifold.markets/v0/bets?{market}&{span}&order=desc&limit={limit}"


WINDOW = f"afterTime={ms(SINCE)}&beforeTime={ms(BEFORE)}"
EARLIER = f"beforeTime={ms(SINCE) + 1}"
BETS = [
    bet(datetime(2026, 3, 5, 8, tzinfo=UTC), 0.3, 0.99),
    bet(datetime(2026, 3, 4, 23, tzinfo=UTC), 0.5, 0.3),
    bet(datetime(2026, 3, 2, 9, tzinfo=UTC), 0.6, 0.5),
    bet(datetime(2026, 3, 2, 8, tzinfo=UTC), 0.4, 0.6),
]
LAST_ONE_BEFORE = [bet(datetime(2026, 1, 7, tzinfo=UTC), 0.5, 0.4)]
PAGES = {url(WINDOW, PAGE_SIZE): as_json(BETS), url(EARLIER, 1): as_json(LAST_ONE_BEFORE)}


class TestManifoldPrices(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = PAGES
    now = NOW
    name = MARKET
    before = BEFORE
    beyond = str(ms(datetime(2026, 3, 5, 8, tzinfo=UTC))).encode()
    missing = "nosuchmarket"


class FakeManifoldHttp:
    """Implements HttpClient: answers as the venue does, from a list of bets."""

    def __init__(self, bets: list[dict[str, Any]]) -> None:
        self.bets = sorted(bets, key=lambda bet: -bet["createdTime"])
        self.requests: list[RecordedRequest] = []

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append(RecordedRequest(url, dict(headers or {})))
        asked = asked_in(url)
        after, before = int(asked.get("afterTime", -1)), int(asked["beforeTime"])
        found = [bet for bet in self.bets if after < bet["createdTime"] < before]
        return as_json(found[: int(asked["limit"])])

    async def post(self, url: str, body: object, **_: object) -> bytes:
        pytest.fail(f"nothing is sent to {url}")


async def history(pages: Mapping[str, bytes | Exception], folder: Path, name: str = MARKET) -> dict[str, float]:
    context, _ = web(pages, folder, now=NOW)
    return points(await ManifoldPrices(SETTINGS, context).series(name, before=BEFORE))


async def test_each_day_has_the_price_at_its_end_from_the_last_bet_before_the_window_on(tmp_path: Path) -> None:
    expected = {"2026-03-01": 0.4, "2026-03-02": 0.5, "2026-03-03": 0.5, "2026-03-04": 0.3}
    assert await history(PAGES, tmp_path) == expected


async def test_a_younger_market_begins_with_its_first_bet(tmp_path: Path) -> None:
    pages = PAGES | {url(EARLIER, 1): b"[]"}
    assert await history(pages, tmp_path) == {"2026-03-02": 0.5, "2026-03-03": 0.5, "2026-03-04": 0.3}


async def test_a_quiet_market_keeps_its_price(tmp_path: Path) -> None:
    pages = PAGES | {url(WINDOW, PAGE_SIZE): b"[]"}
    assert await history(pages, tmp_path) == dict.fromkeys(
        ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"), 0.4
    )


async def test_a_market_without_bets_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nobody had bet on it"):
        await history({url(WINDOW, PAGE_SIZE): b"[]", url(EARLIER, 1): b"[]"}, tmp_path)


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_request_ends_with_the_last_whole_day(before: datetime, tmp_path: Path) -> None:
    context, http = answered(as_json(LAST_ONE_BEFORE[:1]), tmp_path, now=NOW)
    source = ManifoldPrices(SETTINGS, context)
    try:
        await source.series(MARKET, before=before)
    except NotFoundError:
        assert before < datetime(2026, 1, 8, tzinfo=UTC)
    asked = asked_in(http.requests[0].url)
    end = datetime.fromtimestamp(int(asked["beforeTime"]) / 1000 - 1, UTC)
    assert end.isoformat() == f"{LAST_DAYS[before]}T23:59:59+00:00"
    assert int(asked["beforeTime"]) - int(asked["afterTime"]) == 4 * 86_400_000


async def test_a_busy_market_is_read_page_by_page(tmp_path: Path) -> None:
    count = 2 * PAGE_SIZE + 7
    moments = [SINCE + timedelta(seconds=100 * number + 1) for number in range(count)]
    bets = [bet(at, 0.5, number / count) for number, at in enumerate(moments)]
    venue = FakeManifoldHttp([*bets, bet(SINCE - timedelta(days=1), 0.1, 0.2), bet(BEFORE, 0.9, 1.0)])
    context, _ = web({}, tmp_path, now=NOW)
    found = points(await ManifoldPrices(SETTINGS, replace(context, http=venue)).series(MARKET, before=BEFORE))
    ends = {day: max(n for n, at in enumerate(moments) if str(at.date()) <= day) / count for day in found}
    assert list(found) == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]
    assert found == ends
    assert len(venue.requests) == 4


async def test_a_market_that_is_too_busy_shows_its_latest_days(tmp_path: Path) -> None:
    # One bet every 15 s: 20 pages reach back 3 days and 11 hours.
    bets = [bet(BEFORE - timedelta(seconds=15 * number), 0.25, 0.25) for number in range(1, 22_000)]
    venue = FakeManifoldHttp(bets)
    context, _ = web({}, tmp_path, now=NOW)
    found = points(await ManifoldPrices(SETTINGS, replace(context, http=venue)).series(MARKET, before=BEFORE))
    assert found == dict.fromkeys(("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"), 0.25)
    assert len(venue.requests) == 20


async def test_a_market_with_several_answers_is_refused(tmp_path: Path) -> None:
    pages = PAGES | {url(WINDOW, PAGE_SIZE): as_json([bet(SINCE + timedelta(days=1), 0.1, 0.2, answerId="a1")])}
    with pytest.raises(RequestRejectedError, match="several answers"):
        await history(pages, tmp_path)


async def test_a_market_may_be_named_by_creator_and_slug(tmp_path: Path) -> None:
    market = "contractSlug=will-san-diego-fc-make-the-playoffs"
    pages = {url(WINDOW, PAGE_SIZE, market): as_json(BETS), url(EARLIER, 1, market): b"[]"}
    assert await history(pages, tmp_path, "UniversalFC/will-san-diego-fc-make-the-playoffs")


@pytest.mark.parametrize(
    "change",
    [{"probAfter": 1.5}, {"probAfter": "NaN"}, {"probAfter": True}, {"createdTime": 10**20}, {"probBefore": None}],
)
async def test_an_odd_bet_is_a_contract_error(change: dict[str, Any], tmp_path: Path) -> None:
    pages = PAGES | {url(WINDOW, PAGE_SIZE): as_json([BETS[1] | change])}
    with pytest.raises(MalformedDataError):
        await history(pages, tmp_path)


def test_every_real_question_names_its_market(shared: Path, tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    source = ManifoldPrices(SETTINGS, context)
    named = names_of_all(source, real_questions(shared, "manifold"))
    assert len(named) == len(set(named)) == 469
    assert all(re.fullmatch(r"[A-Za-z0-9]{10}|[A-Za-z0-9]{20}", name) for name in named)
    by_address = names_of_all(source, (replace(q, source_id="") for q in real_questions(shared, "manifold")))
    assert all(re.fullmatch(r"[^/]+/[^/]+", name) for name in by_address)


def test_a_question_elsewhere_with_the_address_of_a_market_names_it(tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    linked = replace(UNRELATED_QUESTION, url="https://manifold.markets/someone/will-it-freeze")
    assert list(ManifoldPrices(SETTINGS, context).series_names(linked)) == ["someone/will-it-freeze"]
