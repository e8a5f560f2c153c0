"""Query parameters of the fake Polymarket, and its lists of markets and events.

Filters, orders, and pages with a cursor.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.polymarket_responses import is_closed, tag_id
from bot.simulator.venues.polymarket_state import FakePolymarketEvent, FakePolymarketMarket, FakePolymarketState

ListItem = TypeVar("ListItem", FakePolymarketMarket, FakePolymarketEvent)

MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE = 100, 20
END_CURSOR = "LTE="


class PolymarketRefusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status, self.message, self.more = status, message, more


class PolymarketQuery:
    """The parameters of an address; a name may be given several times."""

    def __init__(self, query: str) -> None:
        self._pairs = parse_qsl(query, keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        """Return all values of a name; values may also be separated by commas."""
        return [part for key, value in self._pairs if key == name for part in value.split(",") if part]

    def one(self, name: str) -> str | None:
        """Return the value of a name, None where it is missing."""
        return next((value for key, value in self._pairs if key == name), None)

    def flag(self, name: str) -> bool | None:
        """Return a yes or no, None where it is missing; raises PolymarketRefusal."""
        value = self.one(name)
        if value not in {None, "true", "false"}:
            raise PolymarketRefusal(422, f"{name} must be true or false")
        return None if value is None else value == "true"

    def whole(self, name: str, default: int) -> int:
        """Return a whole number from zero; raises PolymarketRefusal."""
        value = self.one(name)
        if value is None:
            return default
        if not value.isdecimal():
            raise PolymarketRefusal(422, f"{name} must be a whole number")
        return int(value)

    def decimal(self, name: str) -> Decimal | None:
        """Return a number, None where it is missing; raises PolymarketRefusal."""
        value = self.one(name)
        try:
            return None if value is None else Decimal(value)
        except InvalidOperation:
            raise PolymarketRefusal(422, f"{name} must be a number") from None

    def moment(self, name: str) -> float | None:
        """Return a moment given in RFC 3339, in seconds since 1970; raises PolymarketRefusal."""
        value = self.one(name)
        try:
            found = None if value is None else datetime.fromisoformat(value)
        except ValueError:
            found = None
        if value is not None and (found is None or found.tzinfo is None):
            raise PolymarketRefusal(422, f"{name} must be a moment after RFC 3339")
        return None if found is None else found.timestamp()


@dataclass(frozen=True, slots=True)
class ListPage(Generic[ListItem]):
    """Some items, and the cursor of the next page, None at the end."""

    items: Sequence[ListItem]
    cursor: str | None


def list_markets(state: FakePolymarketState, query: PolymarketQuery) -> ListPage[FakePolymarketMarket]:
    """Return a page of markets."""
    wanted = ListFilter(state, query)
    found = [market for market in state.markets.values() if wanted.market(market)]
    return _make_page(query, found, _MARKET_ORDERS)


def list_events(state: FakePolymarketState, query: PolymarketQuery) -> ListPage[FakePolymarketEvent]:
    """Return a page of events."""
    wanted = ListFilter(state, query)
    found = [event for event in state.events.values() if wanted.event(event)]
    return _make_page(query, found, _event_orders(state))


class ListFilter:
    """The filters of a list."""

    def __init__(self, state: FakePolymarketState, query: PolymarketQuery) -> None:
        self._state = state
        self._closed = query.flag("closed") is True
        self._versions = query.all("version") or ["v1"]
        self._tags = set(query.all("tag_id")) | {tag_id(slug) for slug in query.all("tag_slug")}
        self._without = set(query.all("exclude_tag_id"))
        self._ids = {name: set(query.all(name)) for name in ("id", "slug", "condition_ids", "clob_token_ids")}
        self._ids["position_ids"] = set(query.all("position_ids"))
        self._uma = query.one("uma_resolution_status")
        self._ranges = {
            name: (query.decimal(f"{name}_min"), query.decimal(f"{name}_max"))
            for name in ("volume_num", "liquidity_num", "volume", "liquidity")
        }
        self._dates = {name: (query.moment(f"{name}_min"), query.moment(f"{name}_max")) for name in _DATES}

    def market(self, market: FakePolymarketMarket) -> bool:
        """Return whether a market is listed."""
        if market.closed is not self._closed or market.version not in self._versions:
            return False
        named = {
            "id": {market.id},
            "slug": {market.slug},
            "condition_ids": {market.condition},
            "clob_token_ids": set(market.tokens) if market.version == "v1" else set(),
            "position_ids": set(market.tokens) if market.version == "v2" else set(),
        }
        tags = self._state.events[market.event].tags
        return (
            all(not self._ids[name] or self._ids[name] & has for name, has in named.items())
            and self._fits_tags(tags)
            and self._uma in {None, market.uma}
            and _is_within(market.volume, self._ranges["volume_num"])
            and _is_within(market.liquidity, self._ranges["liquidity_num"])
            and self._fits_dates(market.created, market.end)
        )

    def event(self, event: FakePolymarketEvent) -> bool:
        """Return whether an event is listed: one that has a market of the requested versions."""
        inside = [self._state.markets[condition] for condition in event.markets]
        if is_closed(self._state, event) is not self._closed:
            return False
        return (
            any(market.version in self._versions for market in inside)
            and (not self._ids["id"] or event.id in self._ids["id"])
            and (not self._ids["slug"] or event.slug in self._ids["slug"])
            and self._fits_tags(event.tags)
            and _is_within(sum((market.volume for market in inside), Decimal(0)), self._ranges["volume"])
            and _is_within(sum((market.liquidity for market in inside), Decimal(0)), self._ranges["liquidity"])
            and self._fits_dates(min(market.created for market in inside), event.end)
        )

    def _fits_tags(self, tags: tuple[str, ...]) -> bool:
        numbers = {tag_id(tag) for tag in tags}
        return (not self._tags or bool(self._tags & numbers)) and not self._without & numbers

    def _fits_dates(self, start: int, end: int) -> bool:
        dates = self._dates
        return _is_within(start, dates["start_date"]) and _is_within(end, dates["end_date"])


_DATES = ("start_date", "end_date")
_MARKET_ORDERS: Mapping[str, Callable[[FakePolymarketMarket], object]] = {
    "id": lambda market: int(market.id),
    # Sorted as text, as the venue does.
    "volume": lambda market: str(market.volume),
    "liquidity": lambda market: str(market.liquidity),
    "volumeNum": lambda market: market.volume,
    "liquidityNum": lambda market: market.liquidity,
    "volume24hr": lambda market: market.volume_day,
    "endDate": lambda market: market.end,
    "startDate": lambda market: market.created,
    "createdAt": lambda market: market.created,
}


def _event_orders(state: FakePolymarketState) -> Mapping[str, Callable[[FakePolymarketEvent], object]]:
    def total(of: Callable[[FakePolymarketMarket], Decimal]) -> Callable[[FakePolymarketEvent], object]:
        return lambda event: sum((of(state.markets[condition]) for condition in event.markets), Decimal(0))

    return {
        "id": lambda event: int(event.id),
        "volume": total(lambda market: market.volume),
        "liquidity": total(lambda market: market.liquidity),
        "volume24hr": total(lambda market: market.volume_day),
        "endDate": lambda event: event.end,
        "startDate": total(lambda market: Decimal(market.created)),
    }


def _make_page(
    query: PolymarketQuery, found: list[ListItem], orders: Mapping[str, Callable[[ListItem], object]]
) -> ListPage[ListItem]:
    if query.one("offset") is not None:
        raise PolymarketRefusal(422, "offset is not supported here; use after_cursor")
    limit = max(1, min(query.whole("limit", DEFAULT_PAGE_SIZE), MAX_PAGE_SIZE))
    order = query.one("order")
    if order is not None and order not in orders:
        raise PolymarketRefusal(422, f"cannot order by {order}")
    found.sort(key=lambda item: int(item.id))
    if order is not None:
        key: Any = orders[order]
        found.sort(key=key, reverse=query.flag("ascending") is False)
    first = 0
    # The name of the parameter is after_cursor; one called cursor is unknown, and unknown ones are ignored.
    after = query.one("after_cursor")
    if after:
        last = _decode_cursor(after)
        places = [place for place, item in enumerate(found) if item.id == last]
        first = places[0] + 1 if places else len(found)
    page = found[first : first + limit]
    return ListPage(page, _encode_cursor(page[-1].id) if first + limit < len(found) else None)


def _encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(f"after {last}".encode()).decode()


def _decode_cursor(cursor: str) -> str:
    try:
        word, last = base64.urlsafe_b64decode(cursor.encode()).decode().split(" ")
    except ValueError:
        word, last = "", ""
    if word != "after":
        raise PolymarketRefusal(422, "invalid after_cursor")
    return last


def private_page(rows: Sequence[Any], cursor: str | None, size: int) -> tuple[list[Any], str]:
    """Return a part of a private list and the cursor of the next one, ``LTE=`` at the end."""
    try:
        first = int(base64.b64decode(cursor or "MA==", validate=True))
    except ValueError:
        raise PolymarketRefusal(400, "invalid next_cursor") from None
    if cursor == END_CURSOR or first < 0:
        return [], END_CURSOR
    more = first + size < len(rows)
    return list(rows[first : first + size]), base64.b64encode(
        str(first + size).encode()
    ).decode() if more else END_CURSOR


def _is_within(value: float | Decimal, limits: tuple[Any, Any]) -> bool:
    low, high = limits
    return (low is None or value >= low) and (high is None or value <= high)
