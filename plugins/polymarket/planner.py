"""From a belief to one order, on the books as they are read then: policy in code.

``Order.contract`` is the condition of a market, which for an event is that of one option; prices are those of the
token of its leg. What else an order says is in ``terms.Terms``. Buying one leg and selling the other are one thing to
the books, whose pool is one, so what is held of the other leg is sold first and never bought against.
Source: venue document, sections 13.2 to 13.4.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from bot.api import (
    Binary,
    Choice,
    ClosingWish,
    ContractError,
    Json,
    Leg,
    NotFound,
    Order,
    Plan,
    Planner,
    Prediction,
    Question,
    Rejected,
    Wish,
    Workplace,
)
from plugins.polymarket.books import Book
from plugins.polymarket.client import Client
from plugins.polymarket.depth import Fitness
from plugins.polymarket.parse import Contract, contracts_of
from plugins.polymarket.raw import decimal_of, flag_of
from plugins.polymarket.settings import TradingSettings
from plugins.polymarket.sizing import Sized, Sizer, Stand, closing_size
from plugins.polymarket.terms import CURRENCY, OrderType, Terms

# Options that are looked at where the best one may not be traded.
_TRIES = 3
# What takers of some markets are held for that do not say it in seconds.
_USUAL_DELAY = Decimal("0.25")


class Reads(Protocol):
    """What is read to plan and to fill on paper; every answer is of now."""

    async def books(self, tokens: Sequence[str]) -> Mapping[str, Book]:
        """Return books by token; what has none is missing."""
        ...

    async def book(self, token: str) -> Book | None:
        """Return the book of one token, None where it has none."""
        ...

    async def short_market(self, condition: str) -> Mapping[str, object]:
        """Return the terms of a market as the exchange has them; raises NotFound."""
        ...


class PolymarketPlanner:
    """Implements the port Planner."""

    def __init__(self, settings: TradingSettings, client: Reads) -> None:
        self._settings = settings
        self._client = client
        self._fitness = fitness_of(settings)

    async def plan(self, wish: Wish) -> Plan:
        question = wish.question
        contracts = _contracts(question)
        books = await read_books(self._client, contracts)
        desk = _Desk(wish, contracts, books, self._fitness)
        beliefs = _beliefs(question, wish.predictions[question.targets[0].key])
        return await self._best(desk, beliefs)

    async def plan_closing(self, wish: ClosingWish) -> Plan:
        contracts, position = _contracts(wish.question), wish.position
        option = next((name for name, one in contracts.items() if one.market == position.contract), None)
        if option is None:
            message = f"{wish.question.ref} has no market {position.contract}"
            raise Rejected(message)
        contract = contracts[option]
        books = await read_books(self._client, {option: contract})
        book = books.get(option)
        state = DecisionState(at=wish.now, option=option, contract=contract, book=book, touches={}).to_json()
        if book is None:
            return Plan(why="it has no book now", state=state)
        stand = Stand(option=option, contract=contract, book=book, prices={})
        found = closing_size(stand, position)
        # Resting orders of one's own on that market hold shares back, or would be met.
        cancel = tuple(one.id for one in wish.account.orders if one.contract == contract.market)
        order = found if isinstance(found, str) else await self._written(stand, replace(found, cancel=cancel), wish.now)
        if isinstance(order, str):
            return Plan(why=order, state=state)
        return Plan(why=_said(order), order=order, state=state)

    async def _best(self, desk: "_Desk", beliefs: Mapping[str, float]) -> Plan:
        """Try the options that the belief is furthest from the market on, most first."""
        fit = [option for option in desk.contracts if option in beliefs and desk.middle(option) is not None]
        reasons = [] if fit else [desk.unfit()]
        against = {option for option in fit if desk.is_held_against(option, beliefs)}
        by_gap = sorted(fit, key=lambda option: (option not in against, -abs(beliefs[option] - desk.prices[option])))
        for option in by_gap[: _TRIES + len(against)]:
            found = await self._order(desk, option, beliefs)
            if isinstance(found, Order):
                return Plan(why=_said(found), order=found, state=desk.state(option))
            reasons.append(f"{option}: {found}" if option else found)
        return Plan(why=reasons[0], state=desk.state(by_gap[0] if by_gap else next(iter(desk.contracts))))

    async def _order(self, desk: "_Desk", option: str, beliefs: Mapping[str, float]) -> Order | str:
        contract, book = desk.contracts[option], desk.books[option]
        kind = OrderType(self._settings.order_type)
        stand = Stand(option=option, contract=contract, book=book, prices=desk.prices)
        # A long book of an event with many options takes a while: not on the loop.
        found = await asyncio.to_thread(Sizer(desk.wish, kind, desk.contracts).sized, stand, beliefs)
        if isinstance(found, str):
            return found
        return await self._written(stand, found, desk.wish.now)

    async def _written(self, stand: Stand, found: Sized, now: datetime) -> Order | str:
        """Return the order, or why the venue would not take it."""
        contract, book, option = stand.contract, stand.book, stand.option
        # Only where something is to be ordered: it is a request of its own.
        held_s = await taker_delay(self._client, contract)
        if isinstance(held_s, str):
            return held_s
        terms = Terms(
            contract=contract,
            leg=found.leg,
            side=found.side,
            type=found.type,
            price=found.price,
            size=found.size,
            tick=book.tick,
            mid=found.mid,
            held_s=held_s,
            lifetime=timedelta(seconds=self._settings.order_lifetime_s if found.type.rests else 0.0),
            book={"hash": book.hash, "at": book.at.isoformat(), "read_at": now.isoformat()},
            cancel=found.cancel,
        )
        if (why := terms.refusal(tick=book.tick, min_size=book.min_size)) is not None:
            return why
        return Order(
            contract=contract.market,
            leg=found.leg,
            side=found.side,
            shares=float(found.size),
            limit=float(found.price),
            cost=float(found.cost),
            expected=float(found.expected),
            currency=CURRENCY,
            option=option,
            fees=float(found.fee),
            edge=float(found.edge),
            terms=terms.to_map(),
        )


class _Desk:
    """A wish, and the books of what it is about."""

    def __init__(
        self, wish: Wish, contracts: Mapping[str, Contract], books: Mapping[str, Book], fitness: Fitness
    ) -> None:
        self.wish, self.contracts, self.books = wish, contracts, books
        self._why = {option: fitness.unfit(books.get(option), now=wish.now) for option in contracts}
        self.prices = {option: float(book.mid) for option, book in books.items() if book.mid is not None}

    def middle(self, option: str) -> Decimal | None:
        """Return the middle of a book that may be traded on, None for any other."""
        return None if self._why[option] else self.books[option].mid

    def is_held_against(self, option: str, beliefs: Mapping[str, float]) -> bool:
        """Say whether shares are held of the leg that the belief is not on."""
        against = Leg.NO if beliefs[option] > self.prices[option] else Leg.YES
        market = self.contracts[option].market
        return any(one.contract == market and one.leg is against for one in self.wish.account.positions)

    def unfit(self) -> str:
        """Say why none of the books may be traded on."""
        return "; ".join(f"{option}: {why}" if option else str(why) for option, why in self._why.items())

    def state(self, option: str) -> str:
        """Return what was seen as JSON: the whole book of that option, and the best prices of the others."""
        seen = DecisionState(
            at=self.wish.now,
            option=option,
            contract=self.contracts[option],
            book=self.books.get(option),
            touches={name: _touch(book) for name, book in self.books.items() if name != option},
        )
        return seen.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionState:
    """What a decision was made on: contract with its fees, the whole book of YES, and best prices of other options."""

    at: datetime
    option: str
    contract: Contract
    book: Book | None
    touches: Mapping[str, Json]

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        kept = {
            "at": self.at.isoformat(),
            "option": self.option,
            "contract": self.contract.to_map(),
            "book": None if self.book is None else self.book.to_map(),
            "touches": dict(self.touches),
        }
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def fitness_of(settings: TradingSettings) -> Fitness:
    """Return which books are traded on, as settings say."""
    return Fitness(spread_max=Decimal(str(settings.spread_max)), oldest=timedelta(seconds=settings.book_age_s))


async def read_books(client: Reads, contracts: Mapping[str, Contract]) -> dict[str, Book]:
    """Return the books of YES as they are now, by option."""
    found = await client.books([contract.yes for contract in contracts.values()])
    return {option: found[contract.yes] for option, contract in contracts.items() if contract.yes in found}


async def taker_delay(client: Reads, contract: Contract) -> Decimal | str:
    """Return for how many seconds takers are held, or why the exchange takes no orders."""
    try:
        said = await client.short_market(contract.market)
    except NotFound:
        return "the exchange does not know the market"
    if flag_of(said.get("ao")) is False:
        return "the market takes no orders now"
    usual = _USUAL_DELAY if flag_of(said.get("itode")) else Decimal(0)
    return max(contract.delay_s, decimal_of(said.get("sd")) or Decimal(0), usual)


def _contracts(question: Question) -> Mapping[str, Contract]:
    """Return what is traded of a question by option; raises Rejected where nothing is."""
    try:
        contracts = contracts_of(question)
    except ContractError as error:
        message = f"{question.ref} cannot be traded: {error}"
        raise Rejected(message) from error
    if not contracts:
        message = f"{question.ref} has no market that can be traded"
        raise Rejected(message)
    return contracts


def _beliefs(question: Question, prediction: Prediction) -> Mapping[str, float]:
    match prediction:
        case Binary(probability=probability):
            return {"": probability}
        case Choice(probabilities=probabilities):
            return probabilities
    message = f"{question.ref}: a curve answers no market of this venue"
    raise Rejected(message)


def _touch(book: Book) -> Json:
    bid, ask = (None if price is None else str(price) for price in (book.best_bid, book.best_ask))
    return {"bid": bid, "ask": ask, "hash": book.hash, "at": book.at.isoformat()}


def _said(order: Order) -> str:
    what = f" of {order.option}" if order.option else ""
    kind = order.terms["type"]
    return (
        f"{order.side} {order.shares:g} {order.leg}{what} at {order.expected:.4f}, limit {order.limit:g} ({kind}), "
        f"edge {order.edge:.4f} a share after fees"
    )


@asynccontextmanager
async def open_planner(settings: TradingSettings, workplace: Workplace) -> AsyncIterator[Planner]:
    """Open what turns beliefs into orders; it reads without a key."""
    yield PolymarketPlanner(settings, Client(settings, workplace.http))
