"""Which forecasts the fake Metaculus accepts, in the words of the real server, and how they are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.metaculus_state import (
    CONTINUOUS,
    FULL_GRID,
    FakeMetaculusForecast,
    FakeMetaculusQuestion,
    FakeMetaculusState,
    QuestionScaling,
)

MIN_PROBABILITY, MAX_PROBABILITY = 0.001, 0.999
_FIELDS = {"binary": "probability_yes", "multiple_choice": "probability_yes_per_category"}
_KINDS = {"binary": "binary", "multiple_choice": "multiple choice"}
_DATE_FORMAT = (
    "Datetime has wrong format. Use one of these formats instead: YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z]."
)


class MetaculusRefusal(Exception):
    """The server refuses, with its status and body."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


def permission_refusal(detail: str) -> MetaculusRefusal:
    """A refusal because of a missing permission."""
    return MetaculusRefusal(403, {"detail": detail})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastItem:
    """A checked item of a list of forecasts."""

    question: FakeMetaculusQuestion
    values: list[float | None]
    end: datetime | None
    distribution_input: object


class _FieldError(Exception):
    """A fault of one field, "non_field_errors" where it is of the whole item."""

    def __init__(self, message: object, field: str = "non_field_errors") -> None:
        super().__init__(str(message))
        self.errors = {field: [message] if isinstance(message, str) else message}


def require_list(body: object, empty: str) -> list[Any]:
    """Return the items of a body that must be a list of at least one."""
    if not isinstance(body, list):
        kind = type(body).__name__
        raise MetaculusRefusal(400, {"non_field_errors": [f'Expected a list of items but got type "{kind}".']})
    if not body:
        raise MetaculusRefusal(400, {"non_field_errors": [empty]})
    return body


def check_items(state: FakeMetaculusState, body: object, now: datetime) -> list[ForecastItem]:
    """Return all items of a list of forecasts; one that is wrong refuses the whole list."""
    items: list[ForecastItem] = []
    errors: list[Mapping[str, object]] = []
    for raw in require_list(body, "At least one forecast is required"):
        try:
            items.append(_check_item(state, raw, now))
            errors.append({})
        except _FieldError as fault:
            errors.append(fault.errors)
    if any(errors):
        raise MetaculusRefusal(400, {"non_field_errors": errors})
    return items


def parse_moment(value: object, field: str) -> datetime | None:
    """Return a moment, None for null; raises MetaculusRefusal with the server's words for anything else."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise MetaculusRefusal(400, {field: [_DATE_FORMAT]}) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _check_item(state: FakeMetaculusState, raw: object, now: datetime) -> ForecastItem:
    if not isinstance(raw, dict):
        message = f"Invalid data. Expected a dictionary, but got {type(raw).__name__}."
        raise _FieldError(message)
    given = _typed_fields(raw)
    question = state.questions.get(given["question"])
    if question is None:
        message = (
            f"question with id {given['question']} does not exist. "
            "Check if you are forecasting with the Post Id accidentally instead."
        )
        raise _FieldError(message)
    if given["end_time"] is not None and given["end_time"] <= now:
        message = "Forecast end_time mut be in the future"
        raise _FieldError(message)
    values = _check_values(question, given)
    return ForecastItem(
        question=question, values=values, end=given["end_time"], distribution_input=raw.get("distribution_input")
    )


def _typed_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in their types; numbers may be given as text."""
    if "question" not in raw:
        message = "This field is required."
        raise _FieldError(message, "question")
    number = raw.get("probability_yes")
    choice, cdf = raw.get("probability_yes_per_category"), raw.get("continuous_cdf")
    if choice is not None and not isinstance(choice, dict):
        message = f'Expected a dictionary of items but got type "{type(choice).__name__}".'
        raise _FieldError(message, "probability_yes_per_category")
    if cdf is not None and not isinstance(cdf, list):
        message = f'Expected a list of items but got type "{type(cdf).__name__}".'
        raise _FieldError(message, "continuous_cdf")
    return {
        "question": _parse_integer(raw["question"]),
        "probability_yes": None if number is None else _parse_number(number, "probability_yes"),
        "probability_yes_per_category": None
        if choice is None
        else {name: _parse_optional_number(value) for name, value in choice.items()},
        "continuous_cdf": None if cdf is None else [_parse_number(value, "continuous_cdf") for value in cdf],
        "end_time": _parse_end(raw.get("end_time")),
    }


def _parse_end(value: object) -> datetime | None:
    try:
        return parse_moment(value, "end_time")
    except MetaculusRefusal:
        raise _FieldError(_DATE_FORMAT, "end_time") from None


def _parse_integer(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        message = "A valid integer is required."
        raise _FieldError(message, "question") from None


def _parse_number(value: object, field: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        message = "A valid number is required."
        raise _FieldError(message, field)
    return number


def _parse_optional_number(value: object) -> float | None:
    return None if value is None else _parse_number(value, "probability_yes_per_category")


def _check_values(question: FakeMetaculusQuestion, given: Mapping[str, Any]) -> list[float | None]:
    own = _FIELDS.get(question.type, "continuous_cdf")
    kind = _KINDS.get(question.type, "continuous")
    others = {"probability_yes", "probability_yes_per_category", "continuous_cdf"} - {own}
    if any(given[name] is not None for name in others):
        message = f"Only {own} should be provided for {kind} questions"
        raise _FieldError(message)
    value = given[own]
    if value is None:
        message = f"{own} is required" + (" for continuous questions" if kind == "continuous" else "")
        raise _FieldError(message)
    if question.type in CONTINUOUS:
        return _check_distribution(question, value)
    return _check_choice(question, value) if question.type == "multiple_choice" else _check_binary(value)


def _check_binary(value: float) -> list[float | None]:
    if not MIN_PROBABILITY <= value <= MAX_PROBABILITY:
        message = "probability_yes should be between 0.001 and 0.999 (inclusive)"
        raise _FieldError(message)
    return [1.0 - value, value]


def _check_choice(question: FakeMetaculusQuestion, given: Mapping[str, float | None]) -> list[float | None]:
    """Return probabilities in the order of all options that ever existed, None for removed ones."""
    current, ever = question.options or [], question.all_options_ever or []
    named = {name: value for name, value in given.items() if value is not None}
    if any(name not in named for name in current) or any(name in ever and name not in current for name in named):
        message = f"Forecast must reflect current options: {current}"
        raise _FieldError(message)
    if any(name not in ever for name in named):
        message = "Forecast contains probabilities for unknown options"
        raise _FieldError(message)
    if not all(MIN_PROBABILITY <= value <= MAX_PROBABILITY for value in named.values()):
        message = "Probabilities for current options must be between 0.001 and 0.999"
        raise _FieldError(message)
    values = [named.get(name) for name in ever]
    if not math.isclose(sum(named.values()), 1.0, rel_tol=0.0, abs_tol=1e-5 + 1e-8):
        message = (
            f"Forecast values must sum to 1.0. Received {dict(given)} which is interpreted as values: {values} "
            f"representing {ever} with current options {current}"
        )
        raise _FieldError(message)
    return values


def _check_distribution(question: FakeMetaculusQuestion, values: Sequence[float]) -> list[float | None]:
    scaling = question.scaling or QuestionScaling(low=0.0, high=1.0)
    rounded = [round(value, 10) for value in values]
    faults = [
        *_length_errors(question, scaling, rounded),
        *_step_errors(scaling, rounded),
        *_bound_errors(scaling, rounded),
    ]
    if faults:
        message = "CDF Invalid:\n" + "".join(f"{fault}\n" for fault in faults)
        raise _FieldError(message)
    return list(rounded)


def _length_errors(question: FakeMetaculusQuestion, scaling: QuestionScaling, values: Sequence[float]) -> list[str]:
    wanted = scaling.buckets + 1
    right = len(values) == wanted
    return [] if right else [f"continuous_cdf for question {question.id} must have {wanted} values."]


def _step_errors(scaling: QuestionScaling, values: Sequence[float]) -> list[str]:
    least, most = 0.01 / scaling.buckets, 0.2 * FULL_GRID / scaling.buckets
    steps = [round(high - low, 9) for low, high in pairwise(values)]
    faults = []
    if any(step < round(least, 9) for step in steps):
        faults.append(f"continuous_cdf must be increasing by at least {round(least, 9)} at every step.")
    if any(step > round(most, 9) for step in steps):
        faults.append(f"continuous_cdf must be increasing by no more than {round(most, 9)} at every step.")
    return faults


def _bound_errors(scaling: QuestionScaling, values: Sequence[float]) -> list[str]:
    faults = []
    first, last = (values[0], values[-1]) if values else (math.nan, math.nan)
    if scaling.open_lower and not first >= MIN_PROBABILITY:
        faults.append("continuous_cdf at lower bound must be at least 0.001 due to lower bound being open.")
    if not scaling.open_lower and first != 0.0:
        faults.append(
            "continuous_cdf[0] must be 0.0 for questions with a closed lower bound (outcomes strictly below the lower "
            "bound are impossible). If you want to assign probability to the outcome equalling the lower bound, "
            "place that mass in the first inbound bucket by increasing cdf[1]."
        )
    if scaling.open_upper and not last <= MAX_PROBABILITY:
        faults.append("continuous_cdf at upper bound must be at most 0.999 due to upper bound being open.")
    if not scaling.open_upper and last != 1.0:
        faults.append("continuous_cdf at upper bound must be 1.00 due to upper bound being closed.")
    return faults


def store_forecast(item: ForecastItem, author: int, now: datetime) -> None:
    """Store a forecast: the one before ends, and in a grace period the new options wait for its end."""
    question, at = item.question, now.timestamp()
    end_standing_forecasts(question, author, at)
    forecast = FakeMetaculusForecast(
        author=author,
        start=at,
        values=item.values,
        end=None if item.end is None else item.end.timestamp(),
        distribution_input=item.distribution_input,
    )
    grace = question.grace_until(now)
    if grace is None:
        question.forecasts.append(forecast)
        return
    folded = FakeMetaculusForecast(
        author, at, _fold_new_options(question, item.values), end=grace.timestamp(), hides_end=True
    )
    later = replace(forecast, start=grace.timestamp())
    question.forecasts += [folded, later]


def end_standing_forecasts(question: FakeMetaculusQuestion, author: int, at: float) -> None:
    """End the forecast in force of an account, and drop one that had not begun."""
    question.forecasts[:] = [each for each in question.forecasts if each.author != author or each.start <= at]
    for forecast in question.forecasts_of(author):
        if forecast.end is None or forecast.end > at:
            forecast.end, forecast.hides_end = at, False


def _fold_new_options(question: FakeMetaculusQuestion, values: Sequence[float | None]) -> list[float | None]:
    """Return probabilities under the options before: those of new ones are added to the last."""
    before = question.options_history[-2][1] if len(question.options_history) > 1 else question.options or []
    ever = question.all_options_ever or []
    pairs = list(zip(ever, values, strict=True))
    spare = sum(value or 0.0 for name, value in pairs if name not in before)
    folded = [value if name in before else None for name, value in pairs]
    last = folded[-1]
    return [*folded[:-1], None if last is None else last + spare]


def change_options(question: FakeMetaculusQuestion, options: Sequence[str], now: datetime, grace_s: float) -> None:
    """Add options, in force after a grace period; present forecasts end then."""
    since = now + timedelta(seconds=grace_s)
    old = question.all_options_ever or []
    question.options_history.append((since.isoformat(), list(options)))
    question.options = list(options)
    ever = question.all_options_ever or []
    for forecast in question.forecasts:
        by_name = dict(zip(old, forecast.values, strict=True))
        forecast.values = [by_name.get(name) for name in ever]
        if forecast.end is None or forecast.end > since.timestamp():
            forecast.end = since.timestamp()
