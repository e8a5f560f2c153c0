"""What an order would have got from the book that stood when it arrived: pure functions, the same each time.

There is one pool for both legs. What an own paper order took from a level is not there for the next one until the level
shows another size than it did then: the real book never saw that order. Nothing is filled where it is not certain that
something stood there. Source: venue document, section 13.2.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.api import Fate, Json, Leg, Met, PaperFill, Past, Side
from plugins.polymarket.books import ONE, Book, Level
from plugins.polymarket.depth import Fitness, Match, Taken, facing, of_leg, reach, take
from plugins.polymarket.fees import Fees
from plugins.polymarket.raw import decimal_of, record_of, text_of
from plugins.polymarket.terms import OrderType, Terms

# Of which the exchange is restarting some, as settings say.
WINDOW = timedelta(minutes=10)
MAKER = "waited"
_DIGITS = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishaps:
    """How often what goes wrong at the venue goes wrong on paper; which orders it hits hangs on the seed alone."""

    refused: float = 0.0
    restarting: float = 0.0
    failed: float = 0.0
    seed: str = ""

    def befalls(self, what: str, subject: str) -> bool:
        """Say whether that happens to a subject: an order, or a window of time."""
        digest = hashlib.sha256(f"{self.seed}|{what}|{subject}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64 < float(getattr(self, what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An order at the venue: at that moment, before that book of YES, after what other own orders took.

    ``refusal`` says why the venue takes no orders of the market at all.
    """

    intent: str
    terms: Terms
    expected: Decimal
    book: Book | None
    at: datetime
    past: Sequence[Past] = ()
    fitness: Fitness
    mishaps: Mishaps = Mishaps()
    refusal: str | None = None


def arrive(arrival: Arrival) -> Met:
    """Fill what is there within the limit, or say why nothing is; the state holds the book and the report."""
    book, why = arrival.book, _objection(arrival)
    if book is None or why is not None:
        return _nothing(arrival, why or "there is no book")
    terms = arrival.terms
    mine = of_leg(book, terms.leg, terms.token)
    levels = reach(facing(mine, terms.side), terms.side, terms.price)
    if terms.type.rests:
        return _rested(arrival, book, crossing=bool(levels))
    shown = dict(levels)
    there = left_of(levels, _consumed(arrival.past, terms, shown))
    taken = take(there, _fees(terms), shares=terms.size)
    if why := _unmatched(arrival, taken, shown):
        return _nothing(arrival, why)
    if arrival.mishaps.befalls("failed", arrival.intent):
        return _nothing(arrival, "it was matched, and the trade then failed on chain")
    fate = Fate.NONE_LEFT if taken.size >= terms.size else Fate.DROPPED
    why = "" if fate is Fate.NONE_LEFT else f"{taken.size:f} of {terms.size:f} shares were there within {terms.price}"
    fills = tuple(_fill(arrival, mine, match, shown[match.price]) for match in taken.matches)
    return Met(fate=fate, fills=fills, why=why, state=state_of(arrival, Report.of(arrival, taken, why)))


def left_of(levels: Sequence[Level], consumed: Mapping[Decimal, Decimal]) -> tuple[Level, ...]:
    """Return levels without what was consumed of them."""
    left = (Level(price, size - consumed.get(price, Decimal(0))) for price, size in levels)
    return tuple(level for level in left if level.size > 0)


def pool_price(price: Decimal, leg: Leg) -> Decimal:
    """Return the price of YES at which a price of a leg stands in the one pool of both."""
    return price if leg is Leg.YES else ONE - price


def pool_side(leg: Leg, side: Side) -> str:
    """Return which side of the pool an order takes from: the asks of YES, or its bids."""
    return "asks" if (leg is Leg.YES) == (side is Side.BUY) else "bids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One order on paper, honestly: what was thought, what was there, what came of it, and why not more.

    Prices are those of the leg. Slippage is what a share cost more (or brought less) than the middle of the book at the
    decision, and on arrival; ``shadow`` is what the whole order would have cost at the middle on arrival, without a
    fee, as simulators have it that fill there.
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
    def of(cls, arrival: Arrival, taken: Taken, why: str) -> "Report":
        """Return the report of what was taken."""
        terms, book = arrival.terms, arrival.book
        mid = None if book is None else of_leg(book, terms.leg, terms.token).mid
        return cls(
            decision_mid=terms.mid,
            arrival_mid=mid,
            asked=terms.size,
            filled=taken.size,
            expected=arrival.expected,
            average=taken.average if taken.matches else None,
            fee=taken.fee,
            why=why,
        )

    def to_map(self, side: Side) -> dict[str, Json]:
        """Return it as JSON holds it, numbers as text."""
        return {
            "decision_mid": _text(self.decision_mid),
            "arrival_mid": _text(self.arrival_mid),
            "asked": _text(self.asked),
            "filled": _text(self.filled),
            "fill_ratio": _text(self.filled / self.asked),
            "expected": _text(self.expected),
            "average": _text(self.average),
            "fee": _text(self.fee),
            "slippage_decision": _text(_slipped(self.average, self.decision_mid, side)),
            "slippage_arrival": _text(_slipped(self.average, self.arrival_mid, side)),
            "shadow": _text(None if self.arrival_mid is None else self.arrival_mid * self.asked),
            "why": self.why,
        }


def state_of(arrival: Arrival, report: Report) -> str:
    """Return the book on arrival, the one of the decision by its name, and the report, as one line of JSON."""
    kept = {
        "at": arrival.at.isoformat(),
        "arrival": None if arrival.book is None else arrival.book.to_map(),
        "decision": dict(arrival.terms.book),
        "report": report.to_map(arrival.terms.side),
    }
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _objection(arrival: Arrival) -> str | None:
    """Say why the venue would not take the order, or why its book cannot be believed."""
    terms, book, mishaps = arrival.terms, arrival.book, arrival.mishaps
    window = int(arrival.at.timestamp() // WINDOW.total_seconds())
    if mishaps.befalls("restarting", str(window)):
        return "status 425: the exchange is restarting"
    if mishaps.befalls("refused", arrival.intent):
        return "refused by the venue, as paper_refused asks for"
    if (why := arrival.refusal or arrival.fitness.unfit(book, now=arrival.at)) is not None:
        return why
    return None if book is None else terms.refusal(tick=book.tick, min_size=book.min_size)


def _unmatched(arrival: Arrival, taken: Taken, shown: Mapping[Decimal, Decimal]) -> str | None:
    """Say why an order that never waits got nothing, None where it got something."""
    terms = arrival.terms
    if terms.type is OrderType.FOK and taken.size < terms.size:
        return f"only {taken.size:f} of {terms.size:f} shares were there within {terms.price}, and it wants all"
    if taken.matches:
        return None
    what = "own orders on paper took what stood there" if shown else f"nothing stood within {terms.price}"
    return f"no fill: {what}"


def _rested(arrival: Arrival, book: Book, *, crossing: bool) -> Met:
    """Let an order wait behind all that is shown at its price; one that would be matched at once is refused."""
    terms = arrival.terms
    nothing = Taken(matches=())
    if crossing:
        return _nothing(arrival, "it would be matched at once, and was to wait")
    mine = of_leg(book, terms.leg, terms.token)
    ahead = dict(mine.bids if terms.side is Side.BUY else mine.asks).get(terms.price, Decimal(0))
    memory = json.dumps({"ahead": str(ahead), "since": arrival.at.isoformat()})
    why = f"it waits behind {ahead:f} shares"
    return Met(fate=Fate.RESTS, why=why, state=state_of(arrival, Report.of(arrival, nothing, why)), memory=memory)


def _nothing(arrival: Arrival, why: str) -> Met:
    return Met(fate=Fate.DROPPED, why=why, state=state_of(arrival, Report.of(arrival, Taken(matches=()), why)))


def _consumed(past: Sequence[Past], terms: Terms, shown: Mapping[Decimal, Decimal]) -> dict[Decimal, Decimal]:
    """Return what own orders took of levels that show the size now that they showed then; newest orders come first."""
    side, total, refreshed = pool_side(terms.leg, terms.side), dict[Decimal, Decimal](), set[Decimal]()
    for one in past:
        for fill in one.fills:
            taken = _level_of(fill)
            if taken is None or taken[0] != side:
                continue
            price = pool_price(taken[1], terms.leg)
            if shown.get(price) != taken[2]:
                refreshed.add(price)
            elif price not in refreshed:
                total[price] = total.get(price, Decimal(0)) + Decimal(repr(fill.shares))
    return total


def _level_of(fill: PaperFill) -> tuple[str, Decimal, Decimal] | None:
    """Return side, price of YES and shown size of the level that a fill was taken from; None for one that waited."""
    try:
        said = record_of(json.loads(fill.detail))
    except ValueError:
        return None
    price, shown = decimal_of(said.get("pool_price")), decimal_of(said.get("shown"))
    return None if price is None or shown is None else (text_of(said.get("pool")), price, shown)


def _fill(arrival: Arrival, mine: Book, match: Match, shown: Decimal) -> PaperFill:
    terms = arrival.terms
    detail = {
        "pool": pool_side(terms.leg, terms.side),
        "pool_price": str(pool_price(match.price, terms.leg)),
        "shown": str(shown),
        "book": mine.hash,
        "fees": None if terms.contract.fees is None else dict(terms.contract.fees),
    }
    return PaperFill(
        shares=float(match.size), price=float(match.price), fee=float(match.fee), detail=json.dumps(detail)
    )


def _fees(terms: Terms) -> Fees:
    return Fees.of(terms.contract.fees, terms.contract.market)


def _slipped(average: Decimal | None, mid: Decimal | None, side: Side) -> Decimal | None:
    if average is None or mid is None:
        return None
    return average - mid if side is Side.BUY else mid - average


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value.quantize(_DIGITS).normalize():f}"
