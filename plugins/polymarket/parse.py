"""Markets and events as the venue describes them, each parsed by itself, so that a bad one costs no other.

What is not needed is not looked at; what is needed and missing is None, or a ContractError that names the market.
Sources: venue document, sections 4.3, 8.2 and 9.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Self

from bot.api import ContractError, Json, Question
from plugins.polymarket.raw import decimal_of, flag_of, list_of, moment_of, record_of, text_of, texts_of

CONDITION = re.compile(r"0x(?:[0-9a-f]{62}|[0-9a-f]{64})")
V1, V2 = "v1", "v2"
YES_NO = ("yes", "no")
# The states of the oracle after an answer was proposed and before it stands.
SETTLING = frozenset({"proposed", "challenged", "reproposed", "disputed", "arbitration", "settled"})
RESOLVED = "resolved"
# What tells how a market ended, or that it did; names that begin with volume are told too.
_AFTERWARDS = frozenset(
    {"closed", "closedTime", "umaResolutionStatus", "umaResolutionStatuses", "outcomePrices", "winner", "resolvedBy"}
)
_PLAIN_TAGS = frozenset({"", "all", "featured", "hide-from-new", "games"})


def v2_id(token: str) -> tuple[int, str, int] | None:
    """Return module, condition (31 bytes in hex) and index of the outcome of a v2 token id, None for any other id."""
    if not token.isascii() or not token.isdigit() or len(token) > 78:
        return None
    number = int(token)
    whole = f"{number:064x}"
    module, outcome = number >> 248, number & 0xFF
    if len(whole) > 64 or (number >> 40) & (2**64 - 1) or module not in {1, 2, 3} or outcome > 1:
        return None
    return module, whole[:62], outcome


def without_outcome(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record as it may be shown to whoever must not know how it ended; nested records too."""

    def stripped(value: object) -> object:
        if isinstance(value, Mapping):
            return without_outcome(value)
        return [stripped(item) for item in value] if isinstance(value, list | tuple) else value

    told = {name for name in record if name in _AFTERWARDS or name.lower().startswith("volume")}
    return {name: stripped(value) for name, value in record.items() if name not in told}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What can be traded on one question or option: a market and its two tokens; index 0 is the YES leg.

    ``fees`` is the schedule of taker fees with its numbers as text, None where trading is free. Tick and least size
    change while a market is open: its book says them.
    """

    market: str
    yes: str
    no: str
    version: str
    neg_risk: bool = False
    delay_s: Decimal = Decimal(0)
    fees: Mapping[str, Json] | None = None

    def to_map(self) -> dict[str, Json]:
        """Return it as JSON holds it."""
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
    def from_map(cls, kept: Mapping[str, object]) -> Self:
        """Read what ``to_map`` returned; raises ContractError for anything else."""
        texts = {name: text_of(kept.get(name)) for name in ("market", "yes", "no", "version")}
        delay_s = decimal_of(kept.get("delay_s"))
        if not all(texts.values()) or delay_s is None:
            message = f"this is no contract: {sorted(kept)}"
            raise ContractError(message)
        return cls(
            **texts,
            delay_s=delay_s,
            neg_risk=flag_of(kept.get("neg_risk")) or False,
            fees=None if kept.get("fees") is None else schedule_of(kept.get("fees"), texts["market"]),
        )


def contracts_of(question: Question) -> Mapping[str, Contract]:
    """Return what can be traded on a question of this venue by option ("" for a question without options).

    Raises ContractError where its facts do not say.
    """
    try:
        kept = json.loads(question.facts.get("contracts", ""))
    except (ValueError, RecursionError) as error:
        message = f"{question.ref}: its facts name no contracts"
        raise ContractError(message) from error
    return {option: Contract.from_map(record_of(contract)) for option, contract in record_of(kept).items()}


def schedule_of(raw: object, what: str) -> dict[str, Json]:
    """Return a schedule of taker fees; raises ContractError where rate or exponent are missing or none."""
    said = record_of(raw)
    rate, exponent = decimal_of(said.get("rate")), decimal_of(said.get("exponent"))
    if rate is None or exponent is None or not 0 <= rate < 1 or not 0 <= exponent <= 10:
        message = f"market {what}: its feeSchedule is incomplete"
        raise ContractError(message)
    rebate = decimal_of(said.get("rebateRate"))
    return {
        "rate": str(rate),
        "exponent": str(exponent),
        "takerOnly": flag_of(said.get("takerOnly")) is not False,
        "rebateRate": None if rebate is None else str(rebate),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
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
class Market:
    """One market: two outcomes, index 0 first. ``tokens`` is empty where it is too new to have any."""

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
    home: Home = field(default_factory=Home)

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
        return tuple(label.casefold() for label in self.labels) == YES_NO

    @property
    def contract(self) -> Contract:
        """What is traded; only for a market with tokens."""
        yes, no = self.tokens
        return Contract(
            market=self.condition,
            yes=yes,
            no=no,
            version=self.version,
            neg_risk=self.neg_risk,
            delay_s=self.delay_s,
            fees=self.fees,
        )

    def untradable(self, now: datetime) -> str | None:
        """Say why nothing can be traded on it now, None where it can. A scheduled end says nothing of an outcome."""
        if self.closed is not False or self.archived:
            return "closed"
        if self.oracle:
            return (
                f"its outcome is {self.oracle}" if self.oracle in {*SETTLING, RESOLVED, "requested"} else "odd oracle"
            )
        if not (self.active and self.has_book and self.takes_orders):
            return "takes no orders"
        if self.ends_at is None or self.ends_at <= now:
            return "past its end"
        return None if self.tokens else "too new, without tokens"


def market_of(raw: object, home: Home | None = None) -> Market:
    """Parse a market. Raises ContractError for one without a condition, two outcomes, or whole terms."""
    said = record_of(raw)
    condition = text_of(said.get("conditionId")).lower()
    if not CONDITION.fullmatch(condition):
        message = f"market {name_of(said)}: no conditionId"
        raise ContractError(message)
    labels = texts_of(said.get("outcomes")) or ()
    if len(labels) != 2:
        message = f"market {condition}: {len(labels)} outcomes instead of two"
        raise ContractError(message)
    version, tokens = _tokens(said, condition)
    delay_s, fees = _terms(said, condition)
    return Market(
        id=_id_of(said),
        condition=condition,
        version=version,
        tokens=tokens,
        labels=(labels[0], labels[1]),
        title=text_of(said.get("question")) or text_of(said.get("groupItemTitle")) or condition,
        rules=_rules(said),
        slug=text_of(said.get("slug")),
        item=text_of(said.get("groupItemTitle")),
        neg_risk=flag_of(said.get("negRisk")) or False,
        group=text_of(said.get("negRiskMarketID")).lower(),
        is_other=flag_of(said.get("negRiskOther")) or False,
        active=flag_of(said.get("active")) or False,
        closed=flag_of(said.get("closed")),
        archived=flag_of(said.get("archived")) or False,
        takes_orders=flag_of(said.get("acceptingOrders")) or False,
        has_book=flag_of(said.get("enableOrderBook")) or False,
        starts_at=moment_of(said.get("startDate")),
        ends_at=moment_of(said.get("endDate")),
        closed_at=moment_of(said.get("closedTime")),
        oracle=text_of(said.get("umaResolutionStatus")).lower(),
        prices=tuple(decimal_of(price) for price in list_of(said.get("outcomePrices")) or ()),
        delay_s=delay_s,
        fees=fees,
        volume=decimal_of(said.get("volumeNum")),
        liquidity=decimal_of(said.get("liquidityNum")),
        home=home or _home_of_market(said),
    )


def home_of(raw: object) -> Home:
    """Parse an event without its markets."""
    said = record_of(raw)
    return Home(
        id=_id_of(said),
        slug=text_of(said.get("slug")),
        title=text_of(said.get("title")),
        background=text_of(said.get("description")),
        category=_category(said),
        tags=_tags(said),
        augmented=flag_of(said.get("negRiskAugmented")) or False,
        ends_at=moment_of(said.get("endDate")),
    )


def name_of(raw: object) -> str:
    """Return the id of a record for people, also of a broken one."""
    return str(record_of(raw).get("id", "without id"))[:40]


def _home_of_market(said: Mapping[str, object]) -> Home:
    events = list_of(said.get("events")) or []
    home = home_of(events[0]) if events else Home()
    if home.category:
        return home
    return Home(
        id=home.id,
        slug=home.slug,
        title=home.title,
        background=home.background,
        category=_category(said),
        tags=home.tags or _tags(said),
        augmented=home.augmented,
        ends_at=home.ends_at,
    )


def _tokens(said: Mapping[str, object], condition: str) -> tuple[str, tuple[str, ...]]:
    """Return version and tokens. The version selects the ids; where it is missing, the ids tell the version."""
    old, new = texts_of(said.get("clobTokenIds")) or (), texts_of(said.get("positionIds")) or ()
    version = text_of(said.get("version")).lower()
    if not version:
        version = V2 if any(v2_id(token) for token in old or new) else V1
    if version not in {V1, V2}:
        message = f"market {condition}: unknown version {version[:20]!r}"
        raise ContractError(message)
    tokens = (new or old) if version == V2 else old
    if version == V2 and not new:
        tokens = tuple(token for token in old if v2_id(token))
    if len(tokens) not in {0, 2} or any(not token.isdigit() for token in tokens) or len(set(tokens)) != len(tokens):
        message = f"market {condition}: its tokens are not two different numbers"
        raise ContractError(message)
    return version, tokens


def _terms(said: Mapping[str, object], condition: str) -> tuple[Decimal, Mapping[str, Json] | None]:
    """Return the delay of takers in seconds, and their fees."""
    raw, charged = said.get("feeSchedule"), flag_of(said.get("feesEnabled"))
    if raw is None and charged:
        message = f"market {condition}: it charges fees and does not say which"
        raise ContractError(message)
    delay_s = decimal_of(said.get("secondsDelay")) or Decimal(0)
    return delay_s, None if raw is None else schedule_of(raw, condition)


def _rules(said: Mapping[str, object]) -> str:
    source = text_of(said.get("resolutionSource"))
    parts = (text_of(said.get("description")), f"Resolution source: {source}" if source else "")
    return "\n\n".join(part for part in parts if part)


def _id_of(said: Mapping[str, object]) -> str:
    value = said.get("id")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text_of(value)


def _category(said: Mapping[str, object]) -> str:
    """Return the first telling tag by slug, or the category of older records."""
    telling = _tags(said)
    return telling[0] if telling else text_of(said.get("category")).lower()


def _tags(said: Mapping[str, object]) -> tuple[str, ...]:
    """Return the telling tags by slug."""
    slugs = [text_of(record_of(tag).get("slug")).lower() for tag in list_of(said.get("tags")) or ()]
    return tuple(dict.fromkeys(slug for slug in slugs if slug not in _PLAIN_TAGS))
