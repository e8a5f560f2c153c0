"""The paper market of a venue with order books: the venue reads its contracts, and all the rest is done here.

An order takes the levels of the book within its limit, best first, each with the fee of a taker; the rest is dropped.
What own orders took of a level stays taken until the level shows another size.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from bot.core.errors import MalformedDataError, NotFoundError, RequestRejectedError
from bot.core.interfaces import Clock
from bot.core.orders import ContractSide, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Outcome, is_withdrawn_outcome
from bot.execution.book_planner import market_state
from bot.execution.order_book import BookLevel, levels_within_limit, subtract_consumed, walk_levels
from bot.execution.order_sizing import ContractMarket, price_of_yes
from bot.execution.paper.paper_market import EarlierPaperOrder, FillRequest, FillResult, PaperFill, RemainderState

# Reads a contract as it can be traded now; raises as ``PaperMarket.fill_new_order``, and NotFoundError.
MarketReader = Callable[[str], Awaitable[ContractMarket]]
PayoutRule = Callable[[Position, Outcome], float | UnpaidOutcome]
_UNREADABLE = (NotFoundError, MalformedDataError, RequestRejectedError)


def pay_winning_side(position: Position, outcome: Outcome) -> float | UnpaidOutcome:
    """Return 1 for a share of the side that came true and 0 for one of the other.

    A void question is refunded; one whose outcome was withdrawn is open again.
    """
    if is_withdrawn_outcome(outcome):
        return UnpaidOutcome.OPEN
    match outcome:
        case BinaryOutcome(value=value):
            yes = value
        case ChoiceOutcome(option=option):
            yes = float(option == position.option)
        case _:
            return UnpaidOutcome.REFUND
    return yes if position.leg is ContractSide.YES else 1.0 - yes


class OrderBookPaperMarket:
    """Implements ``PaperMarket`` for orders that are matched at once."""

    def __init__(self, read_market: MarketReader, clock: Clock, *, payout: PayoutRule = pay_winning_side) -> None:
        self._read_market, self._clock, self._payout = read_market, clock, payout

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        """Return None: no order rests."""
        return None

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        """Fill an order on the book as it is now."""
        try:
            market = await self._read_market(request.order.contract)
        except _UNREADABLE as error:
            return FillResult(remainder=RemainderState.DROPPED, why=f"the market cannot be read: {error}")
        return fill_from_book(request, market, self._clock.now())

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        """Return None: no order rests."""
        return None

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """Return the average of the bids for each whole position; shares beyond the bids count as 0.

        One without bids on a market that takes no orders is left out: nobody can bid, and it is not worthless.
        """
        markets: dict[str, ContractMarket] = {}
        for contract in dict.fromkeys(position.contract for position in positions):
            try:
                markets[contract] = await self._read_market(contract)
            except _UNREADABLE:
                continue
        return {
            (one.contract, one.leg): markets[one.contract].book.sale_price(one.leg, one.shares)
            for one in positions
            if one.contract in markets and _has_price(markets[one.contract], one.leg)
        }

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a share pays."""
        return self._payout(position, outcome)


def _has_price(market: ContractMarket, leg: ContractSide) -> bool:
    return not market.objection or bool(market.book.levels(leg, OrderSide.SELL))


def fill_from_book(request: FillRequest, market: ContractMarket, now: datetime) -> FillResult:
    """Return what an order takes of a book at once; the rest is dropped."""
    order, state = request.order, market_state(market, now)
    if market.objection or market.book.is_crossed:
        why = market.objection or "the book is crossed"
        return FillResult(remainder=RemainderState.DROPPED, why=why, market_state=state)
    shares, limit = Decimal(repr(order.shares)), Decimal(repr(order.limit))
    shown = levels_within_limit(market.book.levels(order.leg, order.side), order.side, limit)
    free = subtract_consumed(shown, _taken_sizes(request.earlier_orders, order, shown))
    walk = walk_levels(free, market.fees, shares=shares)
    is_filled = walk.size == shares
    return FillResult(
        remainder=RemainderState.FILLED if is_filled else RemainderState.DROPPED,
        fills=tuple(
            PaperFill(shares=float(one.size), price=float(one.price), fee=float(one.fee)) for one in walk.fills
        ),
        why="" if is_filled else f"{walk.size:f} of {shares:f} shares are offered within {limit:f}",
        market_state=state,
    )


def _taken_sizes(
    earlier_orders: Sequence[EarlierPaperOrder], order: Order, shown: Sequence[BookLevel]
) -> Mapping[Decimal, Decimal]:
    """Return, by price of the leg, what own orders took of levels that still show the same size; newest come first."""
    now, side = dict(shown), _book_side(order)
    taken: dict[Decimal, Decimal] = {}
    changed: set[Decimal] = set()
    for earlier in earlier_orders:
        if _book_side(earlier.order) != side or not earlier.fills:
            continue
        book = json.loads(earlier.market_state)["book"]
        sizes = {Decimal(price): Decimal(size) for price, size in book[side]}
        for fill in earlier.fills:
            yes_price = price_of_yes(earlier.order.leg, Decimal(repr(fill.price)))
            price = price_of_yes(order.leg, yes_price)
            if now.get(price) != sizes.get(yes_price):
                changed.add(price)
            elif price not in changed:
                taken[price] = taken.get(price, Decimal(0)) + Decimal(repr(fill.shares))
    return taken


def _book_side(order: Order) -> str:
    """Return which side of the book of YES an order takes: buying YES and selling NO take the asks."""
    return "asks" if (order.side is OrderSide.BUY) is (order.leg is ContractSide.YES) else "bids"
