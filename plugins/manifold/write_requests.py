"""Requests that write to the venue: bets, sales and comments.

They are sealed here, matched with the lists of the venue, turned into fills, and their responses get verdicts. A bet is
recognised by its expiry in milliseconds, which no other bet of ours has; the venue refuses one whose expiry is past. A
sale has neither limit nor expiry: it is recognised by its shares, and by being later than equal sales that existed when
it was made. Comments are off unless configured, since each costs 1 mana and is public. Source:
docs/facts/manifold.md#errors, #account, #writing, #arithmetic and #plugin-rules.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from hashlib import sha256

from bot.api import (
    ContractSide,
    Fill,
    HttpResponse,
    Intent,
    IntentState,
    Json,
    Order,
    OrderSide,
    RequestRejectedError,
    ResponsibleParty,
    SealedRequest,
    WriteVerdict,
    detail_suffix,
    refusal_verdict,
    response_fields,
    verdict_by_status,
)
from plugins.manifold.api_records import ManifoldBetRecord, ManifoldFillRecord, from_milliseconds
from plugins.manifold.cpmm import MIN_STAKE
from plugins.manifold.market_parser import clean_text
from plugins.manifold.market_state import split_contract
from plugins.manifold.settings import ManifoldSettings

DRY_RUN = "dry-run"


# From waiting for the rate limit to the last byte of the response; the venue itself may delay a bet for 10 s.
WRITE_DEADLINE_S = 45.0


# How long a sale or a comment may be sent after it was made.
MAX_SEND_AGE_S = 30.0


# How long after that a request may still take effect, and lists may be outdated.
SETTLEMENT_DELAY_S = 60.0


# The venue's clock may be this far behind ours: sales, which have no expiry, are distinguished by their time.
VENUE_CLOCK_LAG_MS = 605_000


# Bets are listed from this long before a request was made. The expiry identifies a bet, not the time; and the clock may
# have been wrong by hours when it was made, and right when it is read back.
BET_HISTORY_MS = 86_400_000


_TOLERANCE = 1e-6


_MIN_SHARES = 1e-9


_MAX_LIMIT = Decimal("0.99")


_MIN_LIMIT = Decimal("0.01")


_CENT = Decimal("0.01")


RequestBody = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldRequestTag:
    """What identifies a sealed request, in milliseconds: when it was made, and for a bet its expiry.

    ``after_ms`` is, for a sale, when the last equal sale before it took place, by the venue's clock.
    """

    made_ms: int
    expires_ms: int | None
    after_ms: int = 0

    @classmethod
    def from_sealed(cls, sealed: SealedRequest) -> "ManifoldRequestTag":
        """Parse the tag of a sealed request."""
        made, _, rest = sealed.tag.partition("-")
        kind, _, after = rest.partition("-")
        return cls(
            made_ms=int(made),
            expires_ms=int(kind) if kind.isdecimal() else None,
            after_ms=int(after) if after.isdecimal() else 0,
        )


def seal_bet(intent: Intent, order: Order, *, made_ms: int, expires_ms: int) -> SealedRequest:
    """Return the request of a purchase, a limit order with an expiry. Raises RequestRejectedError if it is invalid."""
    market, answer = split_contract(order.contract)
    limit = _limit_probability(order)
    amount = order.stake
    if amount is None:
        message = f"an order on {order.contract} without a stake"
        raise RequestRejectedError(message)
    if amount < MIN_STAKE or amount > order.cost + _TOLERANCE:
        message = f"a stake of {amount} is invalid for an order that may cost {order.cost}"
        raise RequestRejectedError(message)
    body: dict[str, Json] = {
        "contractId": market,
        "amount": amount,
        "outcome": order.leg.upper(),
        "limitProb": float(limit),
        "expiresAt": expires_ms,
    }
    if answer:
        body["answerId"] = answer
    fence = from_milliseconds(expires_ms) + timedelta(seconds=SETTLEMENT_DELAY_S)
    return SealedRequest(intent=intent.id, tag=f"{made_ms}-{expires_ms}", body=_encode_json(body), fence=fence)


def seal_sale(intent: Intent, order: Order, *, made_ms: int, after_ms: int) -> SealedRequest:
    """Return the request of a sale; ``after_ms`` is when the last equal sale took place."""
    _, answer = split_contract(order.contract)
    body: dict[str, Json] = {"outcome": order.leg.upper(), "shares": order.shares}
    if answer:
        body["answerId"] = answer
    return seal_short_lived(intent, f"sell-{after_ms}", body, made_ms=made_ms)


def seal_short_lived(intent: Intent, kind: str, body: RequestBody, *, made_ms: int) -> SealedRequest:
    """Return a request that has no expiry at the venue, only our own limit for sending it."""
    fence = from_milliseconds(made_ms) + timedelta(seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S)
    return SealedRequest(intent=intent.id, tag=f"{made_ms}-{kind}", body=_encode_json(body), fence=fence)


def is_too_late(sealed: SealedRequest, now: datetime) -> bool:
    """Return whether a request was sealed too long ago to be sent."""
    tag = ManifoldRequestTag.from_sealed(sealed)
    last = tag.made_ms + MAX_SEND_AGE_S * 1000.0 if tag.expires_ms is None else tag.expires_ms - 5_000.0
    return now >= from_milliseconds(last)


def is_requested_bet(bet: ManifoldBetRecord, order: Order, sealed: SealedRequest) -> bool:
    """Return whether a bet of the venue is that request."""
    market, answer = split_contract(order.contract)
    if (bet.contract, bet.answer or "") != (market, answer) or bet.redemption:
        return False
    if order.side is OrderSide.SELL:
        tag = ManifoldRequestTag.from_sealed(sealed)
        return is_matching_sale(bet, order) and bet.created > max(tag.made_ms - VENUE_CLOCK_LAG_MS, tag.after_ms)
    body = json.loads(sealed.body)
    same = bet.outcome == body["outcome"] and bet.expires == body["expiresAt"]
    return same and _is_close(bet.whole, body["amount"]) and _is_close(bet.limit, body["limitProb"])


def is_matching_sale(bet: ManifoldBetRecord, order: Order) -> bool:
    """Return whether a bet sold as many shares of the same side: sales are negative, under the side that was sold."""
    market, answer = split_contract(order.contract)
    same = (bet.contract, bet.answer or "", bet.outcome) == (market, answer, order.leg.upper())
    return same and bet.amount < 0.0 and bet.limit is None and _is_close(-bet.shares, order.shares)


def bet_fills(bet: ManifoldBetRecord) -> tuple[Fill, ...]:
    """Return the fills; the reference of a part stays the same while parts are added, in whatever order they come.

    In a market where one answer wins, a part of a bet is made of the other answers. It is not in the list of parts: it
    is the difference to the total, exists from the beginning, and counts as one more part.
    """
    # Each once: no two parts are equal in all fields.
    listed = dict.fromkeys(part for part in bet.fills or () if abs(part.shares) > _MIN_SHARES)
    # Parts that are added later have a later time.
    in_order = sorted(listed, key=lambda part: _part_order(bet, part))
    parts = {str(number): part for number, part in enumerate(in_order)}
    amount = bet.amount - math.fsum(part.amount for part in parts.values())
    shares = bet.shares - math.fsum(part.shares for part in parts.values())
    if abs(amount) > _TOLERANCE or abs(shares) > _TOLERANCE:
        if parts and not (abs(shares) > _MIN_SHARES and 0.0 <= amount / shares <= 1.0):
            name, first = next(iter(parts.items()))
            amount, shares = amount + first.amount, shares + first.shares
            parts[name] = ManifoldFillRecord(amount=amount, shares=shares, timestamp=first.timestamp)
        else:
            parts["joint"] = ManifoldFillRecord(amount=amount, shares=shares, timestamp=bet.created)
    return tuple(_bet_fill(bet, name, part) for name, part in parts.items() if abs(part.shares) > _MIN_SHARES)


def remaining_stake(bet: ManifoldBetRecord) -> float:
    """Return what a limit order may still spend."""
    is_closed = bet.filled or bet.cancelled or bet.limit is None or bet.whole is None
    return 0.0 if is_closed or bet.whole is None else max(bet.whole - bet.amount, 0.0)


def is_resting(bet: ManifoldBetRecord, now: datetime) -> bool:
    """Return whether an order rests; the venue does not report expiry, and lists expired orders for up to a minute."""
    expired = bet.expires is not None and bet.expires > 0 and from_milliseconds(bet.expires) <= now
    return remaining_stake(bet) > 0.0 and not expired


def would_self_trade(bet: ManifoldBetRecord, order: Order, *, linked: bool) -> bool:
    """Return whether an order of ours could be filled by another order of ours.

    It can be filled by the other leg on the same answer; if one answer wins, a bet on one is also one against the
    others. A sale is a bet on the other leg.
    """
    answer = split_contract(order.contract)[1]
    other = ContractSide.NO if order.leg is ContractSide.YES else ContractSide.YES
    bought_side = (order.leg if order.side is OrderSide.BUY else other).upper()
    if (bet.answer or "") == answer:
        return bet.outcome != bought_side
    return linked and bet.outcome == bought_side


def dry_run_objection(bet: ManifoldBetRecord, order: Order) -> str | None:
    """Return why the result of a dry run is worse than planned, or None."""
    if bet.shares <= _MIN_SHARES:
        return "nothing would be filled now"
    price = bet.amount / bet.shares
    if price > order.expected + float(_CENT):
        return f"a share would cost {price:.4f} on average, {order.expected:.4f} was planned"
    return None


def _part_order(bet: ManifoldBetRecord, part: ManifoldFillRecord) -> tuple[float, str, float, float]:
    """Return what sorts the parts of a bet: their time, then fields that keep their value."""
    at = bet.created if part.timestamp is None else part.timestamp
    return at, part.matched or "", part.amount, part.shares


def _bet_fill(bet: ManifoldBetRecord, name: str, part: ManifoldFillRecord) -> Fill:
    price = abs(part.amount) / abs(part.shares)
    return Fill(
        reference=f"{bet.id}:{name}",
        at=from_milliseconds(bet.created if part.timestamp is None else part.timestamp),
        shares=abs(part.shares),
        price=min(max(price, 0.0), 1.0),
        cash=-part.amount,
    )


def _limit_probability(order: Order) -> Decimal:
    """Return the limit as the venue accepts it: a probability of YES, in whole percent except on numbers."""
    try:
        limit = Decimal(str(order.terms.get("limit_prob")))
    except InvalidOperation:
        limit = Decimal(-1)
    is_fine = order.terms.get("type") == "PSEUDO_NUMERIC"
    is_valid = limit.is_finite() and (is_fine or limit % _CENT == 0)
    if not is_valid or not _MIN_LIMIT <= limit <= _MAX_LIMIT:
        message = f"the limit {order.terms.get('limit_prob')!r} is not a whole percent from 0.01 to 0.99"
        raise RequestRejectedError(message)
    expected_limit = order.limit if order.leg is ContractSide.YES else 1.0 - order.limit
    if abs(float(limit) - expected_limit) > _TOLERANCE:
        message = f"the limit {limit} is not the {expected_limit:.4f} that was decided on"
        raise RequestRejectedError(message)
    return limit


def _is_close(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) <= _TOLERANCE * max(1.0, abs(other))


def _encode_json(body: RequestBody) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


COMMENT_FEE = 1.0


# The venue counts the rendered document as JSON, which is longer than the text.
MAX_RENDERED_CHARS = 20_000


MAX_COMMENT_CHARS = 8_000


_RENDERED_PER_LINE = 60


_PROGRAM_NAME = "foxcast"


# The mark of any comment of this program.
_COMMENT_MARKER = re.compile(rf"{_PROGRAM_NAME} [0-9a-f]{{12}}\b")


def seal_comment(intent: Intent, settings: ManifoldSettings, *, made_ms: int) -> SealedRequest:
    """Return the request of a comment; raises RequestRejectedError if it is empty, or comments are off."""
    if not settings.comments:
        message = "comments are off; see comments in [venues.manifold.settings]"
        raise RequestRejectedError(message)
    text = _truncate_comment(clean_text(intent.text))
    if not text:
        message = f"the comment on {intent.ref} is empty"
        raise RequestRejectedError(message)
    market_id, answer = split_contract(intent.ref.key)
    body: dict[str, Json] = {"contractId": market_id, "markdown": f"{text}\n\n{comment_marker(intent)}"}
    if answer:
        body["replyToAnswerId"] = answer
    return seal_short_lived(intent, "comment", body, made_ms=made_ms)


def comment_marker(intent: Intent) -> str:
    """Return the text that identifies a comment in any rendering."""
    return f"{_PROGRAM_NAME} {sha256(intent.id.encode(errors='replace')).hexdigest()[:12]}"


def is_comment_of_intent(intent: Intent, row: Mapping[str, object]) -> bool:
    """Return whether a comment of the venue is that of the intent."""
    return comment_marker(intent) in json.dumps(row.get("content"), ensure_ascii=False)


def is_own_comment(row: Mapping[str, object]) -> bool:
    """Return whether a comment of the venue was made by this program, for any intent."""
    return _COMMENT_MARKER.search(json.dumps(row.get("content"), ensure_ascii=False)) is not None


def _truncate_comment(text: str) -> str:
    """Return as much of a text as stays well below the venue's limit when it is rendered."""
    kept = text[:MAX_COMMENT_CHARS]
    while len(json.dumps(kept)) + _RENDERED_PER_LINE * (kept.count("\n") + 1) > MAX_RENDERED_CHARS - 1_000:
        kept = kept[: len(kept) * 9 // 10]
    return kept.strip()


_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _SERVICE_UNAVAILABLE = 200, 400, 401, 403, 503


# The venue's text for a past expiry: status 400 in markets with one price, 403 if answers have prices.
_EXPIRY_PASSED = "cannot expire in the past"


_BAN_WORDS = ("banned", "trading ban", "suspended")


def write_verdict(reply: HttpResponse) -> WriteVerdict:
    """Return the verdict on the response to a write; acked only means status 200."""
    status, fields = reply.status, response_fields(reply)
    if status == _SERVICE_UNAVAILABLE and "message" in fields:
        # With a message of the venue nothing was committed; from a server in front of it nothing is known.
        return WriteVerdict(state=IntentState.ABSENT, detail=f"503: nothing was done{_refusal_suffix(fields)}")
    if status in {_BAD_REQUEST, _FORBIDDEN} and _EXPIRY_PASSED in str(fields.get("message", "")).lower():
        # It came too late; the order itself may be valid, so it is decided anew.
        return WriteVerdict(state=IntentState.ABSENT, detail=f"{status}: nothing was done{_refusal_suffix(fields)}")
    return verdict_by_status(reply, taken=_OK) or refusal_verdict(
        f"{status}{_refusal_suffix(fields)}", _responsible_party(status, fields)
    )


def _responsible_party(status: int, fields: Mapping[str, object]) -> ResponsibleParty:
    text = str(fields.get("message", "")).lower()
    if status == _UNAUTHORIZED or (status == _FORBIDDEN and (not fields or any(word in text for word in _BAN_WORDS))):
        return ResponsibleParty.OPERATOR
    return ResponsibleParty.DEVELOPER if "details" in fields else ResponsibleParty.NOBODY


def _refusal_suffix(fields: Mapping[str, object]) -> str:
    details = f" {json.dumps(fields['details'])}" if "details" in fields else ""
    return detail_suffix(f"{fields.get('message', '')}{details}")
