"""The community prediction, if the site shows it; on most questions it does not, and that is normal."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    CurvePrediction,
    CurveShape,
    MalformedDataError,
    Prediction,
    QuestionShape,
)
from plugins.metaculus.api_records import MetaculusAggregateRecord, MetaculusQuestionRecord, parse_record

# Float noise at closed bounds.
_BOUND_TOLERANCE = 1e-6


def community_forecast(question: MetaculusQuestionRecord, shape: QuestionShape) -> CrowdForecast | None:
    """Return the community prediction, None if it is hidden or invalid: a question never depends on it."""
    method = question.default_aggregation_method or "recency_weighted"
    latest = _nested_value(question.aggregations, method, "latest")
    if latest is None:
        return None
    try:
        aggregate = parse_record(MetaculusAggregateRecord, latest, f"question {question.id}, its aggregate")
        return CrowdForecast(
            prediction=_aggregate_prediction(aggregate, question, shape),
            at=datetime.fromtimestamp(aggregate.start_time, UTC),
            explanation=f"community prediction, {method}",
        )
    except (MalformedDataError, ValueError, ArithmeticError, LookupError, OSError):
        return None


def _nested_value(raw: object, *keys: str) -> object:
    for key in keys:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def _aggregate_prediction(
    aggregate: MetaculusAggregateRecord, question: MetaculusQuestionRecord, shape: QuestionShape
) -> Prediction:
    match shape:
        case BinaryShape():
            (center,) = aggregate.centers or ()
            return BinaryPrediction(_require_number(center))
        case ChoiceShape(options=options):
            named = values_by_option(aggregate.centers or (), question.all_options_ever or options)
            total = math.fsum(named[option] for option in options if option in named)
            return ChoicePrediction({option: named.get(option, 0.0) / total for option in options})
        case CurveShape():
            return _aggregate_curve(aggregate.forecast_values or (), shape)


def values_by_option(values: Sequence[float | None], ever: Sequence[str]) -> dict[str, float]:
    """Return values by the name of their option: they are in the order of all options that ever existed.

    Inactive options are null and are left out. Raises ValueError if the lengths differ.
    """
    return {option: value for option, value in zip(ever, values, strict=True) if value is not None}


def _aggregate_curve(values: Sequence[float | None], shape: CurveShape) -> CurvePrediction:
    cdf = [_require_number(value) for value in values]
    if not shape.open_lower and abs(cdf[0]) < _BOUND_TOLERANCE:
        cdf[0] = 0.0
    if not shape.open_upper and abs(cdf[-1] - 1.0) < _BOUND_TOLERANCE:
        cdf[-1] = 1.0
    curve = CurvePrediction(tuple(cdf))
    if len(cdf) != len(shape.grid):
        message = f"{len(cdf)} values on a grid of {len(shape.grid)}"
        raise ValueError(message)
    return curve


def _require_number(value: float | None) -> float:
    if value is None:
        message = "no value"
        raise ValueError(message)
    return value
