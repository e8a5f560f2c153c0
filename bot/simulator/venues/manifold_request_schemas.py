"""The request schemas of the fake Manifold, as strict as the real ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.manifold_trading import ManifoldRefusal

FieldReader: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RequestField:
    """A field: how it is parsed (ValueError gives the reason), and its default."""

    read: FieldReader
    default: Any = None
    required: bool = False


def required_field(read: FieldReader) -> RequestField:
    """A required field."""
    return RequestField(read, required=True)


def check_fields(
    fields: Mapping[str, RequestField], given: Mapping[str, Any], *, strict: bool = True
) -> dict[str, Any]:
    """Return the values of all fields; raises ManifoldRefusal with every fault."""
    faults: list[dict[str, str | None]] = []
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in given:
            values[name] = field.default
            if field.required:
                faults.append({"field": name, "error": "Required"})
            continue
        try:
            values[name] = field.read(given[name])
        except ValueError as error:
            faults.append({"field": name, "error": str(error)})
    unknown = sorted(set(given) - set(fields)) if strict else []
    if unknown:
        keys = ", ".join(f"'{name}'" for name in unknown)
        faults.append({"field": None, "error": f"Unrecognized key(s) in object: {keys}"})
    if faults:
        raise ManifoldRefusal(400, "Error validating request.", faults)
    return values


def parse_query(text: str) -> dict[str, Any]:
    """Read a query as the venue's server does: ``a=1&a=2`` and ``a[]=1`` are lists, ``a=1`` is text."""
    found: dict[str, Any] = {}
    for key, value in parse_qsl(text, keep_blank_values=True):
        name = key.removesuffix("[]")
        if key.endswith("[]") or name in found:
            before = found.get(name, [])
            found[name] = [*(before if isinstance(before, list) else [before]), value]
        else:
            found[name] = value
    return found


# Of bodies


def read_text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _type_error(value, "string")
    return value


def number_reader(low: float = -math.inf, high: float = math.inf, *, whole: bool = False) -> FieldReader:
    """A finite number within bounds."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _type_error(value, "number")
        return _check_bounds(value, low, high, whole=whole)

    return read


def read_boolean(value: object) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise _type_error(value, "boolean")
    return value


def read_texts(value: object) -> list[str]:
    """A list of strings."""
    if not isinstance(value, list):
        raise _type_error(value, "array")
    return [read_text(each) for each in value]


def choice_reader(*words: str) -> FieldReader:
    """One of some words."""

    def read(value: object) -> str:
        if value not in words:
            options = " | ".join(f"'{word}'" for word in words)
            message = f"Invalid enum value. Expected {options}, received '{value}'"
            raise ValueError(message)
        return str(value)

    return read


def read_anything(value: object) -> object:
    """Any value but null."""
    if value is None:
        raise _type_error(value, "object")
    return value


# Of queries


def numeral_reader(low: float = -math.inf, high: float = math.inf, *, whole: bool = False) -> FieldReader:
    """A number as text, within bounds."""

    def read(value: object) -> float:
        try:
            parsed = float(read_text(value))
        except ValueError:
            message = "Expected number, received nan"
            raise ValueError(message) from None
        return _check_bounds(parsed, low, high, whole=whole)

    return read


def read_yes_no(value: object) -> bool:
    """One of the words true and false."""
    return bool(choice_reader("true", "false")(value) == "true")


def read_one_or_more(value: object) -> list[str]:
    """A string, or a list of them."""
    return [value] if isinstance(value, str) else read_texts(value)


def read_impossible(value: object) -> object:
    """A real boolean, which no query can hold."""
    raise _type_error(value, "boolean")


def _type_error(value: object, kind: str) -> ValueError:
    names = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", type(None): "null"}
    return ValueError(f"Expected {kind}, received {names.get(type(value), 'object')}")


def _check_bounds(value: float, low: float, high: float, *, whole: bool) -> float:
    if not math.isfinite(value):
        message = "Expected number, received nan"
        raise ValueError(message)
    if whole and value != int(value):
        message = "Expected integer, received float"
        raise ValueError(message)
    if value < low:
        message = f"Number must be greater than or equal to {low}"
        raise ValueError(message)
    if value > high:
        message = f"Number must be less than or equal to {high}"
        raise ValueError(message)
    return int(value) if whole else value


_FILTERS = (
    *("all", "open", "closed", "resolved", "closing-day", "closing-week", "closing-month", "closing-90-days"),
    *("news", "uncertain"),
)
_SORTS = (
    *("score", "newest", "most-popular", "liquidity", "subsidy", "24-hour-vol", "last-updated", "close-date"),
    *("resolve-date", "start-time", "random", "daily-score", "freshness-score", "bounty-amount", "prob-descending"),
    *("prob-ascending", "prob-50"),
)
_TYPES = (
    *("ALL", "BINARY", "MULTIPLE_CHOICE", "DEPENDENT_MULTIPLE_CHOICE", "INDEPENDENT_MULTIPLE_CHOICE"),
    *("PSEUDO_NUMERIC", "NUMBER", "MULTI_NUMERIC", "DATE", "POLL", "BOUNTIED_QUESTION", "FREE_RESPONSE", "STONK"),
    "PERP",
)

SEARCH = {
    "term": RequestField(read_text, ""),
    "filter": RequestField(choice_reader(*_FILTERS), "all"),
    "sort": RequestField(choice_reader(*_SORTS), "score"),
    "contractType": RequestField(choice_reader(*_TYPES), "ALL"),
    "limit": RequestField(numeral_reader(1, 1000, whole=True), 100),
    "offset": RequestField(numeral_reader(0, 1000, whole=True), 0),
    "beforeTime": RequestField(numeral_reader()),
    "topicSlug": RequestField(read_text),
    "creatorId": RequestField(read_text),
    "gids": RequestField(read_text),
    "liquidity": RequestField(numeral_reader()),
    "token": RequestField(choice_reader("MANA", "CASH", "ALL", "CASH_AND_MANA"), "MANA"),
    "includeLiteAnswers": RequestField(read_yes_no, default=False),
    "hasBets": RequestField(choice_reader("0", "1"), "0"),
    "forYou": RequestField(choice_reader("0", "1"), "0"),
    "isPrizeMarket": RequestField(choice_reader("0", "1", "true", "false"), "0"),
}
MARKETS = {
    "limit": RequestField(numeral_reader(0, 1000, whole=True), 500),
    "sort": RequestField(
        choice_reader("created-time", "updated-time", "last-bet-time", "last-comment-time"), "created-time"
    ),
    "order": RequestField(choice_reader("asc", "desc"), "desc"),
    "before": RequestField(read_text),
    "userId": RequestField(read_text),
    "groupId": RequestField(read_text),
}
PROBS = {"ids": required_field(read_texts)}
ONE_MARKET = {"lite": RequestField(read_yes_no, default=False)}
BETS = {
    "id": RequestField(read_text),
    "userId": RequestField(read_text),
    "username": RequestField(read_text),
    "contractId": RequestField(read_one_or_more),
    "contractSlug": RequestField(read_text),
    "answerId": RequestField(read_text),
    "limit": RequestField(numeral_reader(0, 10_000, whole=True), 10_000),
    "before": RequestField(read_text),
    "after": RequestField(read_text),
    "beforeTime": RequestField(numeral_reader()),
    "afterTime": RequestField(numeral_reader()),
    "order": RequestField(choice_reader("asc", "desc"), "desc"),
    "kinds": RequestField(choice_reader("open-limit")),
    "minAmount": RequestField(numeral_reader()),
    "filterRedemptions": RequestField(read_yes_no, default=False),
    "excludeApi": RequestField(read_yes_no, default=False),
    "count": RequestField(read_yes_no, default=False),
    "points": RequestField(read_yes_no, default=False),
}
COMMENTS = {
    "contractId": RequestField(read_text),
    "contractSlug": RequestField(read_text),
    "userId": RequestField(read_text),
    "limit": RequestField(numeral_reader(0, 1000, whole=True), 1000),
    "page": RequestField(numeral_reader(0, whole=True), 0),
    "afterTime": RequestField(numeral_reader()),
    "order": RequestField(choice_reader("likes", "newest", "oldest"), "newest"),
}
POSITIONS = {
    "userId": RequestField(read_text),
    "answerId": RequestField(read_text),
    "top": RequestField(numeral_reader(whole=True)),
    "bottom": RequestField(numeral_reader(whole=True)),
    "order": RequestField(choice_reader("shares", "profit")),
    "summaryOnly": RequestField(read_impossible),
}
METRICS = {
    "userId": required_field(read_text),
    "limit": RequestField(numeral_reader(0, 10_000, whole=True), 100),
    "offset": RequestField(numeral_reader(0, whole=True), 0),
    "perAnswer": RequestField(read_yes_no, default=False),
    "order": RequestField(choice_reader("lastBetTime", "profit")),
}
PORTFOLIO = {"userId": required_field(read_text)}

BET = {
    "contractId": required_field(read_text),
    "amount": required_field(number_reader(1)),
    "outcome": RequestField(choice_reader("YES", "NO"), "YES"),
    "limitProb": RequestField(number_reader(0.01, 0.99)),
    "expiresAt": RequestField(number_reader()),
    "expiresMillisAfter": RequestField(number_reader()),
    "answerId": RequestField(read_text),
    "dryRun": RequestField(read_boolean, default=False),
    "deps": RequestField(read_texts),
    "deterministic": RequestField(read_boolean, default=False),
    "silent": RequestField(read_boolean, default=False),
    "replyToCommentId": RequestField(read_text),
}
CANCEL: Mapping[str, RequestField] = {}
SELL = {
    "outcome": required_field(choice_reader("YES", "NO")),
    "shares": RequestField(number_reader(1e-12)),
    "answerId": RequestField(read_text),
    "deterministic": RequestField(read_boolean, default=False),
}
MULTI_BET = {
    "contractId": required_field(read_text),
    "answerIds": required_field(read_texts),
    "amount": required_field(number_reader(1)),
    "limitProb": RequestField(number_reader(0.01, 0.99)),
    "expiresAt": RequestField(number_reader()),
    "deterministic": RequestField(read_boolean, default=False),
}
COMMENT = {
    "contractId": required_field(read_text),
    "content": RequestField(read_anything),
    "html": RequestField(read_text),
    "markdown": RequestField(read_text),
    "replyToCommentId": RequestField(read_text),
    "replyToAnswerId": RequestField(read_text),
    "replyToBetId": RequestField(read_text),
}
BOT_STATUS = {"userId": required_field(read_text), "isBot": required_field(read_boolean)}
