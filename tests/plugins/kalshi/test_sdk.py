"""The records of the double, read by the models of the venue's own SDK, and our reader without what may be absent.

Version 3.2.0 of the SDK still asks for integers that the venue has withdrawn. A record lacks exactly those and a few
that docs/facts/kalshi.md does not name, and every other field has the type that the SDK asks for.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.testing.loopback_server import ReceivedRequest
from plugins.kalshi.signing import KalshiSigner
from tests.plugins.kalshi.conftest import KalshiFixture
from tests.plugins.kalshi.fake_account import ORDERS
from tests.plugins.kalshi.fake_exchange import PREFIX
from tests.plugins.kalshi.records import event, market, series
from tests.plugins.kalshi.test_double import BODY
from tests.plugins.kalshi.writer_fixture import A, WriterFixture, open_writer_fixture

EVENT = A.rpartition("-")[0]
# Integers that decimals as text replaced, and fields of the SDK that docs/facts/kalshi.md does not name.
NOT_SENT = {
    "Market": {
        *("yes_bid", "yes_ask", "no_bid", "no_ask", "last_price", "previous_yes_bid", "previous_yes_ask"),
        *("previous_price", "volume", "volume_24h", "open_interest", "liquidity", "notional_value", "tick_size"),
        *("response_price_units", "risk_limit_cents", "category"),
    },
    "EventData": {"category", "available_on_brokers"},
    "Order": {
        *("yes_price", "no_price", "fill_count", "remaining_count", "initial_count", "taker_fees", "maker_fees"),
        *("taker_fill_cost", "maker_fill_cost", "queue_position", "user_id", "side", "action"),
    },
    "Fill": {
        *("count", "price", "yes_price", "no_price", "yes_price_fixed", "no_price_fixed"),
        *("market_ticker", "side", "action"),
    },
    "MarketPosition": {
        *("total_traded", "position", "market_exposure", "realized_pnl", "resting_orders_count", "fees_paid"),
    },
}
ANSWERS = [
    ("series", "series", "Series"),
    (f"series/{A.partition('-')[0]}", "series", "Series"),
    ("events", "events", "EventData"),
    (f"events/{EVENT}", "event", "EventData"),
    ("markets", "markets", "Market"),
    (f"markets/{A}", "market", "Market"),
    (f"markets/{A}/orderbook", "orderbook_fp", "Orderbook"),
    ("portfolio/orders", "orders", "Order"),
    ("portfolio/fills", "fills", "Fill"),
    ("portfolio/positions", "market_positions", "MarketPosition"),
    ("portfolio/balance", "", "GetBalanceResponse"),
]


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


def ask(live: WriterFixture, method: str, path: str, body: object = None) -> Any:
    signer = KalshiSigner(live.kalshi.settings, live.kalshi.clock)
    signed = {name.lower(): value for name, value in signer.headers(method, f"http://x{path}").items()}
    headers = {**signed, "content-type": "application/json", "accept-language": "en"}
    request = ReceivedRequest(method=method, path=path, headers=headers, body=json.dumps(body).encode())
    answer = live.kalshi.venue.answer(request)
    assert answer.status in {200, 201}, answer.body
    return json.loads(answer.body)


@pytest.mark.parametrize(("path", "name", "model"), ANSWERS, ids=str)
async def test_the_sdk_reads_the_records(live: WriterFixture, path: str, name: str, model: str) -> None:
    reason = "the SDK of Kalshi is not installed: pip install kalshi_python_sync==3.2.0"
    models = pytest.importorskip("kalshi_python_sync.models", reason=reason)
    pydantic = pytest.importorskip("pydantic")
    ask(live, "POST", ORDERS, BODY)
    found = ask(live, "GET", f"{PREFIX}/{path}")
    records = found[name] if name else found
    rows = records if isinstance(records, list) else [records]
    assert rows
    for row in rows:
        record = {key: value for key, value in row.items() if key != "markets"}
        refused: set[str] = set()
        try:
            getattr(models, model).from_dict(record)
        except pydantic.ValidationError as error:
            refused = {str(one["loc"][0]) for one in error.errors()}
        assert refused == NOT_SENT.get(model, set())
        assert not refused & record.keys()


# What the venue may leave out or send as null: docs/facts/kalshi.md#market-fields.
OPTIONAL_OF_MARKET = (
    *("subtitle", "title", "created_time", "expiration_time", "liquidity_dollars", "previous_price_dollars"),
    *("previous_yes_bid_dollars", "previous_yes_ask_dollars", "last_price_dollars", "volume_24h_fp", "open_time"),
    *("open_interest_fp", "settlement_timer_seconds", "expiration_value", "exchange_index", "price_level_structure"),
    *("no_sub_title", "no_bid_dollars", "no_ask_dollars", "can_close_early"),
)
OPTIONAL_OF_EVENT = ("strike_date", "last_updated_ts", "collateral_return_type", "exchange_index")
NULL_OF_SERIES = ("tags", "categories", "additional_prohibitions")


async def test_a_reader_needs_nothing_that_the_venue_may_leave_out(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(market("A")))
    whole = await kalshi.questions()
    assert set(whole) == {A}
    bare = {name: value for name, value in market("A").items() if name not in OPTIONAL_OF_MARKET}
    small = {name: value for name, value in event(bare).items() if name not in OPTIONAL_OF_EVENT}
    kalshi.venue.add(small)
    kalshi.venue.series["KXDEMO"] = series() | dict.fromkeys(NULL_OF_SERIES)
    read = (await kalshi.questions())[A]
    assert read == replace(whole[A], opens_at=None)


async def test_a_position_costs_what_its_fills_cost(live: WriterFixture) -> None:
    """Twelve contracts at 0.57 and eight at 0.58 cost 11.48, with a fee of 0.3424; half of them sold leave 5.74."""
    buy = {**BODY, "count": "20.00", "price": "0.5800"}
    ask(live, "POST", ORDERS, buy)
    bought = ask(live, "GET", f"{PREFIX}/portfolio/positions")["market_positions"][0]
    assert (bought["position_fp"], bought["market_exposure_dollars"]) == ("20.00", "11.480000")
    assert bought["fees_paid_dollars"] == "0.342400"
    sale = {**BODY, "side": "ask", "count": "10.00", "price": "0.5500", "reduce_only": True}
    ask(live, "POST", ORDERS, sale | {"client_order_id": "00000000-0000-4000-8000-0000000000ab"})
    left = ask(live, "GET", f"{PREFIX}/portfolio/positions")["market_positions"][0]
    assert (left["position_fp"], left["market_exposure_dollars"]) == ("10.00", "5.740000")
    account = await live.writer().account()
    assert [(one.shares, round(one.paid, 6)) for one in account.positions] == [
        (10.0, 6.2557)
    ]  # with fees of 0.3424 and 0.1733
