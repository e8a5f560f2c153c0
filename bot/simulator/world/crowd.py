"""Crowd prices.

The true probability of some time ago, biased towards even odds, with a lasting bias and a changing mood.
"""

import math
from collections.abc import Mapping
from dataclasses import field

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.random_walks import RandomWalk

MIN_PROBABILITY = 0.004


@dataclass(frozen=True, kw_only=True)
class CrowdBias:
    """What a crowd is like: ``lag_days`` late, ``shrink`` of the true log-odds, deviations in log-odds."""

    lag_days: float = 1.5
    shrink: float = 0.8
    lasting_bias: float = 0.4
    mood: float = 0.45
    mood_days: float = 4.0


@dataclass(frozen=True, kw_only=True)
class SimulatedCrowd:
    """The crowd of one question."""

    key: str
    chance: SeededRandom
    days: float
    temper: CrowdBias = CrowdBias()
    _opinion_walks: dict[str, tuple[float, RandomWalk]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def price(self, believed: float, day: float, *, option: str = "") -> float:
        """Return the price on the day, for an event with the true probability ``believed`` at the crowd's last look."""
        if option not in self._opinion_walks:
            self._opinion_walks[option] = self._opinion_walk(f"{self.key}/{option}")
        prejudice, mood = self._opinion_walks[option]
        return from_log_odds(self.temper.shrink * log_odds(believed) + prejudice + mood.at(day))

    def prices(self, believed: Mapping[str, float], day: float) -> Mapping[str, float]:
        """Return the prices of options, which sum to one."""
        raw = {name: self.price(share, day, option=name) for name, share in believed.items()}
        whole = sum(raw.values())
        return {name: price / whole for name, price in raw.items()}

    def last_known_day(self, day: float, opened: float) -> float:
        """Return the day up to which the crowd is informed on the day."""
        return max(opened, day - self.temper.lag_days)

    def _opinion_walk(self, label: str) -> tuple[float, RandomWalk]:
        prejudice = float(self.chance.stream("prejudice", label).standard_normal()) * self.temper.lasting_bias
        pull = 1.0 / self.temper.mood_days
        sigma = self.temper.mood * math.sqrt(2.0 * pull)
        name = f"mood {label}"
        return prejudice, RandomWalk(name=name, chance=self.chance, days=self.days, start=0.0, sigma=sigma, pull=pull)


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability, kept away from the ends by FLOOR."""
    held = min(1.0 - MIN_PROBABILITY, max(MIN_PROBABILITY, probability))
    return math.log(held / (1.0 - held))


def from_log_odds(log_odds: float) -> float:
    """Return the probability of log-odds."""
    return 1.0 / (1.0 + math.exp(-log_odds))
