"""Gaussian random walks in continuous time on a grid of quarter-days, with their exact conditional distributions."""

import math
from dataclasses import field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEPS_PER_DAY = 4
STEP_DAYS = 1.0 / STEPS_PER_DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalLaw:
    """A normal law; a deviation of 0 is a certainty."""

    mean: float
    deviation: float

    def above(self, level: float) -> float:
        """Return the probability of more than the level."""
        if self.deviation <= 0.0:
            return float(self.mean > level)
        return normal_cdf((self.mean - level) / self.deviation)

    def with_noise(self, shock: float) -> "NormalLaw":
        """Return the law of the same value with independent noise of that deviation added."""
        return NormalLaw(mean=self.mean, deviation=math.hypot(self.deviation, shock))


@dataclass(frozen=True, kw_only=True)
class RandomWalk:
    """One walk over ``days``; the same randomness and name make the same path, in any order of use.

    ``sigma`` is per square root of a day, ``pull`` and ``drift`` per day.
    """

    name: str
    chance: SeededRandom = field(repr=False)
    days: float
    start: float
    sigma: float
    drift: float = 0.0
    pull: float = 0.0

    def __post_init__(self) -> None:
        """Refuse invalid parameters."""
        if not (self.days > 0.0 and self.sigma > 0.0 and self.pull >= 0.0):
            message = f"{self.name}: a walk needs days and sigma above 0, and a pull of at least 0"
            raise ValueError(message)

    @cached_property
    def path(self) -> "NDArray[np.float64]":
        """The values at 0, 1/4, 2/4 ... days up to the end; shape (steps + 1,)."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        steps = math.ceil(self.days * STEPS_PER_DAY)
        noise = self.chance.stream("walk", self.name).standard_normal(steps)
        one = self.distribution_after(0.0, STEP_DAYS)
        shifts = one.mean + one.deviation * noise
        if self.pull == 0.0:
            return np.concatenate(([self.start], self.start + np.cumsum(shifts)))
        kept = math.exp(-self.pull * STEP_DAYS)
        return np.array([*accumulate(shifts.tolist(), lambda value, shift: shift + kept * value, initial=self.start)])

    def at(self, day: float) -> float:
        """Return the value that is known on the day: that of the last step, the last one after the end."""
        return float(self.path[min(self.step(day), len(self.path) - 1)])

    def step(self, day: float) -> int:
        """Return the number of steps that are over on the day; raises ValueError before the beginning."""
        if day < 0.0:
            message = f"{self.name}: day {day} is before the world began"
            raise ValueError(message)
        return math.floor(day * STEPS_PER_DAY + 1e-9)

    def distribution_after(self, value: float, days: float) -> NormalLaw:
        """Return the law of the value so many days after it was ``value``."""
        if self.pull == 0.0:
            return NormalLaw(mean=value + self.drift * days, deviation=self.sigma * math.sqrt(days))
        kept, centre = math.exp(-self.pull * days), self.drift / self.pull
        spread = self.sigma * math.sqrt(-math.expm1(-2.0 * self.pull * days) / (2.0 * self.pull))
        return NormalLaw(mean=centre + (value - centre) * kept, deviation=spread)

    def distribution(self, day: float, until: float) -> NormalLaw:
        """Return the law of the value on the day ``until``, from all that is known on ``day``; exact afterwards."""
        steps = self.step(until) - self.step(min(day, until))
        return self.distribution_after(self.at(min(day, until)), steps * STEP_DAYS)


def normal_cdf(x: float) -> float:
    """Return the distribution function of the standard normal law."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
