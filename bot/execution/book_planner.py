"""The planner of a venue with order books: the venue reads prices and books, and all the rest is done here."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from bot.core.errors import RequestRejectedError
from bot.core.light_dataclass import dataclass
from bot.core.orders import ClosingProposal, OrderPlan, TradeProposal
from bot.core.questions import Question
from bot.core.values import Json
from bot.execution.order_sizing import (
    ContractMarket,
    OrderSizer,
    SizedOrder,
    describe_sized_order,
    size_closing_sale,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractQuote:
    """The contract of one option, and about what YES costs now; ``option`` is "" for a question without options.

    ``price`` is None if nothing can be traded on now, and ``why`` says so. ``read_market`` reads the book of the
    contract; it is called only for the few options that are tried.
    """

    contract: str
    option: str = ""
    price: float | None
    why: str = ""
    read_market: Callable[[], Awaitable[ContractMarket]]

    @classmethod
    def from_market(cls, market: ContractMarket) -> "ContractQuote":
        """Return the quote of a market whose book is read already."""

        async def read_market() -> ContractMarket:
            return market

        mid = market.book.mid
        return cls(
            contract=market.contract,
            option=market.option,
            price=None if mid is None else float(mid),
            why="" if mid is not None else "its book has not two sides",
            read_market=read_market,
        )


# Reads the quotes of all options of a question; raises RequestRejectedError for one that cannot be traded.
QuoteReader = Callable[[Question], Awaitable[Sequence[ContractQuote]]]
# Returns what the writer of the venue needs to know of an order.
OrderTerms = Callable[[ContractMarket, SizedOrder], Mapping[str, Json]]


def _no_terms(_market: ContractMarket, _sized: SizedOrder) -> Mapping[str, Json]:
    return {}


class OrderBookPlanner:
    """Implements ``ClosingPlanner`` for orders that are matched at once, from quotes and books of the venue."""

    def __init__(
        self,
        read_quotes: QuoteReader,
        *,
        currency: str,
        max_spread: Decimal,
        order_terms: OrderTerms = _no_terms,
    ) -> None:
        self._read_quotes, self._order_terms = read_quotes, order_terms
        self._currency, self._max_spread = currency, max_spread

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        """Return an order on the option furthest from the market that may be traded, or why there is none."""
        quotes = {quote.option: quote for quote in await self._read_quotes(proposal.question)}
        sizer = OrderSizer(proposal, {option: quote.contract for option, quote in quotes.items()})
        prices = {option: quote.price for option, quote in quotes.items() if quote.price is not None}
        plans: list[OrderPlan] = []
        for option in sizer.rank_options(prices):
            market = await quotes[option].read_market()
            mid = market.book.mid
            fresh = prices if mid is None else prices | {option: float(mid)}
            found: SizedOrder | str | None = market.book.unusable_reason(self._max_spread)
            if found is None:
                # A long book of a question with many options takes a while.
                found = await asyncio.to_thread(sizer.size_order, market, fresh)
            plans.append(self._order_plan(market, found, proposal.now))
            if plans[-1].order is not None:
                return plans[-1]
        return plans[0] if plans else OrderPlan(why=_unpriced_reason(list(quotes.values())))

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        """Return the sale of a whole position at the bids, or why there is none."""
        contract = proposal.position.contract
        quotes = await self._read_quotes(proposal.question)
        quote = next((one for one in quotes if one.contract == contract), None)
        if quote is None:
            message = f"{proposal.question.ref} has no market {contract}"
            raise RequestRejectedError(message)
        market = await quote.read_market()
        return self._order_plan(market, size_closing_sale(market, proposal.position), proposal.now)

    def _order_plan(self, market: ContractMarket, found: SizedOrder | str, now: datetime) -> OrderPlan:
        state = market_state(market, now)
        if isinstance(found, str):
            return OrderPlan(why=f"{market.option or market.contract}: {found}", market_state=state)
        terms = self._order_terms(market, found)
        order = found.to_order(market, currency=self._currency, terms=terms)
        least = float(market.min_purchase)
        return OrderPlan(why=describe_sized_order(order), order=order, market_state=state, min_cost=least)


def market_state(market: ContractMarket, now: datetime) -> str:
    """Return a contract as it was read, as one line of JSON, with its whole book; numbers are text."""
    known = {"at": now.isoformat(), "contract": market.contract, "option": market.option}
    state = {**known, **market.facts, "book": market.book.to_map()}
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"))


def _unpriced_reason(quotes: Sequence[ContractQuote]) -> str:
    """Return why no option has a price."""
    reasons = [f"{one.option}: {one.why}" if one.option else one.why for one in quotes if one.why]
    return "; ".join(reasons) or "no market of it has two quotes that are close enough to trade on now"
