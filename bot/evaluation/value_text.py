"""Numbers, times, predictions and outcomes as text for people, in the units of their question."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.beliefs import ModelUsage
from bot.core.distributions import curve_quantile
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, VoidOutcome, scoring_rules_for
from bot.core.plain_text import replace_invisible
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.submissions import GateDecision, HoldDecision
from bot.core.values import Json

NO_VALUE = "-"


MAX_OPTIONS_SHOWN = 3


def format_percent(probability: float | None) -> str:
    """Return a probability in percent, with the digits that still differ near 0 and 1."""
    if probability is None:
        return NO_VALUE
    digits = 1 if 0.01 <= probability <= 0.99 else 2
    return f"{100 * probability:.{digits}f}%"


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number with a fixed count of digits."""
    return NO_VALUE if value is None else f"{value:.{digits}f}"


def format_argument(value: Json) -> str:
    """Return an argument of an action as text, or as JSON without rounding noise in floats."""
    return value if isinstance(value, str) else json.dumps(_round_floats(value), ensure_ascii=False)


def _round_floats(value: Json) -> Json:
    match value:
        case float():
            return float(f"{value:.10g}")
        case list():
            return [_round_floats(one) for one in value]
        case dict():
            return {key: _round_floats(one) for key, one in value.items()}
        case _:
            return value


def truncate_text(text: str, length: int) -> str:
    """Return text in one line of visible characters, cut to a length."""
    # Invisible characters have no width and would hide the end of a line.
    flat = replace_invisible(" ".join(text.split()))
    return flat if len(flat) <= length else f"{flat[:length].rstrip()} ..."


def format_decision(decision: GateDecision) -> str:
    """Return a decision of the gate in one line."""
    if not isinstance(decision, HoldDecision):
        return f"send in mode {decision.mode}: {decision.why}"
    again = "" if decision.until is None else f"; decided again from {format_minute(decision.until)} UTC on"
    return f"hold: {decision.why}{again}"


def format_usd(amount: float) -> str:
    """Return an amount of US dollars to the cent, or a small one with enough digits to differ from zero."""
    if amount == 0.0 or abs(amount) >= 0.1:
        return f"{amount:,.2f}"
    return f"{amount:.2g}" if abs(amount) < 0.0001 else f"{amount:.4f}"


def format_interval(low: float | None, high: float | None, digits: int = 2) -> str:
    """Return an interval; "-" where there is none."""
    return NO_VALUE if low is None or high is None else f"[{low:.{digits}f}, {high:.{digits}f}]"


def format_minute(at: datetime | None) -> str:
    """Return a time to the minute in UTC."""
    return NO_VALUE if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def format_day(at: datetime | None) -> str:
    """Return the day of a time in UTC."""
    return NO_VALUE if at is None else f"{at.astimezone(UTC):%Y-%m-%d}"


def format_age(span: timedelta) -> str:
    """Return how long ago something was, in its largest unit."""
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "in the future"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def format_bytes(count: int) -> str:
    """Return a number of bytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def format_prediction(value: Prediction | None) -> str:
    """Return a prediction in a few words, without its shape; options of a choice are sorted by probability."""
    match value:
        case None:
            return NO_VALUE
        case BinaryPrediction(probability=probability):
            return format_percent(probability)
        case ChoicePrediction(probabilities=options):
            text = ", ".join(f"{name} {format_percent(options[name])}" for name in likeliest_options(options))
            return text if len(options) <= MAX_OPTIONS_SHOWN else f"{text}, …"
        case CurvePrediction(cdf=cdf):
            return f"CDF of {len(cdf)} points"


def likeliest_options(options: Mapping[str, float]) -> list[str]:
    """Return the names of the few likeliest options, the likeliest first."""
    return sorted(options, key=lambda name: -options[name])[:MAX_OPTIONS_SHOWN]


def format_outcome(value: Outcome | None) -> str:
    """Return an outcome in a few words."""
    match value:
        case None:
            return NO_VALUE
        case BinaryOutcome(value=share):
            return {0.0: "no", 1.0: "yes"}.get(share) or format_percent(share)
        case ChoiceOutcome(option=option):
            return option
        case NumericOutcome(value=number):
            return f"{number:g}"
        case VoidOutcome(reason=reason):
            return f"void ({reason})"


def format_predictions_short(
    values: Mapping[str, Prediction], each: Callable[[Prediction], str] = format_prediction
) -> str:
    """Return the predictions of all targets in a few words: the first, the last and their number."""
    first, *others = [each(value) for value in values.values()]
    if not others:
        return first
    span = first if {*others} == {first} else f"{first} to {others[-1]}"
    return f"{span} ({len(values)} targets)"


def format_predictions(values: Mapping[str, Prediction], each: Callable[[Prediction], str] = format_prediction) -> str:
    """Return the predictions of all targets in one line; a single one has no name."""
    if len({*map(each, values.values())}) == 1:
        return format_predictions_short(values, each)
    return ", ".join(f"{key} {each(value)}" for key, value in values.items())


def format_usage(usage: ModelUsage) -> str:
    """Return calls, tokens and cost in one line; "" for none."""
    if usage == ModelUsage():
        return ""
    tokens_in, cached, tokens_out = format_token_counts(usage)
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {tokens_in} tokens in ({cached} cached), {tokens_out} out, {usage.cost_usd:.4f} USD"


def format_token_counts(usage: ModelUsage) -> tuple[str, str, str]:
    """Return tokens in, their cached share, and tokens out."""
    share = usage.tokens_cached / usage.tokens_in if usage.tokens_in else 0.0
    return f"{usage.tokens_in:,}", f"{share:.0%}", f"{usage.tokens_out:,}"


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
            return format_prediction(prediction)


def describe_prediction_short(prediction: Prediction, shape: QuestionShape) -> str:
    """Return a prediction in a few words: a curve by its quantiles, of many options the likeliest."""
    match prediction:
        case CurvePrediction():
            return describe_prediction(prediction, shape)
        case ChoicePrediction(probabilities=options):
            likeliest = likeliest_options(options)
            text = ", ".join(
                f"{n} {format_percent(share)}" for n, share in _order_choice(options, shape).items() if n in likeliest
            )
            return text if len(options) == len(likeliest) else f"{text}, …"
        case _:
            return format_prediction(prediction)


def order_options(plain: Any, shape: QuestionShape) -> Any:  # noqa: ANN401 - the JSON edge
    """Return JSON values with the options of each choice, at any depth, in the order of the question."""
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
    ordered = shape.options if isinstance(shape, ChoiceShape) else ()
    # An earlier version of the question may have had other options.
    others = (name for name in options if name not in ordered)
    return {name: options[name] for name in (*ordered, *others) if name in options}


def quantile_text(curve: CurvePrediction, shape: CurveShape, level: float) -> str:
    """Return a quantile with its unit, or the end of the grid that it lies beyond."""
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
    # Four digits are enough for a belief, but all digits before the point are shown.
    shown = f"{number:.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"
    return f"{shown} {unit}".strip()


def describe_changes(
    before: Mapping[str, Prediction] | None, after: Mapping[str, Prediction], shape: QuestionShape
) -> list[str]:
    """Return how each target moved, in a line each, or in one line if all moved together."""
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


def describe_outcome(outcome: Outcome | None, shape: QuestionShape) -> str:
    """Return an outcome in a few words; a value only known to lie beyond a bound is given as above or below it."""
    if not isinstance(outcome, NumericOutcome) or not isinstance(shape, CurveShape):
        return format_outcome(outcome)
    if math.isinf(outcome.value):
        above = outcome.value > 0
        return f"{'above' if above else 'below'} {format_with_unit(shape.value_range[above], shape.unit)}"
    if shape.unit == "date":
        return format_with_unit(outcome.value, shape.unit)
    return f"{format_outcome(outcome)} {shape.unit}".strip()


def score_cells(marks: Mapping[str, float], shape: QuestionShape) -> tuple[str, ...]:
    """Return the cells for these columns; a rule without a value has a dash."""
    return tuple(format_number(marks.get(rule.name), rule.digits) for rule in scoring_rules_for(shape.kind))
