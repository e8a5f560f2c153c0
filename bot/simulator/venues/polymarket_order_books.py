"""The order book of a market of the fake Polymarket: what it shows, and how takers are matched with it."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.polymarket_state import (
    ONE_DOLLAR,
    FakePolymarketMarket,
    FakePolymarketState,
    RestingSide,
    decimal_text,
)

BookLevels = Mapping[Decimal, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookMatch:
    """The fill of a taker at one price of the first outcome, and the maker."""

    level: Decimal
    size: Decimal
    makers: tuple[RestingSide, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakerOrder:
    """The request of a taker: at most ``size`` shares and ``spend`` dollars, to a level of the first outcome.

    Where ``mirrored`` the dollars are those of the second outcome.
    """

    is_bid: bool
    limit: Decimal | None = None
    size: Decimal | None = None
    spend: Decimal | None = None
    mirrored: bool = False

    def reaches(self, level: Decimal) -> bool:
        """Whether that price is good enough."""
        return self.limit is None or (level <= self.limit if self.is_bid else level >= self.limit)

    def remaining_shares(self, level: Decimal, got: Decimal, paid: Decimal) -> Decimal:
        """Return how many shares are still needed there, to a millionth where dollars count."""
        most = [] if self.size is None else [self.size - got]
        if self.spend is not None:
            most.append(
                ((self.spend - paid) / self.share_cost(level)).quantize(Decimal("0.000001"), rounding="ROUND_DOWN")
            )
        return max(min(most), Decimal(0))

    def share_cost(self, level: Decimal) -> Decimal:
        """Return the cost of one share there."""
        return ONE_DOLLAR - level if self.mirrored else level


def book_levels(state: FakePolymarketState, market: FakePolymarketMarket, *, bids: bool) -> dict[Decimal, Decimal]:
    """Return one side as it is shown, size by price of the first outcome."""
    total: dict[Decimal, Decimal] = defaultdict(Decimal)
    for price, size in (market.bids if bids else market.asks).items():
        total[price] += size
    for order in state.resting(market, bids=bids):
        total[order.level] += order.left
    return {price: size for price, size in total.items() if size > 0}


def best_price(state: FakePolymarketState, market: FakePolymarketMarket, *, bids: bool) -> Decimal | None:
    """Return the best price of the first outcome on a side, None where there is none."""
    shown = book_levels(state, market, bids=bids)
    return None if not shown else max(shown) if bids else min(shown)


def best_bid_and_ask(
    state: FakePolymarketState, market: FakePolymarketMarket, token: str
) -> tuple[Decimal | None, Decimal | None]:
    """Return best bid and best ask of a token."""
    bid, ask = best_price(state, market, bids=True), best_price(state, market, bids=False)
    if token == market.tokens[0]:
        return bid, ask
    return (None if ask is None else ONE_DOLLAR - ask), (None if bid is None else ONE_DOLLAR - bid)


def mid_price(state: FakePolymarketState, market: FakePolymarketMarket, token: str) -> Decimal | None:
    """Return the middle of a token's book, None where a side is empty."""
    bid, ask = best_bid_and_ask(state, market, token)
    return None if bid is None or ask is None else (bid + ask) / 2


def book_row(state: FakePolymarketState, market: FakePolymarketMarket, token: str) -> dict[str, Any]:
    """Return a book as the exchange shows it."""
    yes_bids, yes_asks = book_levels(state, market, bids=True), book_levels(state, market, bids=False)
    bids, asks = (
        (yes_bids, yes_asks) if token == market.tokens[0] else (_mirror_levels(yes_asks), _mirror_levels(yes_bids))
    )
    row = {
        "market": market.condition,
        "asset_id": token,
        "timestamp": str(market.moved_ms),
        "bids": _level_rows(sorted(bids.items())),
        "asks": _level_rows(sorted(asks.items(), reverse=True)),
        "min_order_size": decimal_text(market.min_size),
        "tick_size": decimal_text(market.tick),
        "neg_risk": market.neg_risk,
        # Of the first outcome, also in the book of the second.
        "last_trade_price": "" if market.last is None else decimal_text(market.last),
    }
    return {**row, "hash": hashlib.sha1(json.dumps(row).encode(), usedforsecurity=False).hexdigest()}


def preview_match(
    state: FakePolymarketState, market: FakePolymarketMarket, wanted: TakerOrder
) -> tuple[Decimal, Decimal]:
    """Return the shares and the dollars of a match, without matching."""
    got = paid = Decimal(0)
    for level, size in _reachable_levels(state, market, wanted):
        taken = min(size, wanted.remaining_shares(level, got, paid))
        got, paid = got + taken, paid + taken * wanted.share_cost(level)
    return got, paid


def match_taker(state: FakePolymarketState, market: FakePolymarketMarket, wanted: TakerOrder) -> list[BookMatch]:
    """Match a taker with the book, level by level."""
    got = paid = Decimal(0)
    found: list[BookMatch] = []
    for level, size in _reachable_levels(state, market, wanted):
        taken = min(size, wanted.remaining_shares(level, got, paid))
        if taken <= 0:
            break
        found.append(BookMatch(level=level, size=taken, makers=_match_level(state, market, wanted, level, taken)))
        got, paid = got + taken, paid + taken * wanted.share_cost(level)
    return found


def trim_queue(state: FakePolymarketState, market: FakePolymarketMarket, price: Decimal, *, bids: bool) -> None:
    """After the crowd removed size from a level: no order has more ahead of it than there is."""
    there = (market.bids if bids else market.asks).get(price, Decimal(0))
    for order in state.resting(market, bids=bids):
        if order.level == price:
            order.ahead = min(order.ahead, there)


def _reachable_levels(
    state: FakePolymarketState, market: FakePolymarketMarket, wanted: TakerOrder
) -> list[tuple[Decimal, Decimal]]:
    shown = sorted(book_levels(state, market, bids=not wanted.is_bid).items(), reverse=not wanted.is_bid)
    return [(level, size) for level, size in shown if wanted.reaches(level)]


def _match_level(
    state: FakePolymarketState, market: FakePolymarketMarket, wanted: TakerOrder, level: Decimal, size: Decimal
) -> tuple[RestingSide, ...]:
    """Take shares from one level: the crowd ahead of an order, the order, the rest of the crowd."""
    crowd = market.asks if wanted.is_bid else market.bids
    queue = [order for order in state.resting(market, bids=not wanted.is_bid) if order.level == level]
    makers: list[RestingSide] = []
    left, gone = size, Decimal(0)
    for order in queue:
        before = min(left, max(order.ahead - gone, Decimal(0)))
        gone, left = gone + before, left - before
        part = min(left, order.left)
        if part > 0:
            makers.append(RestingSide(order=order, size=part))
            order.matched += part
            left -= part
    gone += left
    if gone > 0:
        makers.append(RestingSide(order=None, size=gone))
        crowd[level] = crowd.get(level, Decimal(0)) - gone
        if crowd[level] <= 0:
            del crowd[level]
    for order in queue:
        order.ahead = max(order.ahead - gone, Decimal(0))
    return tuple(makers)


def _mirror_levels(shown: BookLevels) -> dict[Decimal, Decimal]:
    return {ONE_DOLLAR - price: size for price, size in shown.items()}


def _level_rows(shown: list[tuple[Decimal, Decimal]]) -> list[dict[str, str]]:
    return [{"price": decimal_text(price), "size": decimal_text(size)} for price, size in shown]


def round_to_tick(price: Decimal, tick: Decimal) -> Decimal:
    """Return the nearest price on the grid."""
    return (price / tick).quantize(ONE_DOLLAR, rounding="ROUND_HALF_UP") * tick
