"""The fills an order would have got: pure functions of the market as it was read after the delay.

The real pool never saw the earlier paper bets. So their shares are bought again first, on the market as it is now, and
the order meets the result: two bets cost what one of their size would. That lasts as long as the shares are held; pairs
of YES and NO cancel out. Source: docs/facts/manifold.md#arithmetic and #paper-fills.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from bot.api import BinaryOutcome, ChoiceOutcome, ContractSide, MalformedDataError, NumericOutcome, Order, Outcome
from plugins.manifold.book_walk import PRICE_TOLERANCE, PoolTakerOrder
from plugins.manifold.cpmm import MIN_STAKE, taker_fee
from plugins.manifold.market_simulation import SimulatedMarket, SimulatedTrade
from plugins.manifold.market_state import (
    WHOLE_MARKET,
    AnswerShares,
    ManifoldMarketState,
    split_contract,
    to_milliseconds,
)
from plugins.manifold.numeric_scale import ManifoldScale

_MIN_SHARES = 1e-9


class ManifoldRemainderState(StrEnum):
    """What happens to the part of an order that was not filled."""

    NONE_LEFT = "none left"
    RESTS = "rests"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldPaperBet:
    """An order as the venue would accept it: mana for shares of ``leg`` while P(YES) is within ``limit``.

    ``expires_at`` is None if the order is filled at once or dropped.
    """

    answer: str
    leg: ContractSide
    stake: float
    limit: float
    expires_at: datetime | None = None

    @classmethod
    def from_order(cls, order: Order, *, expires_at: datetime | None = None) -> "ManifoldPaperBet":
        """Parse an order of the planner; raises MalformedDataError for any other."""
        terms = order.terms
        limit, answer = terms.get("limit_prob"), terms.get("answer", WHOLE_MARKET)
        if order.stake is None or not isinstance(limit, str) or not isinstance(answer, str):
            message = f"an order on {order.contract} without stake and limit_prob is not of this venue"
            raise MalformedDataError(message)
        return cls(answer=answer, leg=order.leg, stake=order.stake, limit=float(limit), expires_at=expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldPaperFill:
    """The fill of an order: shares for ``stake`` mana, the ``fee`` on it, and what happens to ``remaining_stake``."""

    stake: float
    shares: float
    fee: float
    remaining_stake: float
    remainder: ManifoldRemainderState
    price_before: float
    price_after: float


@dataclass(frozen=True, slots=True)
class ManifoldNoFill:
    """Why an order got nothing and is closed."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTiming:
    """When an order was decided on, its delay, and the maximum age of a market reading."""

    decided_at: datetime
    delay: timedelta
    max_state_age: timedelta = timedelta(seconds=60)


def carry_own_shares(market: SimulatedMarket, own: Sequence[AnswerShares]) -> SimulatedMarket:
    """Return the market as it would be if the held shares were bought from it now."""
    for held in own:
        net = held.yes - held.no
        if held.answer in market.pools and abs(net) > _MIN_SHARES:
            leg = ContractSide.YES if net > 0.0 else ContractSide.NO
            market = market.after_trade(
                market.simulate_trade(
                    held.answer, PoolTakerOrder(leg=leg, shares=abs(net), stops_at_price_bounds=False)
                )
            )
    return market


def fill_new_bet(
    bet: ManifoldPaperBet,
    state: ManifoldMarketState,
    own: Sequence[AnswerShares],
    *,
    now: datetime,
    timing: OrderTiming,
) -> ManifoldPaperFill | ManifoldNoFill:
    """Fill an order on the market when it arrives; ``own`` is what the paper account holds of the market."""
    if why := _bet_refusal(bet, state, now) or _stale_state_reason(state, now, timing):
        return ManifoldNoFill(why)
    market = carry_own_shares(state.simulated_market(now=now), own)
    trade = market.simulate_trade(bet.answer, PoolTakerOrder(leg=bet.leg, stake=bet.stake, limit=bet.limit))
    if trade.drains_pool:
        return ManifoldNoFill("the pool is too small for it")
    return _bet_fill(bet, trade, market)


def fill_sale(
    order: Order, state: ManifoldMarketState, own: Sequence[AnswerShares], *, now: datetime, timing: OrderTiming
) -> ManifoldPaperFill | ManifoldNoFill:
    """Sell on the market with the held shares, all at once, or nothing if the average is below the limit."""
    answer = split_contract(order.contract)[1]
    answer_state = state.answer(answer)
    if why := state.closed_reason(now=now) or _stale_state_reason(state, now, timing):
        return ManifoldNoFill(why)
    if answer_state is None or answer_state.resolved:
        return ManifoldNoFill(
            "the market no longer has this answer" if answer_state is None else "the answer is resolved"
        )
    market = carry_own_shares(state.simulated_market(now=now), own)
    sale = market.simulate_sale(answer, order.leg, order.shares)
    if sale.shares < order.shares * (1.0 - PRICE_TOLERANCE) or sale.drains_pool:
        return ManifoldNoFill("there are no buyers for that many shares")
    if sale.stake / order.shares < order.limit - PRICE_TOLERANCE:
        return ManifoldNoFill(
            f"a share would bring {sale.stake / order.shares:.4f}, less than the limit {order.limit:.4f}"
        )
    return ManifoldPaperFill(
        stake=sale.stake,
        shares=order.shares,
        fee=0.0,
        remaining_stake=0.0,
        remainder=ManifoldRemainderState.NONE_LEFT,
        price_before=market.probability(answer),
        price_after=market.after_trade(sale).probability(answer),
    )


def fill_resting_bet(
    bet: ManifoldPaperBet, state: ManifoldMarketState, own: Sequence[AnswerShares], *, now: datetime
) -> ManifoldPaperFill | ManifoldNoFill:
    """Fill a resting order as if the market's price had crossed its limit since.

    ``bet.stake`` is the remaining stake. It is filled at its own limit, by as much as moves the price back to the
    limit; the price is that after its own earlier fills.
    """
    if why := _bet_refusal(bet, state, now, least=0.0):
        return ManifoldNoFill(why)
    market = carry_own_shares(state.simulated_market(now=now), own)
    price = bet.limit if bet.leg is ContractSide.YES else 1.0 - bet.limit
    bought = market.simulate_trade(bet.answer, PoolTakerOrder(leg=bet.leg, shares=bet.stake / price, limit=bet.limit))
    before = market.probability(bet.answer)
    remainder = (
        ManifoldRemainderState.NONE_LEFT
        if bet.stake - bought.shares * price <= PRICE_TOLERANCE
        else ManifoldRemainderState.RESTS
    )
    stake = bet.stake if remainder is ManifoldRemainderState.NONE_LEFT else bought.shares * price
    after = market.after_trade(bought).probability(bet.answer)
    return ManifoldPaperFill(
        stake=stake,
        shares=stake / price,
        fee=taker_fee(stake),
        remaining_stake=bet.stake - stake,
        remainder=remainder,
        price_before=before,
        price_after=after,
    )


def mark_shares(
    state: ManifoldMarketState, own: Sequence[AnswerShares], held: AnswerShares, *, now: datetime
) -> Mapping[ContractSide, float | None]:
    """Return the price per share of each held side if all were sold now; None if there is no buyer."""
    market = carry_own_shares(state.simulated_market(now=now), own)
    if state.closed_reason(now=now) or held.answer not in market.pools:
        return dict.fromkeys(ContractSide)
    marks: dict[ContractSide, float | None] = dict.fromkeys(ContractSide)
    for leg, shares in ((ContractSide.YES, held.yes), (ContractSide.NO, held.no)):
        sale = market.simulate_sale(held.answer, leg, shares)
        if shares > 0.0 and sale.shares >= shares * (1.0 - PRICE_TOLERANCE):
            marks[leg] = sale.stake / shares
    return marks


def redeem_pairs(yes: float, no: float) -> tuple[float, float, float]:
    """Return what is left of both sides when pairs are redeemed, and the mana for them, 1 per pair."""
    pairs = min(yes, no)
    return yes - pairs, no - pairs, pairs


def payout_of_outcome(
    outcome: Outcome, leg: ContractSide, *, option: str = "", scale: ManifoldScale | None = None
) -> float | None:
    """Return what a share pays; None if the stake is refunded. Raises ValueError for a number without a scale."""
    match outcome:
        case BinaryOutcome(value=value):
            yes = value
        case ChoiceOutcome(option=winner):
            yes = 1.0 if winner == option else 0.0
        case NumericOutcome(value=value):
            if scale is None:
                message = f"the payout of a market that ended at {value} is unknown without its ends"
                raise ValueError(message)
            yes = scale.probability(value)
        case _:
            return None
    return yes if leg is ContractSide.YES else 1.0 - yes


def _bet_fill(bet: ManifoldPaperBet, trade: SimulatedTrade, market: SimulatedMarket) -> ManifoldPaperFill:
    rest = bet.stake - trade.stake
    unfilled = ManifoldRemainderState.DROPPED if bet.expires_at is None else ManifoldRemainderState.RESTS
    remainder = ManifoldRemainderState.NONE_LEFT if rest <= PRICE_TOLERANCE else unfilled
    return ManifoldPaperFill(
        stake=trade.stake,
        shares=trade.shares,
        fee=taker_fee(trade.stake),
        remaining_stake=0.0 if remainder is ManifoldRemainderState.NONE_LEFT else rest,
        remainder=remainder,
        price_before=market.probability(bet.answer),
        price_after=market.after_trade(trade).probability(bet.answer),
    )


def _bet_refusal(
    bet: ManifoldPaperBet, state: ManifoldMarketState, now: datetime, *, least: float = MIN_STAKE
) -> str | None:
    """Return why the venue would not accept the order, or None."""
    answer = state.answer(bet.answer)
    if why := state.closed_reason(now=now):
        return why
    if answer is None:
        return "the market no longer has this answer"
    if answer.resolved:
        return "the answer is resolved"
    if bet.expires_at is not None and bet.expires_at <= now:
        return "it had expired"
    return f"a stake of {bet.stake:g}, less than the minimum bet" if bet.stake < least else None


def _stale_state_reason(state: ManifoldMarketState, now: datetime, timing: OrderTiming) -> str | None:
    """Return why the reading of the market is not valid for the moment at which the order arrives, or None."""
    if state.read_at < timing.decided_at + timing.delay:
        return "the market was read before the order arrived"
    if now - state.read_at > timing.max_state_age:
        return f"the market was read {(now - state.read_at).total_seconds():.0f} s ago"
    if to_milliseconds(state.read_at) > to_milliseconds(now):
        return "the market was read later than now"
    return None
