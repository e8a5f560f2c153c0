"""Events where exactly one outcome wins, as one question: its markets, and the names of its options.

Each outcome is a separate market; the venue links their payouts. Placeholders and the market "Other", whose meaning
narrows as outcomes are added, are not options; together they are the option "Other". Prices of the options do not sum
to 1, because of fees and spreads. Source: docs/facts/polymarket.md#groups.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import structlog

from bot.api import MalformedDataError
from plugins.polymarket.json_values import parse_decimal, parse_flag, parse_list, parse_record, parse_text
from plugins.polymarket.market_parser import (
    RESOLVED_STATUS,
    SETTLING_STATUSES,
    ParentEvent,
    PolymarketMarket,
    parse_event,
    parse_market,
)

log = structlog.get_logger(__name__)

OTHER_OPTION = "Other"
NONE_OF_THESE = "Other (none of these)"
OPTION_NAMES_FILE = "options.json"
_MIN_WINNING_PRICE = Decimal("0.999")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGroup:
    """An event where exactly one of ``members`` wins, or, if ``other`` is a name, none of them.

    ``members`` are the markets that can still win, by option, the oldest first; ``children`` are all its markets, also
    those that are closed. It is not ``is_complete`` if one of them could not be parsed: that one may be the winner.
    """

    event: ParentEvent
    id: str
    members: Mapping[str, PolymarketMarket]
    children: tuple[PolymarketMarket, ...]
    other: str = ""
    is_complete: bool = True

    @property
    def options(self) -> tuple[str, ...]:
        """The names of all options, Other last."""
        return (*self.members, *((self.other,) if self.other else ()))

    @property
    def key(self) -> str:
        """The key of its question."""
        return event_key(self.event.id)

    @property
    def ends_at(self) -> datetime | None:
        """When the last of its members is scheduled to end."""
        ends = [market.ends_at for market in self.members.values() if market.ends_at is not None]
        return max(ends, default=self.event.ends_at)

    @property
    def markets(self) -> tuple[PolymarketMarket, ...]:
        """The markets of its options."""
        return tuple(self.members.values())

    def undecidable_reason(self, now: datetime) -> str | None:
        """Return why it cannot be forecast now, or None."""
        if not self.is_complete:
            return "one of its markets cannot be read"
        if any(has_won(market) for market in self.children):
            return "an outcome of it has won"
        if len(self.options) < 2:
            return "a single outcome is left"
        if all(market.untradable_reason(now) for market in self.members.values()):
            return "none of its markets can be traded"
        return None


@dataclass(slots=True)
class PolymarketParsedEvents:
    """Groups and single markets of several events, and the errors in others."""

    items: list[EventGroup | PolymarketMarket] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def add_event(self, raw: object) -> None:
        """Unpack an event: one group at most, and single markets."""
        fields = parse_record(raw)
        parent = parse_event(fields)
        by_condition: dict[str, PolymarketMarket] = {}
        is_complete = True
        for record in parse_list(fields.get("markets")) or ():
            try:
                child = parse_market(record, parent)
                by_condition.setdefault(child.condition, child)
            except MalformedDataError as error:
                self.complaints.append(str(error))
                # Only a market with negRisk false is certainly not part of a group.
                is_complete = is_complete and parse_flag(parse_record(record).get("negRisk")) is False
        children = list(by_condition.values())
        group = build_group(parent, children) if parent.id else None
        taken: frozenset[str] = frozenset()
        if group is not None:
            self.items.append(replace(group, is_complete=is_complete))
            taken = frozenset(child.condition for child in group.children)
        self.items += [child for child in children if child.condition not in taken and not child.is_other]

    def add_market(self, raw: object) -> None:
        """Unpack a single market."""
        try:
            market = parse_market(raw)
        except MalformedDataError as error:
            self.complaints.append(str(error))
            return
        if not market.is_other:
            self.items.append(market)


def event_group(raw: object) -> EventGroup | None:
    """Return the group of an event, None if it has none."""
    unpacked = PolymarketParsedEvents()
    unpacked.add_event(raw)
    return next((item for item in unpacked.items if isinstance(item, EventGroup)), None)


def event_key(event_id: str) -> str:
    """Return the key of the question about a whole event."""
    return f"event:{event_id}"


def event_id_of_key(key: str) -> str | None:
    """Return the number of the event that a key names, None for a key that names a market."""
    head, _, number = key.partition(":")
    return number if head == "event" and number else None


def build_group(parent: ParentEvent, children: Sequence[PolymarketMarket]) -> EventGroup | None:
    """Return the group of an event, by the name that most of its live markets share; None if it has none.

    Two markets that can still win make a group, or one and Other. A closed event has its group too.
    """
    live = [child for child in children if child.neg_risk and child.group and _can_win(child)]
    belonging = live or [child for child in children if child.neg_risk and child.group]
    if not belonging:
        return None
    [(shared, _)] = Counter(child.group for child in belonging).most_common(1)
    # The venue's order may change, which would change the question.
    ours = tuple(sorted((child for child in children if child.neg_risk and child.group == shared), key=_sort_key))
    members = markets_by_option([child for child in ours if _can_win(child)])
    rest = parent.augmented or any(child.is_other or (not child.active and child.closed is False) for child in ours)
    if len(ours) < 2:
        return None
    other = (NONE_OF_THESE if OTHER_OPTION in members else OTHER_OPTION) if rest else ""
    return EventGroup(event=parent, id=shared, members=members, children=ours, other=other)


def markets_by_option(markets: Iterable[PolymarketMarket]) -> dict[str, PolymarketMarket]:
    """Return markets by the names of their options; two of the same name are distinguished by their full questions."""
    markets = list(markets)
    short_names = Counter(market.item or market.title for market in markets)
    found: dict[str, PolymarketMarket] = {}
    for market in markets:
        short = market.item or market.title
        name = short if short_names[short] == 1 and short != NONE_OF_THESE else f"{short} ({market.title})"
        found[name if name not in found else f"{name} [{market.id or market.condition}]"] = market
    return found


def has_won(market: PolymarketMarket) -> bool:
    """Return whether a market of a group is closed, and its first outcome won by its display price."""
    return bool(
        market.closed and market.prices and market.prices[0] is not None and market.prices[0] >= _MIN_WINNING_PRICE
    )


def is_settling(rows: Mapping[str, Mapping[str, object]], condition: str) -> bool:
    """Return whether the oracle has a proposed or final answer to that market."""
    status = parse_text(rows.get(condition, {}).get("status")).lower()
    return status in SETTLING_STATUSES or status == RESOLVED_STATUS


def has_winner(rows: Mapping[str, Mapping[str, object]], group: EventGroup) -> bool:
    """Return whether the oracle has a final or proposed answer other than no to a market of the group."""
    for market in group.children:
        if not is_settling(rows, market.condition):
            continue
        row = rows[market.condition]
        paid = parse_decimal((parse_list(row.get("payouts")) or (None,))[0])
        prices = [parse_decimal(row.get(name)) for name in ("price", "reproposed_price", "proposed_price")]
        # 69 means that a price is not set.
        answers = [paid, *(price for price in prices if price is not None and 0 <= price <= 1)]
        if next((fields for fields in answers if fields is not None), None) != 0:
            return True
    return False


class OptionNames:
    """The names of the options of each event when it was forecast, by market, across restarts.

    All names of a market are kept, the newest last. An outcome that was named only after the forecast was part of Other
    then.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / OPTION_NAMES_FILE
        self._kept: dict[str, dict[str, list[str]]] = {}
        self._has_changes = False
        if self._path.exists():
            try:
                kept = parse_record(json.loads(self._path.read_text()))
            except (ValueError, RecursionError):
                log.warning("the names of options cannot be read, so the file starts empty", path=str(self._path))
                kept = {}
            self._kept = {
                event: {
                    market: stored for market, fields in parse_record(names).items() if (stored := _read_names(fields))
                }
                for event, names in kept.items()
            }

    def remember_options(self, group: EventGroup) -> None:
        """Remember the current names of the options of a group."""
        known = self._kept.setdefault(group.event.id, {})
        for option, market in group.members.items():
            names = known.setdefault(market.condition, [])
            if names[-1:] != [option]:
                names[:] = [*(name for name in names if name != option), option]
                self._has_changes = True

    def current_name(self, group: EventGroup, condition: str) -> str:
        """Return the last name of the option of a market in a group, Other if it had no name.

        An event that was never forecast here has its current names.
        """
        if kept := self._kept.get(group.event.id):
            return kept[condition][-1] if condition in kept else self.other_option(group.event.id)
        now = {market.condition: option for option, market in markets_by_option(_eligible_markets(group)).items()}
        return now.get(condition) or OTHER_OPTION

    def former_names(self, event_id: str, condition: str) -> tuple[str, ...]:
        """Return the former names of the option of a market in older questions, newest first, and Other."""
        names = self._kept.get(event_id, {}).get(condition, [])
        return (*reversed(names[:-1]), self.other_option(event_id))

    def other_option(self, event_id: str) -> str:
        """Return the name of the option for all others, if there is one."""
        known = self._kept.get(event_id, {}).values()
        return NONE_OF_THESE if any(names[-1] == OTHER_OPTION for names in known) else OTHER_OPTION

    def conditions(self, event_id: str) -> frozenset[str]:
        """Return the markets of an event that were options of its question, also those no longer listed."""
        return frozenset(self._kept.get(event_id, ()))

    def save(self) -> None:
        """Write the names to the file, if anything changed."""
        if not self._has_changes:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._kept, ensure_ascii=False))
        fresh.replace(self._path)
        self._has_changes = False


def _read_names(fields: object) -> list[str]:
    """Parse the names of a market: a list, or the single name that earlier versions stored."""
    return [str(name) for name in (fields if isinstance(fields, list) else [fields])]


def _sort_key(market: PolymarketMarket) -> tuple[int, str, str]:
    return len(market.id), market.id, market.condition


def _can_win(market: PolymarketMarket) -> bool:
    return market.active and market.closed is False and not market.is_other


def _eligible_markets(group: EventGroup) -> list[PolymarketMarket]:
    return [market for market in group.children if market.active and not market.is_other]
