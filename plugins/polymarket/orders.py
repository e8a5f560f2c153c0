"""Orders as they are signed and posted, and trades as the venue shows them: made, found again, turned into fills.

An order is known by the hash of what was signed. One with an end is refused within three minutes of it, so that from
its end on it can take effect no more; one without is only sent shortly after it was made. What is stored is all of the
request but ``owner``: that is the API key, and is added on the wire, as the headers are.

A match is not a trade yet: it may fail on chain. Only what is CONFIRMED is a fill.
Source: venue document, sections 5.2, 8.2 and 15.3.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil

from bot.api import ContractError, Fill, Intent, Json, Sealed, Side
from plugins.polymarket.books import ONE
from plugins.polymarket.fees import Fees
from plugins.polymarket.raw import decimal_of, list_of, moment_of, record_of, text_of
from plugins.polymarket.signer_process import Signed, Unsigned
from plugins.polymarket.terms import EARLY, LEAST_LIFE, Terms

MILLION = Decimal(1_000_000)
# From waiting for its turn (one order in ten seconds) to the last byte of the answer.
DEADLINE_S = 45.0
# How long an order without an end may be sent after it was made.
FRESH_S = 30.0
# How long after that a request may still take effect there, and lists lag behind.
SETTLE_S = 60.0
CONFIRMED, FAILED = "CONFIRMED", "FAILED"
_SALT = 2**53 - 1
_STATUS = "TRADE_STATUS_"


def unsigned_of(intent: Intent, terms: Terms, *, now: datetime) -> Unsigned:
    """Return what is to be signed. The salt follows from intent and time: made twice at once it is one order."""
    stamp_ms = int(now.timestamp() * 1000.0)
    chance = hashlib.sha256(f"{intent.id} {stamp_ms}".encode()).digest()
    dollars, shares = (_units(terms.price * terms.size, terms), _units(terms.size, terms))
    is_purchase = terms.side is Side.BUY
    return Unsigned(
        token=terms.token,
        side="BUY" if is_purchase else "SELL",
        type=terms.type.value,
        neg_risk=terms.contract.neg_risk,
        maker_amount=dollars if is_purchase else shares,
        taker_amount=shares if is_purchase else dollars,
        timestamp_ms=stamp_ms,
        expiration=ceil((now + terms.lifetime).timestamp()) if terms.type.rests else 0,
        salt=int.from_bytes(chance[:8]) & _SALT,
    )


def sealed_of(intent: Intent, asked: Unsigned, signed: Signed, *, wallet: str) -> Sealed:
    """Return the request of a signed order; raises ContractError where something else was signed than was asked."""
    wanted: dict[str, Json] = {
        "tokenId": asked.token,
        "side": asked.side,
        "makerAmount": str(asked.maker_amount),
        "takerAmount": str(asked.taker_amount),
        "timestamp": str(asked.timestamp_ms),
        "expiration": str(asked.expiration),
        "salt": asked.salt,
    }
    odd = [name for name, value in wanted.items() if signed.order.get(name) != value]
    if odd or text_of(signed.order.get("maker")).lower() != wallet.lower():
        message = f"the signer signed another order than it was asked: {odd or 'maker'}"
        raise ContractError(message)
    body: dict[str, Json] = {"deferExec": False, "order": dict(signed.order), "orderType": asked.type}
    if asked.expiration:
        # What rests takes from nobody: it is refused rather than matched at once.
        body["postOnly"] = True
    fence = _moment(asked.timestamp_ms / 1000.0) + timedelta(seconds=FRESH_S + DEADLINE_S + SETTLE_S)
    if asked.expiration:
        fence = _moment(asked.expiration) + timedelta(seconds=SETTLE_S)
    return Sealed(intent=intent.id, tag=signed.hash, body=_json(body), fence=fence)


def posted(sealed: Sealed, owner: str) -> str:
    """Return the body of the request as it goes over the wire."""
    return _json({**json.loads(sealed.body), "owner": owner})


def made_at(sealed: Sealed) -> datetime:
    """Return when a request was made."""
    return _moment(int(json.loads(sealed.body)["order"]["timestamp"]) / 1000.0)


def is_late(sealed: Sealed, now: datetime) -> bool:
    """Say whether a request was made too long ago to be sent."""
    end = int(json.loads(sealed.body)["order"]["expiration"])
    if end:
        return now >= _moment(end) - LEAST_LIFE - timedelta(seconds=DEADLINE_S)
    return now >= made_at(sealed) + timedelta(seconds=FRESH_S)


def ends_at(row: Mapping[str, object]) -> datetime | None:
    """Return when an open order ends, a minute before it says; None for one that says nothing."""
    moment = moment_of(row.get("expiration"))
    return None if moment is None else moment - EARLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one trade did to one order: ``levels`` are prices (of that order's token) and shares."""

    trade: str
    order: str
    market: str
    token: str
    side: Side
    is_taker: bool
    status: str
    at: datetime
    levels: tuple[tuple[Decimal, Decimal], ...]

    @property
    def is_over(self) -> bool:
        """Whether it stands or has failed, for good."""
        return self.status in {CONFIRMED, FAILED}

    @property
    def shares(self) -> Decimal:
        """All shares of it."""
        return sum((size for _, size in self.levels), Decimal(0))

    def dollars(self, fees: Fees) -> tuple[Decimal, Decimal]:
        """Return what its shares cost or brought, and the fee on that; makers pay none."""
        fee = sum((fees.charged(price, size) for price, size in self.levels), Decimal(0)) if self.is_taker else 0
        return sum((price * size for price, size in self.levels), Decimal(0)), Decimal(fee)

    def fill(self, fees: Fees) -> Fill:
        """Return it as a fill."""
        worth, fee = self.dollars(fees)
        cash = -(worth + fee) if self.side is Side.BUY else worth - fee
        return Fill(
            reference=self.trade,
            at=self.at,
            shares=float(self.shares),
            price=float(worth / self.shares),
            cash=float(cash),
            fee=float(fee),
        )


def parts_of(row: Mapping[str, object], wallet: str) -> list[Part]:
    """Return what a trade did to the orders of a wallet; raises ContractError for one that cannot be read."""
    trade, token, at = text_of(row.get("id")), text_of(row.get("asset_id")), moment_of(row.get("match_time"))
    status = text_of(row.get("status")).upper().removeprefix(_STATUS)
    if not trade or not token or at is None or not status:
        message = f"trade {trade or 'without id'}: asset_id, match_time or status are missing"
        raise ContractError(message)
    makers = [record_of(maker) for maker in list_of(row.get("maker_orders")) or ()]
    market = text_of(row.get("market")).lower()

    def part(order: object, mine: Mapping[str, object], levels: tuple[tuple[Decimal, Decimal], ...]) -> Part:
        return Part(
            trade=trade,
            order=text_of(order).lower(),
            market=market,
            token=text_of(mine.get("asset_id")) or token,
            side=_side(mine.get("side"), trade),
            is_taker=mine is row,
            status=status,
            at=at,
            levels=levels,
        )

    found = []
    if text_of(row.get("trader_side")).upper() == "TAKER":
        found.append(part(row.get("taker_order_id"), row, _taken(row, makers, token)))
    for maker in makers:
        if text_of(maker.get("maker_address")).lower() == wallet.lower():
            level = (_number(maker, "price", trade), _number(maker, "matched_amount", trade))
            found.append(part(maker.get("order_id"), maker, (level,)))
    return found


def fills_of(parts: Iterable[Part], fees: Fees) -> tuple[Fill, ...]:
    """Return the fills among the parts of one order: those that are confirmed, each trade once."""
    confirmed = {part.trade: part for part in parts if part.status == CONFIRMED}
    return tuple(part.fill(fees) for part in confirmed.values())


def _taken(
    row: Mapping[str, object], makers: list[Mapping[str, object]], token: str
) -> tuple[tuple[Decimal, Decimal], ...]:
    """Return the levels that a taker took: of each maker, whose price for the opposite token is turned round."""
    trade = text_of(row.get("id"))
    price, size = _number(row, "price", trade), _number(row, "size", trade)
    levels = []
    for maker in makers:
        theirs, matched = decimal_of(maker.get("price")), decimal_of(maker.get("matched_amount"))
        if theirs is not None and matched is not None and matched > 0:
            levels.append((theirs if text_of(maker.get("asset_id")) == token else ONE - theirs, matched))
    whole = sum((matched for _, matched in levels), Decimal(0))
    return tuple(levels) if levels and whole == size else ((price, size),)


def _number(row: Mapping[str, object], name: str, trade: str) -> Decimal:
    value = decimal_of(row.get(name))
    if value is None or value <= 0:
        message = f"trade {trade}: {name} is none"
        raise ContractError(message)
    return value


def _side(value: object, trade: str) -> Side:
    try:
        return Side(text_of(value).lower())
    except ValueError:
        message = f"trade {trade}: no side"
        raise ContractError(message) from None


def _units(amount: Decimal, terms: Terms) -> int:
    units = amount * MILLION
    if units % 1:
        message = f"{terms.price} x {terms.size} is finer than the venue counts"
        raise ContractError(message)
    return int(units)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _json(body: Mapping[str, Json]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))
