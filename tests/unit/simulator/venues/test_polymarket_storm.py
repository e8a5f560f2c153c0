"""The fake Polymarket in process and in virtual time, while everything goes wrong by chance."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from typing import Any

import httpx
import pytest

from bot.core.clock import SeededRandom
from bot.simulator.fake_service import ConnectionDropped
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule, FakePolymarketUser
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.unit.simulator.venues.polymarket_client import KEY, OTHER_KEY, body_of, signed_headers

pytest.importorskip("polymarket")

TURNS = 100
NEVER = {RequestFault.MEANWHILE, RequestFault.ALTERED, RequestFault.RESOLVED, RequestFault.CLOSING}
START = Decimal(10_000)


def test_whatever_chance_does_the_venue_stays_whole_and_no_order_is_taken_twice() -> None:
    async def storm(clock: VirtualClock) -> FakePolymarket:
        chance = SeededRandom(7)
        venue = FakePolymarket(
            clock,
            faults=FaultSchedule(
                chance.stream("faults"), dict.fromkeys([fault for fault in RequestFault if fault not in NEVER], 0.03)
            ),
        )
        stream = chance.stream("orders")
        users = [(venue.world.give_key(venue.world.add_user(key, cash=START)), key) for key in (KEY, OTHER_KEY)]
        markets = [venue.world.add_market(fees=FakeFeeSchedule(rate=Decimal("0.04"))) for _ in range(3)]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(venue), base_url="http://venue") as client:
            for turn in range(TURNS):
                who, market = users[turn % 2], markets[turn % 3]
                asked = (("BUY", "SELL")[stream.random() < 0.2], f"0.{stream.integers(40, 60)}", "10")
                body = body_of(market, asked, who=who, salt=turn, index=int(stream.integers(0, 2)))
                if stream.random() < 0.2:
                    venue.world.exchange.next_settlements.append("FAILED")
                # Somebody who does not know its result asks again with the same bytes.
                for _ in range(2):
                    await _post(client, clock, who[0], body)
                venue.world.trade(market, ("BUY", "SELL")[turn % 2], "3")
                venue.world.set_level(market, ("SELL", "BUY")[turn % 2], ("0.61", "0.39")[turn % 2], "100")
                await clock.sleep(1.0)
        await clock.sleep(60.0)
        await venue.aclose()
        venue.world.exchange.process_due()
        return venue

    venue = run_in_virtual_time(storm)
    assert venue.crashes == []
    posted = [effect.subject for effect in venue.ledger.effects("order")]
    assert len(posted) == len(set(posted)) > TURNS / 3
    assert {effect.request for effect in venue.ledger.effects()} <= {request.number for request in venue.requests}
    trades = venue.state.trades.values()
    assert {trade.status for trade in trades} == {"CONFIRMED", "FAILED"}
    for user in venue.state.users.values():
        _check_books(venue, user)


def _check_books(venue: FakePolymarket, user: FakePolymarketUser) -> None:
    """Count an account anew from the trades that others can read, in the other way round: by token and by dollar."""
    cash, shares = START, dict.fromkeys(venue.state.tokens, Decimal(0))
    for trade in venue.state.trades.values():
        if trade.status != "CONFIRMED":
            continue
        fills = [
            (trade.taker, trade.size, trade.fee),
            *((maker.order, maker.size, Decimal(0)) for maker in trade.makers),
        ]
        for order, size, fee in fills:
            if order is not None and order.user is user:
                sign = 1 if order.side == "BUY" else -1
                price = trade.level if order.token == trade.market.tokens[0] else 1 - trade.level
                # Nobody pays more, or gets less, than was ordered.
                assert sign * price <= sign * order.price
                cash -= sign * size * price + fee
                shares[order.token] += sign * size
    assert user.cash == cash >= 0
    assert all(user.shares.get(token, Decimal(0)) == count >= 0 for token, count in shares.items())
    for order in venue.state.orders_of(user):
        assert 0 <= order.matched <= order.size


async def _post(client: httpx.AsyncClient, clock: VirtualClock, user: FakePolymarketUser, body: str) -> None:
    headers = signed_headers(user, clock.now(), ("POST", "/order", body))
    ask: Any = client.post("/order", content=body, headers=headers)
    with suppress(ConnectionDropped, TimeoutError):
        await asyncio.wait_for(ask, 30.0)
