"""The paper book of this venue: its market for ``bot.execution.paper``; it reads, and sends nothing.

An order meets the book after its delay, level by level, each with a fee; the rest is dropped. What own orders took of a
level is gone until the level changes. Source: docs/facts/kalshi.md#paper.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    Clock,
    ContractSide,
    EarlierPaperOrder,
    FillRequest,
    FillResult,
    MalformedDataError,
    NotFoundError,
    Order,
    OrderBook,
    OrderSide,
    Outcome,
    PaperBookContext,
    PaperBookTerms,
    PaperFill,
    Position,
    RemainderState,
    RequestRejectedError,
    ShareFees,
    UnpaidOutcome,
    VenueSubmitter,
    VoidOutcome,
    levels_within_limit,
    open_paper_book,
    subtract_consumed,
    walk_levels,
)
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.market_parser import ACTIVE, ONE
from plugins.kalshi.order_books import parse_book, taker_fees
from plugins.kalshi.planner import CURRENCY, read_event_state
from plugins.kalshi.questions import SCALAR_REASON, winning_ticker
from plugins.kalshi.settings import KalshiSettings


class KalshiPaperMarket:
    """Implements ``PaperMarket``."""

    def __init__(self, settings: KalshiSettings, client: KalshiClient, clock: Clock) -> None:
        self._client, self._clock, self._max_spread = client, clock, Decimal(str(settings.max_spread))

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        return None

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        order = request.order
        try:
            state = await read_event_state(self._client, str(order.terms.get("event", "")))
            book = parse_book(await self._client.book(order.contract), order.contract)
        except (NotFoundError, MalformedDataError, RequestRejectedError) as error:
            return FillResult(remainder=RemainderState.DROPPED, why=f"the market cannot be read: {error}")
        market = state.markets.get(order.contract)
        text = json.dumps({"at": self._clock.now().isoformat(), "rate": str(state.rate), "book": book.to_map()})
        if market is None or market.status != ACTIVE or market.closes_at <= self._clock.now():
            return FillResult(remainder=RemainderState.DROPPED, why="the market is not open", market_state=text)
        if (why := book.unusable_reason(self._max_spread)) is not None:
            return FillResult(remainder=RemainderState.DROPPED, why=why, market_state=text)
        shown = book.levels(order.leg, order.side)
        sizes, wanted = dict(shown), Decimal(repr(order.shares))
        within = levels_within_limit(shown, order.side, Decimal(repr(order.limit)))
        free = subtract_consumed(within, _taken_levels(request.earlier_orders, order, sizes))
        walk = walk_levels(free, taker_fees(state.rate), shares=wanted)
        return FillResult(
            remainder=RemainderState.FILLED if walk.size == wanted else RemainderState.DROPPED,
            fills=tuple(
                PaperFill(
                    shares=float(one.size),
                    price=float(one.price),
                    fee=float(one.fee),
                    detail=json.dumps(
                        {
                            "pool": _pool(order),
                            "level": str(_pool_price(order, one.price)),
                            "shown": str(sizes[one.price]),
                        }
                    ),
                )
                for one in walk.fills
            ),
            why="" if walk.fills else f"no fill: nothing was offered within {order.limit:g}",
            market_state=text,
        )

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        return None

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """See ``PaperMarket``: the average of the bids for the whole position; a market without a book is left out."""
        books: dict[str, OrderBook] = {}
        for ticker in dict.fromkeys(position.contract for position in positions):
            try:
                books[ticker] = parse_book(await self._client.book(ticker), ticker)
            except (NotFoundError, MalformedDataError, RequestRejectedError):
                continue
        return {
            (one.contract, one.leg): mark_position(books[one.contract], one)
            for one in positions
            if one.contract in books
        }

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return share_payout(position, outcome)


def share_payout(position: Position, outcome: Outcome) -> float | UnpaidOutcome:
    """Return what a contract pays; a market that is settled between yes and no pays both legs their part.

    The market counts, because options can be renamed. An outcome that names no market pays only the option of that
    name: another name may be a new one of the same option.
    """
    yes: float
    match outcome:
        case BinaryOutcome(value=value):
            yes = value
        case ChoiceOutcome() if (winner := winning_ticker(outcome)) is not None:
            yes = float(winner == position.contract)
        case ChoiceOutcome(option=option) if option == position.option:
            yes = 1.0
        case VoidOutcome(reason=reason) if outcome.shares or reason.startswith(SCALAR_REASON):
            yes = outcome.shares.get(position.contract, outcome.shares.get("", 0.0))
        case _:
            return UnpaidOutcome.OPEN
    return yes if position.leg is ContractSide.YES else 1.0 - yes


def mark_position(book: OrderBook, position: Position) -> float | None:
    """Return the average price if all were sold now; contracts beyond the bids count as 0, None without bids."""
    bids, held = book.levels(position.leg, OrderSide.SELL), Decimal(repr(position.shares))
    return float(walk_levels(bids, ShareFees(), shares=held).value / held) if bids and held > 0 else None


def _taken_levels(
    earlier_orders: Sequence[EarlierPaperOrder], order: Order, shown: Mapping[Decimal, Decimal]
) -> dict[Decimal, Decimal]:
    """Return what own orders took of levels that still show the same size; newest orders come first."""
    taken: dict[Decimal, Decimal] = {}
    refreshed: set[Decimal] = set()
    for fill in (fill for one in earlier_orders for fill in one.fills):
        detail = json.loads(fill.detail)
        if detail["pool"] != _pool(order):
            continue
        price = _pool_price(order, Decimal(detail["level"]))
        if shown.get(price) != Decimal(detail["shown"]):
            refreshed.add(price)
        elif price not in refreshed:
            taken[price] = taken.get(price, Decimal(0)) + Decimal(repr(fill.shares))
    return taken


def _pool(order: Order) -> str:
    """Return whose bids an order takes: buying YES and selling NO take those of NO."""
    return "no" if (order.side is OrderSide.BUY) is (order.leg is ContractSide.YES) else "yes"


def _pool_price(order: Order, price: Decimal) -> Decimal:
    """Return the price of a bid in the pool from that of an order, or the reverse."""
    return ONE - price if order.side is OrderSide.BUY else price


@asynccontextmanager
async def open_paper(settings: KalshiSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    """Open the paper book; it reads without a key. Pairs of YES and NO are paid 1 at once."""
    client = KalshiClient(settings, context.http, context.clock)
    market = KalshiPaperMarket(settings, client, context.clock)
    async with open_paper_book(context, market, PaperBookTerms(currency=CURRENCY, redeems=True)) as book:
        yield book
