"""How the votes of a jury become numbers: mean, median, logit mean and spread, all of them kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    CurvePrediction,
    CurveShape,
    Json,
    PoolingMethod,
    Prediction,
    Question,
    TargetPredictions,
    curve_quantiles,
    pool_predictions,
    prediction_distance,
)

_QUANTILE_LEVELS = (5, 25, 50, 75, 95)


class VoteAggregate(StrEnum):
    """The aggregate that becomes the forecast. Source: Li et al. (2024), 3.4: the mean beat the judge's median."""

    MEAN = "mean"
    MEDIAN = "median"
    LOGIT_MEAN = "logit_mean"
    JUDGE = "judge"


_POOLING_METHODS = {
    VoteAggregate.MEAN: PoolingMethod.MEAN,
    VoteAggregate.MEDIAN: PoolingMethod.MEDIAN,
    VoteAggregate.LOGIT_MEAN: PoolingMethod.LOGIT_MEAN,
}


def pool_votes(question: Question, votes: Sequence[TargetPredictions], how: VoteAggregate) -> TargetPredictions:
    """Return one prediction per target, by the engine's own rules for several answers; needs at least one vote.

    Options are pooled by the mean of their shares, their median, or the log pool; a curve point by point, by the
    median or (both others) the mean of the CDFs.
    """
    return pool_predictions(question, votes, _POOLING_METHODS.get(how, PoolingMethod.MEAN))


def vote_spread(votes: Sequence[TargetPredictions], target: str, middle: TargetPredictions) -> float:
    """Return the root mean square distance of the votes on one target to their mean.

    For probabilities that is their standard deviation (population); for options and curves the distance is the largest
    difference in the probability of any option, or of any threshold.
    """
    gaps = [prediction_distance({target: vote[target]}, {target: middle[target]}) for vote in votes]
    return math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))


def tally_votes(
    question: Question, votes: Mapping[str, TargetPredictions], judge: TargetPredictions | None
) -> dict[str, Json]:
    """Return all numbers of a vote as JSON for the record: by juror, pooled each way, the spread, the judge's own."""
    numbers: dict[str, Json] = {"votes": {name: encode_predictions(question, vote) for name, vote in votes.items()}}
    if votes:
        given = [*votes.values()]
        for how in _POOLING_METHODS:
            numbers[how.value] = encode_predictions(question, pool_votes(question, given, how))
        middle = pool_votes(question, given, VoteAggregate.MEAN)
        numbers["spread"] = {
            target.key: round(vote_spread(given, target.key, middle), 6) for target in question.targets
        }
    if judge is not None:
        numbers["judge"] = encode_predictions(question, judge)
    return numbers


def encode_predictions(question: Question, predictions: TargetPredictions) -> dict[str, Json]:
    """Return predictions by target as JSON: a probability, one by option, or values at some percentages."""
    return {target.key: _encode_prediction(question, predictions[target.key]) for target in question.targets}


def _encode_prediction(question: Question, prediction: Prediction) -> Json:
    match prediction, question.shape:
        case BinaryPrediction(probability=probability), _:
            return round(probability, 6)
        case ChoicePrediction(probabilities=probabilities), _:
            return {option: round(share, 6) for option, share in probabilities.items()}
        case CurvePrediction(), CurveShape() as shape:
            values = curve_quantiles(prediction, shape, [level / 100 for level in _QUANTILE_LEVELS])
            return {
                f"p{level}": encode_value(value, shape)
                for level, value in zip(_QUANTILE_LEVELS, values.values(), strict=True)
            }
        case _:
            return None


def encode_value(value: float, shape: CurveShape) -> Json:
    """Return a value in its unit: a date in ISO form, a number with nine digits."""
    if shape.is_whole:
        return round(value)
    return datetime.fromtimestamp(value, UTC).date().isoformat() if shape.unit == "date" else float(f"{value:.9g}")
