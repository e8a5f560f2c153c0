"""The account of the key.

Free mana, positions at the price for which they could be sold, resting orders, and whether the key is that of the
configured bot. Resting orders reserve nothing at the venue; what they may still spend is counted as spent here. Expired
orders are recognised by the clock, since the venue does not report them. Loans (``loan``, ``marginLoan``) are in the
balance and are repaid when the shares are sold; the venue does not show the interest of margin loans. Sources:
docs/facts/manifold.md#account; ``common/src/loans.ts`` and ``redeem.ts`` of the venue.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from bot.api import (
    Account,
    Clock,
    ContractSide,
    MalformedDataError,
    NotFoundError,
    OpenOrder,
    OrderSide,
    PluginContext,
    Position,
    QuestionRef,
    RequestRejectedError,
    ServiceUnavailableError,
    VenueReportedGain,
)
from plugins.manifold.api_client import ManifoldClient, ManifoldPositions
from plugins.manifold.api_records import (
    ManifoldAccountRecord,
    ManifoldBetRecord,
    from_milliseconds,
    parse_record,
    record_name,
)
from plugins.manifold.book_walk import PRICE_TOLERANCE
from plugins.manifold.market_state import WHOLE_MARKET, AnswerShares, ManifoldMarketState, contract_name
from plugins.manifold.sales import CURRENCY
from plugins.manifold.settings import VENUE, ManifoldSettings
from plugins.manifold.write_requests import is_resting, remaining_stake

log = structlog.get_logger(__name__)


# Positions in one market are marked by the same reading for this long.
MARK_CACHE_S = 300.0
# An account is read again so often while its balance changes.
MAX_HOLDING_READS = 5


_MIN_SHARES = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerHolding:
    """Shares of one answer, their cost, the venue's loan on them, and the gain that the venue reports."""

    market: str
    shares: AnswerShares
    paid: float
    loan: float
    gain: float | None
    is_settled: bool

    @property
    def is_open(self) -> bool:
        """Whether there are shares whose value may still change."""
        return not self.is_settled and max(self.shares.yes, self.shares.no) > _MIN_SHARES


class ManifoldAccountReader:
    """Reads the account of the key."""

    def __init__(self, client: ManifoldClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._user = ""
        self._states: dict[str, tuple[float, ManifoldMarketState | None]] = {}

    async def user_id(self) -> str:
        """Return the id of the account, asked once."""
        if not self._user:
            self._user = parse_record(ManifoldAccountRecord, await self._client.own_account(), "the account").id
        return self._user

    def forget_market(self, market: str) -> None:
        """Have a market read again after a trade."""
        self._states.pop(market, None)

    async def open_orders(self, market: str | None = None) -> list[ManifoldBetRecord]:
        """Return the resting orders of the account; raises MalformedDataError if one of them cannot be parsed."""
        rows = await self._client.own_orders(await self.user_id(), market)
        found = [parse_record(ManifoldBetRecord, row, record_name(row, "order")) for row in rows]
        now = self._clock.now()
        return [bet for bet in found if is_resting(bet, now)]

    async def read_account(self) -> Account:
        """Return the account as it is now; raises ServiceUnavailableError if any part cannot be read."""
        me, orders, holdings = await self._read_holdings()
        markets = dict.fromkeys(one.market for one in holdings if one.is_open)
        states = await asyncio.gather(*(self._state(market) for market in markets))
        by_market = {state.market: state for state in states if state is not None}
        rows = [
            replace(one, is_settled=one.is_settled or _is_settled(one, by_market.get(one.market))) for one in holdings
        ]
        held = [one for one in rows if one.is_open]
        positions = [position for one in held for position in self._positions(one, by_market.get(one.market))]
        return Account(
            at=self._clock.now(),
            currency=CURRENCY,
            cash=me.balance - sum(remaining_stake(bet) for bet in orders),
            positions=tuple(positions),
            orders=tuple(_parse_open_order(bet) for bet in orders),
            loan=sum(one.loan for one in held),
            redeems=True,
            gains=tuple(
                VenueReportedGain(
                    contract=contract_name(one.market, one.shares.answer), gain=one.gain, closed=not one.is_open
                )
                for one in rows
                if one.gain is not None
            ),
        )

    async def _read_holdings(self) -> tuple[ManifoldAccountRecord, list[ManifoldBetRecord], list[_AnswerHolding]]:
        """Return balance, orders and positions as they were at one moment.

        A bet that is filled between two readings would count twice, in the balance and as a position.
        """
        me = await self._read_balance()
        for _ in range(MAX_HOLDING_READS):
            before, orders = me.balance, await self.open_orders()
            holdings = _parse_holdings(await self._client.positions(me.id))
            me = await self._read_balance()
            if me.balance == before:
                return me, orders, holdings
        message = "the balance of the account changed each time that it was read"
        raise ServiceUnavailableError(message)

    async def _read_balance(self) -> ManifoldAccountRecord:
        me = parse_record(ManifoldAccountRecord, await self._client.own_account(), "the account")
        self._user = me.id
        return me

    async def _state(self, market: str) -> ManifoldMarketState | None:
        """Return a market without the orders of others: only the price of its pool is certain."""
        now_s = self._clock.monotonic()
        read_s, state = self._states.get(market, (-MARK_CACHE_S, None))
        if now_s - read_s < MARK_CACHE_S and market in self._states:
            return state
        try:
            state = ManifoldMarketState.from_api(await self._client.market(market), [], read_at=self._clock.now())
        except (MalformedDataError, NotFoundError) as error:
            # Shares are not worthless because a reading failed: they keep their last mark.
            log.warning("a position keeps its last mark", market=market, error=str(error))
        self._states[market] = (now_s, state)
        return state

    def _positions(self, held: _AnswerHolding, state: ManifoldMarketState | None) -> list[Position]:
        answer = None if state is None else state.answer(held.shares.answer)
        largest = max(held.shares.yes, held.shares.no)
        # A market that was never read: at cost, unless the ledger knows its last price.
        marks: Mapping[ContractSide, float | None] = dict.fromkeys(ContractSide, max(held.paid, 0.0) / largest)
        is_priced = state is not None and answer is not None
        if state is not None and answer is not None:
            marks = _mark_prices(state, held, self._clock.now())
        contract = contract_name(held.market, held.shares.answer)
        linked = state is not None and state.linked
        option = (
            next((name for name, one in state.answers_by_option.items() if one.id == held.shares.answer), "")
            if state
            else ""
        )
        sides = {ContractSide.YES: held.shares.yes, ContractSide.NO: held.shares.no}
        return [
            Position(
                contract=contract,
                leg=leg,
                shares=shares,
                # The venue keeps one sum for both sides; pairs are redeemed at once, so only one side is held.
                paid=max(held.paid, 0.0) if shares == largest else 0.0,
                ref=QuestionRef(VENUE, held.market if linked else contract),
                option=option if linked else "",
                mark=marks[leg],
                is_unpriced=not is_priced,
            )
            for leg, shares in sides.items()
            if shares > _MIN_SHARES
        ]


def _parse_holdings(positions: ManifoldPositions) -> list[_AnswerHolding]:
    # The venue still lists the positions in resolved markets.
    resolved = {market for market, row in positions.contracts.items() if row.get("isResolved") is True}
    # A market with answers has a row for each, and one with their sums.
    with_answers = {market for market, answer in positions.rows if answer}
    held = (
        _parse_holding(market, row, is_settled=market in resolved)
        for (market, answer), row in positions.rows.items()
        if answer or market not in with_answers
    )
    return [one for one in held if one is not None]


def _is_settled(held: _AnswerHolding, state: ManifoldMarketState | None) -> bool:
    """Return whether it has been paid out."""
    answer = None if state is None else state.answer(held.shares.answer)
    return state is not None and (state.resolved or (answer is not None and answer.resolved))


def _mark_prices(state: ManifoldMarketState, held: _AnswerHolding, now: datetime) -> dict[ContractSide, float | None]:
    """Return the price per share of each side if all were sold now; None if there is no buyer.

    The account's purchases are in the pool already, unlike those of a paper account. A closed market keeps its last
    price until the outcome.
    """
    marks: dict[ContractSide, float | None] = dict.fromkeys(ContractSide)
    simulated, own = state.simulated_market(now=now), held.shares
    if own.answer not in simulated.pools:
        return marks
    for leg, shares in ((ContractSide.YES, own.yes), (ContractSide.NO, own.no)):
        sale = simulated.simulate_sale(own.answer, leg, shares) if shares > _MIN_SHARES else None
        if sale is not None and sale.shares >= shares * (1.0 - PRICE_TOLERANCE):
            marks[leg] = max(sale.stake, 0.0) / shares
    return marks


def _parse_holding(market: str, row: Mapping[str, Any], *, is_settled: bool) -> _AnswerHolding | None:
    shares = row.get("totalShares")
    if not isinstance(shares, Mapping):
        return None
    own = AnswerShares(
        answer=str(row.get("answerId") or WHOLE_MARKET),
        yes=_number_or_zero(shares.get("YES")),
        no=_number_or_zero(shares.get("NO")),
    )
    return _AnswerHolding(
        market=market,
        shares=own,
        paid=_number_or_zero(row.get("invested")),
        loan=_number_or_zero(row.get("loan")) + _number_or_zero(row.get("marginLoan")),
        gain=_number_or_zero(row["profit"]) if "profit" in row else None,
        is_settled=is_settled,
    )


def _number_or_zero(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _parse_open_order(bet: ManifoldBetRecord) -> OpenOrder:
    leg = ContractSide.YES if bet.outcome == "YES" else ContractSide.NO
    price = bet.limit or 0.0
    limit = price if leg is ContractSide.YES else 1.0 - price
    remaining = remaining_stake(bet)
    return OpenOrder(
        id=bet.id,
        contract=contract_name(bet.contract, bet.answer or WHOLE_MARKET),
        leg=leg,
        side=OrderSide.BUY,
        limit=limit,
        shares=remaining / limit if limit > 0.0 else 0.0,
        reserves=remaining,
        expires_at=from_milliseconds(bet.expires) if bet.expires else None,
    )


async def check_account(settings: ManifoldSettings, context: PluginContext) -> Sequence[str]:
    """Return what a person should know about the account. Public data proves no key, so the account itself is read.

    Raises AuthenticationError for a missing or refused key, RequestRejectedError for another account or one that is no
    bot.
    """
    me = parse_record(
        ManifoldAccountRecord,
        await ManifoldClient(settings, context.http, context.clock).own_account(),
        "the account",
    )
    if not settings.username:
        message = f"the key belongs to {me.username}: if that is right, set username in [venues.manifold.settings]"
        raise RequestRejectedError(message)
    if me.username != settings.username:
        message = f"the key belongs to {me.username}, but username in [venues.manifold.settings] is {settings.username}"
        raise RequestRejectedError(message)
    if not me.is_bot:
        message = f"{me.username} is not marked as a bot: mark it in its profile on the site, which cannot be undone"
        raise RequestRejectedError(message)
    return (f"account {me.username} in {settings.environment}, marked as a bot, {me.balance:.2f} mana",)
