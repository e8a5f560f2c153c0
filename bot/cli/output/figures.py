"""Numbers and moments as people read them."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from bot.domain.prediction import Binary, Choice, Curve, Prediction
from bot.domain.resolution import Chosen, Happened, Landed, Outcome, Void
from bot.domain.step import Json

NOTHING = "-"
OPTIONS_SHOWN = 3


def percent(probability: float | None) -> str:
    """Return a probability in percent, with the digits that still differ near 0 and 1."""
    if probability is None:
        return NOTHING
    digits = 1 if 0.01 <= probability <= 0.99 else 2
    return f"{100 * probability:.{digits}f}%"


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with a fixed count of digits."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def argument(value: Json) -> str:
    """Return an argument of an action as text, JSON where it is no text, without the noise of floats."""
    return value if isinstance(value, str) else json.dumps(_rounded(value), ensure_ascii=False)


def _rounded(value: Json) -> Json:
    match value:
        case float():
            return float(f"{value:.10g}")
        case list():
            return [_rounded(one) for one in value]
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case _:
            return value


def usd(amount: float) -> str:
    """Return an amount of US dollars to the cent, a small one to the digits that tell it from nothing."""
    if amount == 0.0 or abs(amount) >= 0.1:
        return f"{amount:,.2f}"
    return f"{amount:.2g}" if abs(amount) < 0.0001 else f"{amount:.4f}"


def interval(low: float, high: float) -> str:
    """Return an interval of the Brier Index."""
    return f"[{low:.2f}, {high:.2f}]"


def moment(at: datetime | None) -> str:
    """Return a moment to the minute in UTC."""
    return NOTHING if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def day(at: datetime | None) -> str:
    """Return the day of a moment in UTC."""
    return NOTHING if at is None else f"{at.astimezone(UTC):%Y-%m-%d}"


def ago(span: timedelta) -> str:
    """Return how long ago something was, to its largest unit."""
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "in the future"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def size(count: int) -> str:
    """Return a number of bytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def prediction(value: Prediction | None) -> str:
    """Return a prediction in a few words; of a choice the likeliest first, as its question is not known here."""
    match value:
        case None:
            return NOTHING
        case Binary(probability=probability):
            return percent(probability)
        case Choice(probabilities=options):
            told = ", ".join(f"{name} {percent(options[name])}" for name in likeliest(options))
            return told if len(options) <= OPTIONS_SHOWN else f"{told}, …"
        case Curve(cdf=cdf):
            return f"CDF of {len(cdf)} points"


def likeliest(options: Mapping[str, float]) -> list[str]:
    """Return the names of the likeliest options, as many as a line has room for, the likeliest first."""
    return sorted(options, key=lambda name: -options[name])[:OPTIONS_SHOWN]


def outcome(value: Outcome | None) -> str:
    """Return an outcome in a few words."""
    match value:
        case None:
            return NOTHING
        case Happened(value=share):
            return {0.0: "no", 1.0: "yes"}.get(share) or percent(share)
        case Chosen(option=option):
            return option
        case Landed(value=landed):
            return f"{landed:g}"
        case Void(reason=reason):
            return f"void ({reason})"


def in_short(values: Mapping[str, Prediction], each: Callable[[Prediction], str] = prediction) -> str:
    """Return the predictions of all targets in a few words: how many there are, and from where to where they go."""
    first, *others = [each(value) for value in values.values()]
    if not others:
        return first
    span = first if {*others} == {first} else f"{first} to {others[-1]}"
    return f"{span} ({len(values)} targets)"


def predictions(values: Mapping[str, Prediction], each: Callable[[Prediction], str] = prediction) -> str:
    """Return the predictions of all targets in one line; a single one stands without its name."""
    if len({*map(each, values.values())}) == 1:
        return in_short(values, each)
    return ", ".join(f"{key} {each(value)}" for key, value in values.items())
