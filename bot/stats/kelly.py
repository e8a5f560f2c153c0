"""Kelly stakes on contracts that pay 1 or nothing: the maximum growth of log wealth, including present holdings.

Every outcome has a probability and a wealth: the cash, and what the shares held would pay in it. A share pays 1 in some
of them (``won``) and nothing in the others (``lost``). With nothing held, and as much as one wants offered at one cost
c, the stake is f* = (p - c) / (1 - c) of the cash. Where something is held, the same numbers say whether to add, to
hold or to reduce.

Source: J. L. Kelly, A New Interpretation of Information Rate, Bell System Technical Journal 35(4), 1956.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from bot.core.distributions import log_odds
from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Position

# Beliefs beyond are capped: a certain one would stake everything.
MIN_BELIEF = 0.001
_MAX_HALVINGS = 80


class WealthOutcome(NamedTuple):
    """One outcome: its probability, and the account's wealth then."""

    probability: float
    wealth: float


class ShareOffer(NamedTuple):
    """An offer of shares at one cost each, fee included."""

    cost: float
    size: float


@dataclass(frozen=True, slots=True)
class HeldShares:
    """Shares of both sides of one contract."""

    yes: float = 0.0
    no: float = 0.0

    def of_side(self, leg: ContractSide) -> float:
        """Return the shares of one side."""
        return self.yes if leg is ContractSide.YES else self.no


@dataclass(frozen=True, slots=True, kw_only=True)
class KellyBankroll:
    """The bankroll: cash, and holdings of the question, by option ("" where there are none)."""

    cash: float
    held: Mapping[str, HeldShares] = field(default_factory=dict)

    def scaled_to_share(self, share: float, prices: Mapping[str, float]) -> "KellyBankroll":
        """Return the bankroll of somebody who stakes that share of it; ``prices`` are those of YES.

        Holdings stay whole, so that somebody who has bought what that share allows has no reason to buy more. Holdings
        without a price are worth nothing.
        """
        worth = math.fsum(
            held.yes * prices.get(name, 0.0) + held.no * (1.0 - prices.get(name, 1.0))
            for name, held in self.held.items()
        )
        return KellyBankroll(cash=share * self.cash - (1.0 - share) * worth, held=self.held)


@dataclass(frozen=True, slots=True)
class PayoffScenarios:
    """The outcomes in which a share pays, and those in which it does not."""

    won: tuple[WealthOutcome, ...]
    lost: tuple[WealthOutcome, ...]

    @property
    def flipped(self) -> "PayoffScenarios":
        """The same for a share of the other side."""
        return PayoffScenarios(self.lost, self.won)

    @property
    def indifference_price(self) -> float:
        """The price at which neither side is worth buying: the belief, moved by the holdings."""
        won, lost = marginal_utility(self.won), marginal_utility(self.lost)
        if math.isinf(won):
            return 1.0 if not math.isinf(lost) else 0.5
        return 0.0 if math.isinf(lost) or won == 0.0 else won / (won + lost)

    def for_side(self, leg: ContractSide) -> "PayoffScenarios":
        """Return the same for a share of that side, where these are those of YES."""
        return self if leg is ContractSide.YES else self.flipped

    def after_purchase(self, offer: ShareOffer) -> "PayoffScenarios":
        """Return the outcomes once all of an offer is bought."""
        return PayoffScenarios(
            tuple(WealthOutcome(p, wealth + offer.size * (1.0 - offer.cost)) for p, wealth in self.won),
            tuple(WealthOutcome(p, wealth - offer.size * offer.cost) for p, wealth in self.lost),
        )


def payoff_scenarios(bankroll: KellyBankroll, beliefs: Mapping[str, float], option: str) -> PayoffScenarios:
    """Return the outcomes from the view of a share of YES of that option.

    With one belief alone it comes true or not. Otherwise exactly one of the options comes true, and holdings of the
    others count too.
    """
    own = bankroll.held.get(option, HeldShares())
    if len(beliefs) == 1:
        belief = beliefs[option]
        return PayoffScenarios(
            (WealthOutcome(belief, bankroll.cash + own.yes),), (WealthOutcome(1.0 - belief, bankroll.cash + own.no),)
        )
    denied = math.fsum(held.no for held in bankroll.held.values())

    def if_wins(name: str) -> WealthOutcome:
        held = bankroll.held.get(name, HeldShares())
        return WealthOutcome(beliefs[name], bankroll.cash + held.yes + denied - held.no)

    return PayoffScenarios((if_wins(option),), tuple(if_wins(name) for name in beliefs if name != option))


def marginal_utility(outcomes: Sequence[WealthOutcome], more: float = 0.0) -> float:
    """Return the value of one more unit in these outcomes: infinite without any wealth.

    ``more`` is the change of the wealth of each of them.
    """
    possible = [outcome for outcome in outcomes if outcome.probability > 0.0]
    if any(outcome.wealth + more <= 0.0 for outcome in possible):
        return math.inf
    return math.fsum(outcome.probability / (outcome.wealth + more) for outcome in possible)


def kelly_shares(scenarios: PayoffScenarios, offers: Iterable[ShareOffer]) -> float:
    """Return how many shares to buy from offers, the cheapest of which comes first.

    Each is bought as far as another share still adds growth.
    """
    bought = 0.0
    for offer in offers:
        size = _kelly_shares_of_offer(scenarios, offer)
        bought += size
        if size < offer.size:
            break
        scenarios = scenarios.after_purchase(offer)
    return bought


def _kelly_shares_of_offer(scenarios: PayoffScenarios, offer: ShareOffer) -> float:
    """Return how much of one offer to buy: all of it, or up to where another share adds no growth."""
    if not 0.0 < offer.cost < 1.0 or _marginal_growth(scenarios, offer.cost, 0.0) <= 0.0:
        return 0.0
    wealths = [wealth for p, wealth in scenarios.lost if p > 0.0]
    high = min(offer.size, min(wealths, default=math.inf) / offer.cost)
    if high == offer.size and _marginal_growth(scenarios, offer.cost, high) >= 0.0:
        return high
    low = 0.0
    for _ in range(_MAX_HALVINGS):
        middle = (low + high) / 2.0
        if _marginal_growth(scenarios, offer.cost, middle) > 0.0:
            low = middle
        else:
            high = middle
    return low


def _marginal_growth(scenarios: PayoffScenarios, cost: float, shares: float) -> float:
    """Return the growth from one more share, which falls with each share bought."""
    loss = cost * marginal_utility(scenarios.lost, -shares * cost)
    gain = (1.0 - cost) * marginal_utility(scenarios.won, shares * (1.0 - cost))
    return -math.inf if math.isinf(loss) else gain - loss


def shrink_to_market(belief: float, market: float, share: float) -> float:
    """Move a belief that share of the way to the market, in log-odds; both a little away from 0 and 1 first."""
    belief = min(max(belief, MIN_BELIEF), 1.0 - MIN_BELIEF)
    if share == 0.0 or not 0.0 < market < 1.0:
        return belief
    return 1.0 / (1.0 + math.exp(-((1.0 - share) * log_odds(belief) + share * log_odds(market))))


def rescale_beliefs(beliefs: Mapping[str, float], option: str, belief: float) -> dict[str, float]:
    """Return the beliefs with that of one option replaced, and those of the others made to sum with it to 1."""
    if len(beliefs) == 1:
        return {option: belief}
    rest = math.fsum(probability for name, probability in beliefs.items() if name != option)
    even = (1.0 - belief) / (len(beliefs) - 1)
    others = {name: p * (1.0 - belief) / rest if rest > 0.0 else even for name, p in beliefs.items()}
    return {**others, option: belief}


def share_value(leg: ContractSide, belief: float) -> float:
    """Return the worth of a share of a side under the belief that YES comes true."""
    return belief if leg is ContractSide.YES else 1.0 - belief


def sum_held_shares(
    positions: Iterable[Position], option_of: Callable[[Position], str | None]
) -> dict[str, HeldShares]:
    """Return the holdings by option; ``option_of`` names that of a position, None for one of another question."""
    held: dict[str, dict[ContractSide, float]] = {}
    for position in positions:
        if (option := option_of(position)) is not None:
            held.setdefault(option, dict.fromkeys(ContractSide, 0.0))[position.leg] += position.shares
    return {option: HeldShares(legs[ContractSide.YES], legs[ContractSide.NO]) for option, legs in held.items()}
