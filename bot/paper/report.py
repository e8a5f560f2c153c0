"""A paper book as it is on disk, read beside a daemon that may be writing it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database

from bot.domain.order import Account
from bot.paper import check
from bot.paper.amounts import units
from bot.paper.book import account_of
from bot.paper.files import read_file
from bot.paper.schema import MIGRATIONS
from bot.store.codec import moment

_BEGUN = "select begun_at from book"
_PLACES = "select place, coalesce(sum(amount), 0) from posting group by place"
_FEES = "select coalesce(sum(fee), 0) from fill"
_STATES = "select state, count(*) from ticket group by state order by state"
_EVENTS = "select contract, leg, event, marked_at from position where shares > 0"


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
