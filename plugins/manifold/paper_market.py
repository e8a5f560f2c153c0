"""The real market as the paper book meets it: read afresh, by the clock, and then only calculated. Sends nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.api import Clock, ContractError, Leg, Order, Position, Rejected, Side, Unavailable
from plugins.manifold.paper_fills import Ask, Got, Nothing, Timing, arrive, mark, rested, sold
from plugins.manifold.planner import shares_of
from plugins.manifold.reading import Reads, read_state
from plugins.manifold.state import MarketState, parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What an order got, and the market on which it got it, as JSON text ("" where it could not be read)."""

    result: Got | Nothing
    state: str = ""


class ManifoldPaperMarket:
    """Answers what orders would have got and what positions would bring; the book keeps the accounts.

    ``held`` and ``positions`` are those of the paper account, all of them: what is held of a market is carried there.
    """

    def __init__(self, client: Reads, clock: Clock, *, delay_s: float) -> None:
        self._client, self._clock, self._delay = client, clock, timedelta(seconds=delay_s)

    async def arrive(
        self, order: Order, *, decided_at: datetime, expires_at: datetime | None, held: Sequence[Position]
    ) -> Met:
        """Fill an order on the market as it is now; to be asked once the delay is over (MF-X3)."""
        ask = None if order.side is Side.SELL else Ask.of(order, expires_at=expires_at)
        state = await self._read(order.contract)
        if isinstance(state, Nothing):
            return Met(result=state)
        timing = Timing(decided_at=decided_at, delay=self._delay)
        own, now = shares_of(tuple(held), state.market), self._clock.now()
        if ask is None:
            return Met(result=sold(order, state, own, now=now, timing=timing), state=state.to_json())
        return Met(result=arrive(ask, state, own, now=now, timing=timing), state=state.to_json())

    async def later(self, rest: Ask, *, market: str, held: Sequence[Position]) -> Met | None:
        """Fill what rests on the market as it is now (MF-X7); None where it cannot be read, which ends no order."""
        state = await self._read(market)
        now = self._clock.now()
        if rest.expires_at is not None and rest.expires_at <= now:
            return Met(result=Nothing("it had expired"))
        if isinstance(state, Nothing):
            return None
        return Met(result=rested(rest, state, shares_of(tuple(held), state.market), now=now), state=state.to_json())

    async def marks(self, positions: Sequence[Position]) -> Mapping[tuple[str, Leg], float | None]:
        """Return what a share of each position would bring, by contract and leg; None where nobody buys."""
        marks: dict[tuple[str, Leg], float | None] = {(p.contract, p.leg): None for p in positions}
        for market in dict.fromkeys(parts_of(position.contract)[0] for position in positions):
            state = await self._read(market)
            if isinstance(state, Nothing):
                continue
            own = shares_of(tuple(positions), market)
            found = {held.answer: mark(state, own, held, now=self._clock.now()) for held in own}
            for position in positions:
                name, answer = parts_of(position.contract)
                if name == market:
                    marks[position.contract, position.leg] = found[answer][position.leg]
        return marks

    async def _read(self, contract: str) -> MarketState | Nothing:
        market, _ = parts_of(contract)
        now = self._clock.now()
        try:
            # Taken before it is read: a reading is never said to be newer than it is.
            return await read_state(self._client, market, now=now)
        except (Unavailable, ContractError, Rejected) as error:
            return Nothing(f"the market cannot be read: {error}")
