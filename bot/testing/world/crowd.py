"""What crowds pay: good, and beatable. They hear of things late, shy away from the ends, and have moods.

A price is the true probability of a while ago, in log-odds, pulled towards even (the favourite-longshot bias that
real markets show), plus a lasting prejudice, plus a mood that comes and goes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.clock import SeededRandom
from bot.testing.world.walks import Walk

FLOOR = 0.004


@dataclass(frozen=True, kw_only=True)
class Temper:
    """What a crowd is like: ``lag_days`` late, ``shrink`` of the true log-odds, deviations in log-odds."""

    lag_days: float = 1.5
    shrink: float = 0.8
    prejudice: float = 0.4
    mood: float = 0.45
    mood_days: float = 4.0


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """The crowd of one question."""

    key: str
    chance: SeededRandom
    days: float
    temper: Temper = Temper()
    _minds: dict[str, tuple[float, Walk]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def price(self, believed: float, day: float, *, option: str = "") -> float:
        """Return the price of what had the true probability ``believed`` when the crowd last looked, on the day."""
        if option not in self._minds:
            self._minds[option] = self._mind(f"{self.key}/{option}")
        prejudice, mood = self._minds[option]
        return expit(self.temper.shrink * logit(believed) + prejudice + mood.at(day))

    def prices(self, believed: Mapping[str, float], day: float) -> Mapping[str, float]:
        """Return the prices of options, which sum to one."""
        raw = {name: self.price(share, day, option=name) for name, share in believed.items()}
        whole = sum(raw.values())
        return {name: price / whole for name, price in raw.items()}

    def looked(self, day: float, opened: float) -> float:
        """Return the day that the crowd knows of on the day."""
        return max(opened, day - self.temper.lag_days)

    def _mind(self, label: str) -> tuple[float, Walk]:
        prejudice = float(self.chance.stream("prejudice", label).standard_normal()) * self.temper.prejudice
        pull = 1.0 / self.temper.mood_days
        sigma = self.temper.mood * math.sqrt(2.0 * pull)
        name = f"mood {label}"
        return prejudice, Walk(name=name, chance=self.chance, days=self.days, start=0.0, sigma=sigma, pull=pull)


def logit(probability: float) -> float:
    """Return the log-odds of a probability, held away from the ends by FLOOR."""
    held = min(1.0 - FLOOR, max(FLOOR, probability))
    return math.log(held / (1.0 - held))


def expit(log_odds: float) -> float:
    """Return the probability of log-odds."""
    return 1.0 / (1.0 + math.exp(-log_odds))
