"""Plans one order from a belief, on the current books.

``Order.contract`` is the ticker of a market, and prices are those of its leg. Every order takes what is offered within
its limit at once and drops the rest. Buying one leg and selling the other are the same for the venue, so held contracts
of the other leg are sold first. ``Order.terms`` has ``event``, and as text ``count``, ``price`` (of YES, as the venue
takes it) and ``book_side`` (``bid`` buys YES, ``ask`` sells it). Source: docs/facts/kalshi.md#fees and #orders.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from bot.api import (
    ContractMarket,
    ContractQuote,
    ContractSide,
    Json,
    OrderBookPlanner,
    OrderPlanner,
    PluginContext,
    Question,
    RequestRejectedError,
    SizedOrder,
)
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.market_parser import ACTIVE, ONE, KalshiMarket, parse_event, parse_market
from plugins.kalshi.order_books import COUNT_STEP, fee_rate, is_on_grid, parse_book, taker_fees
from plugins.kalshi.questions import contract_tickers
from plugins.kalshi.settings import KalshiSettings

CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventState:
    """The markets of an event by ticker, as they are now, and the rate of its fees."""

    ticker: str
    markets: Mapping[str, KalshiMarket]
    rate: Decimal


class KalshiQuotes:
    """Reads what the planner of the engine needs."""

    def __init__(self, settings: KalshiSettings, client: KalshiClient) -> None:
        self._client, self._max_spread = client, Decimal(str(settings.max_spread))

    async def read_quotes(self, question: Question) -> Sequence[ContractQuote]:
        """Return the quotes of the markets of a question, a market for each option."""
        tickers = contract_tickers(question)
        state = await read_event_state(self._client, question.event)
        return [
            ContractQuote(
                contract=ticker,
                option=option,
                price=state.markets[ticker].mid_price(self._max_spread) if ticker in state.markets else None,
                read_market=partial(read_contract, self._client, state, option, ticker),
            )
            for option, ticker in tickers.items()
        ]


def create_planner(settings: KalshiSettings, client: KalshiClient) -> OrderBookPlanner:
    """Return the order planner of this venue."""
    return OrderBookPlanner(
        KalshiQuotes(settings, client).read_quotes,
        currency=CURRENCY,
        max_spread=Decimal(str(settings.max_spread)),
        order_terms=_order_terms,
    )


async def read_event_state(client: KalshiClient, ticker: str) -> EventState:
    """Read an event as it is now; raises RequestRejectedError if its fees have no known formula."""
    event = parse_event(await client.event(ticker))
    rate = fee_rate(event.fees(await client.series(event.series)))
    return EventState(ticker=ticker, markets={market.ticker: market for market in event.markets}, rate=rate)


async def read_contract(client: KalshiClient, state: EventState, option: str, ticker: str) -> ContractMarket:
    """Read the book of a market of an event; raises RequestRejectedError if the event has no such market."""
    market = state.markets.get(ticker)
    if market is None:
        message = f"event {state.ticker} has no market {ticker}"
        raise RequestRejectedError(message)
    objection = "" if market.status == ACTIVE else f"the market is {market.status}, not open"
    if not objection and market.closes_at <= client.clock.now():
        objection = f"the market is not open: it closed at {market.closes_at:%Y-%m-%d %H:%M} UTC"
    return ContractMarket(
        contract=ticker,
        option=option,
        book=parse_book(await client.book(ticker), ticker),
        fees=taker_fees(state.rate),
        tick=partial(_price_step, market),
        lot=COUNT_STEP,
        min_sale=COUNT_STEP,
        objection=objection,
        facts={"event": state.ticker, "rate": str(state.rate)},
    )


async def read_sale_price(client: KalshiClient, ticker: str, leg: ContractSide, shares: float) -> float | None:
    """Return the average of the bids for all these shares, None if there is no buyer.

    Raises NotFoundError and MalformedDataError if that cannot be read, and RequestRejectedError without a bid on a
    market that is not open: while it waits for its outcome nobody can bid, and its shares are not worthless.
    """
    price = parse_book(await client.book(ticker), ticker).sale_price(leg, shares)
    if price is None:
        market = parse_market(await client.market(ticker))
        if market.status != ACTIVE or market.closes_at <= client.clock.now():
            message = f"{ticker} is {market.status} and not open, so it has no price"
            raise RequestRejectedError(message)
    return price


def _price_step(market: KalshiMarket, yes_price: Decimal) -> Decimal:
    """Return the step at a price of the grid, and one that no price meets for any other."""
    step = next((one.step for one in market.price_ranges if one.start <= yes_price <= one.end), ONE)
    return step if is_on_grid(yes_price, market.price_ranges) else ONE


def _order_terms(market: ContractMarket, sized: SizedOrder) -> Mapping[str, Json]:
    return {
        "event": market.facts["event"],
        "count": str(sized.size),
        "price": f"{sized.yes_price:.4f}",
        "book_side": "bid" if sized.buys_yes else "ask",
    }


@asynccontextmanager
async def open_planner(settings: KalshiSettings, context: PluginContext) -> AsyncIterator[OrderPlanner]:
    """Open the order planner; it reads without a key."""
    yield create_planner(settings, KalshiClient(settings, context.http, context.clock))
