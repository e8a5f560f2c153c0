"""The pool of a market: what shares cost, and how that moves the price. Only arithmetic: no orders, no network.

A pool holds shares of both sides; its price is the probability of YES. Amounts are mana.
Source: docs/facts/manifold.md#arithmetic; ``common/src/calculate-cpmm.ts`` of the venue.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from bot.api import ContractSide

# The share of a stake that the venue keeps. It changed before: edit it here only.
TAKER_FEE = 0.0
MIN_PRICE, MAX_PRICE = 0.01, 0.99
MIN_POOL_SHARES = 0.01
MIN_STAKE = 1.0

_MAX_STEPS = 200
_PRECISION = 1e-14


def find_root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that never rises falls through 0 between two points; the nearer end if it does not.

    It may jump, and be infinite at a point. Regula falsi by the Illinois rule, every third step a bisection.
    """
    if low >= high or (above := excess(low)) <= 0.0:
        return low
    if (below := excess(high)) >= 0.0:
        return high
    last = 0
    for step in range(_MAX_STEPS):
        if high - low <= _PRECISION * max(abs(low), abs(high)):
            break
        middle = _next_guess(low, above, high, below) if step % 3 else (low + high) / 2.0
        value = excess(middle)
        if value == 0.0:
            return middle
        if value > 0.0:
            low, above, below, last = middle, value, below / 2.0 if last > 0 else below, 1
        else:
            high, below, above, last = middle, value, above / 2.0 if last < 0 else above, -1
    return low


def _next_guess(low: float, above: float, high: float, below: float) -> float:
    if not (math.isfinite(above) and math.isfinite(below)):
        return (low + high) / 2.0
    guess = high - below * (high - low) / (below - above)
    return guess if low < guess < high else (low + high) / 2.0


@dataclass(frozen=True, slots=True)
class CpmmPool:
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
        """The invariant of all trades."""
        return float(self.yes**self.p * self.no ** (1.0 - self.p))

    @property
    def is_drained(self) -> bool:
        """Whether a side is so thin that the venue refuses the trade that made it so."""
        return min(self.yes, self.no) < MIN_POOL_SHARES

    def buy(self, leg: ContractSide, stake: float) -> tuple["CpmmPool", float]:
        """Return the pool after the stake was spent on that side, and the shares it bought.

        Raises ValueError where the stake is so large that a side is left with nothing.
        """
        left, shares = self._after_purchase(leg, stake)
        if leg is ContractSide.YES:
            return CpmmPool(left, self.no + stake, self.p), shares
        return CpmmPool(self.yes + stake, left, self.p), shares

    def _after_purchase(self, leg: ContractSide, stake: float) -> tuple[float, float]:
        """Return the rest of the side that is bought, and the shares: the stake, as pairs, plus the difference.

        By logarithms, so that neither a small stake nor a drained side is lost in rounding.
        """
        if leg is ContractSide.YES:
            own, power = self.yes, -(1.0 - self.p) / self.p * math.log1p(stake / self.no)
        else:
            own, power = self.no, -self.p / (1.0 - self.p) * math.log1p(stake / self.yes)
        return own * math.exp(power), stake - own * math.expm1(power)

    def stake_to_price(self, leg: ContractSide, probability: float) -> float:
        """Return the stake that moves the price to that probability of YES; 0 or less if it is there or past it.

        Infinite for 0 and 1.
        """
        if not 0.0 < probability < 1.0:
            return math.inf
        ratio = self.p * (1.0 - probability) / ((1.0 - self.p) * probability)
        no = self.constant * float(ratio**-self.p)
        return no - self.no if leg is ContractSide.YES else ratio * no - self.yes

    def stake_for_shares(self, leg: ContractSide, shares: float) -> float:
        """Return the cost of a number of shares of that side."""
        if shares <= 0.0:
            return 0.0
        if self.p == 0.5:
            own, other = (self.yes, self.no) if leg is ContractSide.YES else (self.no, self.yes)
            rest = own + other - shares
            root = math.sqrt(4.0 * other * shares + rest**2)
            # Two forms of the same number; each avoids subtracting nearly equal values.
            return 2.0 * shares * other / (root + rest) if rest > 0.0 else (root - rest) / 2.0
        return find_root(lambda stake: shares - self._after_purchase(leg, stake)[1], 0.0, shares)

    def with_liquidity(self, amount: float) -> "CpmmPool":
        """Return the pool after liquidity was added: the price stays, and p moves towards it."""
        yes, no, price = self.yes + amount, self.no + amount, self.probability
        return CpmmPool(yes, no, price * yes / (price * yes + (1.0 - price) * no))


def taker_fee(stake: float) -> float:
    """Return the fee of a stake."""
    return stake * TAKER_FEE


def fee_per_share(price: Decimal) -> Decimal:
    """Return the fee of a share at a price: that of a stake of its price."""
    return Decimal(repr(taker_fee(float(price))))
