"""The scale of a continuous question: from values to locations between 0 and 1 and back, and into buckets.

Source: docs/facts/metaculus.md#continuous: linear, or logarithmic if there is a zero point.
"""

import math
from dataclasses import dataclass

DEFAULT_STEPS = 200
_EDGE_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaculusScale:
    """``low`` and ``high`` are the ends of the range, dates as seconds since 1970; ``steps`` cut it.

    Raises ValueError for ends that are not finite and increasing, and a zero point that is not well below both.
    """

    low: float
    high: float
    steps: int
    zero_point: float | None = None

    def __post_init__(self) -> None:
        """Check ends, steps and zero point."""
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        zero_fits = self.zero_point is None or (self.zero_point < self.low and 1.0 < self._ratio < math.inf)
        if not finite or self.low >= self.high or self.steps < 1 or not zero_fits:
            message = f"no scale from {self.low} to {self.high} in {self.steps} steps with zero at {self.zero_point}"
            raise ValueError(message)

    def location(self, value: float) -> float:
        """Return the location of a value: 0 is the lower end of the range, 1 the upper; minus infinity beyond zero."""
        if self.zero_point is None:
            return (value - self.low) / (self.high - self.low)
        ratio = self._ratio
        inner = (value - self.low) * (ratio - 1.0) + (self.high - self.low)
        if inner <= 0.0:
            return -math.inf
        return (math.log(inner) - math.log(self.high - self.low)) / math.log(ratio)

    def value(self, location: float) -> float:
        """Return the value at a location; the inverse of ``location``."""
        if self.zero_point is None:
            return self.low + (self.high - self.low) * location
        ratio = self._ratio
        return float(self.low + (self.high - self.low) * (ratio**location - 1.0) / (ratio - 1.0))

    @property
    def _ratio(self) -> float:
        zero = self.zero_point or 0.0
        return (self.high - zero) / (self.low - zero)

    def grid(self) -> tuple[float, ...]:
        """Return the values at which the CDF is read, one more than there are steps."""
        return tuple(self.value(number / self.steps) for number in range(self.steps + 1))

    def bucket_index(self, value: float) -> int:
        """Return the bucket that scores a value: 0 below the range, 1 to ``steps`` inside, one more above.

        As on the server, rounding can put the upper end of a logarithmic scale above the range.
        """
        location = self.location(value)
        if location < 0.0:
            return 0
        if location > 1.0:
            return self.steps + 1
        return min(max(math.floor(location * self.steps + 1.0 - _EDGE_TOLERANCE), 1), self.steps)
