"""What a question must say by its author's own reading of the venue's records, and what is wrong where it does not."""

# ruff: noqa: S101 - pytest is made of assert
import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurveShape
from bot.core.questions import Question, QuestionRef
from bot.testing.mistake_hints import explain_number

ExpectedPrice = float | Mapping[str, float] | None
PRICE_TOLERANCE = 1e-6
# No open question is from before the first, or resolves after the second.
PLAUSIBLE_TIMES = datetime(1990, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def require_prices(question: Question, wanted: ExpectedPrice) -> None:
    """Fail unless the crowd's prices are those; a mapping gives the options of a choice by name."""
    key, found = question.ref.key, question.crowd.prediction if question.crowd else None
    assert question.shape.kind != "choice" or not isinstance(wanted, float | int), (
        f'{key}: give the prices of all options in `expected`, such as {{"Ann": 0.6, "Bob": 0.4}}'
    )
    match found:
        case ChoicePrediction(probabilities=prices) if isinstance(wanted, Mapping):
            for option in {**wanted, **prices}:
                _require_price(f"{key}, option {option!r}", prices.get(option), wanted.get(option))
        case BinaryPrediction(probability=price) if not isinstance(wanted, Mapping):
            _require_price(key, price, wanted)
        case _:
            assert (found is None) is (wanted is None), _missing_price(key, found, wanted)


def _require_price(name: str, found: float | None, wanted: float | None) -> None:
    if found is None or wanted is None:
        assert found is wanted, _missing_price(name, found, wanted)
        return
    causes = {
        "that is the price of the other side (NO): look at which side the field is of": 1.0 - wanted,
        "it was divided by 100 twice, or is no percent: look at the unit of the field": wanted / 100,
        "it is a percent: divide by 100": wanted * 100,
    }
    assert math.isclose(found, wanted, abs_tol=PRICE_TOLERANCE), explain_number(
        f"{name}: the crowd's price", found, wanted, causes, "look at which field, which side and which option is read"
    )


def _missing_price(name: str, found: object, wanted: object) -> str:
    return f"{name}: the crowd's price is {found}, expected {wanted}. Is its price read, and only where there is one?"


def require_plausible(ref: QuestionRef, times: Mapping[str, datetime | None]) -> None:
    """Fail for a moment that no question of today can have."""
    first, last = PLAUSIBLE_TIMES
    for name, moment in times.items():
        assert moment is None or first <= moment <= last, (
            f"{ref}: {name} is {moment}: are milliseconds read as seconds, or seconds as milliseconds?"
        )


def explain_time(found: object, wanted: object) -> str:
    """Return why a moment differs, "" where no usual mistake explains it."""
    if not isinstance(found, datetime) or not isinstance(wanted, datetime):
        return ""
    hours = (found - wanted).total_seconds() / 3600
    if wanted.timestamp() and math.isclose(found.timestamp() * 1000, wanted.timestamp(), rel_tol=1e-3):
        return ": seconds were read as milliseconds"
    if 0.0 < abs(hours) <= 14.0 and (4 * hours).is_integer():
        return f": it is {hours:+g} hours off, so its text was read in another time zone than UTC"
    return ""


# What `details` may name besides the fields of Question.
QUESTION_DETAILS: Mapping[str, Callable[[Question], object]] = {
    "spread": lambda question: question.crowd and question.crowd.spread,
    "liquidity": lambda question: question.crowd and question.crowd.liquidity,
    "crowd_at": lambda question: question.crowd and question.crowd.at,
    "resolves_at": lambda question: question.targets[0].resolves_at,
    "targets": lambda question: tuple(target.key for target in question.targets),
    "options": lambda question: getattr(question.shape, "options", None),
    "unit": lambda question: getattr(question.shape, "unit", None),
    "range": lambda question: _curve_value(question, lambda curve: (curve.grid[0], curve.grid[-1])),
    "open_bounds": lambda question: _curve_value(question, lambda curve: (curve.open_lower, curve.open_upper)),
}
_CAP_HINT = "without it the cap of that name never binds, and orders that win or lose together are not added up"
_DETAIL_HINTS = {
    "event": _CAP_HINT,
    "creator": _CAP_HINT,
    "category": _CAP_HINT,
    "criteria": "forecasters know only what the question says: put the rules of the record into Question.criteria",
    "background": "forecasters know only what the question says: put the description into Question.background",
    "spread": "it is the best ask less the best bid, in probability",
    "range": "look at the fields of the lowest and highest value, their unit, and the scale of the grid",
    "open_bounds": "they say, for the lower and the upper end, whether the value may be outside the range",
    "options": "forecasts and orders name options exactly as the question does",
}
# The whole text of a record may say more than an author wants to copy.
_TEXTS = frozenset({"criteria", "background"})


def require_detail(question: Question, name: str, wanted: object) -> None:
    """Fail unless a question has that value of a field or detail; a long text only needs to contain it."""
    known = QUESTION_DETAILS.get(name)
    fields = {field.name for field in dataclasses.fields(Question)}
    assert known is not None or name in fields, (
        f"`details` names {name!r}; known are the fields of Question, and {', '.join(QUESTION_DETAILS)}"
    )
    found = known(question) if known is not None else getattr(question, name)
    text = f"{question.ref}: {name} is {found!r}, expected {wanted!r}{explain_time(found, wanted)}"
    if name in _TEXTS:
        is_right = str(wanted) in str(found)
    elif isinstance(wanted, float) and isinstance(found, float):
        is_right = math.isclose(found, wanted, abs_tol=PRICE_TOLERANCE)
    else:
        is_right = found == wanted
    assert is_right, f"{text}: {_DETAIL_HINTS.get(name, 'look at the field that it is read from, and at its unit')}"


def _curve_value(question: Question, read: Callable[[CurveShape], object]) -> object:
    return read(question.shape) if isinstance(question.shape, CurveShape) else None
