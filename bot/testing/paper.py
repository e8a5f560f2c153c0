"""A market in memory for paper books: prices and sizes are whatever the test says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.domain.order import Instead, Leg, Order, Position, Side
from bot.domain.resolution import Chosen, Happened, Landed, Outcome
from bot.errors import FoxcastError
from bot.paper.market import Fate, Met, PaperFill, Visit

UNDONE = "undone"


@dataclass(kw_only=True)
class MemoryMarket:
    """Implements the protocol Market: any order within the price is filled as far as the size goes, at that price.

    ``prices`` are those of YES by contract, ``size`` the shares there are at it. A rest waits for ``rests``. A void
    outcome refunds, but for one whose reason is ``UNDONE``. ``dark`` markets cannot be told, ``error`` is raised by
    whoever asks. ``visits`` are all orders that came, in order.
    """

    prices: dict[str, float] = field(default_factory=dict)
    size: float = 1000.0
    fee: float = 0.0
    rests: timedelta | None = None
    dark: set[str] = field(default_factory=set)
    error: FoxcastError | None = None
    visits: list[Visit] = field(default_factory=list)

    def until(self, order: Order, sealed_at: datetime) -> datetime | None:
        return None if self.rests is None else sealed_at + self.rests

    async def arrive(self, visit: Visit) -> Met:
        return self._met(visit)

    async def later(self, visit: Visit) -> Met | None:
        return None if visit.order.contract in self.dark else self._met(visit)

    async def marks(self, positions: Sequence[Position]) -> Mapping[tuple[str, Leg], float | None]:
        if self.error is not None:
            raise self.error
        seen = [one for one in positions if one.contract not in self.dark]
        return {(one.contract, one.leg): self._price(one.contract, one.leg) for one in seen}

    def payout(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        match outcome:
            case Happened(value=value):
                yes = value
            case Chosen(option=option):
                yes = float(option == position.option)
            case Landed():
                return Instead.REFUND
            case _:
                return Instead.OPEN if outcome.reason == UNDONE else Instead.REFUND
        return yes if position.leg is Leg.YES else 1.0 - yes

    def _met(self, visit: Visit) -> Met:
        self.visits.append(visit)
        if self.error is not None:
            raise self.error
        order = visit.order
        price = self._price(order.contract, order.leg)
        if price is None:
            return Met(fate=Fate.DROPPED, why="there is no market")
        left = order.shares - sum(one.shares for one in visit.fills)
        good = price <= order.limit if order.side is Side.BUY else price >= order.limit
        shares = min(left, self.size) if good else 0.0
        fills = (PaperFill(shares=shares, price=price, fee=shares * self.fee),) if shares > 0 else ()
        waits = Fate.DROPPED if visit.expires_at is None else Fate.RESTS
        fate = Fate.NONE_LEFT if left - shares < 1e-9 else waits
        return Met(fate=fate, fills=fills, why="" if good else f"the price is {price:g}", state=f'{{"price":{price}}}')

    def _price(self, contract: str, leg: Leg) -> float | None:
        price = self.prices.get(contract)
        return price if price is None or leg is Leg.YES else 1.0 - price
