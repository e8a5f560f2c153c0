"""CDFs as the server takes them: its rules, and the nearest CDF that keeps them.

Source: venue document, section 5. With N steps each step is at least 0.01 / N and at most 40 / N; a closed bound has
exactly 0 or 1, an open one leaves at least 0.001 beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_MASS = 0.01
MOST_MASS = 40.0
LEAST_TAIL = 0.001
# Values are rounded to so many digits there, steps to one less.
DIGITS = 10
_STEP = 10.0 ** (DIGITS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a CDF of ``steps`` steps must keep to; bounds that are not open are closed."""

    steps: int
    open_lower: bool
    open_upper: bool

    @property
    def least(self) -> float:
        """The least step, rounded up to the digits in which steps are compared."""
        return math.ceil(LEAST_MASS / self.steps * _STEP - 1e-6) / _STEP

    @property
    def most(self) -> float:
        """The greatest step, rounded down likewise."""
        return math.floor(min(MOST_MASS / self.steps, 1.0) * _STEP + 1e-6) / _STEP

    @property
    def start(self) -> tuple[float, float]:
        """Between what the first value must lie."""
        return (LEAST_TAIL, 1.0) if self.open_lower else (0.0, 0.0)

    @property
    def end(self) -> tuple[float, float]:
        """Between what the last value must lie."""
        return (0.0, 1.0 - LEAST_TAIL) if self.open_upper else (1.0, 1.0)

    def violations(self, cdf: Sequence[float]) -> list[str]:
        """Say what the server would refuse of a CDF, all of it; nothing for one that it takes."""
        if len(cdf) != self.steps + 1:
            return [f"{len(cdf)} values, not {self.steps + 1}"]
        if not all(math.isfinite(value) for value in cdf):
            return ["values that are no numbers"]
        rounded = [round(value, DIGITS) for value in cdf]
        found = []
        rises = [round(after - before, DIGITS - 1) for before, after in pairwise(rounded)]
        if min(rises) < round(LEAST_MASS / self.steps, DIGITS - 1):
            found.append(f"a step of {min(rises):g}, less than {LEAST_MASS / self.steps:g}")
        if max(rises) > round(MOST_MASS / self.steps, DIGITS - 1):
            found.append(f"a step of {max(rises):g}, more than {MOST_MASS / self.steps:g}")
        for name, value, (low, high) in (("start", rounded[0], self.start), ("end", rounded[-1], self.end)):
            if not low <= value <= high:
                found.append(f"the {name} {value:g} is outside [{low:g}, {high:g}]")
        return found

    def nearest(self, cdf: Sequence[float]) -> tuple[float, ...]:
        """Return the CDF that keeps the rules and differs least from the given one, in the sum of squares.

        So a mass that a step cannot hold goes to its neighbours, not everywhere. Raises ValueError for another number
        of values, or values that are not in [0, 1].
        """
        if len(cdf) != self.steps + 1 or not all(0.0 <= value <= 1.0 for value in cdf):
            message = f"a CDF of {self.steps + 1} values in [0, 1] is wanted, got {len(cdf)}"
            raise ValueError(message)
        values = [round(value, DIGITS) for value in _nearest(cdf, self)]
        return tuple(min(max(value, 0.0), 1.0) for value in values)


def _nearest(cdf: Sequence[float], rules: Rules) -> list[float]:
    """Minimise the sum of squares under bounds on steps and ends, exactly, by dynamic programming.

    ``cost`` is the derivative of the least cost of everything up to a point, as a function of the value there: it is
    piecewise linear and never falls, so it is kept as its knots. Going on by one point lets the value rise by a step
    of any allowed size: what lies left of the cheapest value moves by the least step, what lies right by the greatest.
    """
    low, high = rules.start
    cost = [(low, 2.0 * (low - cdf[0])), (high, 2.0 * (high - cdf[0]))]
    cheapest = [_root(cost)]
    for wanted in cdf[1:]:
        best = cheapest[-1]
        left = [(value + rules.least, slope) for value, slope in cost if slope < 0.0]
        right = [(value + rules.most, slope) for value, slope in cost if slope > 0.0]
        flat = [(best + rules.least, 0.0), (best + rules.most, 0.0)]
        cost = [(value, slope + 2.0 * (value - wanted)) for value, slope in (*left, *flat, *right)]
        cheapest.append(_root(cost))
    low, high = rules.end
    found = [min(max(cheapest[-1], low), high)]
    for best in reversed(cheapest[:-1]):
        found.append(min(max(best, found[-1] - rules.most), found[-1] - rules.least))
    return found[::-1]


def _root(cost: Sequence[tuple[float, float]]) -> float:
    """Return where the derivative crosses zero, or the end of its domain towards which the cost falls."""
    if cost[0][1] >= 0.0:
        return cost[0][0]
    for (before, below), (after, above) in pairwise(cost):
        if above >= 0.0:
            return before if above == below else before + (after - before) * (-below / (above - below))
    return cost[-1][0]
