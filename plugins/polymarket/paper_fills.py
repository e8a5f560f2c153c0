"""The fills of paper orders: pure, deterministic functions.

A new order is filled from the book on arrival. There is one pool for both sides, and what an own paper order took from
a level is not there for the next one until the level shows another size. Nothing is filled where it is not certain that
something was there. A resting order is filled by trades, never by quotes, at its own price and without a fee; all
trades since its arrival are counted again each time, so none counts twice. Source:
docs/facts/polymarket.md#paper-fills.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bot.api import (
    BookWalkResult,
    ContractSide,
    EarlierPaperOrder,
    FillRequest,
    FillResult,
    Json,
    LevelFill,
    MalformedDataError,
    OrderSide,
    PaperFill,
    RemainderState,
    levels_within_limit,
    price_of_yes,
    subtract_consumed,
    walk_levels,
)
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.json_values import parse_decimal, parse_moment, parse_record, parse_text
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_books import BookRequirements, PolymarketOrderBook, book_of_side
from plugins.polymarket.order_terms import PolymarketOrderTerms, PolymarketOrderType

# In some of these windows the exchange is restarting, as settings say.
RESTART_WINDOW = timedelta(minutes=10)


MAKER_FILL = "waited"


_REPORT_PRECISION = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFailures:
    """The rates of simulated venue failures on paper; which orders fail depends only on the seed."""

    refused: float = 0.0
    restarting: float = 0.0
    failed: float = 0.0
    seed: str = ""

    def happens(self, reason_text: str, subject: str) -> bool:
        """Return whether a failure happens to a subject: an order, or a window of time."""
        digest = hashlib.sha256(f"{self.seed}|{reason_text}|{subject}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64 < float(getattr(self, reason_text))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOrderArrival:
    """An order arriving at the venue: the moment, the book of YES, and our earlier orders.

    ``refusal`` says why the venue accepts no orders of the market at all.
    """

    intent: str
    terms: PolymarketOrderTerms
    expected: Decimal
    book: PolymarketOrderBook | None
    at: datetime
    earlier_orders: Sequence[EarlierPaperOrder] = ()
    requirements: BookRequirements
    failures: SimulatedFailures = SimulatedFailures()
    refusal: str | None = None


def fill_on_arrival(arrival: PaperOrderArrival) -> FillResult:
    """Fill what is available within the limit, or say why nothing is; the state holds the book and the report."""
    book, why = arrival.book, _arrival_objection(arrival)
    if book is None or why is not None:
        return _drop_order(arrival, why or "there is no book")
    terms = arrival.terms
    leg_book = book_of_side(book, terms.leg, terms.token)
    levels = levels_within_limit(book.levels(terms.leg, terms.side), terms.side, terms.price)
    if terms.type.is_resting:
        return _rest_order(arrival, book, crossing=bool(levels))
    shown = dict(levels)
    available = subtract_consumed(levels, _consumed_levels(arrival.earlier_orders, terms, shown))
    walk_result = walk_levels(available, _order_fees(terms), shares=terms.size)
    if why := _no_fill_reason(arrival, walk_result, shown):
        return _drop_order(arrival, why)
    if arrival.failures.happens("failed", arrival.intent):
        return _drop_order(arrival, "it was matched, and the trade then failed on chain")
    remainder = RemainderState.FILLED if walk_result.size >= terms.size else RemainderState.DROPPED
    why = (
        ""
        if remainder is RemainderState.FILLED
        else f"{walk_result.size:f} of {terms.size:f} shares were available within {terms.price}"
    )
    fills = tuple(_paper_fill(arrival, leg_book, match, shown[match.price]) for match in walk_result.fills)
    return FillResult(
        remainder=remainder,
        fills=fills,
        why=why,
        market_state=arrival_state(arrival, PaperExecutionReport.from_arrival(arrival, walk_result, why)),
    )


def pool_side(leg: ContractSide, side: OrderSide) -> str:
    """Return the side of the pool that an order takes from: the asks of YES, or its bids."""
    return "asks" if (leg is ContractSide.YES) == (side is OrderSide.BUY) else "bids"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperExecutionReport:
    """The execution of one paper order: expected, available and actual fills, and why not more.

    Prices are those of the leg. Slippage is what a share cost more (or brought less) than the midpoint of the book at
    the decision, and on arrival; ``shadow`` is what the whole order would have cost at the midpoint on arrival, without
    a fee, as in simulators that fill there.
    """

    decision_mid: Decimal
    arrival_mid: Decimal | None
    asked: Decimal
    filled: Decimal
    expected: Decimal
    average: Decimal | None
    fee: Decimal
    why: str

    @classmethod
    def from_arrival(cls, arrival: PaperOrderArrival, walk_result: BookWalkResult, why: str) -> "PaperExecutionReport":
        """Return the report of the fills."""
        terms, book = arrival.terms, arrival.book
        mid = None if book is None else book_of_side(book, terms.leg, terms.token).mid
        return cls(
            decision_mid=terms.mid,
            arrival_mid=mid,
            asked=terms.size,
            filled=walk_result.size,
            expected=arrival.expected,
            average=walk_result.average_price if walk_result.fills else None,
            fee=walk_result.fee,
            why=why,
        )

    def to_map(self, side: OrderSide) -> dict[str, Json]:
        """Return it as JSON values, numbers as text."""
        return {
            "decision_mid": _format_decimal(self.decision_mid),
            "arrival_mid": _format_decimal(self.arrival_mid),
            "asked": _format_decimal(self.asked),
            "filled": _format_decimal(self.filled),
            "fill_ratio": _format_decimal(self.filled / self.asked),
            "expected": _format_decimal(self.expected),
            "average": _format_decimal(self.average),
            "fee": _format_decimal(self.fee),
            "slippage_decision": _format_decimal(_slippage(self.average, self.decision_mid, side)),
            "slippage_arrival": _format_decimal(_slippage(self.average, self.arrival_mid, side)),
            "shadow": _format_decimal(None if self.arrival_mid is None else self.arrival_mid * self.asked),
            "why": self.why,
        }


def arrival_state(arrival: PaperOrderArrival, report: PaperExecutionReport) -> str:
    """Return the book on arrival, the name of the book at the decision, and the report, as one line of JSON."""
    kept = {
        "at": arrival.at.isoformat(),
        "arrival": None if arrival.book is None else arrival.book.to_map(),
        "decision": dict(arrival.terms.book),
        "report": report.to_map(arrival.terms.side),
    }
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _arrival_objection(arrival: PaperOrderArrival) -> str | None:
    """Return why the venue would not accept the order, or why its book is unusable, or None."""
    terms, book, failures = arrival.terms, arrival.book, arrival.failures
    window = int(arrival.at.timestamp() // RESTART_WINDOW.total_seconds())
    if failures.happens("restarting", str(window)):
        return "status 425: the exchange is restarting"
    if failures.happens("refused", arrival.intent):
        return "refused by the venue, as paper_refusal_share asks for"
    if (why := arrival.refusal or arrival.requirements.unusable_reason(book, now=arrival.at)) is not None:
        return why
    return None if book is None else terms.refusal_reason(tick=book.tick, min_size=book.min_size)


def _no_fill_reason(
    arrival: PaperOrderArrival, walk_result: BookWalkResult, shown: Mapping[Decimal, Decimal]
) -> str | None:
    """Return why an immediate order got nothing, None if it got something."""
    terms = arrival.terms
    if terms.type is PolymarketOrderType.FOK and walk_result.size < terms.size:
        return (
            f"only {walk_result.size:f} of {terms.size:f} shares were available within {terms.price}, and it needs all"
        )
    if walk_result.fills:
        return None
    reason_text = "own paper orders took all of it" if shown else f"nothing was offered within {terms.price}"
    return f"no fill: {reason_text}"


def _rest_order(arrival: PaperOrderArrival, book: PolymarketOrderBook, *, crossing: bool) -> FillResult:
    """Queue an order behind all shown shares at its price; one that would be matched at once is refused."""
    terms = arrival.terms
    nothing = BookWalkResult(fills=())
    if crossing:
        return _drop_order(arrival, "it would be matched at once, but must rest")
    leg_book = book_of_side(book, terms.leg, terms.token)
    ahead = dict(leg_book.bids if terms.side is OrderSide.BUY else leg_book.asks).get(terms.price, Decimal(0))
    memory = json.dumps({"ahead": str(ahead), "since": arrival.at.isoformat()})
    why = f"it waits behind {ahead:f} shares"
    return FillResult(
        remainder=RemainderState.RESTING,
        why=why,
        market_state=arrival_state(arrival, PaperExecutionReport.from_arrival(arrival, nothing, why)),
        plugin_state=memory,
    )


def _drop_order(arrival: PaperOrderArrival, why: str) -> FillResult:
    return FillResult(
        remainder=RemainderState.DROPPED,
        why=why,
        market_state=arrival_state(arrival, PaperExecutionReport.from_arrival(arrival, BookWalkResult(fills=()), why)),
    )


def _consumed_levels(
    earlier_orders: Sequence[EarlierPaperOrder], terms: PolymarketOrderTerms, shown: Mapping[Decimal, Decimal]
) -> dict[Decimal, Decimal]:
    """Return what own orders took of levels that still show the same size; newest orders come first."""
    side, total, refreshed = pool_side(terms.leg, terms.side), dict[Decimal, Decimal](), set[Decimal]()
    for one in earlier_orders:
        for fill in one.fills:
            walk_result = _level_of_fill(fill)
            if walk_result is None or walk_result[0] != side:
                continue
            price = price_of_yes(terms.leg, walk_result[1])
            if shown.get(price) != walk_result[2]:
                refreshed.add(price)
            elif price not in refreshed:
                total[price] = total.get(price, Decimal(0)) + Decimal(repr(fill.shares))
    return total


def _level_of_fill(fill: PaperFill) -> tuple[str, Decimal, Decimal] | None:
    """Return side, price of YES and shown size of the level of a fill; None for a maker fill."""
    try:
        fields = parse_record(json.loads(fill.detail))
    except ValueError:
        return None
    price, shown = parse_decimal(fields.get("pool_price")), parse_decimal(fields.get("shown"))
    return None if price is None or shown is None else (parse_text(fields.get("pool")), price, shown)


def _paper_fill(
    arrival: PaperOrderArrival, leg_book: PolymarketOrderBook, match: LevelFill, shown: Decimal
) -> PaperFill:
    terms = arrival.terms
    detail = {
        "pool": pool_side(terms.leg, terms.side),
        "pool_price": str(price_of_yes(terms.leg, match.price)),
        "shown": str(shown),
        "book": leg_book.hash,
        "fees": None if terms.contract.fees is None else dict(terms.contract.fees),
    }
    return PaperFill(
        shares=float(match.size), price=float(match.price), fee=float(match.fee), detail=json.dumps(detail)
    )


def _order_fees(terms: PolymarketOrderTerms) -> TakerFees:
    return TakerFees.from_schedule(terms.contract.fees, terms.contract.market)


def _slippage(average: Decimal | None, mid: Decimal | None, side: OrderSide) -> Decimal | None:
    if average is None or mid is None:
        return None
    return average - mid if side is OrderSide.BUY else mid - average


def _format_decimal(value: Decimal | None) -> str | None:
    return None if value is None else f"{value.quantize(_REPORT_PRECISION).normalize():f}"


_SECOND = timedelta(seconds=1)


class QueueAssumption(StrEnum):
    """Who is filled first at a price: earlier orders, this order, or all others."""

    NEUTRAL = "neutral"
    OPTIMISTIC = "optimistic"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketTrade:
    """A trade in terms of YES; ``buys``: the taker bought YES, or sold NO, which is the same."""

    at: datetime
    price: Decimal
    size: Decimal
    buys: bool


def parse_trade(row: Mapping[str, object], contract: PolymarketContract) -> PolymarketTrade | None:
    """Parse a trade as the venue lists it, None if it is of another market or invalid."""
    token, side = parse_text(row.get("token_id")), parse_text(row.get("side")).upper()
    price, size, at = (
        parse_decimal(row.get("price")),
        parse_decimal(row.get("size")),
        parse_moment(row.get("timestamp")),
    )
    if token not in {contract.yes, contract.no} or side not in {"BUY", "SELL"}:
        return None
    if price is None or size is None or at is None or size <= 0 or not 0 < price < 1:
        return None
    is_yes = token == contract.yes
    return PolymarketTrade(at=at, price=price if is_yes else 1 - price, size=size, buys=(side == "BUY") == is_yes)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """Since when an order rests, and how many shares were ahead of it at its price."""

    since: datetime
    ahead: Decimal

    @classmethod
    def from_request(cls, request: FillRequest) -> "QueueEntry":
        """Parse the stored state of the market; raises MalformedDataError for anything else."""
        try:
            fields = parse_record(json.loads(request.plugin_state))
        except ValueError:
            fields = {}
        since, ahead = parse_moment(fields.get("since")), parse_decimal(fields.get("ahead"))
        if since is None or ahead is None:
            message = f"the order {request.id} rests, but its queue position is unknown"
            raise MalformedDataError(message)
        return cls(since=since, ahead=ahead)


def shares_filled_by_trades(
    terms: PolymarketOrderTerms,
    entry: QueueEntry,
    trades: Iterable[PolymarketTrade],
    *,
    queue: QueueAssumption,
    until: datetime | None,
) -> Decimal:
    """Return how many shares of a resting order trades have filled, at most all.

    A trade at its price fills the shares ahead first; a trade beyond it has filled all of them, and the order by its
    size.
    """
    is_bid = (terms.leg is ContractSide.YES) == (terms.side is OrderSide.BUY)
    own = price_of_yes(terms.leg, terms.price)
    ahead, filled = (Decimal(0) if queue is QueueAssumption.OPTIMISTIC else entry.ahead), Decimal(0)
    for trade in sorted(trades, key=lambda one: one.at):
        in_time = trade.at >= entry.since + _SECOND and (until is None or trade.at < until)
        beyond = trade.price < own if is_bid else trade.price > own
        if trade.buys is is_bid or not in_time or not (beyond or trade.price == own):
            continue
        if beyond:
            ahead, size = Decimal(0), trade.size
        elif queue is QueueAssumption.STRICT:
            continue
        else:
            size = max(Decimal(0), trade.size - ahead)
            ahead = max(Decimal(0), ahead - trade.size)
        filled += size
    return min(filled, terms.size)


def fill_resting_order(
    request: FillRequest, terms: PolymarketOrderTerms, trades: Iterable[PolymarketTrade], *, queue: QueueAssumption
) -> FillResult:
    """Return the new fills of a resting order from trades."""
    filled_before = sum((Decimal(repr(fill.shares)) for fill in request.fills), Decimal(0))
    filled = shares_filled_by_trades(
        terms, QueueEntry.from_request(request), trades, queue=queue, until=request.expires_at
    )
    remainder = RemainderState.FILLED if filled >= terms.size else RemainderState.RESTING
    new = filled - filled_before
    detail = json.dumps({"pool": MAKER_FILL, "queue": queue.value})
    fills = (PaperFill(shares=float(new), price=float(terms.price), detail=detail),) if new > 0 else ()
    return FillResult(
        remainder=remainder,
        fills=fills,
        why="" if remainder is RemainderState.FILLED else "it waits",
        plugin_state=request.plugin_state,
    )
