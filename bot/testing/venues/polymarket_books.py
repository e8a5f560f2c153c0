"""The book of a market of the fake Polymarket: what it shows, and how a taker goes through it.

Bids ascend and asks descend, so the best level is the last one of each. The book of the second outcome is the mirror of
the first: one pool, shown twice. Within a level the crowd that was there first is filled first.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.testing.venues.polymarket_state import ONE, Maker, Market, State, plain

Levels = Mapping[Decimal, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a taker got at one price of the first outcome, and from whom."""

    level: Decimal
    size: Decimal
    makers: tuple[Maker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appetite:
    """What a taker wants: at most ``size`` shares and ``spend`` dollars, to a level of the first outcome.

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

    def at(self, level: Decimal, got: Decimal, paid: Decimal) -> Decimal:
        """Return how many shares are still wanted there, to a millionth where dollars count."""
        most = [] if self.size is None else [self.size - got]
        if self.spend is not None:
            most.append(((self.spend - paid) / self.cost(level)).quantize(Decimal("0.000001"), rounding="ROUND_DOWN"))
        return max(min(most), Decimal(0))

    def cost(self, level: Decimal) -> Decimal:
        """Return what one share costs there."""
        return ONE - level if self.mirrored else level


def levels(state: State, market: Market, *, bids: bool) -> dict[Decimal, Decimal]:
    """Return one side as it is shown, size by price of the first outcome."""
    total: dict[Decimal, Decimal] = defaultdict(Decimal)
    for price, size in (market.bids if bids else market.asks).items():
        total[price] += size
    for order in state.resting(market, bids=bids):
        total[order.level] += order.left
    return {price: size for price, size in total.items() if size > 0}


def best(state: State, market: Market, *, bids: bool) -> Decimal | None:
    """Return the best price of the first outcome on a side, None where there is none."""
    shown = levels(state, market, bids=bids)
    return None if not shown else max(shown) if bids else min(shown)


def touch(state: State, market: Market, token: str) -> tuple[Decimal | None, Decimal | None]:
    """Return best bid and best ask of a token."""
    bid, ask = best(state, market, bids=True), best(state, market, bids=False)
    if token == market.tokens[0]:
        return bid, ask
    return (None if ask is None else ONE - ask), (None if bid is None else ONE - bid)


def mid(state: State, market: Market, token: str) -> Decimal | None:
    """Return the middle of a token's book, None where a side is empty."""
    bid, ask = touch(state, market, token)
    return None if bid is None or ask is None else (bid + ask) / 2


def book_row(state: State, market: Market, token: str) -> dict[str, Any]:
    """Return a book as the exchange shows it."""
    yes_bids, yes_asks = levels(state, market, bids=True), levels(state, market, bids=False)
    bids, asks = (yes_bids, yes_asks) if token == market.tokens[0] else (_mirror(yes_asks), _mirror(yes_bids))
    row = {
        "market": market.condition,
        "asset_id": token,
        "timestamp": str(market.moved_ms),
        "bids": _rows(sorted(bids.items())),
        "asks": _rows(sorted(asks.items(), reverse=True)),
        "min_order_size": plain(market.min_size),
        "tick_size": plain(market.tick),
        "neg_risk": market.neg_risk,
        # Of the first outcome, also in the book of the second.
        "last_trade_price": "" if market.last is None else plain(market.last),
    }
    return {**row, "hash": hashlib.sha1(json.dumps(row).encode(), usedforsecurity=False).hexdigest()}


def foreseen(state: State, market: Market, wanted: Appetite) -> tuple[Decimal, Decimal]:
    """Return the shares and the dollars of a match, without matching."""
    got = paid = Decimal(0)
    for level, size in _reached(state, market, wanted):
        taken = min(size, wanted.at(level, got, paid))
        got, paid = got + taken, paid + taken * wanted.cost(level)
    return got, paid


def take(state: State, market: Market, wanted: Appetite) -> list[Match]:
    """Match a taker with the book, level by level."""
    got = paid = Decimal(0)
    found: list[Match] = []
    for level, size in _reached(state, market, wanted):
        taken = min(size, wanted.at(level, got, paid))
        if taken <= 0:
            break
        found.append(Match(level=level, size=taken, makers=_from_level(state, market, wanted, level, taken)))
        got, paid = got + taken, paid + taken * wanted.cost(level)
    return found


def cut_queue(state: State, market: Market, price: Decimal, *, bids: bool) -> None:
    """After the crowd took size away from a level: nobody is behind more than is there."""
    there = (market.bids if bids else market.asks).get(price, Decimal(0))
    for order in state.resting(market, bids=bids):
        if order.level == price:
            order.ahead = min(order.ahead, there)


def _reached(state: State, market: Market, wanted: Appetite) -> list[tuple[Decimal, Decimal]]:
    shown = sorted(levels(state, market, bids=not wanted.is_bid).items(), reverse=not wanted.is_bid)
    return [(level, size) for level, size in shown if wanted.reaches(level)]


def _from_level(state: State, market: Market, wanted: Appetite, level: Decimal, size: Decimal) -> tuple[Maker, ...]:
    """Take shares from one level: the crowd ahead of an order, the order, the rest of the crowd."""
    crowd = market.asks if wanted.is_bid else market.bids
    queue = [order for order in state.resting(market, bids=not wanted.is_bid) if order.level == level]
    makers: list[Maker] = []
    left, gone = size, Decimal(0)
    for order in queue:
        before = min(left, max(order.ahead - gone, Decimal(0)))
        gone, left = gone + before, left - before
        part = min(left, order.left)
        if part > 0:
            makers.append(Maker(order=order, size=part))
            order.matched += part
            left -= part
    gone += left
    if gone > 0:
        makers.append(Maker(order=None, size=gone))
        crowd[level] = crowd.get(level, Decimal(0)) - gone
        if crowd[level] <= 0:
            del crowd[level]
    for order in queue:
        order.ahead = max(order.ahead - gone, Decimal(0))
    return tuple(makers)


def _mirror(shown: Levels) -> dict[Decimal, Decimal]:
    return {ONE - price: size for price, size in shown.items()}


def _rows(shown: list[tuple[Decimal, Decimal]]) -> list[dict[str, str]]:
    return [{"price": plain(price), "size": plain(size)} for price, size in shown]


def rounded_to(price: Decimal, tick: Decimal) -> Decimal:
    """Return the price on the grid that is nearest."""
    return (price / tick).quantize(ONE, rounding="ROUND_HALF_UP") * tick
