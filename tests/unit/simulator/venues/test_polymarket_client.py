"""What the fake Polymarket says, read by the venue's own client: it understands every record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from websockets.asyncio.client import connect

from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from tests.unit.simulator.venues.polymarket_client import RawPolymarketClient, open_polymarket

pytest.importorskip("polymarket")

from polymarket._internal.actions import account, clob
from polymarket._internal.actions.orders.post import parse_order_response, parse_order_responses
from polymarket._internal.streams.clob import market_protocol
from polymarket.models.clob.cancel import CancelOrdersResponse
from polymarket.models.clob.order_response import AcceptedOrder, RejectedOrder
from polymarket.models.clob.user_events import parse_user_events
from polymarket.models.data.activity import Trade
from polymarket.models.data.analytics import PriceHistoryPoint
from polymarket.models.data.resolutions import Resolution
from polymarket.models.gamma.event import Event
from polymarket.models.gamma.market import Market


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


async def test_markets_and_events_are_understood(polymarket: RawPolymarketClient) -> None:
    _, choice = polymarket.world.add_choice("Who wins?", {"Ann": "0.5", "Bob": "0.3"}, tags=("politics",))
    polymarket.world.edit(choice[0], fees=FakeFeeSchedule(rate=Decimal("0.04"), kind="politics_fees"))
    newer = polymarket.world.add_market(version="v2")
    polymarket.world.resolve(choice[1], "0")
    for market in (*choice, newer):
        found = Market.parse_response(await polymarket.read(f"/gamma/markets/{market.id}"))
        assert (found.id, found.condition_id, found.question) == (market.id, market.condition, market.question)
    [row] = (await polymarket.read("/gamma/events/keyset", closed="false"))["events"]
    assert [inside.id for inside in Event.parse_response(row).markets or ()] == [market.id for market in choice]


async def test_books_and_prices_are_understood(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market(bids=[("0.5", "7"), ("0.56", "10")], asks=[("0.6", "3"), ("0.58", "4")])
    yes, no = market.tokens
    book = clob.parse_order_book(await polymarket.read("/book", token_id=yes))
    # The client keeps the order of the wire: the best is the last one.
    assert (book.bids[-1].price, book.asks[-1].price) == (Decimal("0.56"), Decimal("0.58"))
    both = await polymarket.client.post("/books", json=[{"token_id": token} for token in market.tokens])
    assert {book.asset_id for book in clob.parse_order_books(both.json())} == {yes, no}
    assert clob.parse_midpoint(await polymarket.read("/midpoint", token_id=yes)) == Decimal("0.57")
    assert clob.parse_spread(await polymarket.read("/spread", token_id=yes)) == Decimal("0.02")
    sides = await polymarket.client.post("/prices", json=[{"token_id": yes, "side": side} for side in ("BUY", "SELL")])
    assert set(clob.parse_prices(sides.json())[yes]) == {"BUY", "SELL"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("pays", "payouts"), [(("1",), ("1", "0")), (("0.5",), ("0.5", "0.5")), (("0", "0"), ("0", "0"))]
)
async def test_ends_are_understood(
    polymarket: RawPolymarketClient, pays: tuple[str, ...], payouts: tuple[str, str]
) -> None:
    market = polymarket.world.add_market()
    polymarket.world.propose(market, "1")
    [row] = (await polymarket.read("/data-api/v2/resolutions", condition_id=market.condition))["data"]
    before = Resolution.parse_response(row)
    assert (str(before.status), before.payouts, before.price) == ("proposed", None, None)
    assert before.proposed_price == 1
    polymarket.world.resolve(market, *pays)
    [row] = (await polymarket.read("/data-api/v2/resolutions", condition_id=market.condition))["data"]
    after = Resolution.parse_response(row)
    assert (str(after.status), after.payouts) == ("resolved", tuple(map(Decimal, payouts)))


async def test_past_prices_and_trades_are_understood(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    polymarket.world.trade(market, "BUY", "5")
    history = await polymarket.read(
        "/data-api/v2/prices-history", token_id=market.tokens[0], as_of=polymarket.world.now_s
    )
    assert PriceHistoryPoint.parse_response(history["data"][0]).price == Decimal("0.5")
    [row] = (await polymarket.read("/data-api/v2/trades", condition_id=market.condition))["data"]
    found = Trade.parse_response(row)
    assert (found.price, found.size, found.side) == (Decimal("0.51"), Decimal(5), "BUY")


async def test_orders_and_their_trades_are_understood(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    live = parse_order_response(await polymarket.placed(market, "BUY", "0.4", "10"))
    matched = parse_order_response(await polymarket.placed(market, "BUY", "0.51", "10"))
    refused = parse_order_response((await polymarket.post(market, "BUY", "0.51", "10", post_only=True)).json())
    assert isinstance(live, AcceptedOrder)
    assert isinstance(matched, AcceptedOrder)
    assert isinstance(refused, RejectedOrder)
    assert (live.status, matched.status, refused.code) == ("live", "matched", "post_only_would_cross")
    bodies = [polymarket.body(market, "BUY", price, "10") for price in ("0.4", "0.405")]
    batch = parse_order_responses((await polymarket.private("POST", "/orders", bodies)).json())
    assert [answer.ok for answer in batch] == [True, False]
    orders = account.parse_open_orders_page(await polymarket.mine("/data/orders"))
    assert orders.items[0].id == live.order_id
    assert account.parse_open_order(await polymarket.mine(f"/data/order/{live.order_id}")).price == Decimal("0.4")
    [trade] = account.parse_account_trades_page(await polymarket.mine("/data/trades")).items
    assert (trade.id, trade.status, trade.trader_side) == (matched.trade_ids[0], "MATCHED", "TAKER")
    reported = await polymarket.mine("/balance-allowance", asset_type="COLLATERAL", signature_type=3)
    assert account.parse_balance_allowance(reported).balance == 1_000_000_000
    cancel = await polymarket.private("DELETE", "/orders", [live.order_id, "0xabc"])
    found = CancelOrdersResponse.parse_response(cancel.json())
    assert (found.canceled, list(found.not_canceled)) == ((live.order_id,), ["0xabc"])


async def test_every_event_of_the_sockets_is_understood(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    auth = {"apiKey": polymarket.ada.key, "secret": polymarket.ada.secret, "passphrase": polymarket.ada.passphrase}
    address = polymarket.served.ws_url
    async with connect(f"{address}/ws/market", proxy=None) as prices, connect(f"{address}/ws/user", proxy=None) as mine:
        first = {"type": "market", "assets_ids": list(market.tokens), "custom_feature_enabled": True}
        await prices.send(json.dumps(first))
        await mine.send(json.dumps({"type": "user", "auth": auth}))
        message: list[list[Any]] = [[], []]
        await _until_pong(prices, message[0])
        await _until_pong(mine, message[1])
        await polymarket.placed(market, "BUY", "0.51", "10")
        await polymarket.pass_s(5)
        polymarket.world.set_tick(market, "0.001")
        polymarket.world.resolve(polymarket.world.add_market(), "1")
        await _until_pong(prices, message[0])
        await _until_pong(mine, message[1])
    # So many events of each message the client could not read.
    lost = [market_protocol.parse_events(raw)[1] for raw in message[0]] + [
        parse_user_events(raw)[1] for raw in message[1]
    ]
    assert set(lost) == {0}
    kinds = {"book", "price_change", "best_bid_ask", "last_trade_price", "tick_size_change"}
    names = {event["event_type"] for raw in message[0] for event in _each(raw)}
    assert names == kinds | {"new_market", "market_resolved"}
    assert {event["event_type"] for event in message[1]} == {"order", "trade"}


async def _until_pong(socket: Any, found: list[Any]) -> None:
    await socket.send("PING")
    while (text := await socket.recv()) != "PONG":
        found.append(json.loads(text))


def _each(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else [raw]
