"""The paper book of this venue: its market for ``bot.paper``, on what ``paper_market`` and ``paper_fills`` calculate.

Mana, pairs of YES and NO paid out at once, what is left of an order resting as long as a real one would. Outcomes come
late enough from the resolver already, so they are paid as they come. Where several answers won, each pays its part.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from bot.api import (
    BookTerms,
    Clock,
    ContractError,
    Fate,
    Instead,
    Landed,
    Leg,
    Met,
    Order,
    Outcome,
    PaperFill,
    PaperPlace,
    Position,
    Rejected,
    Submitter,
    Unavailable,
    Visit,
    Void,
    open_book,
)
from plugins.manifold import paper_market
from plugins.manifold.account import MARKED_FOR_S
from plugins.manifold.client import Client
from plugins.manifold.paper_fills import Ask, Got, Nothing, mark, payout
from plugins.manifold.paper_market import ManifoldPaperMarket
from plugins.manifold.planner import shares_of
from plugins.manifold.reading import Reads, read_state
from plugins.manifold.sales import CURRENCY
from plugins.manifold.scale import Scale
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.state import MarketState, parts_of

# As the reader words what is not final.
NOT_FINAL = ("the resolution was undone", "the resolution has just been changed")


class PaperMarket:
    """Implements the protocol Market."""

    def __init__(self, client: Reads, clock: Clock, *, delay_s: float, rests_s: float) -> None:
        self._client, self._clock = client, clock
        self._market = ManifoldPaperMarket(client, clock, delay_s=delay_s)
        self._rests = timedelta(seconds=rests_s)
        # Markets as they were last read for marks, and when.
        self._seen: dict[str, tuple[float, MarketState]] = {}

    def until(self, order: Order, sealed_at: datetime) -> datetime | None:
        return sealed_at + self._rests

    async def arrive(self, visit: Visit) -> Met:
        met = await self._market.arrive(
            visit.order, decided_at=visit.sealed_at, expires_at=visit.expires_at, held=visit.held
        )
        return _met(met)

    async def later(self, visit: Visit) -> Met | None:
        whole = Ask.of(visit.order, expires_at=visit.expires_at)
        left = replace(whole, stake=whole.stake - sum(one.shares * one.price for one in visit.fills))
        market, _ = parts_of(visit.order.contract)
        met = await self._market.later(left, market=market, held=visit.held)
        return None if met is None else _met(met)

    async def marks(self, positions: Sequence[Position]) -> Mapping[tuple[str, Leg], float | None]:
        """As the protocol says; a market that is closed waits for its outcome at the price it had."""
        marks: dict[tuple[str, Leg], float | None] = {}
        markets = dict.fromkeys(parts_of(position.contract)[0] for position in positions)
        self._seen = {market: seen for market, seen in self._seen.items() if market in markets}
        for market in markets:
            try:
                state = await self._state(market)
            except (Unavailable, ContractError, Rejected):
                continue
            now = self._clock.now()
            if state.closed(now=now) is None:
                marks |= _marks(state, positions, now)
        return marks

    async def _state(self, market: str) -> MarketState:
        """Return a market as it is, or, of one that can be traded, as it was a moment ago; paper trades do not show."""
        now_s = self._clock.monotonic()
        read_s, state = self._seen.pop(market, (now_s, None))
        if state is None or now_s - read_s >= MARKED_FOR_S:
            read_s, state = now_s, await read_state(self._client, market, now=self._clock.now())
        if state.closed(now=self._clock.now()) is None:
            self._seen[market] = (read_s, state)
        return state

    def payout(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        return share_payout(position, outcome, state)


def share_payout(position: Position, outcome: Outcome, state: str) -> float | Instead:
    """Return what a share pays, on paper and at the venue; ``state`` has the ends of a market in numbers."""
    if isinstance(outcome, Void) and outcome.shares:
        yes = outcome.shares.get(position.option, 0.0)
        return yes if position.leg is Leg.YES else 1.0 - yes
    if isinstance(outcome, Void) and outcome.reason in NOT_FINAL:
        return Instead.OPEN
    scale = _scale(state) if isinstance(outcome, Landed) else None
    if isinstance(outcome, Landed) and scale is None:
        return Instead.OPEN
    paid = payout(outcome, position.leg, option=position.option, scale=scale)
    return Instead.REFUND if paid is None else float(paid)


@asynccontextmanager
async def open_paper(settings: ManifoldSettings, place: PaperPlace) -> AsyncIterator[Submitter]:
    """Open the paper book; it reads without a key."""
    client = Client(settings, place.http, place.clock)
    market = PaperMarket(client, place.clock, delay_s=place.delay_s, rests_s=settings.order_lifetime_s)
    async with open_book(place, market, BookTerms(currency=CURRENCY, redeems=True)) as book:
        yield book


def _met(met: paper_market.Met) -> Met:
    match met.result:
        case Nothing(why=why):
            return Met(fate=Fate.DROPPED, why=why, state=met.state)
        case Got() as got:
            fills = (_fill(got),) if got.shares > 0.0 else ()
            why = "" if fills else f"P(YES) is {got.before:.3f}, beyond the limit"
            return Met(fate=Fate(got.fate.value), fills=fills, why=why, state=met.state)


def _fill(got: Got) -> PaperFill:
    detail = json.dumps({"before": got.before, "after": got.after})
    return PaperFill(shares=got.shares, price=got.stake / got.shares, fee=got.fee, detail=detail)


def _marks(state: MarketState, positions: Sequence[Position], now: datetime) -> dict[tuple[str, Leg], float | None]:
    own = shares_of(tuple(positions), state.market)
    found = {held.answer: mark(state, own, held, now=now) for held in own}
    there = [position for position in positions if parts_of(position.contract)[0] == state.market]
    return {(one.contract, one.leg): found[parts_of(one.contract)[1]][one.leg] for one in there}


def _scale(state: str) -> Scale | None:
    try:
        return MarketState.from_json(state).scale
    except ContractError:
        return None
