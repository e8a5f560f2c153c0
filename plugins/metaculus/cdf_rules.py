"""CDFs that the server accepts: its rules, and the nearest CDF that satisfies them.

Source: docs/facts/metaculus.md#continuous.
With N steps each step is at least 0.01 / N and at most 40 / N; a closed bound has
exactly 0 or 1, an open one leaves at least 0.001 beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MIN_MASS = 0.01
MAX_MASS = 40.0
MIN_TAIL = 0.001
# The server rounds values to this many digits, steps to one less.
CDF_DIGITS = 10
_STEP_SCALE = 10.0 ** (CDF_DIGITS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CdfRules:
    """The rules for a CDF of ``steps`` steps; bounds that are not open are closed."""

    steps: int
    open_lower: bool
    open_upper: bool

    @property
    def min_step(self) -> float:
        """The least step, rounded up to the digits in which steps are compared."""
        return math.ceil(MIN_MASS / self.steps * _STEP_SCALE - 1e-6) / _STEP_SCALE

    @property
    def max_step(self) -> float:
        """The greatest step, rounded down in the same way."""
        return math.floor(min(MAX_MASS / self.steps, 1.0) * _STEP_SCALE + 1e-6) / _STEP_SCALE

    @property
    def start_bounds(self) -> tuple[float, float]:
        """The range of the first value."""
        return (MIN_TAIL, 1.0) if self.open_lower else (0.0, 0.0)

    @property
    def end_bounds(self) -> tuple[float, float]:
        """The range of the last value."""
        return (0.0, 1.0 - MIN_TAIL) if self.open_upper else (1.0, 1.0)

    def violations(self, cdf: Sequence[float]) -> list[str]:
        """Return everything that the server would refuse about a CDF; empty if it accepts it."""
        if len(cdf) != self.steps + 1:
            return [f"{len(cdf)} values, not {self.steps + 1}"]
        if not all(math.isfinite(value) for value in cdf):
            return ["values that are not finite numbers"]
        rounded = [round(value, CDF_DIGITS) for value in cdf]
        found = []
        steps = [round(after - before, CDF_DIGITS - 1) for before, after in pairwise(rounded)]
        if min(steps) < round(MIN_MASS / self.steps, CDF_DIGITS - 1):
            found.append(f"a step of {min(steps):g}, less than {MIN_MASS / self.steps:g}")
        if max(steps) > round(MAX_MASS / self.steps, CDF_DIGITS - 1):
            found.append(f"a step of {max(steps):g}, more than {MAX_MASS / self.steps:g}")
        for name, value, (low, high) in (
            ("start", rounded[0], self.start_bounds),
            ("end", rounded[-1], self.end_bounds),
        ):
            if not low <= value <= high:
                found.append(f"the {name} {value:g} is outside [{low:g}, {high:g}]")
        return found

    def nearest_valid(self, cdf: Sequence[float]) -> tuple[float, ...]:
        """Return the CDF that satisfies the rules and differs least from the given one, in the sum of squares.

        So mass that a step cannot hold moves to its neighbours only. Raises ValueError for a wrong number of values, or
        values that are not in [0, 1].
        """
        if len(cdf) != self.steps + 1 or not all(0.0 <= value <= 1.0 for value in cdf):
            message = f"a CDF of {self.steps + 1} values in [0, 1] is required, got {len(cdf)}"
            raise ValueError(message)
        values = [round(value, CDF_DIGITS) for value in _nearest_cdf(cdf, self)]
        return tuple(min(max(value, 0.0), 1.0) for value in values)


def _nearest_cdf(cdf: Sequence[float], rules: CdfRules) -> list[float]:
    """Minimise the sum of squares under bounds on steps and ends, exactly, by dynamic programming.

    ``cost`` is the derivative of the least cost of everything up to a point, as a function of the value there: it is
    piecewise linear and never falls, so it is stored as its knots. From one point to the next the value may rise by a
    step of any allowed size: the part left of the cheapest value moves by the least step, the part right by the
    greatest.
    """
    low, high = rules.start_bounds
    cost = [(low, 2.0 * (low - cdf[0])), (high, 2.0 * (high - cdf[0]))]
    cheapest = [_find_cheapest(cost)]
    for target in cdf[1:]:
        best = cheapest[-1]
        left = [(value + rules.min_step, slope) for value, slope in cost if slope < 0.0]
        right = [(value + rules.max_step, slope) for value, slope in cost if slope > 0.0]
        flat = [(best + rules.min_step, 0.0), (best + rules.max_step, 0.0)]
        cost = [(value, slope + 2.0 * (value - target)) for value, slope in (*left, *flat, *right)]
        cheapest.append(_find_cheapest(cost))
    low, high = rules.end_bounds
    found = [min(max(cheapest[-1], low), high)]
    for best in reversed(cheapest[:-1]):
        found.append(min(max(best, found[-1] - rules.max_step), found[-1] - rules.min_step))
    return found[::-1]


def _find_cheapest(cost: Sequence[tuple[float, float]]) -> float:
    """Return where the derivative crosses zero, or the end of its domain towards which the cost falls."""
    if cost[0][1] >= 0.0:
        return cost[0][0]
    for (before, below), (after, above) in pairwise(cost):
        if above >= 0.0:
            return before if above == below else before + (after - before) * (-below / (above - below))
    return cost[-1][0]
