"""A paper book as it is on disk, read beside a daemon that may be writing it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Account
from bot.paper import check
from bot.paper.amounts import units
from bot.paper.book import account_of
from bot.paper.files import read_file
from bot.paper.schema import MIGRATIONS
from bot.store.codec import listed, moment

_BEGUN = "select begun_at from book"
_PLACES = "select place, coalesce(sum(amount), 0) from posting group by place"
_FEES = "select coalesce(sum(fee), 0) from fill"
_STATES = "select state, count(*) from ticket group by state order by state"
_EVENTS = "select contract, leg, event, marked_at from position where shares > 0"
_TICKETS = "select intent, state, why, market from ticket where intent in (select value from json_each(?))"
# Well-known within the market of an order: what a plugin reports of how it was filled, for people.
_REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketReport:
    """What a book says of one order: ``market`` is the market that it met first, as its plugin keeps it (None: none).

    ``report`` is what the plugin says there of how the order was filled; {} where it says nothing.
    """

    state: str
    why: str
    market: Any = None

    @property
    def report(self) -> Mapping[str, Any]:
        """The plugin's own account of what the order got and why it got no more."""
        said = self.market.get(_REPORT) if isinstance(self.market, Mapping) else None
        return said if isinstance(said, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BookReport:
    """What a book says of itself: ``account`` with its last marks, and what came of all that was done so far.

    ``capital`` is what it was begun with, ``realised`` what positions brought beyond their cost that are no more,
    ``fees`` all fees (they are part of what positions cost). ``orders`` counts orders by their state. ``events`` and
    ``marked_at`` go by contract and leg. ``faults`` is what in the book does not agree, which should be nothing.
    """

    account: Account
    begun_at: datetime
    capital: float
    realised: float
    fees: float
    orders: dict[str, int]
    events: dict[tuple[str, str], str]
    marked_at: dict[tuple[str, str], datetime]
    faults: Sequence[str]


async def read_report(path: Path, *, at: datetime) -> BookReport | None:
    """Read a book, None for one that was never begun; raises StoreError where there is no file."""
    async with read_file(path, MIGRATIONS) as file:
        return await file.readers.run(lambda database: _report(database, at))


async def read_tickets(path: Path, intents: Collection[str]) -> Mapping[str, TicketReport]:
    """Read the orders of these intents, without those that the book does not have; raises StoreError without a file."""
    async with read_file(path, MIGRATIONS) as file:
        return await file.readers.run(lambda database: _tickets(database, intents))


def _tickets(database: Database, intents: Collection[str]) -> Mapping[str, TicketReport]:
    if not database["ticket"].exists():
        return {}
    rows = database.execute(_TICKETS, [listed(intents)]).fetchall()
    return {intent: TicketReport(state=state, why=why, market=_plain(market)) for intent, state, why, market in rows}


def _plain(market: str) -> Any:  # noqa: ANN401 - the JSON edge
    """Return the values of what a plugin keeps; what is no JSON as it is."""
    if not market:
        return None
    try:
        return json.loads(market)
    except (ValueError, RecursionError):
        return market


def _report(database: Database, at: datetime) -> BookReport | None:
    begun = database.execute(_BEGUN).fetchone() if database["book"].exists() else None
    if begun is None:
        return None
    places = dict(database.execute(_PLACES).fetchall())
    held = database.execute(_EVENTS).fetchall()
    (fees,) = database.execute(_FEES).fetchone()
    return BookReport(
        account=account_of(database, at),
        begun_at=moment(begun[0]),
        capital=units(-places.get("capital", 0)),
        realised=units(-places.get("gain", 0)),
        fees=units(fees),
        orders=dict(database.execute(_STATES).fetchall()),
        events={(contract, leg): event for contract, leg, event, _ in held},
        marked_at={(contract, leg): moment(marked) for contract, leg, _, marked in held},
        faults=tuple(check.faults(database)),
    )
