"""What the account has: mana that is free, positions at what they could be sold for, and orders that rest.

Orders at the venue hold nothing back; what they may still spend is counted as spent here. Of orders that expire the
venue tells nobody, so that is looked up by the clock. What the venue lent is in the balance, and is taken back when the
shares go: free loans (``loan``) and margin loans (``marginLoan``) alike; the interest of the latter shows nowhere.
Sources: venue document, section 5; of the venue's public code ``common/src/loans.ts`` and ``redeem.ts``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from bot.api import Account, Clock, ContractError, Leg, NotFound, OpenOrder, Position, QuestionRef, Side, VenueGain
from plugins.manifold.bets import remaining, rests
from plugins.manifold.book import NEAR
from plugins.manifold.client import Client, Record
from plugins.manifold.raw import RawBet, RawMe, moment_of, name_of, parsed
from plugins.manifold.sales import CURRENCY
from plugins.manifold.settings import VENUE
from plugins.manifold.state import WHOLE, MarketState, Shares, contract_of

log = structlog.get_logger(__name__)

# For so long positions in one market are marked by the same reading of it.
MARKED_FOR_S = 300.0
_DUST = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Shares of one answer, what they cost, what the venue lent on them, and its own figure of their gain."""

    market: str
    own: Shares
    paid: float
    loan: float
    gain: float | None
    over: bool

    @property
    def is_open(self) -> bool:
        """Whether there are shares that may still be worth something else."""
        return not self.over and max(self.own.yes, self.own.no) > _DUST


class Holdings:
    """Reads the account of the key."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._user = ""
        self._states: dict[str, tuple[float, MarketState | None]] = {}

    async def user(self) -> str:
        """Return the id of the account, asked once."""
        if not self._user:
            self._user = parsed(RawMe, await self._client.me(), "the account").id
        return self._user

    def forget(self, market: str) -> None:
        """Have a market read again: there was a trade."""
        self._states.pop(market, None)

    async def orders(self, market: str | None = None) -> list[RawBet]:
        """Return the account's orders that rest; raises ContractError where one of them cannot be read."""
        rows = await self._client.own_orders(await self.user(), market)
        found = [parsed(RawBet, row, name_of(row, "order")) for row in rows]
        now = self._clock.now()
        return [bet for bet in found if rests(bet, now)]

    async def account(self) -> Account:
        """Return what there is now; raises Unavailable rather than leave anything out."""
        me = parsed(RawMe, await self._client.me(), "the account")
        self._user = me.id
        orders = await self.orders()
        known = _holdings(await self._client.metrics(me.id))
        markets = dict.fromkeys(one.market for one in known if one.is_open)
        states = await asyncio.gather(*(self._state(market) for market in markets))
        by_market = {state.market: state for state in states if state is not None}
        rows = [replace(one, over=one.over or _is_over(one, by_market.get(one.market))) for one in known]
        held = [one for one in rows if one.is_open]
        positions = [position for one in held for position in self._positions(one, by_market.get(one.market))]
        return Account(
            at=self._clock.now(),
            currency=CURRENCY,
            cash=me.balance - sum(remaining(bet) for bet in orders),
            positions=tuple(positions),
            orders=tuple(_open_order(bet) for bet in orders),
            loan=sum(one.loan for one in held),
            redeems=True,
            gains=tuple(
                VenueGain(contract=contract_of(one.market, one.own.answer), gain=one.gain, closed=not one.is_open)
                for one in rows
                if one.gain is not None
            ),
        )

    async def _state(self, market: str) -> MarketState | None:
        """Return a market without the orders of others: what its maker alone would pay is certain."""
        now_s = self._clock.monotonic()
        read_s, state = self._states.get(market, (-MARKED_FOR_S, None))
        if now_s - read_s < MARKED_FOR_S and market in self._states:
            return state
        try:
            state = MarketState.from_api(await self._client.market(market), [], read_at=self._clock.now())
        except (ContractError, NotFound) as error:
            log.warning("a position has no mark", market=market, error=str(error))
            state = None
        self._states[market] = (now_s, state)
        return state

    def _positions(self, held: _Held, state: MarketState | None) -> list[Position]:
        answer = None if state is None else state.answer(held.own.answer)
        marks: Mapping[Leg, float | None] = dict.fromkeys(Leg)
        if state is not None and answer is not None:
            marks = _marks(state, held, self._clock.now())
        contract = contract_of(held.market, held.own.answer)
        linked = state is not None and state.linked
        option = next((name for name, one in state.names.items() if one.id == held.own.answer), "") if state else ""
        sides = {Leg.YES: held.own.yes, Leg.NO: held.own.no}
        return [
            Position(
                contract=contract,
                leg=leg,
                shares=shares,
                # The venue keeps one sum for both sides; pairs are paid out at once, so there is one.
                paid=max(held.paid, 0.0) if shares == max(sides.values()) else 0.0,
                ref=QuestionRef(VENUE, held.market if linked else contract),
                option=option if linked else "",
                mark=marks[leg],
            )
            for leg, shares in sides.items()
            if shares > _DUST
        ]


def _holdings(metrics: Record) -> list[_Held]:
    by_market = metrics.get("metricsByContract")
    if not isinstance(by_market, Mapping):
        message = "the positions of the account are not listed by market"
        raise ContractError(message)
    over = _resolved(metrics.get("contracts"))
    found = []
    for market, rows in by_market.items():
        usable = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        # A market with answers has a row for each, and one that sums them up.
        by_answer = [row for row in usable if row.get("answerId")]
        found += [
            held
            for row in by_answer or usable
            if (held := _held(str(market), row, over=str(market) in over)) is not None
        ]
    return found


def _resolved(contracts: object) -> set[str]:
    """Return the ids of the markets that are over: the venue goes on listing what was held of them."""
    rows = contracts if isinstance(contracts, list) else []
    return {str(row.get("id")) for row in rows if isinstance(row, Mapping) and row.get("isResolved") is True}


def _is_over(held: _Held, state: MarketState | None) -> bool:
    """Say whether it has been paid out."""
    answer = None if state is None else state.answer(held.own.answer)
    return state is not None and (state.resolved or (answer is not None and answer.resolved))


def _marks(state: MarketState, held: _Held, now: datetime) -> dict[Leg, float | None]:
    """Return what a share of each side would bring if all were sold now; None where nobody buys.

    What the account bought is in the pool already, unlike what a paper account did. A market that is closed waits for
    its outcome at the price it had.
    """
    marks: dict[Leg, float | None] = dict.fromkeys(Leg)
    board, own = state.board(now=now), held.own
    if own.answer not in board.pools:
        return marks
    for leg, shares in ((Leg.YES, own.yes), (Leg.NO, own.no)):
        sale = board.sale(own.answer, leg, shares) if shares > _DUST else None
        if sale is not None and sale.shares >= shares * (1.0 - NEAR):
            marks[leg] = max(sale.stake, 0.0) / shares
    return marks


def _held(market: str, row: Mapping[str, Any], *, over: bool) -> _Held | None:
    shares = row.get("totalShares")
    if not isinstance(shares, Mapping):
        return None
    own = Shares(
        answer=str(row.get("answerId") or WHOLE),
        yes=_amount(shares.get("YES")),
        no=_amount(shares.get("NO")),
    )
    return _Held(
        market=market,
        own=own,
        paid=_amount(row.get("invested")),
        loan=_amount(row.get("loan")) + _amount(row.get("marginLoan")),
        gain=_amount(row["profit"]) if "profit" in row else None,
        over=over,
    )


def _amount(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _open_order(bet: RawBet) -> OpenOrder:
    leg = Leg.YES if bet.outcome == "YES" else Leg.NO
    price = bet.limit or 0.0
    limit = price if leg is Leg.YES else 1.0 - price
    left = remaining(bet)
    return OpenOrder(
        id=bet.id,
        contract=contract_of(bet.contract, bet.answer or WHOLE),
        leg=leg,
        side=Side.BUY,
        limit=limit,
        shares=left / limit if limit > 0.0 else 0.0,
        reserves=left,
        expires_at=moment_of(bet.expires) if bet.expires else None,
    )
