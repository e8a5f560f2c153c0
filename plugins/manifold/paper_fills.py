"""What an order would have got: pure functions of the market as it was read after the delay.

The real pool never saw the paper bets before this one. So what they hold is bought again first, on the market as it is
now, and the order meets what that leaves: two bets cost what one of their size would. That lasts as long as the shares
are held; pairs of YES and NO cancel out.
Source: venue document, sections 8 and 11 (paper fills).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from bot.api import Chosen, ContractError, Happened, Landed, Leg, Order, Outcome
from plugins.manifold.arbitrage import Board, Trade
from plugins.manifold.book import NEAR, Take
from plugins.manifold.cpmm import LEAST_STAKE, fee
from plugins.manifold.scale import Scale
from plugins.manifold.state import WHOLE, MarketState, Shares, milliseconds, parts_of

_NOTHING = 1e-9


class Fate(StrEnum):
    """What becomes of the part of an order that was not filled."""

    NONE_LEFT = "none left"
    RESTS = "rests"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """An order as the venue would take it: mana for shares of ``leg`` while P(YES) is within ``limit``.

    ``expires_at`` is None for what is filled at once or dropped.
    """

    answer: str
    leg: Leg
    stake: float
    limit: float
    expires_at: datetime | None = None

    @classmethod
    def of(cls, order: Order, *, expires_at: datetime | None = None) -> "Ask":
        """Read an order of the planner; raises ContractError for any other."""
        terms = order.terms
        amount, limit, answer = terms.get("amount"), terms.get("limit_prob"), terms.get("answer", WHOLE)
        if not isinstance(amount, int | float) or not isinstance(limit, str) or not isinstance(answer, str):
            message = f"an order on {order.contract} without amount and limit_prob is none of this venue"
            raise ContractError(message)
        return cls(answer=answer, leg=order.leg, stake=float(amount), limit=float(limit), expires_at=expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """What an order got: shares for ``stake`` mana and the ``fee`` on it, and what becomes of the ``rest`` of it."""

    stake: float
    shares: float
    fee: float
    rest: float
    fate: Fate
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why an order got nothing, and is over."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When an order was decided on, how long it is under way, and how old a reading of the market may be."""

    decided_at: datetime
    delay: timedelta
    oldest: timedelta = timedelta(seconds=60)


def carried(board: Board, own: Sequence[Shares]) -> Board:
    """Return the market as it would be, had what is held been bought from it as it is now."""
    for held in own:
        net = held.yes - held.no
        if held.answer in board.pools and abs(net) > _NOTHING:
            leg = Leg.YES if net > 0.0 else Leg.NO
            board = board.after(board.trade(held.answer, Take(leg=leg, shares=abs(net))))
    return board


def arrive(ask: Ask, state: MarketState, own: Sequence[Shares], *, now: datetime, timing: Timing) -> Got | Nothing:
    """Fill what the market gives when the order gets there; ``own`` is what the paper account holds of the market."""
    if why := _refused(ask, state, now) or _unfit(state, now, timing):
        return Nothing(why)
    board = carried(state.board(now=now), own)
    trade = board.trade(ask.answer, Take(leg=ask.leg, stake=ask.stake, limit=ask.limit))
    if trade.drains:
        return Nothing("the pool is too small for it")
    return _got(ask, trade, board)


def sold(order: Order, state: MarketState, own: Sequence[Shares], *, now: datetime, timing: Timing) -> Got | Nothing:
    """Sell on the market as it would be with what is held, all at once or, below the limit on average, nothing."""
    answer = parts_of(order.contract)[1]
    there = state.answer(answer)
    if why := state.closed(now=now) or _unfit(state, now, timing):
        return Nothing(why)
    if there is None or there.resolved:
        return Nothing("the market has no such answer any more" if there is None else "the answer is resolved")
    board = carried(state.board(now=now), own)
    sale = board.sale(answer, order.leg, order.shares)
    if sale.shares < order.shares * (1.0 - NEAR) or sale.drains:
        return Nothing("nobody buys that many shares")
    if sale.stake / order.shares < order.limit - NEAR:
        return Nothing(f"a share would bring {sale.stake / order.shares:.4f}, less than the limit {order.limit:.4f}")
    return Got(
        stake=sale.stake,
        shares=order.shares,
        fee=0.0,
        rest=0.0,
        fate=Fate.NONE_LEFT,
        before=board.probability(answer),
        after=board.after(sale).probability(answer),
    )


def rested(ask: Ask, state: MarketState, own: Sequence[Shares], *, now: datetime) -> Got | Nothing:
    """Fill what an order that rests would have got, were the market's price to have crossed its limit since.

    ``ask.stake`` is what is left of it. It is filled at its own limit, by as much as brings the price back to there;
    the price is the one that its own fills before have left.
    """
    if why := _refused(ask, state, now, least=0.0):
        return Nothing(why)
    board = carried(state.board(now=now), own)
    price = ask.limit if ask.leg is Leg.YES else 1.0 - ask.limit
    back = board.trade(ask.answer, Take(leg=ask.leg, shares=ask.stake / price, limit=ask.limit))
    before = board.probability(ask.answer)
    fate = Fate.NONE_LEFT if ask.stake - back.shares * price <= NEAR else Fate.RESTS
    stake = ask.stake if fate is Fate.NONE_LEFT else back.shares * price
    after = board.after(back).probability(ask.answer)
    return Got(
        stake=stake,
        shares=stake / price,
        fee=fee(stake),
        rest=ask.stake - stake,
        fate=fate,
        before=before,
        after=after,
    )


def mark(state: MarketState, own: Sequence[Shares], held: Shares, *, now: datetime) -> Mapping[Leg, float | None]:
    """Return what a share of each side held would bring if all of them were sold now; None where nobody buys."""
    board = carried(state.board(now=now), own)
    if state.closed(now=now) or held.answer not in board.pools:
        return dict.fromkeys(Leg)
    marks: dict[Leg, float | None] = dict.fromkeys(Leg)
    for leg, shares in ((Leg.YES, held.yes), (Leg.NO, held.no)):
        sale = board.sale(held.answer, leg, shares)
        if shares > 0.0 and sale.shares >= shares * (1.0 - NEAR):
            marks[leg] = sale.stake / shares
    return marks


def redeemed(yes: float, no: float) -> tuple[float, float, float]:
    """Return what is left of both sides when pairs are paid out, and the mana for them, 1 a pair."""
    pairs = min(yes, no)
    return yes - pairs, no - pairs, pairs


def payout(outcome: Outcome, leg: Leg, *, option: str = "", scale: Scale | None = None) -> float | None:
    """Return what a share pays; None where the stake is refunded. Raises ValueError for a number without a scale."""
    match outcome:
        case Happened(value=value):
            yes = value
        case Chosen(option=winner):
            yes = 1.0 if winner == option else 0.0
        case Landed(value=value):
            if scale is None:
                message = f"a share of a market that ended at {value} pays nothing known without its ends"
                raise ValueError(message)
            yes = scale.probability(value)
        case _:
            return None
    return yes if leg is Leg.YES else 1.0 - yes


def _got(ask: Ask, trade: Trade, board: Board) -> Got:
    rest = ask.stake - trade.stake
    waits = Fate.DROPPED if ask.expires_at is None else Fate.RESTS
    fate = Fate.NONE_LEFT if rest <= NEAR else waits
    return Got(
        stake=trade.stake,
        shares=trade.shares,
        fee=fee(trade.stake),
        rest=0.0 if fate is Fate.NONE_LEFT else rest,
        fate=fate,
        before=board.probability(ask.answer),
        after=board.after(trade).probability(ask.answer),
    )


def _refused(ask: Ask, state: MarketState, now: datetime, *, least: float = LEAST_STAKE) -> str | None:
    """Say why the venue would not take the order."""
    answer = state.answer(ask.answer)
    if why := state.closed(now=now):
        return why
    if answer is None:
        return "the market has no such answer any more"
    if answer.resolved:
        return "the answer is resolved"
    if ask.expires_at is not None and ask.expires_at <= now:
        return "it had expired"
    return f"a stake of {ask.stake:g}, less than the least bet" if ask.stake < least else None


def _unfit(state: MarketState, now: datetime, timing: Timing) -> str | None:
    """Say why the reading of the market cannot stand for the moment at which the order gets there."""
    if state.read_at < timing.decided_at + timing.delay:
        return "the market was read before the order got there"
    if now - state.read_at > timing.oldest:
        return f"the market was read {(now - state.read_at).total_seconds():.0f} s ago"
    if milliseconds(state.read_at) > milliseconds(now):
        return "the market was read later than now"
    return None
