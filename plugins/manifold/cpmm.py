"""The pool of a market: what shares cost, and where that moves the price. Arithmetic alone, no orders, no network.

A pool holds shares of both sides; its price is the probability of YES. Amounts are mana.
Source: venue document, section 8; ``common/src/calculate-cpmm.ts`` of the venue.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from bot.api import Leg

# Taken from what is staked. The venue changed it before: this is the one place to edit.
TAKER_FEE = 0.0
LOWEST, HIGHEST = 0.01, 0.99
LEAST_POOL = 0.01
LEAST_STAKE = 1.0

_STEPS = 200
_PRECISION = 1e-14


def crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that never rises falls through 0 between two points; the nearer end if it does not.

    It may jump, and be infinite at a point. Regula falsi by the Illinois rule, every third step a bisection.
    """
    if low >= high or (above := excess(low)) <= 0.0:
        return low
    if (below := excess(high)) >= 0.0:
        return high
    last = 0
    for step in range(_STEPS):
        if high - low <= _PRECISION * max(abs(low), abs(high)):
            break
        middle = _between(low, above, high, below) if step % 3 else (low + high) / 2.0
        value = excess(middle)
        if value == 0.0:
            return middle
        if value > 0.0:
            low, above, below, last = middle, value, below / 2.0 if last > 0 else below, 1
        else:
            high, below, above, last = middle, value, above / 2.0 if last < 0 else above, -1
    return low


def _between(low: float, above: float, high: float, below: float) -> float:
    if not (math.isfinite(above) and math.isfinite(below)):
        return (low + high) / 2.0
    guess = high - below * (high - low) / (below - above)
    return guess if low < guess < high else (low + high) / 2.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Shares of both sides and the weight ``p``; answers of a market with many have p = 0.5."""

    yes: float
    no: float
    p: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a pool that has no price."""
        sides = all(math.isfinite(side) and side > 0.0 for side in (self.yes, self.no))
        if not sides or not 0.0 < self.p < 1.0:
            message = f"a pool of {self.yes} YES and {self.no} NO with p = {self.p} has no price"
            raise ValueError(message)

    @property
    def probability(self) -> float:
        """The price of YES."""
        weighted = self.p * self.no
        return weighted / ((1.0 - self.p) * self.yes + weighted)

    @property
    def constant(self) -> float:
        """What no trade changes."""
        return float(self.yes**self.p * self.no ** (1.0 - self.p))

    @property
    def drained(self) -> bool:
        """Whether a side is so thin that the venue refuses the trade that made it so."""
        return min(self.yes, self.no) < LEAST_POOL

    def buy(self, leg: Leg, stake: float) -> tuple["Pool", float]:
        """Return the pool after the stake was spent on that side, and the shares it bought.

        Raises ValueError where the stake is so large that a side is left with nothing.
        """
        left, shares = self._left(leg, stake)
        if leg is Leg.YES:
            return Pool(left, self.no + stake, self.p), shares
        return Pool(self.yes + stake, left, self.p), shares

    def _left(self, leg: Leg, stake: float) -> tuple[float, float]:
        """Return what is left of the side that is bought, and the shares: the stake, which makes pairs, and the rest.

        By logarithms, so that neither a small stake nor a drained side is lost in rounding.
        """
        if leg is Leg.YES:
            own, power = self.yes, -(1.0 - self.p) / self.p * math.log1p(stake / self.no)
        else:
            own, power = self.no, -self.p / (1.0 - self.p) * math.log1p(stake / self.yes)
        return own * math.exp(power), stake - own * math.expm1(power)

    def stake_to(self, leg: Leg, probability: float) -> float:
        """Return what moves the price to that probability of YES; 0 or less where it is there or past it.

        Nothing moves it to 0 or 1.
        """
        if not 0.0 < probability < 1.0:
            return math.inf
        ratio = self.p * (1.0 - probability) / ((1.0 - self.p) * probability)
        no = self.constant * float(ratio**-self.p)
        return no - self.no if leg is Leg.YES else ratio * no - self.yes

    def stake_for(self, leg: Leg, shares: float) -> float:
        """Return what so many shares of that side cost."""
        if shares <= 0.0:
            return 0.0
        if self.p == 0.5:
            own, other = (self.yes, self.no) if leg is Leg.YES else (self.no, self.yes)
            rest = own + other - shares
            root = math.sqrt(4.0 * other * shares + rest**2)
            # The same number twice, each where it does not subtract what is nearly equal.
            return 2.0 * shares * other / (root + rest) if rest > 0.0 else (root - rest) / 2.0
        return crossing(lambda stake: shares - self._left(leg, stake)[1], 0.0, shares)

    def deepened(self, amount: float) -> "Pool":
        """Return the pool after liquidity was added: the price stays, and p moves towards it."""
        yes, no, price = self.yes + amount, self.no + amount, self.probability
        return Pool(yes, no, price * yes / (price * yes + (1.0 - price) * no))


def fee(stake: float) -> float:
    """Return what the venue keeps of a stake."""
    return stake * TAKER_FEE
