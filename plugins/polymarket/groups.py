"""Events where exactly one outcome wins, as one question: which markets belong to it, and what its options are called.

Each outcome is a market of its own; what they pay is joined by the venue. Placeholders and the market "Other", whose
meaning narrows as outcomes are added, are no options; together they are the option "Other". Prices of the options do
not sum to 1, fees and spreads see to that. Source: venue document, section 4.5.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import structlog

from bot.api import ContractError
from plugins.polymarket.parse import RESOLVED, SETTLING, Home, Market, home_of, market_of
from plugins.polymarket.raw import decimal_of, flag_of, list_of, record_of, text_of

log = structlog.get_logger(__name__)

OTHER = "Other"
NONE_OF_THESE = "Other (none of these)"
OTHERS = frozenset({OTHER, NONE_OF_THESE})
NAMES_FILE = "options.json"
_WON = Decimal("0.999")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An event where exactly one of ``members`` wins, or, where ``other`` is a name, none of them.

    ``members`` are those that can still win by option, the oldest first; ``children`` all its markets, also those
    that are over. It is not ``whole`` where one of them could not be read: that one may be the winner.
    """

    home: Home
    id: str
    members: Mapping[str, Market]
    children: tuple[Market, ...]
    other: str = ""
    whole: bool = True

    @property
    def options(self) -> tuple[str, ...]:
        """The names of all options, Other last."""
        return (*self.members, *((self.other,) if self.other else ()))

    @property
    def key(self) -> str:
        """The key of its question."""
        return key_of_event(self.home.id)

    @property
    def ends_at(self) -> datetime | None:
        """When the last of its members is scheduled to end."""
        ends = [market.ends_at for market in self.members.values() if market.ends_at is not None]
        return max(ends, default=self.home.ends_at)

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets of its options."""
        return tuple(self.members.values())

    def undecidable(self, now: datetime) -> str | None:
        """Say why it cannot be forecast now, None where it can."""
        if not self.whole:
            return "one of its markets cannot be read"
        if any(won(market) for market in self.children):
            return "an outcome of it has won"
        if len(self.options) < 2:
            return "a single outcome is left"
        if all(market.untradable(now) for market in self.members.values()):
            return "none of its markets can be traded"
        return None


@dataclass(slots=True)
class Unpacked:
    """Groups and single markets of several events, and what could not be read of them."""

    items: list[Group | Market] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def add_event(self, raw: object) -> None:
        """Unpack an event: one group at most, and markets that stand alone."""
        said = record_of(raw)
        home = home_of(said)
        by_condition: dict[str, Market] = {}
        whole = True
        for record in list_of(said.get("markets")) or ():
            try:
                child = market_of(record, home)
                by_condition.setdefault(child.condition, child)
            except ContractError as error:
                self.complaints.append(str(error))
                # Only one that says that it stands alone surely does.
                whole = whole and flag_of(record_of(record).get("negRisk")) is False
        children = list(by_condition.values())
        group = group_of(home, children) if home.id else None
        taken: frozenset[str] = frozenset()
        if group is not None:
            self.items.append(replace(group, whole=whole))
            taken = frozenset(child.condition for child in group.children)
        self.items += [child for child in children if child.condition not in taken and not child.is_other]

    def add_market(self, raw: object) -> None:
        """Unpack a market by itself."""
        try:
            market = market_of(raw)
        except ContractError as error:
            self.complaints.append(str(error))
            return
        if not market.is_other:
            self.items.append(market)


def group_in(raw: object) -> Group | None:
    """Return the group of an event, None where it has none."""
    unpacked = Unpacked()
    unpacked.add_event(raw)
    return next((item for item in unpacked.items if isinstance(item, Group)), None)


def key_of_event(event_id: str) -> str:
    """Return the key of the question about a whole event."""
    return f"event:{event_id}"


def event_of_key(key: str) -> str | None:
    """Return the number of the event that a key names, None for a key that names a market."""
    head, _, number = key.partition(":")
    return number if head == "event" and number else None


def group_of(home: Home, children: Sequence[Market]) -> Group | None:
    """Return the group of an event, by the name that most of its live markets share; None where it has none.

    Two that can still win make a group, or one and Other. An event that is over has its group too.
    """
    live = [child for child in children if child.neg_risk and child.group and _can_win(child)]
    belonging = live or [child for child in children if child.neg_risk and child.group]
    if not belonging:
        return None
    [(shared, _)] = Counter(child.group for child in belonging).most_common(1)
    # The order of the venue may change, which would be another question.
    ours = tuple(sorted((child for child in children if child.neg_risk and child.group == shared), key=_age))
    members = named([child for child in ours if _can_win(child)])
    rest = home.augmented or any(child.is_other or (not child.active and child.closed is False) for child in ours)
    if len(ours) < 2:
        return None
    other = (NONE_OF_THESE if OTHER in members else OTHER) if rest else ""
    return Group(home=home, id=shared, members=members, children=ours, other=other)


def named(markets: Iterable[Market]) -> dict[str, Market]:
    """Return markets by the names of their options; two of the same name are told apart by their whole questions."""
    markets = list(markets)
    shorts = Counter(market.item or market.title for market in markets)
    found: dict[str, Market] = {}
    for market in markets:
        short = market.item or market.title
        name = short if shorts[short] == 1 and short != NONE_OF_THESE else f"{short} ({market.title})"
        found[name if name not in found else f"{name} [{market.id or market.condition}]"] = market
    return found


def won(market: Market) -> bool:
    """Say whether a market of a group is over, and its first outcome won, as far as its display price tells."""
    return bool(market.closed and market.prices and market.prices[0] is not None and market.prices[0] >= _WON)


def settling(rows: Mapping[str, Mapping[str, object]], condition: str) -> bool:
    """Say whether the oracle has an answer to that market that does not stand yet, or stands already."""
    status = text_of(rows.get(condition, {}).get("status")).lower()
    return status in SETTLING or status == RESOLVED


def has_winner(rows: Mapping[str, Mapping[str, object]], group: Group) -> bool:
    """Say whether the oracle has, or is proposed, another answer than no to a market of the group."""
    for market in group.children:
        if not settling(rows, market.condition):
            continue
        row = rows[market.condition]
        paid = decimal_of((list_of(row.get("payouts")) or (None,))[0])
        prices = [decimal_of(row.get(name)) for name in ("price", "reproposed_price", "proposed_price")]
        # 69 stands for a price that is not set.
        told = [paid, *(price for price in prices if price is not None and 0 <= price <= 1)]
        if next((said for said in told if said is not None), None) != 0:
            return True
    return False


class Names:
    """What the options of each event were called when they were asked about, by market, across restarts.

    All names of a market are kept, the newest last. An outcome that was named only after the question was asked was
    part of Other then.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAMES_FILE
        self._kept: dict[str, dict[str, list[str]]] = {}
        self._dirty = False
        if self._path.exists():
            try:
                kept = record_of(json.loads(self._path.read_text()))
            except (ValueError, RecursionError):
                log.warning("the names of options cannot be read and are begun anew", path=str(self._path))
                kept = {}
            self._kept = {
                event: {market: told for market, said in record_of(names).items() if (told := _names(said))}
                for event, names in kept.items()
            }

    def asked(self, group: Group) -> None:
        """Remember what the options of a group are called now."""
        known = self._kept.setdefault(group.home.id, {})
        for option, market in group.members.items():
            names = known.setdefault(market.condition, [])
            if names[-1:] != [option]:
                names[:] = [*(name for name in names if name != option), option]
                self._dirty = True

    def option(self, group: Group, condition: str) -> str:
        """Return what the option of a market of a group was called last, Other for one that had no name.

        An event that was never asked about here has the names of now.
        """
        if kept := self._kept.get(group.home.id):
            return kept[condition][-1] if condition in kept else self.rest(group.home.id)
        now = {market.condition: option for option, market in named(_eligible(group)).items()}
        return now.get(condition) or OTHER

    def otherwise(self, event_id: str, condition: str) -> tuple[str, ...]:
        """Return what stood for the option of a market in older questions: former names, newest first, and Other."""
        names = self._kept.get(event_id, {}).get(condition, [])
        return (*reversed(names[:-1]), self.rest(event_id))

    def rest(self, event_id: str) -> str:
        """Return what the option of all others is called, where there is one."""
        known = self._kept.get(event_id, {}).values()
        return NONE_OF_THESE if any(names[-1] == OTHER for names in known) else OTHER

    def conditions(self, event_id: str) -> frozenset[str]:
        """Return the markets of an event that were options of its question, also those it does not list any more."""
        return frozenset(self._kept.get(event_id, ()))

    def keep(self) -> None:
        """Write it down, if anything is new."""
        if not self._dirty:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._kept, ensure_ascii=False))
        fresh.replace(self._path)
        self._dirty = False


def _names(said: object) -> list[str]:
    """Read the names of a market: a list, or the one that earlier versions kept."""
    return [str(name) for name in (said if isinstance(said, list) else [said])]


def _age(market: Market) -> tuple[int, str, str]:
    return len(market.id), market.id, market.condition


def _can_win(market: Market) -> bool:
    return market.active and market.closed is False and not market.is_other


def _eligible(group: Group) -> list[Market]:
    return [market for market in group.children if market.active and not market.is_other]
