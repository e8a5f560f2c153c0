"""Plans one order from a belief, on the current books.

``Order.contract`` is the ticker of a market, and prices are those of its leg. Every order takes what is offered within
its limit at once and drops the rest. Buying one leg and selling the other are the same for the venue, so held contracts
of the other leg are sold first. ``Order.terms`` has ``event``, and as text ``count``, ``price`` (of YES, as the venue
takes it) and ``book_side`` (``bid`` buys YES, ``ask`` sells it). Source: docs/facts/kalshi.md#fees and #orders.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    ClosingProposal,
    ContractSide,
    HeldShares,
    KellyBankroll,
    Order,
    OrderPlan,
    OrderPlanner,
    OrderSide,
    PayoffScenarios,
    PluginContext,
    Question,
    RequestRejectedError,
    ShareOffer,
    TradeProposal,
    kelly_shares,
    payoff_scenarios,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.market_parser import ACTIVE, ONE, KalshiMarket, parse_event
from plugins.kalshi.order_books import (
    COUNT_STEP,
    FEE_STEP,
    KalshiBookLevel,
    KalshiOrderBook,
    fee_per_share,
    fee_rate,
    is_on_grid,
    parse_book,
    sum_fills,
    walk_levels,
)
from plugins.kalshi.settings import KalshiSettings

CURRENCY = "USD"
CENT = Decimal("0.01")
# How many options are tried if the best one may not be traded.
_MAX_TRIED_OPTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EventState:
    """The markets of an event by ticker, as they are now, and the rate of its fees."""

    ticker: str
    markets: Mapping[str, KalshiMarket]
    rate: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class LegMarket:
    """One leg of a market with its book, and what a contract of it is worth by the belief."""

    event: EventState
    market: KalshiMarket
    option: str
    leg: ContractSide
    book: KalshiOrderBook
    worth: Decimal


class KalshiPlanner:
    """Implements ``ClosingPlanner``."""

    def __init__(self, settings: KalshiSettings, client: KalshiClient) -> None:
        self._client, self._max_spread = client, Decimal(str(settings.max_spread))

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        question = proposal.question
        tickers, beliefs = _tickers(question), _option_beliefs(proposal)
        state = await read_event_state(self._client, question.facts["event"])
        prices: dict[str, float] = {}
        for option, ticker in tickers.items():
            market = state.markets.get(ticker)
            if market is not None and (mid := market.mid_price(self._max_spread)) is not None and option in beliefs:
                prices[option] = mid
        if not prices:
            return OrderPlan(why="no market of it has two quotes that are close enough to trade on now")
        against = {
            option
            for option in prices
            if _is_held_against(proposal, tickers[option], belief=beliefs[option], price=prices[option])
        }
        by_gap = sorted(prices, key=lambda option: (option not in against, -abs(beliefs[option] - prices[option])))
        plans: list[OrderPlan] = []
        for option in by_gap[: _MAX_TRIED_OPTIONS + len(against)]:
            market = state.markets[tickers[option]]
            book = parse_book(await self._client.book(market.ticker), market.ticker)
            why = book.unusable_reason(self._max_spread)
            fresh = prices | ({} if book.mid is None else {option: float(book.mid)})
            found = why or size_order(
                proposal,
                beliefs,
                prices=fresh,
                tickers=tickers,
                state=state,
                market=market,
                option=option,
                book=book,
            )
            plans.append(_order_plan(found, proposal, market=market, state=state, book=book))
            if plans[-1].order is not None:
                return plans[-1]
        return plans[0]

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        position, tickers = proposal.position, _tickers(proposal.question)
        state = await read_event_state(self._client, proposal.question.facts["event"])
        if position.contract not in tickers.values() or position.contract not in state.markets:
            message = f"{proposal.question.ref} has no market {position.contract}"
            raise RequestRejectedError(message)
        market = state.markets[position.contract]
        book = parse_book(await self._client.book(market.ticker), market.ticker)
        leg = LegMarket(
            event=state, market=market, option=position.option, leg=position.leg, book=book, worth=Decimal(0)
        )
        found = _objection(market) or _limit_order(leg, OrderSide.SELL, book.bids(position.leg), position.shares)
        return _order_plan(found, proposal, market=market, state=state, book=book)


def size_order(
    proposal: TradeProposal,
    beliefs: Mapping[str, float],
    *,
    prices: Mapping[str, float],
    tickers: Mapping[str, str],
    state: EventState,
    market: KalshiMarket,
    option: str,
    book: KalshiOrderBook,
) -> Order | str:
    """Return the order on one option, or why there is none."""
    if why := _objection(market):
        return why
    sizing = proposal.sizing
    options = {ticker: name for name, ticker in tickers.items()}
    held_shares = sum_held_shares(proposal.account.positions, lambda position: options.get(position.contract))
    bankroll = KellyBankroll(cash=max(proposal.account.cash, 0.0), held=held_shares)
    belief = shrink_to_market(beliefs[option], prices[option], sizing.market_shrinkage)
    leg = ContractSide.YES if belief > prices[option] else ContractSide.NO
    scenarios = payoff_scenarios(
        bankroll.scaled_to_share(sizing.kelly_fraction, prices), rescale_beliefs(beliefs, option, belief), option
    ).for_side(leg)
    worth = Decimal(repr(share_value(leg, belief)))
    held = held_shares.get(option, HeldShares())
    other = ContractSide.NO if leg is ContractSide.YES else ContractSide.YES
    if Decimal(repr(held.of_side(other))) >= COUNT_STEP:
        sold = LegMarket(event=state, market=market, option=option, leg=other, book=book, worth=ONE - worth)
        return _size_sale(sold, scenarios, held.of_side(other))
    bought = LegMarket(event=state, market=market, option=option, leg=leg, book=book, worth=worth)
    return _size_purchase(bought, scenarios, proposal)


def _size_purchase(leg: LegMarket, scenarios: PayoffScenarios, proposal: TradeProposal) -> Order | str:
    sizing, rate = proposal.sizing, leg.event.rate
    low, high, least = (Decimal(repr(value)) for value in (*sizing.price_band, sizing.min_edge))
    asks = leg.book.asks(leg.leg)
    if not low <= asks[0].price <= high:
        return f"{leg.leg} is offered at {asks[0].price}, outside the band {low} to {high}"
    good = [
        one for one in asks if one.price <= high and leg.worth - one.price - fee_per_share(rate, one.price) >= least
    ]
    if not good:
        price = asks[0].price + fee_per_share(rate, asks[0].price)
        return f"{leg.leg} costs {price:.4f} with fees and is worth {leg.worth:.4f}: a gain of less than {least}"
    offers = [ShareOffer(float(price + fee_per_share(rate, price)), float(size)) for price, size in good]
    wanted = kelly_shares(scenarios, offers)
    budget = Decimal(repr(max(0.0, min(sizing.max_cost, proposal.account.cash)))) - CENT - FEE_STEP * len(good)
    return _limit_order(leg, OrderSide.BUY, good, wanted, budget)


def _size_sale(leg: LegMarket, scenarios: PayoffScenarios, held: float) -> Order | str:
    """Sell held contracts, for no less than their worth by the belief."""
    rate = leg.event.rate
    good = [one for one in leg.book.bids(leg.leg) if one.price - fee_per_share(rate, one.price) >= leg.worth]
    offers = [ShareOffer(float(ONE - price + fee_per_share(rate, price)), float(size)) for price, size in good]
    wanted = kelly_shares(scenarios, offers) if offers else 0.0
    found = _limit_order(leg, OrderSide.SELL, good, min(wanted, held))
    if isinstance(found, str):
        return f"{held:.2f} {leg.leg} are held, but selling brings less than their worth of {leg.worth:.3f}"
    return found


def _limit_order(
    leg: LegMarket, side: OrderSide, levels: Sequence[KalshiBookLevel], wanted: float, budget: Decimal | None = None
) -> Order | str:
    """Return an order at the level where most can be had within the budget, or why nothing can be."""
    rate, best, available = leg.event.rate, (ONE, Decimal(0)), Decimal(0)
    for price, shown in levels:
        available += shown
        most = min(Decimal(repr(wanted)), available)
        if budget is not None:
            most = min(most, budget / (price + fee_per_share(rate, price)))
        size = most.quantize(COUNT_STEP, ROUND_FLOOR)
        if size > best[1]:
            best = price, size
    limit, size = best
    if size <= 0:
        return f"the sizing wants {wanted:.4f} contracts, and nothing of that can be traded now"
    yes_price = limit if leg.leg is ContractSide.YES else ONE - limit
    if not is_on_grid(yes_price, leg.market.price_ranges):
        return f"{yes_price} is not a price that the market takes"
    fills = walk_levels(levels, rate, size)
    total = sum_fills(fills)
    with_fee = (total["value"] + (total["fee"] if side is OrderSide.BUY else -total["fee"])) / size
    most_paid = size * (limit + fee_per_share(rate, limit)) + FEE_STEP * len(fills)
    buys_yes = (side is OrderSide.BUY) is (leg.leg is ContractSide.YES)
    return Order(
        contract=leg.market.ticker,
        leg=leg.leg,
        side=side,
        shares=float(size),
        limit=float(limit),
        cost=float(most_paid.quantize(CENT, ROUND_CEILING)) if side is OrderSide.BUY else 0.0,
        expected=float(total["value"] / size),
        currency=CURRENCY,
        option=leg.option,
        fees=float(total["fee"]),
        edge=float(leg.worth - with_fee if side is OrderSide.BUY else with_fee - leg.worth),
        terms={
            "event": leg.event.ticker,
            "count": str(size),
            "price": f"{yes_price:.4f}",
            "book_side": "bid" if buys_yes else "ask",
        },
    )


async def read_event_state(client: KalshiClient, ticker: str) -> EventState:
    """Read an event as it is now; raises RequestRejectedError if its fees have no known formula."""
    event = parse_event(await client.event(ticker))
    rate = fee_rate(event.fees(await client.series(event.series)))
    return EventState(ticker=ticker, markets={market.ticker: market for market in event.markets}, rate=rate)


def _objection(market: KalshiMarket) -> str | None:
    return None if market.status == ACTIVE else f"the market is {market.status}, not open"


def _is_held_against(proposal: TradeProposal, ticker: str, *, belief: float, price: float) -> bool:
    against = ContractSide.NO if belief > price else ContractSide.YES
    return any(one.contract == ticker and one.leg is against for one in proposal.account.positions)


def _order_plan(
    found: Order | str,
    proposal: TradeProposal | ClosingProposal,
    *,
    market: KalshiMarket,
    state: EventState,
    book: KalshiOrderBook,
) -> OrderPlan:
    text = json.dumps(
        {"at": proposal.now.isoformat(), "ticker": market.ticker, "rate": str(state.rate), "book": book.to_map()}
    )
    if isinstance(found, str):
        return OrderPlan(why=f"{market.ticker}: {found}", market_state=text)
    why = f"{found.side} {found.shares:g} {found.leg} of {market.ticker} at {found.expected:.4f}, limit {found.limit:g}"
    return OrderPlan(why=f"{why}, edge {found.edge:.4f} per share after fees", order=found, market_state=text)


def _tickers(question: Question) -> dict[str, str]:
    """Return the market of each option; raises RequestRejectedError for a question of another version."""
    try:
        tickers = json.loads(question.facts["tickers"])
        return {str(option): str(ticker) for option, ticker in tickers.items()}
    except (KeyError, ValueError, AttributeError) as error:
        message = f"{question.ref} names no markets that can be traded"
        raise RequestRejectedError(message) from error


def _option_beliefs(proposal: TradeProposal) -> Mapping[str, float]:
    match proposal.predictions[proposal.question.targets[0].key]:
        case BinaryPrediction(probability=probability):
            return {"": probability}
        case ChoicePrediction(probabilities=probabilities):
            return probabilities
    message = f"{proposal.question.ref}: no market of this venue takes a curve"
    raise RequestRejectedError(message)


@asynccontextmanager
async def open_planner(settings: KalshiSettings, context: PluginContext) -> AsyncIterator[OrderPlanner]:
    """Open the order planner; it reads without a key."""
    yield KalshiPlanner(settings, KalshiClient(settings, context.http, context.clock))
