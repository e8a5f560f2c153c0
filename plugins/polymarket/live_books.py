"""Books from the socket: full books, and changes to known ones. After any gap a book is unknown.

Frames and responses are ordered by the venue's clock, not by arrival. Source: docs/facts/polymarket.md#sockets.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from bot.api import MalformedDataError
from plugins.polymarket.json_values import parse_decimal, parse_list, parse_moment, parse_record, parse_text
from plugins.polymarket.order_books import TICK_SIZES, PolymarketOrderBook, parse_book

EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
BestPrices = tuple[Decimal | None, Decimal | None]


@dataclass(slots=True)
class _LiveBook:
    """One book; its sides are None while it is unknown. ``heard_s`` is when it was last updated, by our clock."""

    sides: tuple[dict[Decimal, Decimal], dict[Decimal, Decimal]] | None = None
    at: datetime = EPOCH_START
    heard_s: float = 0.0

    @property
    def best_prices(self) -> BestPrices:
        bids, asks = self.sides or ({}, {})
        return max(bids, default=None), min(asks, default=None)


@dataclass(slots=True)
class LiveBooks:
    """The books of the tokens of one feed, from all its sockets."""

    _books: dict[str, _LiveBook] = field(default_factory=dict)

    def forget_books(self, tokens: Iterable[str], *, now_s: float) -> None:
        """Mark these tokens unknown, as after a connection is made."""
        for token in tokens:
            self._books[token] = _LiveBook(heard_s=now_s)

    def best_prices(self, token: str) -> tuple[BestPrices, datetime] | None:
        """Return best bid and best ask and since when; None for an unknown book."""
        live = self._books.get(token)
        return None if live is None or live.sides is None else (live.best_prices, live.at)

    def unknown_tokens(self, tokens: Iterable[str]) -> list[str]:
        """Return the tokens with an unknown book."""
        return [token for token in tokens if self.best_prices(token) is None]

    def silent_tokens(self, tokens: Iterable[str], *, since_s: float) -> list[str]:
        """Return the tokens with a known book that had no update since then."""
        return [
            token for token in tokens if self.best_prices(token) is not None and self._books[token].heard_s < since_s
        ]

    def matches_reading(self, book: PolymarketOrderBook, *, now_s: float) -> bool:
        """Store a silent book that was read over HTTP; return whether it matches the known one."""
        live = self._books[book.token]
        same = book.at <= live.at or live.best_prices == (book.best_bid, book.best_ask)
        self.store_book(book, now_s=now_s)
        live.heard_s = now_s
        return same

    def store_book(self, book: PolymarketOrderBook, *, now_s: float) -> bool:
        """Store a full book unless it is older than the known one; return whether its token is watched."""
        live = self._books.get(book.token)
        if live is None:
            return False
        if live.sides is None or book.at > live.at:
            # A repeated book is not an update.
            live.heard_s = now_s
        if live.sides is None or book.at >= live.at:
            live.sides, live.at = (dict(book.bids), dict(book.asks)), book.at
        return True

    def apply_message(self, text: str, *, now_s: float) -> set[str]:
        """Apply a message; return the tokens whose book may have changed. An invalid message is a gap."""
        if text == "PONG":
            return set()
        try:
            decoded = json.loads(text)
        except (ValueError, RecursionError):
            return self.invalidate_books(list(self._books))
        changed: set[str] = set()
        for frame in parse_list(decoded) if isinstance(decoded, list) else [decoded]:  # type: ignore[union-attr]
            changed |= self._frame(parse_record(frame), now_s)
        return changed

    def invalidate_books(self, tokens: Collection[str]) -> set[str]:
        """Mark these books unknown until they are received in full."""
        lost = {token for token in tokens if token in self._books}
        for token in lost:
            self._books[token].sides = None
        return lost

    def _frame(self, frame: Mapping[str, object], now_s: float) -> set[str]:
        token = parse_text(frame.get("asset_id"))
        match parse_text(frame.get("event_type")):
            case "book":
                return self._whole(frame, token, now_s)
            case "price_change":
                return self._changes(frame, now_s)
            case "best_bid_ask":
                return self._checked({token}, {token: frame})
            case "tick_size_change":
                return self.invalidate_books([token])
            case "market_resolved":
                ids = [parse_text(item) for item in parse_list(frame.get("assets_ids")) or ()]
                return self.invalidate_books([*ids, parse_text(frame.get("winning_asset_id"))])
        return set()

    def _whole(self, frame: Mapping[str, object], token: str, now_s: float) -> set[str]:
        try:
            # The tick is not needed here, and some frames omit it.
            return {token} if self.store_book(parse_book(frame, tick=TICK_SIZES[-1]), now_s=now_s) else set()
        except MalformedDataError:
            return self.invalidate_books([token])

    def _changes(self, frame: Mapping[str, object], now_s: float) -> set[str]:
        at = parse_moment(frame.get("timestamp"))
        changes: dict[str, Mapping[str, object]] = {}
        changed: set[str] = set()
        for item in parse_list(frame.get("price_changes")) or ():
            change = parse_record(item)
            token = parse_text(change.get("asset_id"))
            live = self._books.get(token)
            if live is None:
                continue
            if live.sides is None or (at is not None and at < live.at):
                continue
            if at is not None and at > live.at:
                live.heard_s = now_s
            if at is None or not _apply_change(live.sides, change):
                changed |= self.invalidate_books([token])
                continue
            live.at = at
            changed.add(token)
            changes[token] = change
        return self._checked(changed, changes)

    def _checked(self, changed: set[str], changes: Mapping[str, Mapping[str, object]]) -> set[str]:
        """Invalidate books whose best prices differ from those of a frame: something was missed."""
        for token, frame in changes.items():
            known = self.best_prices(token)
            if known is not None and any(
                decoded is not None and 0 < decoded < 1 and decoded != best
                for decoded, best in zip(
                    (parse_decimal(frame.get("best_bid")), parse_decimal(frame.get("best_ask"))), known[0], strict=True
                )
            ):
                self.invalidate_books([token])
        return changed & self._books.keys()


def _apply_change(sides: tuple[dict[Decimal, Decimal], dict[Decimal, Decimal]], change: Mapping[str, object]) -> bool:
    """Set the absolute size of one level, 0 for none; return whether the change was valid."""
    price, size = parse_decimal(change.get("price")), parse_decimal(change.get("size"))
    side = {"BUY": sides[0], "SELL": sides[1]}.get(parse_text(change.get("side")).upper())
    if price is None or size is None or side is None or size < 0 or not 0 < price < 1:
        return False
    if size:
        side[price] = size
    else:
        side.pop(price, None)
    return True
