"""The paper market of this venue: the real market is read, and fills are only calculated.

Currency is mana, pairs of YES and NO are redeemed at once, and the rest of an order rests as long as a real one would.
The reader already delays outcomes, so they are paid at once. If several answers won, each pays its part.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.api import (
    Clock,
    ContractSide,
    FillRequest,
    FillResult,
    MalformedDataError,
    NumericOutcome,
    Order,
    OrderSide,
    Outcome,
    PaperBookContext,
    PaperBookTerms,
    PaperFill,
    Position,
    RemainderState,
    RequestRejectedError,
    ServiceUnavailableError,
    UnpaidOutcome,
    VenueSubmitter,
    VoidOutcome,
    open_paper_book,
)
from plugins.manifold.account import MARK_CACHE_S
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.market_state import ManifoldMarketSource, ManifoldMarketState, read_market_state, split_contract
from plugins.manifold.numeric_scale import ManifoldScale
from plugins.manifold.paper_fills import (
    ManifoldNoFill,
    ManifoldPaperBet,
    ManifoldPaperFill,
    OrderTiming,
    fill_new_bet,
    fill_resting_bet,
    fill_sale,
    mark_shares,
    payout_of_outcome,
)
from plugins.manifold.planner import shares_by_answer
from plugins.manifold.sales import CURRENCY
from plugins.manifold.settings import ManifoldSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldFillOutcome:
    """The fill of an order, and the market at the fill, as JSON text ("" if it could not be read)."""

    fill: ManifoldPaperFill | ManifoldNoFill
    market_state: str = ""


class ManifoldFillModel:
    """Calculates the fills of orders and the value of positions; the book keeps the accounts.

    ``held`` and ``positions`` are all those of the paper account: shares held of a market affect its prices.
    """

    def __init__(self, client: ManifoldMarketSource, clock: Clock, *, delay_s: float) -> None:
        self._client, self._clock, self._delay = client, clock, timedelta(seconds=delay_s)

    async def fill_new_order(
        self, order: Order, *, decided_at: datetime, expires_at: datetime | None, held: Sequence[Position]
    ) -> ManifoldFillOutcome:
        """Fill an order on the market as it is now; call it after the delay."""
        bet = None if order.side is OrderSide.SELL else ManifoldPaperBet.from_order(order, expires_at=expires_at)
        state = await self._read_state(order.contract)
        if isinstance(state, ManifoldNoFill):
            return ManifoldFillOutcome(fill=state)
        timing = OrderTiming(decided_at=decided_at, delay=self._delay)
        own, now = shares_by_answer(tuple(held), state.market), self._clock.now()
        if bet is None:
            return ManifoldFillOutcome(
                fill=fill_sale(order, state, own, now=now, timing=timing), market_state=state.to_json()
            )
        return ManifoldFillOutcome(
            fill=fill_new_bet(bet, state, own, now=now, timing=timing), market_state=state.to_json()
        )

    async def fill_resting_order(
        self, bet: ManifoldPaperBet, *, market: str, held: Sequence[Position]
    ) -> ManifoldFillOutcome | None:
        """Fill a resting order on the market as it is now; None if it cannot be read, which closes no order."""
        state = await self._read_state(market)
        now = self._clock.now()
        if bet.expires_at is not None and bet.expires_at <= now:
            return ManifoldFillOutcome(fill=ManifoldNoFill("it had expired"))
        if isinstance(state, ManifoldNoFill):
            return None
        return ManifoldFillOutcome(
            fill=fill_resting_bet(bet, state, shares_by_answer(tuple(held), state.market), now=now),
            market_state=state.to_json(),
        )

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """Return the sale price of a share of each position, by contract and leg; None if there is no buyer."""
        marks: dict[tuple[str, ContractSide], float | None] = {(p.contract, p.leg): None for p in positions}
        for market in dict.fromkeys(split_contract(position.contract)[0] for position in positions):
            state = await self._read_state(market)
            if isinstance(state, ManifoldNoFill):
                continue
            own = shares_by_answer(tuple(positions), market)
            found = {held.answer: mark_shares(state, own, held, now=self._clock.now()) for held in own}
            for position in positions:
                name, answer = split_contract(position.contract)
                if name == market:
                    marks[position.contract, position.leg] = found[answer][position.leg]
        return marks

    async def _read_state(self, contract: str) -> ManifoldMarketState | ManifoldNoFill:
        market, _ = split_contract(contract)
        now = self._clock.now()
        try:
            # The time before the request, so that a reading is never dated later than it is.
            return await read_market_state(self._client, market, now=now)
        except (ServiceUnavailableError, MalformedDataError, RequestRejectedError) as error:
            return ManifoldNoFill(f"the market cannot be read: {error}")


# The reader's reasons for outcomes that are not final.
UNDONE_REASONS = ("the resolution was undone", "the resolution has just been changed")


class ManifoldPaperMarket:
    """Implements ``PaperMarket``."""

    def __init__(self, client: ManifoldMarketSource, clock: Clock, *, delay_s: float, rests_s: float) -> None:
        self._client, self._clock = client, clock
        self._market = ManifoldFillModel(client, clock, delay_s=delay_s)
        self._order_lifetime = timedelta(seconds=rests_s)
        # Markets as they were last read for marks, and when.
        self._cached_states: dict[str, tuple[float, ManifoldMarketState]] = {}

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        return sealed_at + self._order_lifetime

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        outcome = await self._market.fill_new_order(
            request.order, decided_at=request.sealed_at, expires_at=request.expires_at, held=request.positions
        )
        return _to_fill_result(outcome)

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        whole = ManifoldPaperBet.from_order(request.order, expires_at=request.expires_at)
        remaining = replace(whole, stake=whole.stake - sum(one.shares * one.price for one in request.fills))
        market, _ = split_contract(request.order.contract)
        outcome = await self._market.fill_resting_order(remaining, market=market, held=request.positions)
        return None if outcome is None else _to_fill_result(outcome)

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """See ``PaperMarket``; a closed market keeps its last price until the outcome."""
        marks: dict[tuple[str, ContractSide], float | None] = {}
        markets = dict.fromkeys(split_contract(position.contract)[0] for position in positions)
        self._cached_states = {market: cached for market, cached in self._cached_states.items() if market in markets}
        for market in markets:
            try:
                state = await self._state(market)
            except (ServiceUnavailableError, MalformedDataError, RequestRejectedError):
                continue
            now = self._clock.now()
            if state.closed_reason(now=now) is None:
                marks |= _position_marks(state, positions, now)
        return marks

    async def _state(self, market: str) -> ManifoldMarketState:
        """Return a market as it is now, or an open one as it was a moment ago; paper trades do not change it."""
        now_s = self._clock.monotonic()
        read_s, state = self._cached_states.pop(market, (now_s, None))
        if state is None or now_s - read_s >= MARK_CACHE_S:
            read_s, state = now_s, await read_market_state(self._client, market, now=self._clock.now())
        if state.closed_reason(now=self._clock.now()) is None:
            self._cached_states[market] = (read_s, state)
        return state

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return share_payout(position, outcome, state)


def share_payout(position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
    """Return what a share pays, on paper and at the venue; ``state`` has the ends of a market in numbers."""
    if isinstance(outcome, VoidOutcome) and outcome.shares:
        yes = outcome.shares.get(position.option, 0.0)
        return yes if position.leg is ContractSide.YES else 1.0 - yes
    if isinstance(outcome, VoidOutcome) and outcome.reason in UNDONE_REASONS:
        return UnpaidOutcome.OPEN
    scale = _scale_from_state(state) if isinstance(outcome, NumericOutcome) else None
    if isinstance(outcome, NumericOutcome) and scale is None:
        return UnpaidOutcome.OPEN
    paid = payout_of_outcome(outcome, position.leg, option=position.option, scale=scale)
    return UnpaidOutcome.REFUND if paid is None else float(paid)


@asynccontextmanager
async def open_paper(settings: ManifoldSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    """Open the paper book; it reads without a key."""
    client = ManifoldClient(settings, context.http, context.clock)
    market = ManifoldPaperMarket(client, context.clock, delay_s=context.delay_s, rests_s=settings.order_lifetime_s)
    async with open_paper_book(context, market, PaperBookTerms(currency=CURRENCY, redeems=True)) as book:
        yield book


def _to_fill_result(outcome: ManifoldFillOutcome) -> FillResult:
    match outcome.fill:
        case ManifoldNoFill(why=why):
            return FillResult(remainder=RemainderState.DROPPED, why=why, market_state=outcome.market_state)
        case ManifoldPaperFill() as fill:
            fills = (_to_paper_fill(fill),) if fill.shares > 0.0 else ()
            why = "" if fills else f"P(YES) is {fill.price_before:.3f}, beyond the limit"
            return FillResult(
                remainder=RemainderState(fill.remainder.value), fills=fills, why=why, market_state=outcome.market_state
            )


def _to_paper_fill(fill: ManifoldPaperFill) -> PaperFill:
    detail = json.dumps({"before": fill.price_before, "after": fill.price_after})
    return PaperFill(shares=fill.shares, price=fill.stake / fill.shares, fee=fill.fee, detail=detail)


def _position_marks(
    state: ManifoldMarketState, positions: Sequence[Position], now: datetime
) -> dict[tuple[str, ContractSide], float | None]:
    own = shares_by_answer(tuple(positions), state.market)
    found = {held.answer: mark_shares(state, own, held, now=now) for held in own}
    held_here = [position for position in positions if split_contract(position.contract)[0] == state.market]
    return {(one.contract, one.leg): found[split_contract(one.contract)[1]][one.leg] for one in held_here}


def _scale_from_state(state: str) -> ManifoldScale | None:
    try:
        return ManifoldMarketState.from_json(state).scale
    except MalformedDataError:
        return None
