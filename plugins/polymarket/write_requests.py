"""Orders as they are signed and posted, verdicts on the responses, and trades as the venue lists them.

An order is identified by the hash of what was signed. It has no effect after its expiry; without one it is only sent
shortly after it was made. The stored request lacks ``owner``, the API key, which is added when it is sent. A match is
not a trade yet, since it may fail on chain: only CONFIRMED ones are fills. A refusal may have status 200. Source:
docs/facts/polymarket.md#orders, #delays, #order-signatures, #geography, #refusals and #amounts.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil

from bot.api import (
    Fill,
    HttpResponse,
    Intent,
    IntentState,
    Json,
    MalformedDataError,
    OrderSide,
    ResponsibleParty,
    SealedRequest,
    WriteVerdict,
    detail_suffix,
    refusal_verdict,
    response_fields,
    verdict_by_status,
)
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.json_values import parse_decimal, parse_list, parse_moment, parse_record, parse_text
from plugins.polymarket.order_books import ONE
from plugins.polymarket.order_terms import EARLY_EXPIRY, MIN_LIFETIME, PolymarketOrderTerms
from plugins.polymarket.signer_client import SignedOrder, UnsignedOrder

UNITS_PER_DOLLAR = Decimal(1_000_000)


# From waiting for the rate limit (one order in ten seconds) to the last byte of the response.
WRITE_DEADLINE_S = 45.0


# How long an order without an expiry may be sent after it was made.
MAX_SEND_AGE_S = 30.0


# How long after that a request may still take effect, and lists may be outdated.
SETTLEMENT_DELAY_S = 60.0


CONFIRMED, FAILED = "CONFIRMED", "FAILED"


_MAX_SALT = 2**53 - 1


_STATUS_PREFIX = "TRADE_STATUS_"


def build_unsigned_order(intent: Intent, terms: PolymarketOrderTerms, *, now: datetime) -> UnsignedOrder:
    """Return the order to sign. The salt follows from intent and time: made twice at once it is one order."""
    stamp_ms = int(now.timestamp() * 1000.0)
    digest = hashlib.sha256(f"{intent.id} {stamp_ms}".encode()).digest()
    dollars, shares = (_to_units(terms.price * terms.size, terms), _to_units(terms.size, terms))
    is_purchase = terms.side is OrderSide.BUY
    return UnsignedOrder(
        token=terms.token,
        side="BUY" if is_purchase else "SELL",
        type=terms.type.value,
        neg_risk=terms.contract.neg_risk,
        maker_amount=dollars if is_purchase else shares,
        taker_amount=shares if is_purchase else dollars,
        timestamp_ms=stamp_ms,
        expiration=ceil((now + terms.lifetime).timestamp()) if terms.type.is_resting else 0,
        salt=int.from_bytes(digest[:8]) & _MAX_SALT,
    )


def seal_signed_order(intent: Intent, unsigned: UnsignedOrder, signed: SignedOrder, *, wallet: str) -> SealedRequest:
    """Return the request of a signed order; raises MalformedDataError if something else was signed."""
    expected: dict[str, Json] = {
        "tokenId": unsigned.token,
        "side": unsigned.side,
        "makerAmount": str(unsigned.maker_amount),
        "takerAmount": str(unsigned.taker_amount),
        "timestamp": str(unsigned.timestamp_ms),
        "expiration": str(unsigned.expiration),
        "salt": unsigned.salt,
    }
    differing = [name for name, value in expected.items() if signed.order.get(name) != value]
    if differing or parse_text(signed.order.get("maker")).lower() != wallet.lower():
        message = f"the signer signed another order than requested: {differing or 'maker'}"
        raise MalformedDataError(message)
    body: dict[str, Json] = {"deferExec": False, "order": dict(signed.order), "orderType": unsigned.type}
    if unsigned.expiration:
        # A resting order is a maker only: it is refused rather than matched at once.
        body["postOnly"] = True
    fence = _from_seconds(unsigned.timestamp_ms / 1000.0) + timedelta(
        seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S
    )
    if unsigned.expiration:
        fence = _from_seconds(unsigned.expiration) + timedelta(seconds=SETTLEMENT_DELAY_S)
    return SealedRequest(intent=intent.id, tag=signed.hash, body=_encode_json(body), fence=fence)


def request_body(sealed: SealedRequest, owner: str) -> str:
    """Return the body of the request as it is sent."""
    return _encode_json({**json.loads(sealed.body), "owner": owner})


def request_time(sealed: SealedRequest) -> datetime:
    """Return when a request was made."""
    return _from_seconds(int(json.loads(sealed.body)["order"]["timestamp"]) / 1000.0)


def is_too_late(sealed: SealedRequest, now: datetime) -> bool:
    """Return whether a request was made too long ago to be sent."""
    end = int(json.loads(sealed.body)["order"]["expiration"])
    if end:
        return now >= _from_seconds(end) - MIN_LIFETIME - timedelta(seconds=WRITE_DEADLINE_S)
    return now >= request_time(sealed) + timedelta(seconds=MAX_SEND_AGE_S)


def order_end(row: Mapping[str, object]) -> datetime | None:
    """Return when an open order ends, a minute before its expiry; None if it has none."""
    moment = parse_moment(row.get("expiration"))
    return None if moment is None else moment - EARLY_EXPIRY


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderMatch:
    """The match of one order in one trade: ``levels`` are prices (of that order's token) and shares."""

    trade: str
    order: str
    market: str
    token: str
    side: OrderSide
    is_taker: bool
    status: str
    at: datetime
    levels: tuple[tuple[Decimal, Decimal], ...]

    @property
    def is_final(self) -> bool:
        """Whether it is confirmed or has failed, finally."""
        return self.status in {CONFIRMED, FAILED}

    @property
    def shares(self) -> Decimal:
        """All shares of it."""
        return sum((size for _, size in self.levels), Decimal(0))

    def amount_and_fee(self, fees: TakerFees) -> tuple[Decimal, Decimal]:
        """Return what its shares cost or brought, and the fee; makers pay none."""
        fee = sum((fees.fee_for(price, size) for price, size in self.levels), Decimal(0)) if self.is_taker else 0
        return sum((price * size for price, size in self.levels), Decimal(0)), Decimal(fee)

    def to_fill(self, fees: TakerFees) -> Fill:
        """Return it as a fill."""
        worth, fee = self.amount_and_fee(fees)
        cash = -(worth + fee) if self.side is OrderSide.BUY else worth - fee
        return Fill(
            reference=self.trade,
            at=self.at,
            shares=float(self.shares),
            price=float(worth / self.shares),
            cash=float(cash),
            fee=float(fee),
        )


def parse_matches(row: Mapping[str, object], wallet: str) -> list[OrderMatch]:
    """Return the matches of a wallet's orders in a trade; raises MalformedDataError if it is invalid."""
    trade, token, at = parse_text(row.get("id")), parse_text(row.get("asset_id")), parse_moment(row.get("match_time"))
    status = parse_text(row.get("status")).upper().removeprefix(_STATUS_PREFIX)
    if not trade or not token or at is None or not status:
        message = f"trade {trade or 'without id'}: asset_id, match_time or status are missing"
        raise MalformedDataError(message)
    makers = [parse_record(maker) for maker in parse_list(row.get("maker_orders")) or ()]
    market = parse_text(row.get("market")).lower()

    def part(order: object, source: Mapping[str, object], levels: tuple[tuple[Decimal, Decimal], ...]) -> OrderMatch:
        return OrderMatch(
            trade=trade,
            order=parse_text(order).lower(),
            market=market,
            token=parse_text(source.get("asset_id")) or token,
            side=_parse_side(source.get("side"), trade),
            is_taker=source is row,
            status=status,
            at=at,
            levels=levels,
        )

    found = []
    if parse_text(row.get("trader_side")).upper() == "TAKER":
        found.append(part(row.get("taker_order_id"), row, _taker_levels(row, makers, token)))
    for maker in makers:
        if parse_text(maker.get("maker_address")).lower() == wallet.lower():
            level = (_required_decimal(maker, "price", trade), _required_decimal(maker, "matched_amount", trade))
            found.append(part(maker.get("order_id"), maker, (level,)))
    return found


def confirmed_fills(parts: Iterable[OrderMatch], fees: TakerFees) -> tuple[Fill, ...]:
    """Return the fills among the parts of one order: those that are confirmed, each trade once."""
    confirmed = {part.trade: part for part in parts if part.status == CONFIRMED}
    return tuple(part.to_fill(fees) for part in confirmed.values())


def _taker_levels(
    row: Mapping[str, object], makers: list[Mapping[str, object]], token: str
) -> tuple[tuple[Decimal, Decimal], ...]:
    """Return the levels that a taker took from each maker, with mirrored prices for the opposite token."""
    trade = parse_text(row.get("id"))
    price, size = _required_decimal(row, "price", trade), _required_decimal(row, "size", trade)
    levels = []
    for maker in makers:
        maker_price, matched = parse_decimal(maker.get("price")), parse_decimal(maker.get("matched_amount"))
        if maker_price is not None and matched is not None and matched > 0:
            levels.append((maker_price if parse_text(maker.get("asset_id")) == token else ONE - maker_price, matched))
    total = sum((matched for _, matched in levels), Decimal(0))
    return tuple(levels) if levels and total == size else ((price, size),)


def _required_decimal(row: Mapping[str, object], name: str, trade: str) -> Decimal:
    value = parse_decimal(row.get(name))
    if value is None or value <= 0:
        message = f"trade {trade}: {name} is invalid"
        raise MalformedDataError(message)
    return value


def _parse_side(value: object, trade: str) -> OrderSide:
    try:
        return OrderSide(parse_text(value).lower())
    except ValueError:
        message = f"trade {trade}: no side"
        raise MalformedDataError(message) from None


def _to_units(amount: Decimal, terms: PolymarketOrderTerms) -> int:
    units = amount * UNITS_PER_DOLLAR
    if units % 1:
        message = f"{terms.price} x {terms.size} is finer than the venue's units"
        raise MalformedDataError(message)
    return int(units)


def _from_seconds(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _encode_json(body: Mapping[str, Json]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


_OK, UNAUTHORIZED, _FORBIDDEN, _RESTARTING, _HALTED = 200, 401, 403, 425, 503


_RESTRICTED_MODES = ("cancel-only", "post-only", "cancel only", "post only")


# The order exists already: its state must be read.
_DUPLICATE_WORD = "duplicated"


# Refusals that a person must handle, and whether they affect all other orders.
_KNOWN_REFUSALS = {
    "maker address not allowed": (
        "the wallet is of another type: see wallet and wallet_type",
        ResponsibleParty.OPERATOR,
    ),
    "closed only mode": (
        "the venue lets this account only close positions; take it off live in config",
        ResponsibleParty.OPERATOR,
    ),
    "invalid signature": (
        "the key does not belong to that wallet: see key_file, wallet and wallet_type",
        ResponsibleParty.OPERATOR,
    ),
    "not enough balance": (
        "add money to the wallet, or set the allowance on the site: Foxcast never approves",
        ResponsibleParty.NOBODY,
    ),
}


REGION_BLOCKED = (
    'the venue accepts no orders from this region; set mode = "paper" for it in config. Foxcast does not bypass this'
)


def write_verdict(reply: HttpResponse) -> WriteVerdict:
    """Return the verdict on the response to an order; acked: it was accepted under a hash, which must be compared."""
    status, fields = reply.status, response_fields(reply)
    text = _response_words(fields)
    if status == _OK:
        return _success_verdict(fields, text)
    if status == _FORBIDDEN and not fields:
        # A server in front of the venue: the order did not reach it.
        return WriteVerdict(
            state=IntentState.ABSENT, detail="403: refused by a server in front of the venue; it may recover by itself"
        )
    if status == _FORBIDDEN:
        return refusal_verdict(f"403: {REGION_BLOCKED}{detail_suffix(text)}", ResponsibleParty.OPERATOR)
    if status == _RESTARTING or (status == _HALTED and any(mode in text.lower() for mode in _RESTRICTED_MODES)):
        return WriteVerdict(
            state=IntentState.ABSENT, detail=f"{status}: no orders are accepted now{detail_suffix(text)}"
        )
    if _DUPLICATE_WORD in text.lower():
        return WriteVerdict(state=IntentState.UNKNOWN, detail=f"{status}: the venue has it already")
    return verdict_by_status(reply, taken=_OK) or _refusal_verdict_by_text(status, text)


def _success_verdict(fields: Mapping[str, object], text: str) -> WriteVerdict:
    if "success" not in fields:
        return WriteVerdict(state=IntentState.UNKNOWN, detail="status 200 without an order")
    if fields.get("success") is not True or not parse_text(fields.get("orderID")):
        return _refusal_verdict_by_text(_OK, text or "no orderID")
    return WriteVerdict(state=IntentState.ACKED, detail=parse_text(fields.get("status")))


def _refusal_verdict_by_text(status: int, text: str) -> WriteVerdict:
    if status == UNAUTHORIZED:
        return refusal_verdict(f"401{detail_suffix(text)}: see key_file, wallet and api_key", ResponsibleParty.OPERATOR)
    for sign, (advice, responsible) in _KNOWN_REFUSALS.items():
        if sign in text.lower():
            return refusal_verdict(f"{status}{detail_suffix(text)}; {advice}", responsible)
    responsible = (
        ResponsibleParty.DEVELOPER
        if status in {404, 405, 422} or "payload" in text.lower() or "tick size" in text
        else ResponsibleParty.NOBODY
    )
    return refusal_verdict(f"{status}{detail_suffix(text)}", responsible)


def _response_words(fields: Mapping[str, object]) -> str:
    return next((text for name in ("errorMsg", "error", "message") if (text := parse_text(fields.get(name)))), "")
