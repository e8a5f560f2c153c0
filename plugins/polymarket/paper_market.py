"""The paper book of this venue: its market for ``bot.execution.paper``.

It reads books, trades and terms, and sends nothing. An order meets the book at the end of its delay: that of the paper
book plus the taker delay of the venue. The unfilled rest is dropped, unless the order is made to rest. Source:
docs/facts/polymarket.md#paper-fills.
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
    BinaryOutcome,
    ChoiceOutcome,
    ContractSide,
    FillRequest,
    FillResult,
    MalformedDataError,
    Order,
    OrderSide,
    Outcome,
    PaperBookContext,
    PaperBookTerms,
    Position,
    UnpaidOutcome,
    VenueSubmitter,
    VoidOutcome,
    open_paper_book,
    walk_levels,
)
from plugins.polymarket.api_client import JsonRecord, PolymarketClient, QueryParameters
from plugins.polymarket.event_groups import EventGroup, OptionNames, event_id_of_key
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.market_parser import ParentEvent, PolymarketContract, parse_market
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.order_terms import CURRENCY, EARLY_EXPIRY, PolymarketOrderTerms
from plugins.polymarket.paper_fills import (
    PaperOrderArrival,
    PolymarketTrade,
    QueueAssumption,
    QueueEntry,
    SimulatedFailures,
    fill_on_arrival,
    fill_resting_order,
    parse_trade,
)
from plugins.polymarket.planner import PolymarketBookSource, book_requirements, read_taker_delay
from plugins.polymarket.settings import PolymarketSettings, PolymarketTradingSettings

log = structlog.get_logger(__name__)

_TRADES_PER_PAGE = 1000
_PAYOUT_PATTERN = r"(?:^|; ){name}pays ([0-9.]+) and ([0-9.]+)(?=;|$)"


class PaperTradingSource(PolymarketBookSource, Protocol):
    """What paper trading reads in addition."""

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> Collection[JsonRecord]:
        """Return the open ones, or the closed ones."""
        ...

    def read_rows(self, path: str, parameters: QueryParameters) -> AsyncIterator[JsonRecord]:
        """Yield the rows of a list."""
        ...


class PolymarketPaperMarket:
    """Implements ``PaperMarket``."""

    def __init__(
        self, settings: PolymarketTradingSettings, client: PaperTradingSource, context: PaperBookContext
    ) -> None:
        self._client, self._clock, self._folder = client, context.clock, context.folder
        self._delay = timedelta(seconds=context.delay_s)
        self._requirements = book_requirements(settings)
        self._queue = QueueAssumption(settings.paper_queue)
        self._failures = SimulatedFailures(
            refused=settings.paper_refusal_share,
            restarting=settings.paper_restart_share,
            failed=settings.paper_failure_share,
            seed=settings.paper_seed,
        )
        # The token of YES by market, which never changes.
        self._token_by_market: dict[str, str] = {}

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        terms = PolymarketOrderTerms.from_order(order)
        return sealed_at + terms.lifetime - EARLY_EXPIRY if terms.type.is_resting else None

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        terms = PolymarketOrderTerms.from_order(request.order)
        taker_delay_s = await read_taker_delay(self._client, terms.contract)
        if isinstance(taker_delay_s, str):
            return fill_on_arrival(replace(self._arrival(request, terms), refusal=taker_delay_s))
        await self._wait_for_arrival(request, Decimal(0) if terms.type.is_resting else taker_delay_s)
        book = await self._client.book(terms.contract.yes)
        return fill_on_arrival(replace(self._arrival(request, terms), book=book))

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        terms = PolymarketOrderTerms.from_order(request.order)
        trades = await self._trades(terms.contract, QueueEntry.from_request(request).since)
        return fill_resting_order(request, terms, trades, queue=self._queue)

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """See ``PaperMarket``: the average of the bids for the whole position."""
        tokens = await self._tokens(sorted({one.contract for one in positions}))
        books = await self._client.books(list(tokens.values())) if tokens else {}
        marks: dict[tuple[str, ContractSide], float | None] = {}
        for position in positions:
            book = books.get(tokens.get(position.contract, ""))
            # Without a book it waits for its outcome, or its price is unknown now.
            if book is not None:
                marks[position.contract, position.leg] = mark_position(book, position)
        return marks

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return share_payout(position, outcome, self._folder)

    async def _wait_for_arrival(self, request: FillRequest, taker_delay_s: Decimal) -> None:
        """Wait until the order arrives: the delay since it was sealed plus that of the venue."""
        arrives = request.sealed_at + self._delay + timedelta(seconds=float(taker_delay_s))
        await self._clock.sleep(max((arrives - self._clock.now()).total_seconds(), 0.0))

    def _arrival(self, request: FillRequest, terms: PolymarketOrderTerms) -> PaperOrderArrival:
        return PaperOrderArrival(
            intent=request.id,
            terms=terms,
            expected=Decimal(repr(request.order.expected)),
            book=None,
            at=self._clock.now(),
            earlier_orders=request.earlier_orders,
            requirements=self._requirements,
            failures=self._failures,
        )

    async def _trades(self, contract: PolymarketContract, since: datetime) -> list[PolymarketTrade]:
        query: QueryParameters = {
            "condition_id": contract.market,
            "start": int(since.timestamp()),
            "taker_only": "true",
            "limit": _TRADES_PER_PAGE,
        }
        return [trade async for row in self._client.read_rows("trades", query) if (trade := parse_trade(row, contract))]

    async def _tokens(self, conditions: Collection[str]) -> dict[str, str]:
        """Return the token of YES of each market; closed markets are missing, unless they are known."""
        unknown = [condition for condition in conditions if condition not in self._token_by_market]
        for record in await self._client.markets_by_condition(unknown, closed=False) if unknown else ():
            try:
                market = parse_market(record)
            except MalformedDataError as error:
                log.warning("a market cannot be marked", error=str(error))
                continue
            if market.tokens:
                self._token_by_market[market.condition] = market.tokens[0]
        return {
            condition: self._token_by_market[condition]
            for condition in conditions
            if condition in self._token_by_market
        }


def share_payout(position: Position, outcome: Outcome, folder: Path) -> float | UnpaidOutcome:
    """Return what a share pays, on paper and at the venue; the folder has the former names of options."""
    yes: float
    match outcome:
        case BinaryOutcome(value=value):
            yes = value
        case ChoiceOutcome(option=option):
            yes = float(option == _current_option_name(position, folder))
        case VoidOutcome():
            return _void_payout(position, _current_option_name(position, folder), outcome)
        case _:
            return UnpaidOutcome.OPEN
    return yes if position.leg is ContractSide.YES else 1.0 - yes


def _current_option_name(position: Position, folder: Path) -> str:
    """Return the current name of the option of a position: it may have been renamed since the purchase."""
    event = None if position.ref is None else event_id_of_key(position.ref.key)
    if event is None:
        return position.option
    names = OptionNames(folder)
    if position.contract not in names.conditions(event):
        return position.option
    return names.current_name(
        EventGroup(event=ParentEvent(id=event), id="", members={}, children=()), position.contract
    )


def mark_position(book: PolymarketOrderBook, position: Position) -> float | None:
    """Return the average price per share if all were sold at the bids; shares beyond the bids count as 0.

    None if there are no bids.
    """
    bids = book.levels(position.leg, OrderSide.SELL)
    held = Decimal(repr(position.shares))
    if not bids or held <= 0:
        return None
    return float(walk_levels(bids, TakerFees(), shares=held).value / held)


def _void_payout(position: Position, option_name: str, void: VoidOutcome) -> float | UnpaidOutcome:
    """Return what a share of a market without a single outcome pays, from the reason of the resolution.

    Nothing is ever refunded here: halves are halves, and without a payout the stake is lost.
    """
    name = f"{re.escape(option_name)} " if option_name else ""
    found = re.search(_PAYOUT_PATTERN.format(name=name), void.reason)
    if found:
        return float(found[1] if position.leg is ContractSide.YES else found[2])
    if not option_name:
        return UnpaidOutcome.OPEN
    yes = void.shares.get(option_name, 0.0)
    return yes if position.leg is ContractSide.YES else 1.0 - yes


def paper_book_terms(settings: PolymarketTradingSettings) -> PaperBookTerms:
    """Return how accounts work: both legs of a market are redeemed for 1, and outcomes are paid after a delay."""
    after = timedelta(seconds=settings.paper_settle_s)
    return PaperBookTerms(currency=CURRENCY, redeems=True, settle_after=after)


@asynccontextmanager
async def open_paper(settings: PolymarketSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    """Open the paper book; it reads without a key."""
    market = PolymarketPaperMarket(settings, PolymarketClient(settings, context.http), context)
    async with open_paper_book(context, market, paper_book_terms(settings)) as book:
        yield book
