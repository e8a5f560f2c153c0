"""Events about random walks, each with its true probability on every day and its outcome."""

import math
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.random_walks import STEP_DAYS, NormalLaw, RandomWalk, normal_cdf

if TYPE_CHECKING:
    import numpy as np

# Gauss-Hermite nodes for the winner of a field: the integrand is smooth, and the error below 1e-6.
_NODES = 96


def final_shock(chance: SeededRandom, name: str, deviation: float) -> float:
    """Return the shock on the last day: what polls, form and rumours could not predict."""
    return float(chance.stream("shock", name).standard_normal()) * deviation


def passage_probability(walk: RandomWalk, distance: float, days: float) -> float:
    """Return the probability that a Brownian walk rises by the distance within so many days."""
    if days <= 0.0:
        return 0.0
    spread = walk.sigma * math.sqrt(days)
    straight = normal_cdf((walk.drift * days - distance) / spread)
    mirrored = normal_cdf((-distance - walk.drift * days) / spread)
    # The factor may overflow only where the mirrored part is zero in floating point.
    weight = 2.0 * walk.drift * distance / walk.sigma**2
    return min(1.0, straight + (math.exp(weight) * mirrored if mirrored > 0.0 else 0.0))


@dataclass(frozen=True, kw_only=True)
class ThresholdEvent:
    """Whether a walk with a shock on the last day ends above a level."""

    walk: RandomWalk
    until: float
    level: float
    shock: float = 0.0

    def probability(self, day: float) -> float:
        """Return the probability on the day."""
        if day >= self.until:
            return float(self.happened)
        return self.walk.distribution(day, self.until).with_noise(self.shock).above(self.level)

    @cached_property
    def happened(self) -> bool:
        """The outcome."""
        return self.walk.at(self.until) + final_shock(self.walk.chance, self.walk.name, self.shock) > self.level


@dataclass(frozen=True, kw_only=True)
class PassageEvent:
    """Whether a Brownian walk reaches a level from below by a day, and when.

    Between two steps the walk reaches it with the probability of a Brownian bridge, exp(-2 a b / sigma^2 dt) for the
    distances a and b; so the law of the first passage in continuous time (Bachelier-Levy) is exact.
    """

    walk: RandomWalk
    until: float
    level: float

    def __post_init__(self) -> None:
        """Refuse a walk without such a law."""
        if self.walk.pull != 0.0 or self.walk.start >= self.level:
            message = f"{self.walk.name}: only a Brownian walk that starts below the level can reach it"
            raise ValueError(message)

    def probability(self, day: float) -> float:
        """Return the probability on the day."""
        return self.probability_by(day, self.until)

    def probability_by(self, day: float, until: float) -> float:
        """Return the probability, on the day, that the level is reached by the day ``until``."""
        if self.reached_on <= day or day >= until:
            return float(self.reached_on <= min(day, until))
        steps = self.walk.step(until) - self.walk.step(day)
        return passage_probability(self.walk, self.level - self.walk.at(day), steps * STEP_DAYS)

    @cached_property
    def reached_on(self) -> float:
        """The day of the first step by whose end the level was reached, infinity if it never is on the walk."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        gaps = self.level - self.walk.path
        before, after = gaps[:-1], gaps[1:]
        bridge = np.exp(-2.0 * np.maximum(before, 0.0) * np.maximum(after, 0.0) / (self.walk.sigma**2 * STEP_DAYS))
        draws = self.walk.chance.stream("bridge", self.walk.name).random(len(before))
        crossed = np.flatnonzero((after <= 0.0) | (draws < bridge))
        return float(crossed[0] + 1) * STEP_DAYS if crossed.size else math.inf

    @property
    def happened(self) -> bool:
        """The outcome by the last day."""
        return self.reached_on <= self.until


@dataclass(frozen=True, kw_only=True)
class IntervalEvent:
    """In which band between given limits a walk with a shock ends: one name more than limits, from below."""

    walk: RandomWalk
    until: float
    limits: Sequence[float]
    names: Sequence[str]
    shock: float = 0.0

    def probabilities(self, day: float) -> Mapping[str, float]:
        """Return the probability of each name on the day; they sum to one."""
        if day >= self.until:
            return {name: float(name == self.winner) for name in self.names}
        law = self.walk.distribution(day, self.until).with_noise(self.shock)
        tops = [1.0, *(law.above(limit) for limit in self.limits), 0.0]
        return {name: tops[i] - tops[i + 1] for i, name in enumerate(self.names)}

    @cached_property
    def winner(self) -> str:
        """The name of the band where it ended."""
        value = self.walk.at(self.until) + final_shock(self.walk.chance, self.walk.name, self.shock)
        return self.names[sum(value > limit for limit in self.limits)]


@dataclass(frozen=True, kw_only=True)
class ContestEvent:
    """Which of several walks, each with its own shock of the same deviation, is highest in the end."""

    walks: Mapping[str, RandomWalk]
    until: float
    shock: float

    def probabilities(self, day: float) -> Mapping[str, float]:
        """Return the probability of each name on the day; they sum to one within 1e-9."""
        if day >= self.until:
            return {name: float(name == self.winner) for name in self.walks}
        laws = [walk.distribution(day, self.until).with_noise(self.shock) for walk in self.walks.values()]
        return dict(zip(self.walks, _probabilities_of_highest(laws), strict=True))

    @cached_property
    def winner(self) -> str:
        """The name of the winner."""
        ends = {n: w.at(self.until) + final_shock(w.chance, w.name, self.shock) for n, w in self.walks.items()}
        return max(ends, key=lambda name: ends[name])


@dataclass(frozen=True, kw_only=True)
class ValueEvent:
    """The value of a walk on a day; ``geometric`` walks are those of a logarithm."""

    walk: RandomWalk
    until: float
    geometric: bool = False

    def distribution(self, day: float) -> NormalLaw:
        """Return the law of the value on the last day, of its logarithm where it is geometric."""
        return self.walk.distribution(day, self.until)

    def cdf(self, day: float, values: "np.ndarray") -> "np.ndarray":
        """Return the probability of at most each of the values; shape (n,) in and out. After the end it is a step."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without
        from scipy.special import ndtr

        law = self.distribution(day)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.where(values > 0.0, np.log(values), -np.inf) if self.geometric else values
        if law.deviation == 0.0:
            return np.asarray(seen >= law.mean, dtype=np.float64)
        return np.asarray(ndtr((seen - law.mean) / law.deviation))

    @property
    def final_value(self) -> float:
        """The value on the last day."""
        value = self.walk.at(self.until)
        return math.exp(value) if self.geometric else value


@cache
def _quadrature_nodes() -> "tuple[np.ndarray, np.ndarray]":
    """Return nodes and weights, which take far longer to compute than to use."""
    import numpy as np  # noqa: PLC0415 - commands that have no world do without

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights


def _probabilities_of_highest(laws: Sequence[NormalLaw]) -> list[float]:
    """Return for each of independent normal values the probability of being the highest."""
    import numpy as np  # noqa: PLC0415 - commands that have no world do without
    from scipy.special import ndtr

    nodes, weights = _quadrature_nodes()
    forecast_context = np.array([law.mean for law in laws])
    spreads = np.array([law.deviation for law in laws])
    # [who wins, at which node, against whom]
    points = forecast_context[:, None] + spreads[:, None] * nodes
    below = ndtr((points[:, :, None] - forecast_context) / spreads)
    below[np.arange(len(laws)), :, np.arange(len(laws))] = 1.0
    shares = below.prod(axis=2) @ (weights / weights.sum())
    return [float(share) for share in shares / shares.sum()]
