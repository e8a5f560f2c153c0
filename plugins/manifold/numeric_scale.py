"""Conversion between prices of the venue and numbers or dates.

Source: docs/facts/manifold.md#market-objects and #arithmetic;
``common/src/pseudo-numeric.ts`` and ``common/src/multi-numeric.ts``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bot.api import CurvePrediction


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldScale:
    """The scale of a pseudo-numeric market: a share of YES pays by where the number is from ``low`` to ``high``."""

    low: float
    high: float
    logarithmic: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for ends that are not an interval."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            message = f"a scale from {self.low} to {self.high} is not an interval"
            raise ValueError(message)

    def value(self, probability: float) -> float:
        """Return the number that a price means."""
        span = self.high - self.low
        if self.logarithmic:
            return float(10.0 ** (probability * math.log10(span + 1.0))) + self.low - 1.0
        return self.low + probability * span

    def probability(self, value: float) -> float:
        """Return what a share of YES pays at that number; numbers beyond the ends pay as the ends do."""
        share = min(max(value, self.low), self.high) - self.low
        span = self.high - self.low
        return math.log10(share + 1.0) / math.log10(span + 1.0) if self.logarithmic else share / span

    def expected_payout(self, grid: Sequence[float], curve: CurvePrediction) -> float:
        """Return what a share of YES is expected to pay under a CDF on a grid.

        Not the payment at the expected number: on a logarithmic scale those differ. Between two points of the grid the
        payment is taken as linear; values beyond the grid count at its end.
        """
        paid = [self.probability(point) for point in grid]
        cdf = curve.cdf
        inside = (
            (cdf[i + 1] - cdf[i]) * (paid[i] + paid[i + 1]) / 2.0  # the mass between two points, at their middle
            for i in range(len(cdf) - 1)
        )
        return math.fsum((cdf[0] * paid[0], *inside, (1.0 - cdf[-1]) * paid[-1]))
