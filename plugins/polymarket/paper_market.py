"""The paper book of this venue: its market for ``bot.paper``. It reads books, trades and terms, and sends nothing.

An order meets the book that stands once its delay is over, that of the book and the one for which the venue holds
takers. What is left of it is dropped, unless it was made to wait.
Source: venue document, section 13.2.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import structlog

from bot.api import (
    BookTerms,
    Chosen,
    ContractError,
    Happened,
    Instead,
    Leg,
    Met,
    Order,
    Outcome,
    PaperPlace,
    Position,
    Submitter,
    Visit,
    Void,
    open_book,
)
from plugins.polymarket.books import Book
from plugins.polymarket.client import Client, Parameters, Record
from plugins.polymarket.depth import of_leg, take
from plugins.polymarket.fees import Fees
from plugins.polymarket.groups import Group, Names, event_of_key
from plugins.polymarket.paper_fills import Arrival, Mishaps, arrive
from plugins.polymarket.paper_rests import Queue, Trade, Wait, later, trade_of
from plugins.polymarket.parse import Contract, Home, market_of
from plugins.polymarket.planner import Reads, fitness_of, taker_delay
from plugins.polymarket.settings import PolymarketSettings, TradingSettings
from plugins.polymarket.terms import CURRENCY, EARLY, Terms

log = structlog.get_logger(__name__)

_TRADES_A_PAGE = 1000
_PAYS = r"(?:^|; ){name}pays ([0-9.]+) and ([0-9.]+)(?=;|$)"


class Watches(Reads, Protocol):
    """What is read on paper besides."""

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> Collection[Record]:
        """Return those that are open, or those that are closed."""
        ...

    def data(self, path: str, parameters: Parameters, *, most_pages: int = 20) -> AsyncIterator[Record]:
        """Yield the rows of a list."""
        ...


class PaperMarket:
    """Implements the protocol Market."""

    def __init__(self, settings: TradingSettings, client: Watches, place: PaperPlace) -> None:
        self._client, self._clock, self._folder = client, place.clock, place.folder
        self._delay = timedelta(seconds=place.delay_s)
        self._fitness = fitness_of(settings)
        self._queue = Queue(settings.paper_queue)
        self._mishaps = Mishaps(
            refused=settings.paper_refused,
            restarting=settings.paper_restarting,
            failed=settings.paper_failed,
            seed=settings.paper_seed,
        )
        # The token of YES by market, which never changes.
        self._known: dict[str, str] = {}

    def until(self, order: Order, sealed_at: datetime) -> datetime | None:
        terms = Terms.of(order)
        return sealed_at + terms.lifetime - EARLY if terms.type.rests else None

    async def arrive(self, visit: Visit) -> Met:
        terms = Terms.of(visit.order)
        held_s = await taker_delay(self._client, terms.contract)
        if isinstance(held_s, str):
            return arrive(replace(self._arrival(visit, terms), refusal=held_s))
        await self._wait(visit, Decimal(0) if terms.type.rests else held_s)
        book = await self._client.book(terms.contract.yes)
        return arrive(replace(self._arrival(visit, terms), book=book))

    async def later(self, visit: Visit) -> Met | None:
        terms = Terms.of(visit.order)
        trades = await self._trades(terms.contract, Wait.of(visit).since)
        return later(visit, terms, trades, queue=self._queue)

    async def marks(self, positions: Sequence[Position]) -> Mapping[tuple[str, Leg], float | None]:
        """As the protocol says: at the bids, as far down as all of it would reach."""
        tokens = await self._tokens({one.contract for one in positions})
        books = await self._client.books(list(tokens.values())) if tokens else {}
        marks: dict[tuple[str, Leg], float | None] = {}
        for position in positions:
            book = books.get(tokens.get(position.contract, ""))
            # Without a book it waits for its outcome, or cannot be told now.
            if book is not None:
                marks[position.contract, position.leg] = mark(book, position)
        return marks

    def payout(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        return share_payout(position, outcome, self._folder)

    async def _wait(self, visit: Visit, held_s: Decimal) -> None:
        """Wait until the order has arrived, by the delay since it was sealed and that of the venue."""
        arrives = visit.sealed_at + self._delay + timedelta(seconds=float(held_s))
        await self._clock.sleep(max((arrives - self._clock.now()).total_seconds(), 0.0))

    def _arrival(self, visit: Visit, terms: Terms) -> Arrival:
        return Arrival(
            intent=visit.id,
            terms=terms,
            expected=Decimal(repr(visit.order.expected)),
            book=None,
            at=self._clock.now(),
            past=visit.past,
            fitness=self._fitness,
            mishaps=self._mishaps,
        )

    async def _trades(self, contract: Contract, since: datetime) -> list[Trade]:
        asked: Parameters = {
            "condition_id": contract.market,
            "start": int(since.timestamp()),
            "taker_only": "true",
            "limit": _TRADES_A_PAGE,
        }
        return [trade async for row in self._client.data("trades", asked) if (trade := trade_of(row, contract))]

    async def _tokens(self, conditions: Collection[str]) -> dict[str, str]:
        """Return the token of YES of each market; one that is over is missing, unless it was known before."""
        unknown = [condition for condition in conditions if condition not in self._known]
        for record in await self._client.markets_by_condition(unknown, closed=False) if unknown else ():
            try:
                market = market_of(record)
            except ContractError as error:
                log.warning("a market cannot be marked", error=str(error))
                continue
            if market.tokens:
                self._known[market.condition] = market.tokens[0]
        return {condition: self._known[condition] for condition in conditions if condition in self._known}


def share_payout(position: Position, outcome: Outcome, folder: Path) -> float | Instead:
    """Return what a share pays, on paper and at the venue; the folder has the names that options had."""
    yes: float
    match outcome:
        case Happened(value=value):
            yes = value
        case Chosen(option=option):
            yes = float(option == _called(position, folder))
        case Void():
            return _of_void(position, _called(position, folder), outcome)
        case _:
            return Instead.OPEN
    return yes if position.leg is Leg.YES else 1.0 - yes


def _called(position: Position, folder: Path) -> str:
    """Return what the resolver calls the option of a position: it may have been renamed since it was bought."""
    event = None if position.ref is None else event_of_key(position.ref.key)
    if event is None:
        return position.option
    names = Names(folder)
    if position.contract not in names.conditions(event):
        return position.option
    return names.option(Group(home=Home(id=event), id="", members={}, children=()), position.contract)


def mark(book: Book, position: Position) -> float | None:
    """Return what a share would bring if all were sold at the bids; what nobody bids for brings nothing.

    None where nobody buys at all.
    """
    bids = of_leg(book, position.leg, "").bids
    held = Decimal(repr(position.shares))
    if not bids or held <= 0:
        return None
    return float(take(bids, Fees(), shares=held).value / held)


def _of_void(position: Position, called: str, void: Void) -> float | Instead:
    """Return what a share of a market pays that ended otherwise than with one outcome, by the words of the resolver.

    Nothing is ever refunded here: halves are halves, and where nothing is paid the stake is gone.
    """
    name = f"{re.escape(called)} " if called else ""
    found = re.search(_PAYS.format(name=name), void.reason)
    if found:
        return float(found[1] if position.leg is Leg.YES else found[2])
    if not called:
        return Instead.OPEN
    yes = void.shares.get(called, 0.0)
    return yes if position.leg is Leg.YES else 1.0 - yes


def book_terms(settings: TradingSettings) -> BookTerms:
    """Return how accounts work: both legs of a market are worth 1 together, and outcomes are paid after a while."""
    after = timedelta(seconds=settings.paper_settle_s)
    return BookTerms(currency=CURRENCY, redeems=True, settle_after=after)


@asynccontextmanager
async def open_paper(settings: PolymarketSettings, place: PaperPlace) -> AsyncIterator[Submitter]:
    """Open the paper book; it reads without a key."""
    market = PaperMarket(settings, Client(settings, place.http), place)
    async with open_book(place, market, book_terms(settings)) as book:
        yield book
