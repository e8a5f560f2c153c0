"""What all forecasters together say, where the site shows it; on most questions it does not, and that is normal."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bot.api import Binary, BinaryShape, Choice, ChoiceShape, ContractError, Crowd, Curve, CurveShape, Prediction, Shape
from plugins.metaculus.raw import RawAggregate, RawQuestion, parsed

# Float noise at closed bounds.
_NOISE = 1e-6


def crowd_of(asked: RawQuestion, shape: Shape) -> Crowd | None:
    """Return the community prediction, None where it is hidden or odd: a question never depends on it."""
    method = asked.default_aggregation_method or "recency_weighted"
    latest = _dig(asked.aggregations, method, "latest")
    if latest is None:
        return None
    try:
        aggregate = parsed(RawAggregate, latest, f"question {asked.id}, its aggregate")
        return Crowd(
            prediction=_prediction(aggregate, asked, shape),
            at=datetime.fromtimestamp(aggregate.start_time, UTC),
            explanation=f"community prediction, {method}",
        )
    except (ContractError, ValueError, ArithmeticError, LookupError, OSError):
        return None


def _dig(raw: object, *keys: str) -> object:
    for key in keys:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def _prediction(aggregate: RawAggregate, asked: RawQuestion, shape: Shape) -> Prediction:
    match shape:
        case BinaryShape():
            (center,) = aggregate.centers or ()
            return Binary(_number(center))
        case ChoiceShape(options=options):
            named = by_option(aggregate.centers or (), asked.all_options_ever or options)
            total = math.fsum(named[option] for option in options if option in named)
            return Choice({option: named.get(option, 0.0) / total for option in options})
        case CurveShape():
            return _curve(aggregate.forecast_values or (), shape)


def by_option(values: Sequence[float | None], ever: Sequence[str]) -> dict[str, float]:
    """Return values by the name of their option: they come in the order of all options there ever were.

    Inactive options are null and are left out. Raises ValueError where the two do not match.
    """
    return {option: value for option, value in zip(ever, values, strict=True) if value is not None}


def _curve(values: Sequence[float | None], shape: CurveShape) -> Curve:
    cdf = [_number(value) for value in values]
    if not shape.open_lower and abs(cdf[0]) < _NOISE:
        cdf[0] = 0.0
    if not shape.open_upper and abs(cdf[-1] - 1.0) < _NOISE:
        cdf[-1] = 1.0
    curve = Curve(tuple(cdf))
    if len(cdf) != len(shape.grid):
        message = f"{len(cdf)} values on a grid of {len(shape.grid)}"
        raise ValueError(message)
    return curve


def _number(value: float | None) -> float:
    if value is None:
        message = "no value"
        raise ValueError(message)
    return value
