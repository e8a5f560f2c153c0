"""Somebody else writes to the accounts of Foxcast: a copy of its state folder runs for some hours, or a person trades.

What they trade is called off at once and pays back what it cost, so that nothing but the venue's own record of writes
shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.simulator.venues.polymarket_state import FakePolymarketOrder
from tests.simulation.full_system.plan import DAY_S, HOUR_S

if TYPE_CHECKING:
    import numpy as np

    from bot.core.interfaces import Clock
    from bot.simulator.venues.manifold import FakeManifold
    from bot.simulator.venues.polymarket import FakePolymarket
    from tests.simulation.full_system.fake_venues import SimulationVenues
    from tests.simulation.full_system.operators import SimulatedOperators

FOREIGN_WRITE = "foreign write"
# For so long somebody writes, and so often: a person who resumes the venue meanwhile does so too early.
WRITES_FOR_S, WRITES_EVERY_S = 16.0 * HOUR_S, HOUR_S / 2.0
_MANA, _SHARES, _PRICE = 2.0, Decimal(8), Decimal("0.50")
# In how many seeds the venue lists what was written only so much later, when its list has been read meanwhile.
LISTED_LATE, LATE_S = 1 / 2, 4.0 * HOUR_S
# One in so many is an order that rests, at such a price.
RESTS, _NEVER_PAID = 3, 0.02


@dataclass(slots=True, kw_only=True)
class ForeignWriter:
    """Writes to one of the accounts that orders are sent from, from ``begins_s`` on."""

    bridges: SimulationVenues
    people: SimulatedOperators
    clock: Clock
    stream: np.random.Generator
    begins_s: float
    _count: int = 0
    _late_s: float = 0.0

    async def run(self) -> None:
        """Write for some hours, once."""
        places: dict[str, Callable[[], None]] = {"manifold": self._bet, "polymarket": self._trade}
        venues = [venue for venue in places if venue in self.people.live]
        if not venues or math.isinf(self.begins_s):
            return
        venue = venues[int(self.stream.integers(len(venues)))]
        self._late_s = LATE_S if self.stream.random() < LISTED_LATE else 0.0
        await self.clock.sleep(self.begins_s)
        while self.clock.monotonic() < self.begins_s + WRITES_FOR_S:
            self._count += 1
            places[venue]()
            self.people.saw_foreign_write(venue, late_s=self._late_s)
            await self.clock.sleep(float(self.stream.exponential(WRITES_EVERY_S)))

    def _bet(self) -> None:
        venue = self.bridges.manifold
        assert venue is not None
        closes = self.clock.now() + timedelta(seconds=DAY_S)
        if self._count % RESTS == 0 and self._rest(venue):
            return
        title = f"Does somebody else bet here, {self._count}?"
        market = venue.world.add_market(title, prob=0.5, closes=round(closes.timestamp() * 1000))
        self.bridges.foreign_markets.add(market.id)
        user = venue.state.users[self.bridges.trader]
        self._list_late(venue, venue.world.trade(user, market, WantedTrade(outcome="YES", amount=_MANA)).id)
        venue.world.resolve(market, "CANCEL")

    def _rest(self, venue: FakeManifold) -> bool:
        """Leave an order at a price that the crowd never pays; return False where no market is open."""
        now = venue.now_ms()
        markets = [one for one in venue.state.markets.values() if one.is_open(now) and not one.answers]
        if markets:
            market = markets[self._count % len(markets)]
            want = WantedTrade(outcome="YES", amount=_MANA, limit=_NEVER_PAID)
            bet = venue.world.trade(venue.state.users[self.bridges.trader], market, want)
            self.bridges.foreign_orders[bet.id] = market.id
            self._list_late(venue, bet.id)
        return bool(markets)

    def _list_late(self, venue: FakeManifold | FakePolymarket, name: str) -> None:
        if self._late_s:
            venue.state.listed_from[name] = venue.now_ms() + round(1_000.0 * self._late_s)

    def _trade(self) -> None:
        venue, user = self.bridges.polymarket, self.bridges.environment.polymarket_account
        assert venue is not None
        assert user is not None
        asks = ((str(_PRICE), str(10 * _SHARES)),)
        market = venue.world.add_market(f"Does somebody else trade here, {self._count}?", asks=asks)
        self.bridges.foreign_markets.add(market.condition)
        order = FakePolymarketOrder(
            id=f"0x{venue.state.new_id():064x}",
            user=user,
            market=market,
            token=market.tokens[0],
            side="BUY",
            price=_PRICE,
            size=_SHARES,
            spend=_PRICE * _SHARES,
            kind="FAK",
            created_ms=venue.now_ms(),
        )
        exchange = venue.world.exchange
        planned, exchange.next_settlements = exchange.next_settlements, type(exchange.next_settlements)()
        for trade in exchange.place(order, delay_s=0.0):
            exchange.settle(trade, "CONFIRMED")
            self._list_late(venue, trade.id)
        exchange.next_settlements = planned
        venue.world.resolve(market, str(_PRICE))
        venue.world.redeem(user, market)
