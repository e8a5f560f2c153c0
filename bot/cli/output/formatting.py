"""Numbers, times, predictions and outcomes as short text for people."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from bot.core.beliefs import ModelUsage
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, VoidOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
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
    """Return an argument of an action as text, JSON where it is no text, without the noise of floats."""
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


def format_usd(amount: float) -> str:
    """Return an amount of US dollars to the cent, a small one to the digits that tell it from nothing."""
    if amount == 0.0 or abs(amount) >= 0.1:
        return f"{amount:,.2f}"
    return f"{amount:.2g}" if abs(amount) < 0.0001 else f"{amount:.4f}"


def format_interval(low: float, high: float) -> str:
    """Return an interval of the Brier Index."""
    return f"[{low:.2f}, {high:.2f}]"


def format_minute(at: datetime | None) -> str:
    """Return a moment to the minute in UTC."""
    return NO_VALUE if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def format_day(at: datetime | None) -> str:
    """Return the day of a moment in UTC."""
    return NO_VALUE if at is None else f"{at.astimezone(UTC):%Y-%m-%d}"


def format_age(span: timedelta) -> str:
    """Return how long ago something was, to its largest unit."""
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
    """Return a prediction in a few words; of a choice the likeliest first, as its question is not known here."""
    match value:
        case None:
            return NO_VALUE
        case BinaryPrediction(probability=probability):
            return format_percent(probability)
        case ChoicePrediction(probabilities=options):
            told = ", ".join(f"{name} {format_percent(options[name])}" for name in likeliest_options(options))
            return told if len(options) <= MAX_OPTIONS_SHOWN else f"{told}, …"
        case CurvePrediction(cdf=cdf):
            return f"CDF of {len(cdf)} points"


def likeliest_options(options: Mapping[str, float]) -> list[str]:
    """Return the names of the likeliest options, as many as a line has room for, the likeliest first."""
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
        case NumericOutcome(value=landed):
            return f"{landed:g}"
        case VoidOutcome(reason=reason):
            return f"void ({reason})"


def format_predictions_short(
    values: Mapping[str, Prediction], each: Callable[[Prediction], str] = format_prediction
) -> str:
    """Return the predictions of all targets in a few words: how many there are, and from where to where they go."""
    first, *others = [each(value) for value in values.values()]
    if not others:
        return first
    span = first if {*others} == {first} else f"{first} to {others[-1]}"
    return f"{span} ({len(values)} targets)"


def format_predictions(values: Mapping[str, Prediction], each: Callable[[Prediction], str] = format_prediction) -> str:
    """Return the predictions of all targets in one line; a single one stands without its name."""
    if len({*map(each, values.values())}) == 1:
        return format_predictions_short(values, each)
    return ", ".join(f"{key} {each(value)}" for key, value in values.items())


def format_usage(usage: ModelUsage) -> str:
    """Return what was consumed in a line, "" for nothing."""
    if usage == ModelUsage():
        return ""
    tokens_in, cached, tokens_out = format_token_counts(usage)
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {tokens_in} tokens in ({cached} cached), {tokens_out} out, {usage.cost_usd:.4f} USD"


def format_token_counts(usage: ModelUsage) -> tuple[str, str, str]:
    """Return tokens in, the share of them that was cached, and tokens out."""
    share = usage.tokens_cached / usage.tokens_in if usage.tokens_in else 0.0
    return f"{usage.tokens_in:,}", f"{share:.0%}", f"{usage.tokens_out:,}"
