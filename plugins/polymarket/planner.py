"""Plans one order from a belief, on the current books.

``Order.contract`` is the condition of a market, which for an event is that of one option; prices are those of the token
of its leg. The other terms are in ``PolymarketOrderTerms``. Buying one leg and selling the other are the same for the
books, which share one pool, so held shares of the other leg are sold first and never bought against. Source:
docs/facts/polymarket.md#paper-fills and #acting-on-a-forecast.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from bot.api import (
    ClosingProposal,
    Json,
    MalformedDataError,
    NotFoundError,
    Order,
    OrderPlan,
    OrderPlanner,
    PluginContext,
    Question,
    RequestRejectedError,
    TradeProposal,
    price_of_yes,
    size_closing_sale,
)
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.json_values import parse_decimal, parse_flag
from plugins.polymarket.market_parser import PolymarketContract, question_contracts
from plugins.polymarket.order_books import BookRequirements, PolymarketOrderBook
from plugins.polymarket.order_sizing import TypedOrder, TypedOrderSizer, contract_market
from plugins.polymarket.order_terms import (
    CURRENCY,
    MIN_PURCHASE_DOLLARS,
    PolymarketOrderTerms,
    PolymarketOrderType,
)
from plugins.polymarket.settings import PolymarketTradingSettings

# The taker delay of markets that do not give it in seconds.
_DEFAULT_TAKER_DELAY = Decimal("0.25")


class PolymarketBookSource(Protocol):
    """What planning and paper fills read; every response is current."""

    async def books(self, tokens: Sequence[str]) -> Mapping[str, PolymarketOrderBook]:
        """Return books by token; tokens without one are missing."""
        ...

    async def book(self, token: str) -> PolymarketOrderBook | None:
        """Return the book of one token, None if it has none."""
        ...

    async def exchange_terms(self, condition: str) -> Mapping[str, object]:
        """Return the terms of a market as the exchange has them; raises NotFoundError."""
        ...


class PolymarketPlanner:
    """Implements ``OrderPlanner``."""

    def __init__(self, settings: PolymarketTradingSettings, client: PolymarketBookSource) -> None:
        self._settings = settings
        self._client = client
        self._requirements = book_requirements(settings)

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        question = proposal.question
        contracts = _tradable_contracts(question)
        books = await read_books(self._client, contracts)
        sizer = TypedOrderSizer(proposal, PolymarketOrderType(self._settings.order_type), contracts)
        return await self._plan_best_option(_ProposalBooks(proposal, contracts, books, self._requirements), sizer)

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        contracts, position = _tradable_contracts(proposal.question), proposal.position
        option = next((name for name, one in contracts.items() if one.market == position.contract), None)
        if option is None:
            message = f"{proposal.question.ref} has no market {position.contract}"
            raise RequestRejectedError(message)
        contract = contracts[option]
        books = await read_books(self._client, {option: contract})
        book = books.get(option)
        state = DecisionState(at=proposal.now, option=option, contract=contract, book=book, touches={}).to_json()
        if book is None:
            return OrderPlan(why="it has no book now", market_state=state)
        found = size_closing_sale(contract_market(option, contract, book), position)
        if isinstance(found, str):
            return OrderPlan(why=found, market_state=state)
        # Our resting orders on that market reserve shares, or could be matched.
        cancel = tuple(one.id for one in proposal.account.orders if one.contract == contract.market)
        typed = TypedOrder(sized=found, cancel=cancel)
        order = await self._checked_order(typed, option, contract=contract, book=book, now=proposal.now)
        if isinstance(order, str):
            return OrderPlan(why=order, market_state=state)
        return OrderPlan(why=_describe_order(order), order=order, market_state=state)

    async def _plan_best_option(self, proposal_books: "_ProposalBooks", sizer: TypedOrderSizer) -> OrderPlan:
        """Try the options with the largest difference between belief and market first."""
        ranked = sizer.sizer.rank_options(proposal_books.usable_prices)
        reasons = [] if ranked else [proposal_books.unusable_reasons()]
        for option in ranked:
            contract, book = proposal_books.contracts[option], proposal_books.books[option]
            # A long book of an event with many options takes a while, so it runs off the event loop.
            found: TypedOrder | Order | str
            found = await asyncio.to_thread(sizer.size_order, option, book, proposal_books.prices)
            if isinstance(found, TypedOrder):
                now = proposal_books.proposal.now
                found = await self._checked_order(found, option, contract=contract, book=book, now=now)
            if isinstance(found, Order):
                return OrderPlan(
                    why=_describe_order(found),
                    order=found,
                    market_state=proposal_books.decision_state(option),
                    min_cost=_least_purchase(found, book),
                )
            reasons.append(f"{option}: {found}" if option else found)
        return OrderPlan(
            why=reasons[0],
            market_state=proposal_books.decision_state(ranked[0] if ranked else next(iter(proposal_books.contracts))),
        )

    async def _checked_order(
        self, typed: TypedOrder, option: str, *, contract: PolymarketContract, book: PolymarketOrderBook, now: datetime
    ) -> Order | str:
        """Return the order, or why the venue would not accept it."""
        sized = typed.sized
        # Only if there is an order, since this is a separate request.
        taker_delay_s = await read_taker_delay(self._client, contract)
        if isinstance(taker_delay_s, str):
            return taker_delay_s
        mid = sized.limit if book.mid is None else price_of_yes(sized.leg, book.mid)
        terms = PolymarketOrderTerms(
            contract=contract,
            leg=sized.leg,
            side=sized.side,
            type=typed.type,
            price=sized.limit,
            size=sized.size,
            tick=book.tick,
            mid=mid,
            taker_delay_s=taker_delay_s,
            lifetime=timedelta(seconds=self._settings.order_lifetime_s if typed.type.is_resting else 0.0),
            book={"hash": book.hash, "at": book.at.isoformat(), "read_at": now.isoformat()},
            cancel=typed.cancel,
        )
        if (why := terms.refusal_reason(tick=book.tick, min_size=book.min_size)) is not None:
            return why
        return sized.to_order(
            contract_market(option, contract, book), currency=CURRENCY, terms=terms.to_map(), cancels=typed.cancel
        )


class _ProposalBooks:
    """A proposal, and the books of its question."""

    def __init__(
        self,
        proposal: TradeProposal,
        contracts: Mapping[str, PolymarketContract],
        books: Mapping[str, PolymarketOrderBook],
        requirements: BookRequirements,
    ) -> None:
        self.proposal, self.contracts, self.books = proposal, contracts, books
        self._unusable = {
            option: requirements.unusable_reason(books.get(option), now=proposal.now) for option in contracts
        }
        self.prices = {option: float(book.mid) for option, book in books.items() if book.mid is not None}

    @property
    def usable_prices(self) -> Mapping[str, float]:
        """The midpoints of the books that may be traded on, by option."""
        return {option: self.prices[option] for option, why in self._unusable.items() if not why}

    def unusable_reasons(self) -> str:
        """Return why none of the books may be traded on."""
        return "; ".join(f"{option}: {why}" if option else str(why) for option, why in self._unusable.items())

    def decision_state(self, option: str) -> str:
        """Return the state as JSON: the full book of that option, and the best prices of the others."""
        decision = DecisionState(
            at=self.proposal.now,
            option=option,
            contract=self.contracts[option],
            book=self.books.get(option),
            touches={name: _describe_best_prices(book) for name, book in self.books.items() if name != option},
        )
        return decision.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionState:
    """What a decision was made on: contract with its fees, the whole book of YES, and best prices of other options."""

    at: datetime
    option: str
    contract: PolymarketContract
    book: PolymarketOrderBook | None
    touches: Mapping[str, Json]

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        state = {
            "at": self.at.isoformat(),
            "option": self.option,
            "contract": self.contract.to_map(),
            "book": None if self.book is None else self.book.to_map(),
            "touches": dict(self.touches),
        }
        return json.dumps(state, ensure_ascii=False, separators=(",", ":"))


def book_requirements(settings: PolymarketTradingSettings) -> BookRequirements:
    """Return the requirements for books from the settings."""
    return BookRequirements(
        spread_max=Decimal(str(settings.max_spread)), max_age=timedelta(seconds=settings.max_book_age_s)
    )


async def read_books(
    client: PolymarketBookSource, contracts: Mapping[str, PolymarketContract]
) -> dict[str, PolymarketOrderBook]:
    """Return the books of YES as they are now, by option."""
    found = await client.books([contract.yes for contract in contracts.values()])
    return {option: found[contract.yes] for option, contract in contracts.items() if contract.yes in found}


async def read_taker_delay(client: PolymarketBookSource, contract: PolymarketContract) -> Decimal | str:
    """Return the taker delay in seconds, or why the exchange accepts no orders."""
    try:
        terms = await client.exchange_terms(contract.market)
    except NotFoundError:
        return "the exchange does not know the market"
    if parse_flag(terms.get("ao")) is False:
        return "the market accepts no orders now"
    default_delay = _DEFAULT_TAKER_DELAY if parse_flag(terms.get("itode")) else Decimal(0)
    return max(contract.delay_s, parse_decimal(terms.get("sd")) or Decimal(0), default_delay)


def _tradable_contracts(question: Question) -> Mapping[str, PolymarketContract]:
    """Return the contracts of a question by option; raises RequestRejectedError if there are none."""
    try:
        contracts = question_contracts(question)
    except MalformedDataError as error:
        message = f"{question.ref} cannot be traded: {error}"
        raise RequestRejectedError(message) from error
    if not contracts:
        message = f"{question.ref} has no market that can be traded"
        raise RequestRejectedError(message)
    return contracts


def _describe_best_prices(book: PolymarketOrderBook) -> Json:
    bid, ask = (None if price is None else str(price) for price in (book.best_bid, book.best_ask))
    return {"bid": bid, "ask": ask, "hash": book.hash, "at": book.at.isoformat()}


def _least_purchase(order: Order, book: PolymarketOrderBook) -> float:
    """Return the least that a purchase of this type may cost at its price."""
    is_resting = PolymarketOrderTerms.from_order(order).type.is_resting
    return float(book.min_size) * order.limit if is_resting else float(MIN_PURCHASE_DOLLARS)


def _describe_order(order: Order) -> str:
    of_option = f" of {order.option}" if order.option else ""
    kind = order.terms["type"]
    return (
        f"{order.side} {order.shares:g} {order.leg}{of_option} at {order.expected:.4f}, "
        f"limit {order.limit:g} ({kind}), "
        f"edge {order.edge:.4f} per share after fees"
    )


@asynccontextmanager
async def open_planner(settings: PolymarketTradingSettings, context: PluginContext) -> AsyncIterator[OrderPlanner]:
    """Open the order planner; it reads without a key."""
    yield PolymarketPlanner(settings, PolymarketClient(settings, context.http))
