"""Fake market for paper books: the test sets prices and sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from bot.core.errors import FoxcastError
from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome
from bot.execution.paper.paper_market import FillRequest, FillResult, PaperFill, RemainderState

WITHDRAWN_REASON = "undone"


@dataclass(kw_only=True)
class FakePaperMarket:
    """Implements PaperMarket: any order within the price is filled as far as the size goes, at that price.

    ``prices`` are those of YES by contract, ``size`` the shares there are at it. The rest of an order waits for
    ``resting_time``. A void outcome refunds, except for one whose reason is ``WITHDRAWN_REASON``.
    ``unreadable_contracts`` have no state, and every reading raises ``error``. ``visits`` are all orders that arrived,
    in order.
    """

    prices: dict[str, float] = field(default_factory=dict)
    size: float = 1000.0
    fee: float = 0.0
    resting_time: timedelta | None = None
    unreadable_contracts: set[str] = field(default_factory=set)
    error: FoxcastError | None = None
    visits: list[FillRequest] = field(default_factory=list)

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        return None if self.resting_time is None else sealed_at + self.resting_time

    async def fill_new_order(self, visit: FillRequest) -> FillResult:
        return self._met(visit)

    async def fill_resting_order(self, visit: FillRequest) -> FillResult | None:
        return None if visit.order.contract in self.unreadable_contracts else self._met(visit)

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        if self.error is not None:
            raise self.error
        seen = [one for one in positions if one.contract not in self.unreadable_contracts]
        return {(one.contract, one.leg): self._price(one.contract, one.leg) for one in seen}

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        match outcome:
            case BinaryOutcome(value=value):
                yes = value
            case ChoiceOutcome(option=option):
                yes = float(option == position.option)
            case NumericOutcome():
                return UnpaidOutcome.REFUND
            case _:
                return UnpaidOutcome.OPEN if outcome.reason == WITHDRAWN_REASON else UnpaidOutcome.REFUND
        return yes if position.leg is ContractSide.YES else 1.0 - yes

    def _met(self, visit: FillRequest) -> FillResult:
        self.visits.append(visit)
        if self.error is not None:
            raise self.error
        order = visit.order
        price = self._price(order.contract, order.leg)
        if price is None:
            return FillResult(remainder=RemainderState.DROPPED, why="there is no market")
        left = order.shares - sum(one.shares for one in visit.fills)
        good = price <= order.limit if order.side is OrderSide.BUY else price >= order.limit
        shares = min(left, self.size) if good else 0.0
        fills = (PaperFill(shares=shares, price=price, fee=shares * self.fee),) if shares > 0 else ()
        waits = RemainderState.DROPPED if visit.expires_at is None else RemainderState.RESTING
        fate = RemainderState.FILLED if left - shares < 1e-9 else waits
        return FillResult(
            remainder=fate,
            fills=fills,
            why="" if good else f"the price is {price:g}",
            market_state=f'{{"price":{price}}}',
        )

    def _price(self, contract: str, leg: ContractSide) -> float | None:
        price = self.prices.get(contract)
        return price if price is None or leg is ContractSide.YES else 1.0 - price
