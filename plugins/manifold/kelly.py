"""How much to stake where the stake itself moves the price: the most growth of log wealth, what is held included.

Every outcome has a probability and a wealth, that is the cash and what the shares held would pay in it. A leg pays 1 in
some of them (``won``) and nothing in the others (``lost``); the marginal price at which both sides balance is where to
stop. With one pool and nothing held this is the formula of the source, section 9, and where something is held it says
by itself whether to add, to hold or to reduce.
Source: venue document, section 9.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from bot.api import Leg
from plugins.manifold.arbitrage import Board, Trade
from plugins.manifold.book import Take
from plugins.manifold.cpmm import crossing

PERCENT = Decimal("0.01")
# Beliefs beyond are not believed: a certain one would stake everything.
LEAST_BELIEF = 0.001


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way it may end: how probable, and what the account is worth then."""

    probability: float
    wealth: float


@dataclass(frozen=True, slots=True)
class Held:
    """Shares of both sides of one answer."""

    yes: float = 0.0
    no: float = 0.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """The outcomes in which YES of an answer pays, and those in which it does not."""

    won: tuple[Outcome, ...]
    lost: tuple[Outcome, ...]

    @property
    def effective(self) -> float:
        """The price at which neither side is worth buying: the belief, moved by what is held."""
        won, lost = _weight(self.won), _weight(self.lost)
        if math.isinf(won):
            return 1.0 if not math.isinf(lost) else 0.5
        return 0.0 if math.isinf(lost) or won == 0.0 else won / (won + lost)

    def of(self, leg: Leg) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
        """Return what pays and what does not for the buyer of that leg."""
        return (self.won, self.lost) if leg is Leg.YES else (self.lost, self.won)


@dataclass(frozen=True, slots=True)
class Advice:
    """The full stake: on which leg, what it brings, and the effective belief that it never moves the price past."""

    leg: Leg
    trade: Trade
    effective: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What is there to bet with: cash, and what is held of the market, by answer."""

    cash: float
    held: Mapping[str, Held] = field(default_factory=dict)

    def shared(self, share: float, prices: Mapping[str, float]) -> "Purse":
        """Return the purse of somebody who bets with that share of it.

        What is held stays whole, so that whoever has bought what that share allows has no reason to buy more.
        """
        worth = math.fsum(h.yes * prices[name] + h.no * (1.0 - prices[name]) for name, h in self.held.items())
        return Purse(cash=share * self.cash - (1.0 - share) * worth, held=self.held)


def outlook(purse: Purse, beliefs: Mapping[str, float], answer: str) -> Outlook:
    """Return what may happen, as YES of ``answer`` sees it.

    With the belief in that answer alone it comes true or not. Otherwise exactly one of the beliefs comes true, and
    what is held of the others counts too.
    """
    own = purse.held.get(answer, Held())
    if len(beliefs) == 1:
        belief = beliefs[answer]
        won, lost = Outcome(belief, purse.cash + own.yes), Outcome(1.0 - belief, purse.cash + own.no)
        return Outlook((won,), (lost,))
    denied = math.fsum(held.no for held in purse.held.values())

    def if_wins(name: str) -> Outcome:
        held = purse.held.get(name, Held())
        return Outcome(beliefs[name], purse.cash + held.yes + denied - held.no)

    return Outlook((if_wins(answer),), tuple(if_wins(name) for name in beliefs if name != answer))


def advise(board: Board, answer: str, view: Outlook, cash: float) -> Advice:
    """Return the stake of most growth, at most ``cash``."""
    effective = view.effective
    leg = Leg.YES if effective >= board.probability(answer) else Leg.NO
    won, lost = view.of(leg)
    most = max(min(cash, *(outcome.wealth for outcome in lost)), 0.0)
    whole = board.trade(answer, Take(leg=leg, stake=most, limit=effective))

    def excess(stake: float) -> float:
        """Growth from one more unit, which falls with what is staked."""
        trade = board.trade(answer, Take(leg=leg, stake=stake, limit=effective))
        price = trade.marginal if leg is Leg.YES else 1.0 - trade.marginal
        loss = _weight(lost, -stake)
        gain = (1.0 - price) / price * _weight(won, trade.shares - stake)
        return -math.inf if math.isinf(loss) else gain - loss

    stake = crossing(excess, 0.0, min(whole.stake, most))
    return Advice(leg, board.trade(answer, Take(leg=leg, stake=stake, limit=effective)), effective)


def _weight(outcomes: Sequence[Outcome], more: float = 0.0) -> float:
    """Return how much one more unit is worth in these outcomes: infinitely much to who has nothing."""
    possible = [outcome for outcome in outcomes if outcome.probability > 0.0]
    if any(outcome.wealth + more <= 0.0 for outcome in possible):
        return math.inf
    return math.fsum(outcome.probability / (outcome.wealth + more) for outcome in possible)


def fraction(board: Board, answer: str, purse: Purse, beliefs: Mapping[str, float], *, share: float) -> Advice:
    """Return that share of the full stake, and no more than whoever bets with that share of the purse would hold.

    The second bound is what makes planning twice plan nothing the second time. What is held against the belief is
    given up as far as the second bound goes. A stake of 0 means: hold.
    """
    prices = {name: pool.probability for name, pool in board.pools.items()}
    full = advise(board, answer, outlook(purse, beliefs, answer), purse.cash)
    part = advise(board, answer, outlook(purse.shared(share, prices), beliefs, answer), purse.cash)
    held = purse.held.get(answer, Held())
    against = held.no > held.yes if full.leg is Leg.YES else held.yes > held.no
    stake = min(full.trade.stake * (1.0 if against else share), part.trade.stake)
    if part.leg is not full.leg:
        stake = 0.0
    take = Take(leg=full.leg, stake=stake, limit=full.effective)
    return Advice(full.leg, board.trade(answer, take), full.effective)


def shrunk(belief: float, market: float, share: float) -> float:
    """Move a belief that share of the way to the market, in log-odds; both a little away from 0 and 1 first."""
    belief = min(max(belief, LEAST_BELIEF), 1.0 - LEAST_BELIEF)
    if share == 0.0 or not 0.0 < market < 1.0:
        return belief
    odds = (1.0 - share) * _log_odds(belief) + share * _log_odds(market)
    return 1.0 / (1.0 + math.exp(-odds))


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def limit_of(leg: Leg, *, after: float, belief: float, step: Decimal = PERCENT) -> Decimal | None:
    """Return the limit as P(YES), in whole steps: where the bet ends, let out to the next step, but within the belief.

    None where the venue takes no limit within it: the lowest is a percent, the highest 99. Exact in decimals: as
    floats, 100 times 0.57 lies under 57 and 100 times 0.55 over 55.
    """
    end, held = Decimal(repr(round(after, 9))) / step, Decimal(repr(belief)) / step
    if leg is Leg.YES:
        steps = min(end.to_integral_value(ROUND_CEILING), held.to_integral_value(ROUND_FLOOR))
    else:
        steps = max(end.to_integral_value(ROUND_FLOOR), held.to_integral_value(ROUND_CEILING))
    limit = min(max(steps * step, PERCENT), 1 - PERCENT)
    beyond = limit > held * step if leg is Leg.YES else limit < held * step
    return None if beyond else limit
