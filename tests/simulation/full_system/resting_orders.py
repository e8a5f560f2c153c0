"""Orders that rest: others take part of what was offered, and what rests is reserved at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.simulator.faults import FaultDetails, RequestFault
from tests.simulation.full_system.plan import HOUR_S
from tests.simulation.full_system.profit_checks import unreserved_stakes

if TYPE_CHECKING:
    import numpy as np

    from bot.core.interfaces import Clock
    from bot.simulator.network import NetworkEventLoop
    from bot.simulator.venues.manifold import FakeManifold
    from tests.simulation.full_system.plan import SimulationTraits

# So often somebody is faster with the next bet, and part of it rests.
FASTER_EVERY_S = 3.0 * HOUR_S
# Where orders are on paper, prices move a little after so many reads of markets at a time: what an order wanted is gone
# when it meets the market, and rests.
READS, MOVED_AFTER_S, MOVED_BY, ROOM = 6, 1.0, 0.02, 0.03
# So long after an order its answer is on record.
ANSWERED_S = 45.0


async def run_partial_fills(
    venue: FakeManifold | None, traits: SimulationTraits, *, clock: Clock, stream: np.random.Generator
) -> None:
    """Let somebody take part of what a bet would get, now and then, for ever."""
    is_paper = traits.modes.get("manifold") == "paper" and traits.drawn
    loop = asyncio.get_running_loop()

    def move_soon() -> None:
        assert venue is not None
        loop.call_later(MOVED_AFTER_S, _move_prices, venue, stream)

    while venue is not None and traits.roughness > 0.0:
        await clock.sleep(float(stream.exponential(FASTER_EVERY_S)))
        if venue.faults.pending:
            continue
        if is_paper:
            details = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=move_soon)
            venue.faults.schedule(details, method="GET", path="/v0/market/", times=READS)
        else:
            venue.faults.schedule(RequestFault.PARTIAL_FILL, method="POST", path="/v0/bet")


def _move_prices(venue: FakeManifold, stream: np.random.Generator) -> None:
    """Let the crowd trade a little in each market with one pool."""
    now = venue.now_ms()
    for market in [one for one in venue.state.markets.values() if one.is_open(now) and not one.answers]:
        price = market.pool.prob + float(stream.normal(0.0, MOVED_BY))
        venue.world.move_price(market, min(max(price, ROOM), 1.0 - ROOM))


@dataclass(slots=True, kw_only=True)
class ReservationWatch:
    """Looks soon after each order whether the ledger holds back what all orders may still cost.

    ``ledger`` returns that of the life that goes on.
    """

    loop: NetworkEventLoop
    orders: Mapping[str, Mapping[str, Any]]
    ledger: Callable[[], Path] = Path
    violations: list[str] = field(default_factory=list)
    _count: int = 0

    def look(self) -> None:
        """Look again in a while if an order came."""
        if len(self.orders) > self._count:
            self._count = len(self.orders)
            self.loop.call_later(ANSWERED_S, self._judge)

    def _judge(self) -> None:
        if not self.violations and (ledger := self.ledger()).exists():
            at_s = self.loop.time()
            self.violations += [f"{one}, at {at_s:.0f} s" for one in unreserved_stakes(ledger, self.orders.values())]
