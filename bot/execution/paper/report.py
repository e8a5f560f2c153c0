"""Reads a paper book from disk, also while a daemon is writing it."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.orders import Account
from bot.execution.paper import accounting
from bot.execution.paper.accounting import from_millionths
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS, open_book_database_read_only
from bot.execution.paper.paper_book import read_account
from bot.store.serialization import parse_timestamp, to_json_list

_SELECT_BEGUN_AT = "select begun_at from book"
_SELECT_EVENTS = "select contract, leg, event, marked_at from position where shares > 0"
_SELECT_ORDERS = "select intent, state, why, market from ticket where intent in (select value from json_each(?))"
# Key in the market of an order: the plugin's report for people on how it was filled.
_REPORT_KEY = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOrderReport:
    """The record of one order: ``market`` is the market at its first fill, as its plugin stores it (None: none).

    ``report`` is the plugin's report in it on how the order was filled; {} if there is none.
    """

    state: str
    why: str
    market: Any = None

    @property
    def report(self) -> Mapping[str, Any]:
        """The plugin's report on what the order got and why it got no more."""
        plugin_report = self.market.get(_REPORT_KEY) if isinstance(self.market, Mapping) else None
        return plugin_report if isinstance(plugin_report, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBookReport:
    """The state of a book: ``account`` with its last marks, and the totals so far.

    ``capital`` is the starting cash, ``realised`` the profit of closed positions beyond their cost, ``fees`` all fees
    (they are part of the cost of positions). ``events`` and ``marked_at`` are by contract and leg. ``faults`` lists
    inconsistencies of cash, positions and open orders, which should be empty.
    """

    account: Account
    begun_at: datetime
    capital: float
    realised: float
    fees: float
    events: dict[tuple[str, str], str]
    marked_at: dict[tuple[str, str], datetime]
    faults: Sequence[str]


async def read_book_report(path: Path, *, at: datetime) -> PaperBookReport | None:
    """Read a book, None for one that was never begun; raises StoreError where there is no file."""
    async with open_book_database_read_only(path, PAPER_BOOK_MIGRATIONS) as file:
        return await file.readers.run(lambda database: _book_report(database, at))


async def read_order_reports(path: Path, intents: Collection[str]) -> Mapping[str, PaperOrderReport]:
    """Read the orders of these intents that the book has; raises StoreError if there is no file."""
    async with open_book_database_read_only(path, PAPER_BOOK_MIGRATIONS) as file:
        return await file.readers.run(lambda database: _order_reports(database, intents))


def _order_reports(database: Database, intents: Collection[str]) -> Mapping[str, PaperOrderReport]:
    if not database["ticket"].exists():
        return {}
    rows = database.execute(_SELECT_ORDERS, [to_json_list(intents)]).fetchall()
    return {
        intent: PaperOrderReport(state=state, why=why, market=_decode_market(market))
        for intent, state, why, market in rows
    }


def _decode_market(market: str) -> Any:  # noqa: ANN401 - the JSON edge
    """Return the decoded market of a plugin; text that is not JSON is returned as it is."""
    if not market:
        return None
    try:
        return json.loads(market)
    except (ValueError, RecursionError):
        return market


def _book_report(database: Database, at: datetime) -> PaperBookReport | None:
    begun = database.execute(_SELECT_BEGUN_AT).fetchone() if database["book"].exists() else None
    if begun is None:
        return None
    sums = accounting.read_totals(database)
    held = database.execute(_SELECT_EVENTS).fetchall()
    return PaperBookReport(
        account=read_account(database, at),
        begun_at=parse_timestamp(begun[0]),
        capital=from_millionths(-sums["capital"]),
        realised=from_millionths(-sums.get("gain", 0)),
        fees=from_millionths(sums["fees"]),
        events={(contract, leg): event for contract, leg, event, _ in held},
        marked_at={(contract, leg): parse_timestamp(marked) for contract, leg, _, marked in held},
        faults=tuple(accounting.find_balance_faults(database)),
    )
