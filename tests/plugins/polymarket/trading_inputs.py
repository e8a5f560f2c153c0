"""What tests of planner and paper book share: a fake reader of the venue, questions, accounts and orders."""

import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bot.api import (
    Account,
    BinaryShape,
    BookLevel,
    ChoiceShape,
    ContractSide,
    NotFoundError,
    OpenOrder,
    Order,
    OrderSide,
    Position,
    Question,
    QuestionRef,
    SizingPolicy,
    Target,
)
from plugins.polymarket.api_client import QueryParameters
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.order_terms import CURRENCY, PolymarketOrderTerms, PolymarketOrderType
from tests.plugins.polymarket.records import condition, market, token

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEDULE = {"rate": "0.04", "exponent": "1", "takerOnly": True, "rebateRate": None}
EAGER = SizingPolicy(kelly_fraction=1.0, market_shrinkage=0.0, min_edge=0.0, price_band=(0.01, 0.99), max_cost=1e9)

Levels = Sequence[tuple[str, str]]
BIDS: Levels = (("0.55", "40"), ("0.50", "500"))
# The book of the golden vectors.
ASKS: Levels = ((".57", "12"), (".58", "30"), (".60", "100"), (".99", "9000"))


def contract(number: int = 1, **changes: Any) -> PolymarketContract:
    plain = PolymarketContract(market=condition(number), yes=token(number), no=token(number, 1), version="v1")
    return replace(plain, **changes)


def a_book(number: int = 1, *, bids: Levels = BIDS, asks: Levels = ASKS, **changes: Any) -> PolymarketOrderBook:
    """The book of YES, moved just now."""

    def side(levels: Levels, *, highest: bool) -> tuple[BookLevel, ...]:
        return tuple(sorted((BookLevel(Decimal(p), Decimal(s)) for p, s in levels), reverse=highest))

    plain = PolymarketOrderBook(
        token=token(number),
        bids=side(bids, highest=True),
        asks=side(asks, highest=False),
        tick=Decimal("0.01"),
        min_size=Decimal(5),
        at=NOW,
        hash=f"0xbook{number}",
        market=condition(number),
    )
    return replace(plain, **changes)


@dataclass(slots=True)
class FakePolymarketReader:
    """Implements what is read of the venue; ``trades`` are rows as the venue lists them, ``asked`` what was asked."""

    stored_books: dict[str, PolymarketOrderBook] = field(default_factory=dict)
    terms: dict[str, Mapping[str, object]] = field(default_factory=dict)
    rows: list[Mapping[str, object]] = field(default_factory=list)
    open_ones: set[int] = field(default_factory=lambda: {1, 2, 3})
    error: Exception | None = None
    asked: list[tuple[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, *books: PolymarketOrderBook) -> "FakePolymarketReader":
        return cls(
            stored_books={one.token: one for one in books}, terms={condition(n): {"ao": True} for n in (1, 2, 3)}
        )

    def put(self, book: PolymarketOrderBook) -> None:
        self.stored_books[book.token] = book

    def _note(self, what: str, subject: object) -> None:
        self.asked.append((what, subject))
        if self.error is not None:
            raise self.error

    async def books(self, tokens: Iterable[str]) -> Mapping[str, PolymarketOrderBook]:
        wanted = list(tokens)
        self._note("books", wanted)
        return {name: self.stored_books[name] for name in wanted if name in self.stored_books}

    async def book(self, token: str) -> PolymarketOrderBook | None:
        self._note("book", token)
        return self.stored_books.get(token)

    async def exchange_terms(self, condition: str) -> Mapping[str, object]:
        self._note("exchange_terms", condition)
        if condition not in self.terms:
            message = f"status 404: {condition}"
            raise NotFoundError(message)
        return self.terms[condition]

    async def markets_by_condition(
        self, conditions: Iterable[str], *, closed: bool
    ) -> Collection[Mapping[str, object]]:
        self._note("markets", closed)
        wanted = set(conditions)
        return [market(n) for n in self.open_ones if condition(n) in wanted and not closed]

    async def read_rows(self, path: str, parameters: QueryParameters) -> AsyncIterator[Any]:
        self._note(path, dict(parameters))
        for row in self.rows:
            yield row


def question(**contracts: PolymarketContract) -> Question:
    """A question about one market, or about an event with those options."""
    kept = {name: one.to_map() for name, one in contracts.items()} or {"": contract(fees=SCHEDULE).to_map()}
    shape = ChoiceShape(options=(*contracts, "Other")) if contracts else BinaryShape()
    return Question(
        ref=QuestionRef("polymarket", "event:77" if contracts else condition(1)),
        title="?",
        shape=shape,
        targets=(Target(),),
        market=condition(1),
        facts={"contracts": json.dumps(kept)},
    )


def account(cash: float = 1000.0, positions: Sequence[Position] = (), orders: Sequence[OpenOrder] = ()) -> Account:
    return Account(at=NOW, currency=CURRENCY, cash=cash, positions=tuple(positions), orders=tuple(orders))


def held(shares: float, leg: ContractSide = ContractSide.YES, number: int = 1, option: str = "") -> Position:
    return Position(contract=condition(number), leg=leg, shares=shares, paid=shares / 2, option=option)


def order(
    size: str, price: str, *, leg: ContractSide = ContractSide.YES, of: PolymarketContract | None = None, **more: Any
) -> Order:
    """An order as the planner writes it; ``side``, ``kind``, ``mid``, ``option`` and other terms are the usual ones."""
    traded, side, option = of or contract(fees=SCHEDULE), more.pop("side", OrderSide.BUY), more.pop("option", "")
    reported = PolymarketOrderTerms(
        contract=traded,
        leg=leg,
        side=side,
        type=more.pop("kind", PolymarketOrderType.FAK),
        price=Decimal(price),
        size=Decimal(size),
        tick=Decimal("0.01"),
        mid=Decimal(more.pop("mid", "0.56")),
        book={"hash": "0xdecided", "at": NOW.isoformat()},
        **more,
    )
    worst = float(price) * (1.0 + 0.04) if traded.fees is not None and not reported.type.is_resting else float(price)
    return Order(
        contract=traded.market,
        leg=leg,
        side=side,
        shares=float(size),
        limit=float(price),
        cost=0.0 if side is OrderSide.SELL else float(size) * worst,
        expected=float(price),
        currency=CURRENCY,
        option=option,
        terms=reported.to_map(),
        cancels=reported.cancel,
    )
