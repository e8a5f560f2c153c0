"""What the fake Metaculus takes as a forecast, in the words of the real server, and how it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from bot.testing.venues.metaculus_state import CONTINUOUS, FULL_GRID, Forecast, Question, Scaling, State

LEAST, MOST = 0.001, 0.999
_FIELDS = {"binary": "probability_yes", "multiple_choice": "probability_yes_per_category"}
_KINDS = {"binary": "binary", "multiple_choice": "multiple choice"}
_DATE_FORMAT = (
    "Datetime has wrong format. Use one of these formats instead: YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z]."
)


class Refusal(Exception):
    """The server says no, with its status and body."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


def denied(detail: str) -> Refusal:
    """A refusal for want of permission."""
    return Refusal(403, {"detail": detail})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A checked item of a list of forecasts."""

    question: Question
    values: list[float | None]
    end: datetime | None
    distribution_input: object


class _Fault(Exception):
    """A fault of one field, "non_field_errors" where it is of the whole item."""

    def __init__(self, message: object, field: str = "non_field_errors") -> None:
        super().__init__(str(message))
        self.errors = {field: [message] if isinstance(message, str) else message}


def as_list(body: object, empty: str) -> list[Any]:
    """Return the items of a body that must be a list of at least one."""
    if not isinstance(body, list):
        kind = type(body).__name__
        raise Refusal(400, {"non_field_errors": [f'Expected a list of items but got type "{kind}".']})
    if not body:
        raise Refusal(400, {"non_field_errors": [empty]})
    return body


def check_items(state: State, body: object, now: datetime) -> list[Item]:
    """Return all items of a list of forecasts; one that is wrong refuses the whole list."""
    items: list[Item] = []
    errors: list[Mapping[str, object]] = []
    for raw in as_list(body, "At least one forecast is required"):
        try:
            items.append(_item(state, raw, now))
            errors.append({})
        except _Fault as fault:
            errors.append(fault.errors)
    if any(errors):
        raise Refusal(400, {"non_field_errors": errors})
    return items


def moment(value: object, field: str) -> datetime | None:
    """Return a moment, None for null; raises Refusal with the server's words for what is none."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise Refusal(400, {field: [_DATE_FORMAT]}) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _item(state: State, raw: object, now: datetime) -> Item:
    if not isinstance(raw, dict):
        message = f"Invalid data. Expected a dictionary, but got {type(raw).__name__}."
        raise _Fault(message)
    given = _typed(raw)
    question = state.questions.get(given["question"])
    if question is None:
        message = (
            f"question with id {given['question']} does not exist. "
            "Check if you are forecasting with the Post Id accidentally instead."
        )
        raise _Fault(message)
    if given["end_time"] is not None and given["end_time"] <= now:
        message = "Forecast end_time mut be in the future"
        raise _Fault(message)
    values = _values(question, given)
    return Item(
        question=question, values=values, end=given["end_time"], distribution_input=raw.get("distribution_input")
    )


def _typed(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in their types; numbers may come as text."""
    if "question" not in raw:
        message = "This field is required."
        raise _Fault(message, "question")
    number = raw.get("probability_yes")
    choice, cdf = raw.get("probability_yes_per_category"), raw.get("continuous_cdf")
    if choice is not None and not isinstance(choice, dict):
        message = f'Expected a dictionary of items but got type "{type(choice).__name__}".'
        raise _Fault(message, "probability_yes_per_category")
    if cdf is not None and not isinstance(cdf, list):
        message = f'Expected a list of items but got type "{type(cdf).__name__}".'
        raise _Fault(message, "continuous_cdf")
    return {
        "question": _integer(raw["question"]),
        "probability_yes": None if number is None else _number(number, "probability_yes"),
        "probability_yes_per_category": None
        if choice is None
        else {name: _maybe(value) for name, value in choice.items()},
        "continuous_cdf": None if cdf is None else [_number(value, "continuous_cdf") for value in cdf],
        "end_time": _end(raw.get("end_time")),
    }


def _end(value: object) -> datetime | None:
    try:
        return moment(value, "end_time")
    except Refusal:
        raise _Fault(_DATE_FORMAT, "end_time") from None


def _integer(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        message = "A valid integer is required."
        raise _Fault(message, "question") from None


def _number(value: object, field: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        message = "A valid number is required."
        raise _Fault(message, field)
    return number


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value, "probability_yes_per_category")


def _values(question: Question, given: Mapping[str, Any]) -> list[float | None]:
    own = _FIELDS.get(question.type, "continuous_cdf")
    kind = _KINDS.get(question.type, "continuous")
    others = {"probability_yes", "probability_yes_per_category", "continuous_cdf"} - {own}
    if any(given[name] is not None for name in others):
        message = f"Only {own} should be provided for {kind} questions"
        raise _Fault(message)
    value = given[own]
    if value is None:
        message = f"{own} is required" + (" for continuous questions" if kind == "continuous" else "")
        raise _Fault(message)
    if question.type in CONTINUOUS:
        return _distribution(question, value)
    return _choice(question, value) if question.type == "multiple_choice" else _binary(value)


def _binary(value: float) -> list[float | None]:
    if not LEAST <= value <= MOST:
        message = "probability_yes should be between 0.001 and 0.999 (inclusive)"
        raise _Fault(message)
    return [1.0 - value, value]


def _choice(question: Question, given: Mapping[str, float | None]) -> list[float | None]:
    """Return probabilities in the order of all options there ever were, None for those that are no more."""
    current, ever = question.options or [], question.all_options_ever or []
    named = {name: value for name, value in given.items() if value is not None}
    if any(name not in named for name in current) or any(name in ever and name not in current for name in named):
        message = f"Forecast must reflect current options: {current}"
        raise _Fault(message)
    if any(name not in ever for name in named):
        message = "Forecast contains probabilities for unknown options"
        raise _Fault(message)
    if not all(LEAST <= value <= MOST for value in named.values()):
        message = "Probabilities for current options must be between 0.001 and 0.999"
        raise _Fault(message)
    values = [named.get(name) for name in ever]
    if not math.isclose(sum(named.values()), 1.0, rel_tol=0.0, abs_tol=1e-5 + 1e-8):
        message = (
            f"Forecast values must sum to 1.0. Received {dict(given)} which is interpreted as values: {values} "
            f"representing {ever} with current options {current}"
        )
        raise _Fault(message)
    return values


def _distribution(question: Question, values: Sequence[float]) -> list[float | None]:
    scaling = question.scaling or Scaling(low=0.0, high=1.0)
    rounded = [round(value, 10) for value in values]
    faults = [*_length(question, scaling, rounded), *_steps(scaling, rounded), *_ends(scaling, rounded)]
    if faults:
        message = "CDF Invalid:\n" + "".join(f"{fault}\n" for fault in faults)
        raise _Fault(message)
    return list(rounded)


def _length(question: Question, scaling: Scaling, values: Sequence[float]) -> list[str]:
    wanted = scaling.buckets + 1
    right = len(values) == wanted
    return [] if right else [f"continuous_cdf for question {question.id} must have {wanted} values."]


def _steps(scaling: Scaling, values: Sequence[float]) -> list[str]:
    least, most = 0.01 / scaling.buckets, 0.2 * FULL_GRID / scaling.buckets
    steps = [round(high - low, 9) for low, high in pairwise(values)]
    faults = []
    if any(step < round(least, 9) for step in steps):
        faults.append(f"continuous_cdf must be increasing by at least {round(least, 9)} at every step.")
    if any(step > round(most, 9) for step in steps):
        faults.append(f"continuous_cdf must be increasing by no more than {round(most, 9)} at every step.")
    return faults


def _ends(scaling: Scaling, values: Sequence[float]) -> list[str]:
    faults = []
    first, last = (values[0], values[-1]) if values else (math.nan, math.nan)
    if scaling.open_lower and not first >= LEAST:
        faults.append("continuous_cdf at lower bound must be at least 0.001 due to lower bound being open.")
    if not scaling.open_lower and first != 0.0:
        faults.append(
            "continuous_cdf[0] must be 0.0 for questions with a closed lower bound (outcomes strictly below the lower "
            "bound are impossible). If you want to assign probability to the outcome equalling the lower bound, "
            "place that mass in the first inbound bucket by increasing cdf[1]."
        )
    if scaling.open_upper and not last <= MOST:
        faults.append("continuous_cdf at upper bound must be at most 0.999 due to upper bound being open.")
    if not scaling.open_upper and last != 1.0:
        faults.append("continuous_cdf at upper bound must be 1.00 due to upper bound being closed.")
    return faults


def store(item: Item, author: int, now: datetime) -> None:
    """Keep a forecast: the one before ends, and in a grace period the new options wait for its end."""
    question, at = item.question, now.timestamp()
    end_standing(question, author, at)
    forecast = Forecast(
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
    folded = Forecast(author, at, _folded(question, item.values), end=grace.timestamp(), hides_end=True)
    later = replace(forecast, start=grace.timestamp())
    question.forecasts += [folded, later]


def end_standing(question: Question, author: int, at: float) -> None:
    """End what stands of an account, and drop what was still to begin."""
    question.forecasts[:] = [each for each in question.forecasts if each.author != author or each.start <= at]
    for forecast in question.of(author):
        if forecast.end is None or forecast.end > at:
            forecast.end, forecast.hides_end = at, False


def _folded(question: Question, values: Sequence[float | None]) -> list[float | None]:
    """Return probabilities under the options before: what new ones have goes to the last."""
    before = question.options_history[-2][1] if len(question.options_history) > 1 else question.options or []
    ever = question.all_options_ever or []
    pairs = list(zip(ever, values, strict=True))
    spare = sum(value or 0.0 for name, value in pairs if name not in before)
    folded = [value if name in before else None for name, value in pairs]
    last = folded[-1]
    return [*folded[:-1], None if last is None else last + spare]


def change_options(question: Question, options: Sequence[str], now: datetime, grace_s: float) -> None:
    """Add options, in force after a grace period; what stands ends then."""
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
