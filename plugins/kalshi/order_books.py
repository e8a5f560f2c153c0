"""The book of a market, and the fees of takers.

The venue lists bids for YES and bids for NO; both are one pool, so a bid for NO at p is an ask of YES at 1 - p. Source:
docs/facts/kalshi.md#books and #fees.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from bot.api import MalformedDataError, Order, OrderBook, Question, RequestRejectedError, ShareFees
from plugins.kalshi.market_parser import ONE, JsonRecord, KalshiFeeTerms, PriceRange, parse_decimal_text

TAKER_RATE = Decimal("0.07")
FEE_STEP = Decimal("0.0001")
COUNT_STEP = Decimal("0.01")
# Others, such as a flat fee, have no published formula.
QUADRATIC_FEES = frozenset({"quadratic", "quadratic_with_maker_fees", "quadratic_with_combo_maker_fees"})


def parse_book(record: JsonRecord, ticker: str) -> OrderBook:
    """Parse a book whose levels come in any order; raises MalformedDataError."""
    yes, no = (_parse_side(record.get(name), f"{ticker}: {name}") for name in ("yes_dollars", "no_dollars"))
    return OrderBook.from_levels(ticker, bids=yes, asks=[(ONE - price, size) for price, size in no])


def fee_rate(fees: KalshiFeeTerms) -> Decimal:
    """Return the rate of takers; raises RequestRejectedError for fees without a known formula."""
    if fees.type not in QUADRATIC_FEES or fees.multiplier is None:
        message = f"its fees are unknown (type {fees.type!r}, multiplier {fees.multiplier}), so it is not traded"
        raise RequestRejectedError(message)
    return TAKER_RATE * fees.multiplier


def taker_fees(rate: Decimal) -> ShareFees:
    """Return the fees of takers: the rate times p (1 - p) for a contract, each fill rounded up to 0.0001 dollars."""
    return ShareFees(formula=lambda price: rate * price * (ONE - price), step=FEE_STEP)


def order_fees(question: Question, _order: Order) -> ShareFees:
    """Return the fees of an order on a question as it was read; raises RequestRejectedError if they are unknown."""
    if not (rate := question.facts.get("fee_rate")):
        message = f"{question.ref}: its fees were unknown when it was read"
        raise RequestRejectedError(message)
    return taker_fees(parse_decimal_text(rate, f"{question.ref}: the fee rate"))


def is_on_grid(price: Decimal, ranges: Sequence[PriceRange]) -> bool:
    """Return whether an order may have that price of YES."""
    return any(one.start <= price <= one.end and (price - one.start) % one.step == 0 for one in ranges)


def _parse_side(rows: object, what: str) -> Iterator[tuple[Decimal, Decimal]]:
    if not isinstance(rows, list):
        message = f"{what} is not a list"
        raise MalformedDataError(message)
    for row in rows:
        if not isinstance(row, list) or len(row) != 2:
            message = f"{what}: a level is not price and count"
            raise MalformedDataError(message)
        price, size = (parse_decimal_text(value, what) for value in row)
        yield price, size
