"""Books from the socket: full books, and changes to known ones, counted by a number in each subscription.

After a gap in the numbers all books of the subscription are unknown, and it must be made again. Prices of both sides
are those of YES, as the subscription asks. Source: docs/facts/kalshi.md#socket.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from bot.api import MalformedDataError
from plugins.kalshi.market_parser import JsonRecord, parse_decimal, parse_decimal_text

BestPrices = tuple[Decimal | None, Decimal | None]
_SIDES = ("yes", "no")


@dataclass(slots=True)
class LiveBook:
    """Bids and asks of YES with their sizes."""

    bids: dict[Decimal, Decimal] = field(default_factory=dict)
    asks: dict[Decimal, Decimal] = field(default_factory=dict)

    @property
    def best_prices(self) -> BestPrices:
        """The highest bid and the lowest ask, None where there is none."""
        return max(self.bids, default=None), min(self.asks, default=None)

    def change_level(self, side: str, price: Decimal, delta: Decimal) -> None:
        """Add to the size of a level; raises MalformedDataError for a size below 0."""
        levels = self.bids if side == "yes" else self.asks
        size = levels.pop(price, Decimal(0)) + delta
        if side not in _SIDES or size < 0:
            message = f"a change to {size} contracts on the side {side!r:.20}"
            raise MalformedDataError(message)
        if size:
            levels[price] = size


@dataclass(slots=True)
class BookSubscription:
    """The books of one subscription by ticker; those that are missing are unknown. ``number`` is the last one."""

    tickers: tuple[str, ...]
    books: dict[str, LiveBook] = field(default_factory=dict)
    number: int | None = None

    def apply_frame(self, frame: JsonRecord) -> str | None:
        """Apply a frame; return the ticker of a book that may have changed, None for another frame.

        Raises MalformedDataError after a gap, and for a frame that cannot be read: then make the subscription again.
        """
        number = frame.get("seq")
        if isinstance(number, bool) or not isinstance(number, int):
            message = f"a frame of the socket has the number {number!r:.20}"
            raise MalformedDataError(message)
        if self.number is not None and number != self.number + 1:
            message = f"the socket went from number {self.number} to {number}"
            raise MalformedDataError(message)
        self.number = number
        content = frame.get("msg")
        return self._apply_content(str(frame.get("type")), content if isinstance(content, dict) else {})

    def _apply_content(self, kind: str, fields: JsonRecord) -> str | None:
        ticker = str(fields.get("market_ticker", ""))
        if ticker not in self.tickers:
            return None
        if kind == "orderbook_snapshot":
            bids, asks = (dict(_levels(fields.get(f"{side}_dollars_fp"), ticker)) for side in _SIDES)
            self.books[ticker] = LiveBook(bids, asks)
            return ticker
        if kind != "orderbook_delta" or ticker not in self.books:
            return None
        price, delta = (parse_decimal(fields, name, ticker) for name in ("price_dollars", "delta_fp"))
        self.books[ticker].change_level(str(fields.get("side")), price, delta)
        return ticker


def _levels(rows: object, ticker: str) -> Iterable[tuple[Decimal, Decimal]]:
    """Yield the levels of a side; a side without levels may be left out."""
    if not isinstance(rows, list | None):
        message = f"{ticker}: a side of the book is not a list"
        raise MalformedDataError(message)
    for row in rows or ():
        if not isinstance(row, list) or len(row) != 2:
            message = f"{ticker}: a level is not price and count"
            raise MalformedDataError(message)
        price, size = (parse_decimal_text(value, ticker) for value in row)
        if size > 0:
            yield price, size
