"""Orders as the venue takes them, and bets as it shows them: made, found again, and turned into fills.

A request to bet has no key of its own. What finds it again is its expiry, in milliseconds, which no other of ours has;
the venue refuses a bet whose expiry is past, so that after it, and a while for what is under way and for caches, a bet
that is not there never will be. A sale has neither limit nor expiry: it is known by its shares, and by being later
than those like it that were there when it was made; it is only sent shortly after that.
Source: venue document, sections 5, 6 and 8.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from bot.api import Fill, Intent, Json, Leg, Order, Rejected, Sealed, Side
from plugins.manifold.cpmm import LEAST_STAKE
from plugins.manifold.raw import RawBet, RawFill, moment_of
from plugins.manifold.state import parts_of

DRY_RUN = "dry-run"
# From waiting for its turn to the last byte of the answer; the venue itself may keep a bet waiting for 10 s.
DEADLINE_S = 45.0
# How long a sale or a comment may be sent after it was made.
FRESH_S = 30.0
# How long after that a request may still take effect there, and lists lag behind.
SETTLE_S = 60.0
# The venue's clock may be so far behind ours: sales, which have no expiry, are told from earlier ones by their time.
LOOK_BACK_MS = 605_000
# Bets are listed from so long before a request was made. It is the expiry that finds a bet, not the time; and the clock
# by which it was made may have been wrong by hours, and right again when it is read back.
LISTED_BACK_MS = 86_400_000
_CLOSE = 1e-6
_SHARES = 1e-9
_MOST_PERCENT = Decimal("0.99")
_LEAST_PERCENT = Decimal("0.01")
_CENT = Decimal("0.01")

Body = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What a sealed request is found by, all in milliseconds: when it was made, and for a bet its expiry.

    ``after_ms`` is for a sale when, by the venue's clock, the last one like it took place before it was made.
    """

    made_ms: int
    expires_ms: int | None
    after_ms: int = 0

    @classmethod
    def of(cls, sealed: Sealed) -> "Tag":
        """Read the tag of a request that was sealed here."""
        made, _, rest = sealed.tag.partition("-")
        kind, _, after = rest.partition("-")
        return cls(
            made_ms=int(made),
            expires_ms=int(kind) if kind.isdecimal() else None,
            after_ms=int(after) if after.isdecimal() else 0,
        )


def seal_bet(intent: Intent, order: Order, *, made_ms: int, expires_ms: int) -> Sealed:
    """Return the request of a purchase: a limit order with an end. Raises Rejected for an order that is not sound."""
    market, answer = parts_of(order.contract)
    limit = _limit(order)
    amount = _number(order, "amount")
    if amount < LEAST_STAKE or amount > order.cost + _CLOSE:
        message = f"a stake of {amount} for an order that may cost {order.cost} is none"
        raise Rejected(message)
    body: dict[str, Json] = {
        "contractId": market,
        "amount": amount,
        "outcome": order.leg.upper(),
        "limitProb": float(limit),
        "expiresAt": expires_ms,
    }
    if answer:
        body["answerId"] = answer
    fence = moment_of(expires_ms) + timedelta(seconds=SETTLE_S)
    return Sealed(intent=intent.id, tag=f"{made_ms}-{expires_ms}", body=_json(body), fence=fence)


def seal_sale(intent: Intent, order: Order, *, made_ms: int, after_ms: int) -> Sealed:
    """Return the request of a sale; ``after_ms`` is when the last one like it took place."""
    _, answer = parts_of(order.contract)
    body: dict[str, Json] = {"outcome": order.leg.upper(), "shares": order.shares}
    if answer:
        body["answerId"] = answer
    return sealed_briefly(intent, f"sell-{after_ms}", body, made_ms=made_ms)


def sealed_briefly(intent: Intent, kind: str, body: Body, *, made_ms: int) -> Sealed:
    """Return a request that nothing but our own patience ends."""
    fence = moment_of(made_ms) + timedelta(seconds=FRESH_S + DEADLINE_S + SETTLE_S)
    return Sealed(intent=intent.id, tag=f"{made_ms}-{kind}", body=_json(body), fence=fence)


def is_late(sealed: Sealed, now: datetime) -> bool:
    """Say whether a request was sealed too long ago to be sent."""
    tag = Tag.of(sealed)
    last = tag.made_ms + FRESH_S * 1000.0 if tag.expires_ms is None else tag.expires_ms - 5_000.0
    return now >= moment_of(last)


def is_of(bet: RawBet, order: Order, sealed: Sealed) -> bool:
    """Say whether a bet of the venue is that request."""
    market, answer = parts_of(order.contract)
    if (bet.contract, bet.answer or "") != (market, answer) or bet.redemption:
        return False
    if order.side is Side.SELL:
        tag = Tag.of(sealed)
        return is_sale(bet, order) and bet.created > max(tag.made_ms - LOOK_BACK_MS, tag.after_ms)
    body = json.loads(sealed.body)
    same = bet.outcome == body["outcome"] and bet.expires == body["expiresAt"]
    return same and _near(bet.whole, body["amount"]) and _near(bet.limit, body["limitProb"])


def is_sale(bet: RawBet, order: Order) -> bool:
    """Say whether a bet sold as many shares of the same: sales are shown below zero, under the side that was sold."""
    market, answer = parts_of(order.contract)
    same = (bet.contract, bet.answer or "", bet.outcome) == (market, answer, order.leg.upper())
    return same and bet.amount < 0.0 and bet.limit is None and _near(-bet.shares, order.shares)


def fills_of(bet: RawBet) -> tuple[Fill, ...]:
    """Return what was traded; the reference of a part stays the same while parts are added.

    In a market where one answer wins, a part of a bet is made of the other answers. No list of parts shows it: it is
    what they lack, is there from the beginning, and counts as one more part.
    """
    # Each once: no two are alike in all they say.
    listed = dict.fromkeys(part for part in bet.fills or () if abs(part.shares) > _SHARES)
    parts = {str(number): part for number, part in enumerate(listed)}
    amount = bet.amount - math.fsum(part.amount for part in parts.values())
    shares = bet.shares - math.fsum(part.shares for part in parts.values())
    if abs(amount) > _CLOSE or abs(shares) > _CLOSE:
        if parts and not (abs(shares) > _SHARES and 0.0 <= amount / shares <= 1.0):
            name, first = next(iter(parts.items()))
            amount, shares = amount + first.amount, shares + first.shares
            parts[name] = RawFill(amount=amount, shares=shares, timestamp=first.timestamp)
        else:
            parts["joint"] = RawFill(amount=amount, shares=shares, timestamp=bet.created)
    return tuple(_fill(bet, name, part) for name, part in parts.items() if abs(part.shares) > _SHARES)


def remaining(bet: RawBet) -> float:
    """Return what a limit order may still spend."""
    over = bet.filled or bet.cancelled or bet.limit is None or bet.whole is None
    return 0.0 if over or bet.whole is None else max(bet.whole - bet.amount, 0.0)


def rests(bet: RawBet, now: datetime) -> bool:
    """Say whether an order rests; of what expired the venue tells nobody, and lists it for up to a minute."""
    expired = bet.expires is not None and bet.expires > 0 and moment_of(bet.expires) <= now
    return remaining(bet) > 0.0 and not expired


def would_meet(bet: RawBet, order: Order, *, linked: bool) -> bool:
    """Say whether an order of our own could be filled by another one of ours.

    It is met by the other leg on the same answer; where one answer wins, a bet on one is also one against the others.
    A sale is a bet on the other leg.
    """
    answer = parts_of(order.contract)[1]
    other = Leg.NO if order.leg is Leg.YES else Leg.YES
    taken = (order.leg if order.side is Side.BUY else other).upper()
    if (bet.answer or "") == answer:
        return bet.outcome != taken
    return linked and bet.outcome == taken


def worse_than_planned(bet: RawBet, order: Order) -> str | None:
    """Say why what a dry run shows is worse than what was planned, or None."""
    if bet.shares <= _SHARES:
        return "nothing would be filled now"
    price = bet.amount / bet.shares
    if price > order.expected + float(_CENT):
        return f"a share would cost {price:.4f} on average, planned were {order.expected:.4f}"
    return None


def _fill(bet: RawBet, name: str, part: RawFill) -> Fill:
    price = abs(part.amount) / abs(part.shares)
    return Fill(
        reference=f"{bet.id}:{name}",
        at=moment_of(bet.created if part.timestamp is None else part.timestamp),
        shares=abs(part.shares),
        price=min(max(price, 0.0), 1.0),
        cash=-part.amount,
    )


def _limit(order: Order) -> Decimal:
    """Return the limit as the venue takes it: a probability of YES, in whole percent but on numbers."""
    try:
        limit = Decimal(str(order.terms.get("limit_prob")))
    except InvalidOperation:
        limit = Decimal(-1)
    fine = order.terms.get("type") == "PSEUDO_NUMERIC"
    whole = limit.is_finite() and (fine or limit % _CENT == 0)
    if not whole or not _LEAST_PERCENT <= limit <= _MOST_PERCENT:
        message = f"the limit {order.terms.get('limit_prob')!r} is no whole percent from 0.01 to 0.99"
        raise Rejected(message)
    meant = order.limit if order.leg is Leg.YES else 1.0 - order.limit
    if abs(float(limit) - meant) > _CLOSE:
        message = f"the limit {limit} is not the {meant:.4f} that was decided on"
        raise Rejected(message)
    return limit


def _number(order: Order, name: str) -> float:
    value = order.terms.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        message = f"an order on {order.contract} without {name}"
        raise Rejected(message)
    return float(value)


def _near(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) <= _CLOSE * max(1.0, abs(other))


def _json(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
