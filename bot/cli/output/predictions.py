"""Predictions in the units of their question.

Every option of a choice in the question's order, and quantiles of numbers and dates.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.cli.output.formatting import format_percent, likeliest_options
from bot.cli.output.formatting import format_prediction as shortly
from bot.core.distributions import curve_quantile
from bot.core.predictions import ChoicePrediction, ChoiceShape, CurvePrediction, CurveShape, Prediction, QuestionShape

QUANTILES = (0.1, 0.5, 0.9)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def describe_prediction(prediction: Prediction, shape: QuestionShape) -> str:
    """Return a prediction in full."""
    match prediction:
        case ChoicePrediction(probabilities=options):
            return ", ".join(f"{name} {format_percent(share)}" for name, share in _order_choice(options, shape).items())
        case CurvePrediction() if isinstance(shape, CurveShape):
            return ", ".join(
                f"{quantile_label(level)} {quantile_text(prediction, shape, level)}" for level in QUANTILES
            )
        case _:
            return shortly(prediction)


def describe_prediction_short(prediction: Prediction, shape: QuestionShape) -> str:
    """Return a prediction in a few words: a curve by its quantiles, of many options the likeliest."""
    match prediction:
        case CurvePrediction():
            return describe_prediction(prediction, shape)
        case ChoicePrediction(probabilities=options):
            foremost = likeliest_options(options)
            told = ", ".join(
                f"{n} {format_percent(share)}" for n, share in _order_choice(options, shape).items() if n in foremost
            )
            return told if len(options) == len(foremost) else f"{told}, …"
        case _:
            return shortly(prediction)


def order_options(plain: Any, shape: QuestionShape) -> Any:  # noqa: ANN401 - the JSON edge
    """Return JSON values with the options of each choice, however deep, in the order of the question."""
    match plain:
        case {"kind": "choice", "probabilities": dict(options)}:
            return {**plain, "probabilities": _order_choice(options, shape)}
        case dict():
            return {name: order_options(value, shape) for name, value in plain.items()}
        case list() | tuple():
            return [order_options(value, shape) for value in plain]
        case _:
            return plain


def _order_choice(options: Mapping[str, float], shape: QuestionShape) -> Mapping[str, float]:
    asked = shape.options if isinstance(shape, ChoiceShape) else ()
    # Of an earlier version of the question there may be others.
    others = (name for name in options if name not in asked)
    return {name: options[name] for name in (*asked, *others) if name in options}


def quantile_text(curve: CurvePrediction, shape: CurveShape, level: float) -> str:
    """Return a quantile with its unit, or on which side of the grid it lies."""
    found = curve_quantile(curve, shape, level)
    if found is not None:
        return format_with_unit(found, shape.unit)
    below = curve.cdf[0] > level
    return f"{'below' if below else 'above'} {format_with_unit(shape.value_range[0 if below else 1], shape.unit)}"


def quantile_label(level: float) -> str:
    """Return the name of a quantile."""
    return f"{100 * level:g}%:"


def format_with_unit(number: float, unit: str) -> str:
    """Return a number in its unit; the unit ``date`` means seconds since 1970."""
    if unit == "date":
        return f"{EPOCH + timedelta(seconds=number):%Y-%m-%d}"
    # Four digits tell enough of a belief, but all of those before the point are shown.
    shown = f"{number:.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"
    return f"{shown} {unit}".strip()


def describe_changes(
    before: Mapping[str, Prediction] | None, after: Mapping[str, Prediction], shape: QuestionShape
) -> list[str]:
    """Return how each target moved, a line each, or one line for all where they moved together."""
    lines = {key: _describe_change(before.get(key) if before else None, now, shape) for key, now in after.items()}
    if len({*lines.values()}) == 1:
        (line, *_) = lines.values()
        return [line if len(lines) == 1 else f"{line} ({len(lines)} targets)"]
    return [f"{key}: {line}" for key, line in lines.items()]


def _describe_change(before: Prediction | None, after: Prediction, shape: QuestionShape) -> str:
    now = describe_prediction(after, shape)
    if before is None:
        return now
    return f"{now}, as before" if before == after else f"{describe_prediction(before, shape)} -> {now}"
