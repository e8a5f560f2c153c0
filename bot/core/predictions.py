"""Shapes of questions and the predictions that fit them: a probability, probabilities of options, or a CDF."""

import math
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from bot.core.light_dataclass import dataclass
from bot.core.values import require_share

PROBABILITY_SUM_TOLERANCE = 1e-6
# The rounding of sums, far below any difference that counts.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryShape:
    """Yes or no."""

    kind: Literal["binary"] = "binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceShape:
    """Exactly one of two or more named options."""

    options: tuple[str, ...]
    kind: Literal["choice"] = "choice"

    def __post_init__(self) -> None:
        """Refuse fewer than two options and duplicates."""
        if len(self.options) < 2 or len(set(self.options)) != len(self.options):
            message = f"a choice needs two or more different options, got {list(self.options)}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveShape:
    """A number or a date, with a CDF at the points of ``grid`` (strictly increasing, in ``unit``).

    The points are at equal steps of the scale of the question, which may be logarithmic. With an open bound there is
    probability beyond that end of the grid. Dates are seconds since 1970 with unit ``date``. If the question is
    ``discrete``, the possible outcomes within the grid are the middles of the steps.
    """

    grid: tuple[float, ...]
    unit: str = ""
    open_lower: bool = False
    open_upper: bool = False
    discrete: bool = False
    kind: Literal["curve"] = "curve"

    def __post_init__(self) -> None:
        """Refuse a grid that does not increase."""
        finite = all(math.isfinite(point) for point in self.grid)
        if len(self.grid) < 2 or not finite or any(b <= a for a, b in pairwise(self.grid)):
            message = "a grid needs two or more finite, strictly increasing points"
            raise ValueError(message)

    @property
    def value_range(self) -> tuple[float, float]:
        """The lowest and the highest value within the grid."""
        last = len(self.grid) - 1
        return (self.step_midpoint(1), self.step_midpoint(last)) if self.discrete else (self.grid[0], self.grid[last])

    @property
    def is_whole(self) -> bool:
        """Whether the possible outcomes are whole numbers, each exactly once."""
        low, high = self.value_range
        return self.discrete and low == round(low) and high - low == len(self.grid) - 2

    def step_midpoint(self, step: int) -> float:
        """Return the middle of a step, counted from 1, rounded to remove float noise."""
        return float(f"{(self.grid[step - 1] + self.grid[step]) / 2.0:.12g}")


QuestionShape = BinaryShape | ChoiceShape | CurveShape


@dataclass(frozen=True, slots=True)
class BinaryPrediction:
    """The probability of yes."""

    probability: float
    kind: Literal["binary"] = "binary"

    def __post_init__(self) -> None:
        """Check the range."""
        require_share("probability", self.probability)


@dataclass(frozen=True, slots=True)
class ChoicePrediction:
    """A probability for each option by name; they sum to 1."""

    probabilities: Mapping[str, float]
    kind: Literal["choice"] = "choice"

    def __post_init__(self) -> None:
        """Check ranges and sum, and freeze."""
        for option, probability in self.probabilities.items():
            require_share(f"probability of {option!r}", probability)
        total = math.fsum(self.probabilities.values())
        if abs(total - 1.0) > PROBABILITY_SUM_TOLERANCE:
            message = f"the probabilities of the options sum to {total}, not 1"
            raise ValueError(message)
        object.__setattr__(self, "probabilities", MappingProxyType(dict(self.probabilities)))


@dataclass(frozen=True, slots=True)
class CurvePrediction:
    """The probability of a value at or below each point of the question's grid (a CDF)."""

    cdf: tuple[float, ...]
    kind: Literal["curve"] = "curve"

    def __post_init__(self) -> None:
        """Check ranges and order."""
        for value in self.cdf:
            require_share("CDF value", value)
        if any(b < a for a, b in pairwise(self.cdf)):
            message = "a CDF never decreases"
            raise ValueError(message)


Prediction = BinaryPrediction | ChoicePrediction | CurvePrediction


def is_same_prediction(one: Prediction | None, other: Prediction | None) -> bool:
    """Return whether two predictions are equal but for rounding: the same trials may be added up in another order."""
    match one, other:
        case BinaryPrediction(probability=first), BinaryPrediction(probability=second):
            pairs = [(first, second)]
        case ChoicePrediction(probabilities=given), ChoicePrediction(probabilities=others) if (
            given.keys() == others.keys()
        ):
            pairs = [(given[option], others[option]) for option in given]
        case CurvePrediction(cdf=cdf), CurvePrediction(cdf=points) if len(cdf) == len(points):
            pairs = [*zip(cdf, points, strict=True)]
        case _:
            return False
    return all(abs(left - right) <= ROUNDING for left, right in pairs)


def prediction_mismatch(prediction: Prediction, shape: QuestionShape) -> str | None:
    """Return why the prediction does not answer a question of this shape; None if it does."""
    match prediction, shape:
        case BinaryPrediction(), BinaryShape():
            return None
        case ChoicePrediction(probabilities=given), ChoiceShape(options=options):
            return None if set(given) == set(options) else f"options {sorted(given)} are not {sorted(options)}"
        case CurvePrediction(cdf=cdf), CurveShape():
            return _curve_mismatch(cdf, shape)
        case _:
            return f"{prediction.kind} prediction does not answer a {shape.kind} question"


def _curve_mismatch(cdf: tuple[float, ...], shape: CurveShape) -> str | None:
    if len(cdf) != len(shape.grid):
        return f"CDF has {len(cdf)} points, the grid {len(shape.grid)}"
    if not shape.open_lower and cdf[0] > 0.0:
        return f"CDF starts at {cdf[0]} though the lower bound is closed"
    if not shape.open_upper and cdf[-1] < 1.0:
        return f"CDF ends at {cdf[-1]} though the upper bound is closed"
    return None
