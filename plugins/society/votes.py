"""How the votes of a jury become numbers: mean, median, logit mean and spread, all of them kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from bot.api import (
    Binary,
    Choice,
    Curve,
    CurveShape,
    Json,
    Pool,
    Prediction,
    Predictions,
    Question,
    distance,
    pooled,
    quantiles_of,
)

_LEVELS = (5, 25, 50, 75, 95)


class Aggregate(StrEnum):
    """What becomes the forecast. Source: Li et al. (2024), 3.4: the mean did better than the judge's median."""

    MEAN = "mean"
    MEDIAN = "median"
    LOGIT_MEAN = "logit_mean"
    JUDGE = "judge"


_POOLS = {Aggregate.MEAN: Pool.MEAN, Aggregate.MEDIAN: Pool.MEDIAN, Aggregate.LOGIT_MEAN: Pool.LOGIT_MEAN}


def pool(question: Question, votes: Sequence[Predictions], how: Aggregate) -> Predictions:
    """Return one prediction per target, by the engine's own rules for several answers; needs at least one vote.

    Options are pooled by the mean of their shares, the median of them, or the log pool; a curve point by point, by the
    median or (both others) the mean of the CDFs.
    """
    return pooled(question, votes, _POOLS.get(how, Pool.MEAN))


def spread(votes: Sequence[Predictions], target: str, middle: Predictions) -> float:
    """Return the root mean square distance of the votes on one target to their mean.

    Of probabilities that is their standard deviation (population); of options and curves the distance is the largest
    difference in the probability of any option, or of any threshold.
    """
    gaps = [distance({target: vote[target]}, {target: middle[target]}) for vote in votes]
    return math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))


def tally(question: Question, votes: Mapping[str, Predictions], judge: Predictions | None) -> dict[str, Json]:
    """Return all numbers of a vote as JSON for the record: by juror, pooled each way, the spread, the judge's own."""
    told: dict[str, Json] = {"votes": {name: plain(question, vote) for name, vote in votes.items()}}
    if votes:
        given = [*votes.values()]
        for how in _POOLS:
            told[how.value] = plain(question, pool(question, given, how))
        middle = pool(question, given, Aggregate.MEAN)
        told["spread"] = {target.key: round(spread(given, target.key, middle), 6) for target in question.targets}
    if judge is not None:
        told["judge"] = plain(question, judge)
    return told


def plain(question: Question, predictions: Predictions) -> dict[str, Json]:
    """Return predictions by target as JSON: a probability, one by option, or values at some percentages."""
    return {target.key: _plain(question, predictions[target.key]) for target in question.targets}


def _plain(question: Question, prediction: Prediction) -> Json:
    match prediction, question.shape:
        case Binary(probability=probability), _:
            return round(probability, 6)
        case Choice(probabilities=probabilities), _:
            return {option: round(share, 6) for option, share in probabilities.items()}
        case Curve(), CurveShape() as shape:
            values = quantiles_of(prediction, shape, [level / 100 for level in _LEVELS])
            return {f"p{level}": _value(value, shape) for level, value in zip(_LEVELS, values.values(), strict=True)}
        case _:
            return None


def _value(value: float, shape: CurveShape) -> Json:
    """Return a value in its unit: a date as one writes it, a number with nine digits."""
    if shape.is_whole:
        return round(value)
    return datetime.fromtimestamp(value, UTC).date().isoformat() if shape.unit == "date" else float(f"{value:.9g}")
