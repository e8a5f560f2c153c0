"""Books as the socket tells them: whole ones, and changes to what is known whole. After any gap a book is unknown.

Frames and answers are put in order by the venue's clock, not by when they came. Source: venue document, section 7.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from bot.api import ContractError
from plugins.polymarket.books import TICKS, Book, parse_book
from plugins.polymarket.raw import decimal_of, list_of, moment_of, record_of, text_of

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
Touch = tuple[Decimal | None, Decimal | None]


@dataclass(slots=True)
class _Live:
    """One book; None for sides while it is unknown. ``heard_s`` is when it was last told of anew, by our clock."""

    sides: tuple[dict[Decimal, Decimal], dict[Decimal, Decimal]] | None = None
    at: datetime = LONG_AGO
    heard_s: float = 0.0

    @property
    def touch(self) -> Touch:
        bids, asks = self.sides or ({}, {})
        return max(bids, default=None), min(asks, default=None)


@dataclass(slots=True)
class LiveBooks:
    """The books of the tokens of one feed, whichever socket tells them."""

    gaps: int = 0
    _books: dict[str, _Live] = field(default_factory=dict)

    def begin(self, tokens: Iterable[str], *, now_s: float) -> None:
        """Know nothing of these tokens, as after a connection is made."""
        for token in tokens:
            self._books[token] = _Live(heard_s=now_s)

    def touch(self, token: str) -> tuple[Touch, datetime] | None:
        """Return best bid and best ask and since when; None for a book that is not known."""
        live = self._books.get(token)
        return None if live is None or live.sides is None else (live.touch, live.at)

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """Return those tokens whose book is not known."""
        return [token for token in tokens if self.touch(token) is None]

    def silent(self, tokens: Iterable[str], *, since_s: float) -> list[str]:
        """Return those tokens whose book is known and was not told of since then."""
        return [token for token in tokens if self.touch(token) is not None and self._books[token].heard_s < since_s]

    def compared(self, book: Book, *, now_s: float) -> bool:
        """Note a silent book that was read; say whether it is the one that is known."""
        live = self._books[book.token]
        same = book.at <= live.at or live.touch == (book.best_bid, book.best_ask)
        self.install(book, now_s=now_s)
        live.heard_s = now_s
        return same

    def install(self, book: Book, *, now_s: float) -> bool:
        """Take over a whole book that is not older than what is known; say whether it is one of ours."""
        live = self._books.get(book.token)
        if live is None:
            return False
        if live.sides is None or book.at > live.at:
            # What comes again says nothing.
            live.heard_s = now_s
        if live.sides is None or book.at >= live.at:
            live.sides, live.at = (dict(book.bids), dict(book.asks)), book.at
        return True

    def hear(self, text: str, *, now_s: float) -> set[str]:
        """Take a message; return the tokens whose book may have changed. What cannot be read leaves a gap."""
        if text == "PONG":
            return set()
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return self.lose(list(self._books))
        touched: set[str] = set()
        for frame in list_of(said) if isinstance(said, list) else [said]:  # type: ignore[union-attr]
            touched |= self._frame(record_of(frame), now_s)
        return touched

    def lose(self, tokens: Collection[str]) -> set[str]:
        """Forget what is known of these books until they come whole."""
        lost = {token for token in tokens if token in self._books}
        for token in lost:
            self.gaps += self._books[token].sides is not None
            self._books[token].sides = None
        return lost

    def _frame(self, frame: Mapping[str, object], now_s: float) -> set[str]:
        token = text_of(frame.get("asset_id"))
        match text_of(frame.get("event_type")):
            case "book":
                return self._whole(frame, token, now_s)
            case "price_change":
                return self._changes(frame, now_s)
            case "best_bid_ask":
                return self._checked({token}, {token: frame})
            case "tick_size_change":
                return self.lose([token])
            case "market_resolved":
                ids = [text_of(item) for item in list_of(frame.get("assets_ids")) or ()]
                return self.lose([*ids, text_of(frame.get("winning_asset_id"))])
        return set()

    def _whole(self, frame: Mapping[str, object], token: str, now_s: float) -> set[str]:
        try:
            # The tick is not needed here, and some frames leave it out.
            return {token} if self.install(parse_book(frame, tick=TICKS[-1]), now_s=now_s) else set()
        except ContractError:
            return self.lose([token])

    def _changes(self, frame: Mapping[str, object], now_s: float) -> set[str]:
        at = moment_of(frame.get("timestamp"))
        told: dict[str, Mapping[str, object]] = {}
        touched: set[str] = set()
        for item in list_of(frame.get("price_changes")) or ():
            change = record_of(item)
            token = text_of(change.get("asset_id"))
            live = self._books.get(token)
            if live is None:
                continue
            if live.sides is None or (at is not None and at < live.at):
                continue
            if at is not None and at > live.at:
                live.heard_s = now_s
            if at is None or not _applied(live.sides, change):
                touched |= self.lose([token])
                continue
            live.at = at
            touched.add(token)
            told[token] = change
        return self._checked(touched, told)

    def _checked(self, touched: set[str], told: Mapping[str, Mapping[str, object]]) -> set[str]:
        """Lose books whose best prices are not those that a frame says: something was missed."""
        for token, frame in told.items():
            known = self.touch(token)
            if known is not None and any(
                said is not None and 0 < said < 1 and said != best
                for said, best in zip(
                    (decimal_of(frame.get("best_bid")), decimal_of(frame.get("best_ask"))), known[0], strict=True
                )
            ):
                self.lose([token])
        return touched & self._books.keys()


def _applied(sides: tuple[dict[Decimal, Decimal], dict[Decimal, Decimal]], change: Mapping[str, object]) -> bool:
    """Set the size of one level, which is absolute, 0 for none; say whether the change could be read."""
    price, size = decimal_of(change.get("price")), decimal_of(change.get("size"))
    side = {"BUY": sides[0], "SELL": sides[1]}.get(text_of(change.get("side")).upper())
    if price is None or size is None or side is None or size < 0 or not 0 < price < 1:
        return False
    if size:
        side[price] = size
    else:
        side.pop(price, None)
    return True
