"""The sockets of the fake Polymarket, after docs/facts/polymarket.md#sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bot.simulator.faults import SocketFault
from bot.simulator.venues.polymarket_state import FakePolymarketMarket
from tests.unit.simulator.venues.polymarket_client import RawPolymarketClient, open_polymarket


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


class SocketClient:
    """A socket that speaks frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def until_pong(self) -> list[Any]:
        """Return all that came before the answer to a ping, each event by itself."""
        await self.socket.send("PING")
        found: list[Any] = []
        while (text := await self.socket.recv()) != "PONG":
            message = json.loads(text)
            found += message if isinstance(message, list) else [message]
        return found

    async def kinds(self) -> list[str]:
        return [event["event_type"] for event in await self.until_pong()]


@asynccontextmanager
async def line(polymarket: RawPolymarketClient, name: str = "market") -> AsyncIterator[SocketClient]:
    async with connect(f"{polymarket.served.ws_url}/ws/{name}", proxy=None) as socket:
        yield SocketClient(socket)


async def listen(here: SocketClient, *markets: FakePolymarketMarket, custom: bool = False) -> list[Any]:
    """Subscribe to the first outcomes; return what comes at once."""
    tokens = [market.tokens[0] for market in markets]
    await here.send(type="market", assets_ids=tokens, custom_feature_enabled=custom)
    return await here.until_pong()


async def test_the_first_frame_brings_the_full_books_as_one_list(polymarket: RawPolymarketClient) -> None:
    market, new = polymarket.world.add_market(), polymarket.world.add_market(is_minted=False)
    async with line(polymarket) as here:
        await here.send(type="market", assets_ids=[*market.tokens, new.tokens[0]], custom_feature_enabled=False)
        books = json.loads(await here.socket.recv())
        assert [book["asset_id"] for book in books] == list(market.tokens)
        assert books[0] == {**(await polymarket.read("/book", token_id=market.tokens[0])), "event_type": "book"}


async def test_a_level_that_changes_is_told_with_its_whole_size(polymarket: RawPolymarketClient) -> None:
    market, other = polymarket.world.add_market(), polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        polymarket.world.set_level(market, "BUY", "0.50", "7")
        polymarket.world.set_level(market, "SELL", "0.51", "0")
        polymarket.world.set_level(other, "BUY", "0.50", "7")
        events = await here.until_pong()
    assert {event["event_type"] for event in events} == {"price_change"}
    changes = [
        {name: change[name] for name in ("price", "size", "side", "best_bid", "best_ask")}
        for event in events
        for change in event["price_changes"]
    ]
    assert changes == [
        {"price": "0.5", "size": "7", "side": "BUY", "best_bid": "0.5", "best_ask": "0.51"},
        {"price": "0.51", "size": "0", "side": "SELL", "best_bid": "0.5", "best_ask": "1"},
    ]
    assert (events[0]["market"], events[0]["price_changes"][0]["asset_id"]) == (market.condition, market.tokens[0])


async def test_what_is_told_rebuilds_the_book_that_is_read(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market(bids=[("0.4", "5"), ("0.49", "100")], asks=[("0.51", "100"), ("0.6", "9")])
    yes, no = market.tokens
    async with line(polymarket) as here:
        await here.send(type="market", assets_ids=[yes, no])
        books: dict[str, dict[tuple[str, str], str]] = {yes: {}, no: {}}
        for event in await here.until_pong():
            for side, name in (("BUY", "bids"), ("SELL", "asks")):
                books[event["asset_id"]] |= {(side, level["price"]): level["size"] for level in event[name]}
        polymarket.world.trade(market, "BUY", "104")
        polymarket.world.set_level(market, "BUY", "0.45", "3")
        polymarket.world.trade(market, "SELL", "30", limit="0.49")
        polymarket.world.set_level(market, "BUY", "0.4", "0")
        for event in await here.until_pong():
            for change in event.get("price_changes", ()):
                books[change["asset_id"]][change["side"], change["price"]] = change["size"]
    for token, rebuilt in books.items():
        row = await polymarket.read("/book", token_id=token)
        read = {("BUY", level["price"]): level["size"] for level in row["bids"]}
        read |= {("SELL", level["price"]): level["size"] for level in row["asks"]}
        assert {key: size for key, size in rebuilt.items() if size != "0"} == read


async def test_a_trade_is_told_with_its_price(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        polymarket.world.trade(market, "BUY", "5")
        [reported] = [event for event in await here.until_pong() if event["event_type"] == "last_trade_price"]
    assert (reported["price"], reported["size"], reported["side"], reported["asset_id"]) == (
        "0.51",
        "5",
        "BUY",
        market.tokens[0],
    )


async def test_a_new_tick_comes_before_the_new_full_book(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        polymarket.world.set_tick(market, "0.001")
        tick, book = await here.until_pong()
    assert (tick["event_type"], tick["old_tick_size"], tick["new_tick_size"]) == ("tick_size_change", "0.01", "0.001")
    assert (book["event_type"], book["tick_size"]) == ("book", "0.001")


async def test_news_of_all_markets_come_to_whoever_asks_for_the_custom_feature(polymarket: RawPolymarketClient) -> None:
    market, other = polymarket.world.add_market(), polymarket.world.add_market()
    async with line(polymarket) as curious, line(polymarket) as plain:
        await listen(curious, market, custom=True)
        await listen(plain, market)
        opened = polymarket.world.add_market()
        polymarket.world.resolve(other, "0")
        new, resolved = await curious.until_pong()
        assert (new["event_type"], new["assets_ids"]) == ("new_market", list(opened.tokens))
        assert (resolved["winning_asset_id"], resolved["winning_outcome"]) == (other.tokens[1], "No")
        polymarket.world.set_level(market, "BUY", "0.50", "7")
        assert await curious.kinds() == ["price_change", "best_bid_ask"]
        assert await plain.kinds() == ["price_change"]
        # A draw has no winner to tell.
        polymarket.world.resolve(opened, "0.5")
        assert await curious.kinds() == []


async def test_subscriptions_change_on_an_open_socket(polymarket: RawPolymarketClient) -> None:
    market, other = polymarket.world.add_market(), polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        await here.send(operation="subscribe", assets_ids=[other.tokens[0], market.tokens[0]])
        assert [event["asset_id"] for event in await here.until_pong()] == [other.tokens[0]]
        await here.send(operation="unsubscribe", assets_ids=[market.tokens[0]])
        await here.until_pong()
        polymarket.world.set_level(market, "BUY", "0.50", "7")
        assert await here.kinds() == []


async def test_more_than_five_hundred_ids_get_no_first_book(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as here:
        await here.send(type="market", assets_ids=[market.tokens[0], *map(str, range(500))])
        assert await here.kinds() == []
        polymarket.world.set_level(market, "BUY", "0.50", "7")
        assert await here.kinds() == ["price_change"]


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"type": "user"}', '{"type": "market"}', "ping"])
async def test_what_is_no_frame_is_told_so(polymarket: RawPolymarketClient, text: str) -> None:
    async with line(polymarket) as here:
        await here.socket.send(text)
        assert await here.socket.recv() == "INVALID OPERATION"


# Silence


async def test_a_frozen_socket_answers_pings_and_says_nothing_else(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as old:
        await listen(old, market)
        polymarket.world.socket_messages.freeze()
        polymarket.world.set_level(market, "BUY", "0.50", "7")
        assert await old.kinds() == []
        async with line(polymarket) as new:
            [book] = await listen(new, market)
            assert book["bids"][-1] == {"price": "0.5", "size": "7"}
            polymarket.world.set_level(market, "BUY", "0.50", "8")
            assert await new.kinds() == ["price_change"]
            assert await old.kinds() == []


async def test_a_cut_socket_ends_and_the_next_one_begins_with_full_books(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        polymarket.venue.hub.cut_all()
        with pytest.raises(ConnectionClosed):
            await here.until_pong()
    async with line(polymarket) as here:
        assert [event["event_type"] for event in await listen(here, market)] == ["book"]


async def test_gaps_can_be_ordered(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market()
    async with line(polymarket) as here:
        await listen(here, market)
        polymarket.venue.faults.on_sockets.add(SocketFault.GAPPING)
        for size in range(1, 5):
            polymarket.world.set_level(market, "BUY", "0.50", str(size))
        polymarket.venue.faults.on_sockets.clear()
        changes = [event["price_changes"][0]["size"] for event in await here.until_pong()]
    assert changes == ["2", "4"]


# The socket of an account


async def test_an_owner_hears_of_orders_and_of_trades_until_they_are_settled(polymarket: RawPolymarketClient) -> None:
    market, other = polymarket.world.add_market(), polymarket.world.add_market()
    auth = {"apiKey": polymarket.ada.key, "secret": polymarket.ada.secret, "passphrase": polymarket.ada.passphrase}
    async with line(polymarket, "user") as all_of_it, line(polymarket, "user") as one:
        await all_of_it.send(type="user", auth=auth)
        await one.send(type="user", auth=auth, markets=[other.condition])
        assert [await here.until_pong() for here in (all_of_it, one)] == [[], []]
        resting = await polymarket.placed(market, "BUY", "0.49", "10")
        await polymarket.private("DELETE", "/order", {"orderID": resting["orderID"]})
        placed = await polymarket.placed(market, "BUY", "0.51", "10")
        await polymarket.pass_s(2)
        await polymarket.pass_s(3)
        events = await all_of_it.until_pong()
        orders = [(event["id"], event["type"]) for event in events if event["event_type"] == "order"]
        assert orders == [
            (resting["orderID"], "PLACEMENT"),
            (resting["orderID"], "CANCELLATION"),
            (placed["orderID"], "PLACEMENT"),
        ]
        trades = [event for event in events if event["event_type"] == "trade"]
        assert [event["status"] for event in trades] == ["MATCHED", "MINED", "CONFIRMED"]
        assert {(event["id"], event["trader_side"]) for event in trades} == {(placed["tradeIDs"][0], "TAKER")}
        assert await one.until_pong() == []


async def test_who_cannot_say_who_he_is_is_cut_off(polymarket: RawPolymarketClient) -> None:
    auth = {"apiKey": polymarket.ada.key, "secret": "wrong", "passphrase": polymarket.ada.passphrase}
    async with line(polymarket, "user") as here:
        await here.send(type="user", auth=auth)
        with pytest.raises(ConnectionClosed):
            await here.until_pong()
