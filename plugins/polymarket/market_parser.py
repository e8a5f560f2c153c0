"""Markets and events as the venue describes them, each parsed separately, so that a bad one does not affect others.

Unneeded fields are ignored; a missing needed one is None, or raises MalformedDataError that names the market. Sources:
docs/facts/polymarket.md#markets, #order-signatures and #fees.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Self

from bot.api import Json, MalformedDataError, Question
from plugins.polymarket.json_values import (
    parse_decimal,
    parse_flag,
    parse_list,
    parse_moment,
    parse_record,
    parse_text,
    parse_texts,
)

CONDITION_PATTERN = re.compile(r"0x(?:[0-9a-f]{62}|[0-9a-f]{64})")
VERSION_1, VERSION_2 = "v1", "v2"
YES_NO_LABELS = ("yes", "no")
# The states of the oracle after an answer was proposed and before it is final.
SETTLING_STATUSES = frozenset({"proposed", "challenged", "reproposed", "disputed", "arbitration", "settled"})
RESOLVED_STATUS = "resolved"
# Fields that reveal how a market ended, or that it did; so do names that begin with volume.
_UNINFORMATIVE_TAGS = frozenset({"", "all", "featured", "hide-from-new", "games"})


def parse_v2_token(token: str) -> tuple[int, str, int] | None:
    """Return module, condition (31 bytes in hex) and index of the outcome of a v2 token id, None for any other id."""
    if not token.isascii() or not token.isdigit() or len(token) > 78:
        return None
    number = int(token)
    digits = f"{number:064x}"
    module, outcome = number >> 248, number & 0xFF
    if len(digits) > 64 or (number >> 40) & (2**64 - 1) or module not in {1, 2, 3} or outcome > 1:
        return None
    return module, digits[:62], outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketContract:
    """What can be traded on one question or option: a market and its two tokens; index 0 is the YES leg.

    ``fees`` is the schedule of taker fees with its numbers as text, None if trading is free. Tick and minimum size
    change while a market is open: its book has them.
    """

    market: str
    yes: str
    no: str
    version: str
    neg_risk: bool = False
    delay_s: Decimal = Decimal(0)
    fees: Mapping[str, Json] | None = None

    def to_map(self) -> dict[str, Json]:
        """Return it as JSON values."""
        return {
            "market": self.market,
            "yes": self.yes,
            "no": self.no,
            "version": self.version,
            "neg_risk": self.neg_risk,
            "delay_s": str(self.delay_s),
            "fees": None if self.fees is None else dict(self.fees),
        }

    @classmethod
    def from_map(cls, stored: Mapping[str, object]) -> Self:
        """Parse what ``to_map`` returned; raises MalformedDataError for anything else."""
        texts = {name: parse_text(stored.get(name)) for name in ("market", "yes", "no", "version")}
        delay_s = parse_decimal(stored.get("delay_s"))
        if not all(texts.values()) or delay_s is None:
            message = f"this is not a contract: {sorted(stored)}"
            raise MalformedDataError(message)
        return cls(
            **texts,
            delay_s=delay_s,
            neg_risk=parse_flag(stored.get("neg_risk")) or False,
            fees=None if stored.get("fees") is None else parse_fee_schedule(stored.get("fees"), texts["market"]),
        )


def question_contracts(question: Question) -> Mapping[str, PolymarketContract]:
    """Return the contracts of a question of this venue by option ("" for a question without options).

    Raises MalformedDataError if its facts do not name them.
    """
    try:
        stored = json.loads(question.facts.get("contracts", ""))
    except (ValueError, RecursionError) as error:
        message = f"{question.ref}: its facts name no contracts"
        raise MalformedDataError(message) from error
    return {
        option: PolymarketContract.from_map(parse_record(contract)) for option, contract in parse_record(stored).items()
    }


def parse_fee_schedule(raw: object, what: str) -> dict[str, Json]:
    """Return a schedule of taker fees; raises MalformedDataError if rate or exponent are missing or invalid."""
    fields = parse_record(raw)
    rate, exponent = parse_decimal(fields.get("rate")), parse_decimal(fields.get("exponent"))
    if rate is None or exponent is None or not 0 <= rate < 1 or not 0 <= exponent <= 10:
        message = f"market {what}: its feeSchedule is incomplete"
        raise MalformedDataError(message)
    rebate = parse_decimal(fields.get("rebateRate"))
    return {
        "rate": str(rate),
        "exponent": str(exponent),
        "takerOnly": parse_flag(fields.get("takerOnly")) is not False,
        "rebateRate": None if rebate is None else str(rebate),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentEvent:
    """The event that a market belongs to."""

    id: str = ""
    slug: str = ""
    title: str = ""
    background: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    augmented: bool = False
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketMarket:
    """One market: two outcomes, index 0 first. ``tokens`` is empty if it is too new to have any."""

    id: str
    condition: str
    version: str
    tokens: tuple[str, ...]
    labels: tuple[str, str]
    title: str
    rules: str = ""
    slug: str = ""
    item: str = ""
    neg_risk: bool = False
    group: str = ""
    is_other: bool = False
    active: bool = False
    closed: bool | None = None
    archived: bool = False
    takes_orders: bool = False
    has_book: bool = False
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    closed_at: datetime | None = None
    oracle: str = ""
    prices: tuple[Decimal | None, ...] = ()
    delay_s: Decimal = Decimal(0)
    fees: Mapping[str, Json] | None = None
    volume: Decimal | None = None
    liquidity: Decimal | None = None
    event: ParentEvent = field(default_factory=ParentEvent)

    @property
    def key(self) -> str:
        """The key of its question."""
        return self.condition

    @property
    def markets(self) -> tuple[Self, ...]:
        """Itself."""
        return (self,)

    @property
    def is_yes_no(self) -> bool:
        """Whether its outcomes are called Yes and No."""
        return tuple(label.casefold() for label in self.labels) == YES_NO_LABELS

    @property
    def contract(self) -> PolymarketContract:
        """What is traded; only for a market with tokens."""
        yes, no = self.tokens
        return PolymarketContract(
            market=self.condition,
            yes=yes,
            no=no,
            version=self.version,
            neg_risk=self.neg_risk,
            delay_s=self.delay_s,
            fees=self.fees,
        )

    def untradable_reason(self, now: datetime) -> str | None:
        """Return why it cannot be traded now, or None. A scheduled end does not imply an outcome."""
        if self.closed is not False or self.archived:
            return "closed"
        if self.oracle:
            return (
                f"its outcome is {self.oracle}"
                if self.oracle in {*SETTLING_STATUSES, RESOLVED_STATUS, "requested"}
                else "unknown oracle state"
            )
        if not (self.active and self.has_book and self.takes_orders):
            return "takes no orders"
        if self.ends_at is None or self.ends_at <= now:
            return "past its end"
        return None if self.tokens else "too new, without tokens"


def parse_market(raw: object, parent: ParentEvent | None = None) -> PolymarketMarket:
    """Parse a market. Raises MalformedDataError without a condition, two outcomes, or complete terms."""
    fields = parse_record(raw)
    condition = parse_text(fields.get("conditionId")).lower()
    if not CONDITION_PATTERN.fullmatch(condition):
        message = f"market {record_name(fields)}: no conditionId"
        raise MalformedDataError(message)
    labels = parse_texts(fields.get("outcomes")) or ()
    if len(labels) != 2:
        message = f"market {condition}: {len(labels)} outcomes instead of two"
        raise MalformedDataError(message)
    version, tokens = _parse_tokens(fields, condition)
    delay_s, fees = _parse_terms(fields, condition)
    return PolymarketMarket(
        id=_record_id(fields),
        condition=condition,
        version=version,
        tokens=tokens,
        labels=(labels[0], labels[1]),
        title=parse_text(fields.get("question")) or parse_text(fields.get("groupItemTitle")) or condition,
        rules=_parse_rules(fields),
        slug=parse_text(fields.get("slug")),
        item=parse_text(fields.get("groupItemTitle")),
        neg_risk=parse_flag(fields.get("negRisk")) or False,
        group=parse_text(fields.get("negRiskMarketID")).lower(),
        is_other=parse_flag(fields.get("negRiskOther")) or False,
        active=parse_flag(fields.get("active")) or False,
        closed=parse_flag(fields.get("closed")),
        archived=parse_flag(fields.get("archived")) or False,
        takes_orders=parse_flag(fields.get("acceptingOrders")) or False,
        has_book=parse_flag(fields.get("enableOrderBook")) or False,
        starts_at=parse_moment(fields.get("startDate")),
        ends_at=parse_moment(fields.get("endDate")),
        closed_at=parse_moment(fields.get("closedTime")),
        oracle=parse_text(fields.get("umaResolutionStatus")).lower(),
        prices=tuple(parse_decimal(price) for price in parse_list(fields.get("outcomePrices")) or ()),
        delay_s=delay_s,
        fees=fees,
        volume=parse_decimal(fields.get("volumeNum")),
        liquidity=parse_decimal(fields.get("liquidityNum")),
        event=parent or _parse_parent_event(fields),
    )


def parse_event(raw: object) -> ParentEvent:
    """Parse an event without its markets."""
    fields = parse_record(raw)
    return ParentEvent(
        id=_record_id(fields),
        slug=parse_text(fields.get("slug")),
        title=parse_text(fields.get("title")),
        background=parse_text(fields.get("description")),
        category=_parse_category(fields),
        tags=_parse_tags(fields),
        augmented=parse_flag(fields.get("negRiskAugmented")) or False,
        ends_at=parse_moment(fields.get("endDate")),
    )


def record_name(raw: object) -> str:
    """Return the id of a record for messages, also of a broken one."""
    return str(parse_record(raw).get("id", "without id"))[:40]


def _parse_parent_event(fields: Mapping[str, object]) -> ParentEvent:
    events = parse_list(fields.get("events")) or []
    parent = parse_event(events[0]) if events else ParentEvent()
    if parent.category:
        return parent
    return ParentEvent(
        id=parent.id,
        slug=parent.slug,
        title=parent.title,
        background=parent.background,
        category=_parse_category(fields),
        tags=parent.tags or _parse_tags(fields),
        augmented=parent.augmented,
        ends_at=parent.ends_at,
    )


def _parse_tokens(fields: Mapping[str, object], condition: str) -> tuple[str, tuple[str, ...]]:
    """Return version and tokens. The version selects the ids; if it is missing, the ids determine it."""
    old, new = parse_texts(fields.get("clobTokenIds")) or (), parse_texts(fields.get("positionIds")) or ()
    version = parse_text(fields.get("version")).lower()
    if not version:
        version = VERSION_2 if any(parse_v2_token(token) for token in old or new) else VERSION_1
    if version not in {VERSION_1, VERSION_2}:
        message = f"market {condition}: unknown version {version[:20]!r}"
        raise MalformedDataError(message)
    tokens = (new or old) if version == VERSION_2 else old
    if version == VERSION_2 and not new:
        tokens = tuple(token for token in old if parse_v2_token(token))
    if len(tokens) not in {0, 2} or any(not token.isdigit() for token in tokens) or len(set(tokens)) != len(tokens):
        message = f"market {condition}: its tokens are not two different numbers"
        raise MalformedDataError(message)
    return version, tokens


def _parse_terms(fields: Mapping[str, object], condition: str) -> tuple[Decimal, Mapping[str, Json] | None]:
    """Return the delay of takers in seconds, and their fees."""
    raw, charged = fields.get("feeSchedule"), parse_flag(fields.get("feesEnabled"))
    if raw is None and charged:
        message = f"market {condition}: it charges fees, but has no schedule"
        raise MalformedDataError(message)
    delay_s = parse_decimal(fields.get("secondsDelay")) or Decimal(0)
    return delay_s, None if raw is None else parse_fee_schedule(raw, condition)


def _parse_rules(fields: Mapping[str, object]) -> str:
    source = parse_text(fields.get("resolutionSource"))
    parts = (parse_text(fields.get("description")), f"Resolution source: {source}" if source else "")
    return "\n\n".join(part for part in parts if part)


def _record_id(fields: Mapping[str, object]) -> str:
    value = fields.get("id")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else parse_text(value)


def _parse_category(fields: Mapping[str, object]) -> str:
    """Return the slug of the first informative tag, or the category of older records."""
    tags = _parse_tags(fields)
    return tags[0] if tags else parse_text(fields.get("category")).lower()


def _parse_tags(fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return the slugs of the informative tags."""
    slugs = [parse_text(parse_record(tag).get("slug")).lower() for tag in parse_list(fields.get("tags")) or ()]
    return tuple(dict.fromkeys(slug for slug in slugs if slug not in _UNINFORMATIVE_TAGS))
