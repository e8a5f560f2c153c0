"""What a simulated forecaster expects of a measured value: it drifts, is drawn back, or only wanders, as it did."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from statistics import NormalDist, fmean

# Below this (a t statistic) a value is taken to be drawn back. Source: Dickey and Fuller 1979, 5 % without trend.
DRAWN_BACK = -2.86
_STANDARD = NormalDist()
_OR_LESS = re.compile(r"^(-?[\d,.]+) or (?:less|lower|below)$")
_BETWEEN = re.compile(r"^(-?[\d,.]+) to (-?[\d,.]+)$")
_MORE = re.compile(r"^(?:more than|above) (-?[\d,.]+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The last value with its day, and how it moves: ``step`` is the deviation and ``drift`` the shift of a day.

    With a ``pull`` above 0 a value is drawn to ``centre`` by that share of the distance each day.
    """

    day: date
    value: float
    step: float
    drift: float = 0.0
    pull: float = 0.0
    centre: float = 0.0

    def law(self, until: date) -> NormalDist:
        """Return the law of the value on a day."""
        days = max(0.25, float((until - self.day).days))
        if self.pull <= 0.0:
            return NormalDist(self.value + self.drift * days, self.step * math.sqrt(days))
        kept = math.exp(-self.pull * days)
        spread = self.step * math.sqrt(-math.expm1(-2.0 * self.pull * days) / (2.0 * self.pull))
        return NormalDist(self.centre + (self.value - self.centre) * kept, spread)

    def above(self, level: float, until: date) -> float:
        """Return the probability of more than a level on a day."""
        return 1.0 - self.law(until).cdf(level)

    def reached(self, level: float, days: float) -> float:
        """Return the probability that a level is reached from below within so many days (Bachelier-Levy)."""
        distance = level - self.value
        if distance <= 0.0:
            return 1.0
        if days <= 0.0:
            return 0.0
        spread = self.step * math.sqrt(days)
        mirrored = _STANDARD.cdf((-distance - self.drift * days) / spread)
        weight = min(700.0, 2.0 * self.drift * distance / self.step**2)
        return min(1.0, _STANDARD.cdf((self.drift * days - distance) / spread) + math.exp(weight) * mirrored)

    def days_to(self, level: float, probability: float, most: float) -> float:
        """Return after how many days a level is reached with a probability, ``most`` where that takes longer."""
        if self.reached(level, most) <= probability:
            return most
        low, high = 0.0, most
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.reached(level, middle) > probability else (middle, high)
        return high

    def band(self, option: str, until: date) -> float | None:
        """Return the probability of an option that is a range of values; None for one that is none."""
        law = self.law(until)
        if found := _OR_LESS.match(option):
            return law.cdf(_number(found[1]))
        if found := _MORE.match(option):
            return 1.0 - law.cdf(_number(found[1]))
        if found := _BETWEEN.match(option):
            return law.cdf(_number(found[2])) - law.cdf(_number(found[1]))
        return None


def outlook_of(rows: Sequence[tuple[date, float]]) -> Outlook | None:
    """Return what a series lets expect; None where it is too short, or never moves."""
    moves = [
        (float((after[0] - before[0]).days), before[1], after[1] - before[1])
        for before, after in pairwise(rows)
        if after[0] > before[0]
    ]
    if len(moves) < 2:
        return None
    day, value = rows[-1]
    step = math.sqrt(fmean(move**2 / days for days, _, move in moves))
    if not (math.isfinite(step) and step > 0.0):
        return None
    if (drawn := _drawn(moves)) is not None:
        pull, centre, noise = drawn
        return Outlook(day=day, value=value, step=noise, pull=pull, centre=centre)
    span = math.fsum(days for days, _, _ in moves)
    drift, doubt = (value - rows[0][1]) / span, step / math.sqrt(span)
    return Outlook(day=day, value=value, step=step, drift=drift * drift**2 / (drift**2 + doubt**2))


def _drawn(moves: Sequence[tuple[float, float, float]]) -> tuple[float, float, float] | None:
    """Return pull, centre and noise of a day where daily moves go against the distance to a centre, else None."""
    daily = [(at, move) for days, at, move in moves if days == 1.0]
    if len(daily) < 40:
        return None
    mean_at, mean_move = fmean(at for at, _ in daily), fmean(move for _, move in daily)
    spread = math.fsum((at - mean_at) ** 2 for at, _ in daily)
    if spread <= 0.0:
        return None
    slope = math.fsum((at - mean_at) * (move - mean_move) for at, move in daily) / spread
    rest = math.fsum((move - mean_move - slope * (at - mean_at)) ** 2 for at, move in daily) / (len(daily) - 2)
    if rest <= 0.0 or slope / math.sqrt(rest / spread) > DRAWN_BACK or slope <= -1.0:
        return None
    return -math.log1p(slope), mean_at - mean_move / slope, math.sqrt(rest)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
