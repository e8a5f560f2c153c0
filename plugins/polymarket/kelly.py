"""How much to buy from a book: the most growth of log wealth after fees, what is held included.

Every outcome has a probability and a wealth: the cash, and what the shares held would pay in it. A share pays 1 in
some of them (``won``) and nothing in the others (``lost``). Levels are bought from the best one on, each as far as
another share still adds growth; on one level and with nothing held that is f* = (p - c) / (1 - c) of the cash, c being
price and fee. Source: venue document, sections 13.3 and 15.5.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bot.api import Leg

# Beliefs beyond are not believed: a certain one would stake everything.
LEAST_BELIEF = 0.001
_HALVINGS = 80


class Outcome(NamedTuple):
    """One way it may end: how probable, and what the account is worth then."""

    probability: float
    wealth: float


class Offer(NamedTuple):
    """So many shares at that price, fee included."""

    cost: float
    size: float


@dataclass(frozen=True, slots=True)
class Held:
    """Shares of both legs of one contract."""

    yes: float = 0.0
    no: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What is there to stake: cash, and what is held of the question, by option ("" where there are none)."""

    cash: float
    held: Mapping[str, Held] = field(default_factory=dict)

    def shared(self, share: float, prices: Mapping[str, float]) -> "Purse":
        """Return the purse of somebody who stakes with that share of it; ``prices`` are those of YES.

        What is held stays whole, so that whoever has bought what that share allows has no reason to buy more.
        """
        worth = math.fsum(
            held.yes * prices.get(name, 0.0) + held.no * (1.0 - prices.get(name, 1.0))
            for name, held in self.held.items()
        )
        return Purse(cash=share * self.cash - (1.0 - share) * worth, held=self.held)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The outcomes in which a share pays, and those in which it does not."""

    won: tuple[Outcome, ...]
    lost: tuple[Outcome, ...]

    @property
    def flipped(self) -> "Outlook":
        """The same for a share of the other leg."""
        return Outlook(self.lost, self.won)

    def after(self, offer: Offer) -> "Outlook":
        """Return what may happen once all of an offer is bought."""
        return Outlook(
            tuple(Outcome(p, wealth + offer.size * (1.0 - offer.cost)) for p, wealth in self.won),
            tuple(Outcome(p, wealth - offer.size * offer.cost) for p, wealth in self.lost),
        )


def outlook(purse: Purse, beliefs: Mapping[str, float], option: str) -> Outlook:
    """Return what may happen, as a share of YES of that option sees it.

    With one belief alone it comes true or not. Otherwise exactly one of the options comes true, and what is held of
    the others counts too.
    """
    own = purse.held.get(option, Held())
    if len(beliefs) == 1:
        belief = beliefs[option]
        return Outlook((Outcome(belief, purse.cash + own.yes),), (Outcome(1.0 - belief, purse.cash + own.no),))
    denied = math.fsum(held.no for held in purse.held.values())

    def if_wins(name: str) -> Outcome:
        held = purse.held.get(name, Held())
        return Outcome(beliefs[name], purse.cash + held.yes + denied - held.no)

    return Outlook((if_wins(option),), tuple(if_wins(name) for name in beliefs if name != option))


def shares_of_most_growth(view: Outlook, offers: Iterable[Offer]) -> float:
    """Return how many shares to buy from offers, the cheapest of which comes first."""
    bought = 0.0
    for offer in offers:
        size = _from(view, offer)
        bought += size
        if size < offer.size:
            break
        view = view.after(offer)
    return bought


def shrunk(belief: float, market: float, share: float) -> float:
    """Move a belief that share of the way to the market, in log-odds; both a little away from 0 and 1 first."""
    belief = min(max(belief, LEAST_BELIEF), 1.0 - LEAST_BELIEF)
    if share == 0.0 or not 0.0 < market < 1.0:
        return belief
    odds = (1.0 - share) * _log_odds(belief) + share * _log_odds(market)
    return 1.0 / (1.0 + math.exp(-odds))


def scaled(beliefs: Mapping[str, float], option: str, belief: float) -> dict[str, float]:
    """Return the beliefs with that of one option replaced, and those of the others made to sum with it to 1."""
    if len(beliefs) == 1:
        return {option: belief}
    rest = math.fsum(probability for name, probability in beliefs.items() if name != option)
    even = (1.0 - belief) / (len(beliefs) - 1)
    others = {name: p * (1.0 - belief) / rest if rest > 0.0 else even for name, p in beliefs.items()}
    return {**others, option: belief}


def worth_of(leg: Leg, belief: float) -> float:
    """Return what a share of a leg is worth by the belief that YES comes true."""
    return belief if leg is Leg.YES else 1.0 - belief


def _from(view: Outlook, offer: Offer) -> float:
    """Return how much of one offer to buy: all of it, or where another share adds no growth."""
    if not 0.0 < offer.cost < 1.0 or _excess(view, offer.cost, 0.0) <= 0.0:
        return 0.0
    wealths = [wealth for p, wealth in view.lost if p > 0.0]
    high = min(offer.size, min(wealths, default=math.inf) / offer.cost)
    if high == offer.size and _excess(view, offer.cost, high) >= 0.0:
        return high
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if _excess(view, offer.cost, middle) > 0.0:
            low = middle
        else:
            high = middle
    return low


def _excess(view: Outlook, cost: float, shares: float) -> float:
    """Return the growth from one more share, which falls with what is bought."""
    loss = cost * _weight(view.lost, -shares * cost)
    gain = (1.0 - cost) * _weight(view.won, shares * (1.0 - cost))
    return -math.inf if math.isinf(loss) else gain - loss


def _weight(outcomes: Sequence[Outcome], more: float) -> float:
    """Return how much one more unit is worth in these outcomes: infinitely much to who has nothing."""
    possible = [outcome for outcome in outcomes if outcome.probability > 0.0]
    if any(outcome.wealth + more <= 0.0 for outcome in possible):
        return math.inf
    return math.fsum(outcome.probability / (outcome.wealth + more) for outcome in possible)


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))
