"""What happened to an order that waits: it is filled by trades, never by quotes, at its own price and without a fee.

All trades since it came are counted anew each time, so that one that is told late counts, and none counts twice. The
seconds in which it came and ended are left out: trades are told by whole seconds. Source: venue document, section 13.2.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bot.api import ContractError, Fate, Leg, Met, PaperFill, Side, Visit
from plugins.polymarket.books import ONE
from plugins.polymarket.paper_fills import MAKER, pool_price
from plugins.polymarket.parse import Contract
from plugins.polymarket.raw import decimal_of, moment_of, record_of, text_of
from plugins.polymarket.terms import Terms

_SECOND = timedelta(seconds=1)


class Queue(StrEnum):
    """Who is served first at a price: whoever came first, this order, or everybody else."""

    NEUTRAL = "neutral"
    OPTIMISTIC = "optimistic"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """A trade in terms of YES; ``buys`` where who took it bought YES, or sold NO, which is the same."""

    at: datetime
    price: Decimal
    size: Decimal
    buys: bool


def trade_of(row: Mapping[str, object], contract: Contract) -> Trade | None:
    """Read a trade as the venue lists it, None for one that is of another market or cannot be read."""
    token, side = text_of(row.get("token_id")), text_of(row.get("side")).upper()
    price, size, at = decimal_of(row.get("price")), decimal_of(row.get("size")), moment_of(row.get("timestamp"))
    if token not in {contract.yes, contract.no} or side not in {"BUY", "SELL"}:
        return None
    if price is None or size is None or at is None or size <= 0 or not 0 < price < 1:
        return None
    is_yes = token == contract.yes
    return Trade(at=at, price=price if is_yes else ONE - price, size=size, buys=(side == "BUY") == is_yes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Since when an order waits, and how many shares stood before it at its price."""

    since: datetime
    ahead: Decimal

    @classmethod
    def of(cls, visit: Visit) -> "Wait":
        """Read what the market remembered; raises ContractError for anything else."""
        try:
            said = record_of(json.loads(visit.memory))
        except ValueError:
            said = {}
        since, ahead = moment_of(said.get("since")), decimal_of(said.get("ahead"))
        if since is None or ahead is None:
            message = f"the order {visit.id} waits, and nothing is known of its queue"
            raise ContractError(message)
        return cls(since=since, ahead=ahead)


def served(terms: Terms, wait: Wait, trades: Iterable[Trade], *, queue: Queue, until: datetime | None) -> Decimal:
    """Return how many shares of an order trades have filled since it waits, at most all of them.

    A trade at its price serves those before it first; one beyond has served all of them, and the order by its own size.
    """
    is_bid = (terms.leg is Leg.YES) == (terms.side is Side.BUY)
    own = pool_price(terms.price, terms.leg)
    ahead, got = (Decimal(0) if queue is Queue.OPTIMISTIC else wait.ahead), Decimal(0)
    for trade in sorted(trades, key=lambda one: one.at):
        in_time = trade.at >= wait.since + _SECOND and (until is None or trade.at < until)
        beyond = trade.price < own if is_bid else trade.price > own
        if trade.buys is is_bid or not in_time or not (beyond or trade.price == own):
            continue
        if beyond:
            ahead, size = Decimal(0), trade.size
        elif queue is Queue.STRICT:
            continue
        else:
            size = max(Decimal(0), trade.size - ahead)
            ahead = max(Decimal(0), ahead - trade.size)
        got += size
    return min(got, terms.size)


def later(visit: Visit, terms: Terms, trades: Iterable[Trade], *, queue: Queue) -> Met:
    """Return what trades have brought an order that waits, beyond what it had."""
    had = sum((Decimal(repr(fill.shares)) for fill in visit.fills), Decimal(0))
    got = served(terms, Wait.of(visit), trades, queue=queue, until=visit.expires_at)
    fate = Fate.NONE_LEFT if got >= terms.size else Fate.RESTS
    new = got - had
    detail = json.dumps({"pool": MAKER, "queue": queue.value})
    fills = (PaperFill(shares=float(new), price=float(terms.price), detail=detail),) if new > 0 else ()
    return Met(fate=fate, fills=fills, why="" if fate is Fate.NONE_LEFT else "it waits", memory=visit.memory)
