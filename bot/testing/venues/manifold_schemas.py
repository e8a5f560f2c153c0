"""What the fake Manifold takes: the schemas of its requests, as strict as the real ones.

An unknown field is refused, a null is no value, and a query is text: booleans are the words true and false, and a list
of one is a list only where it is written with brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from bot.testing.venues.manifold_trading import Refusal

Read: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: how it is read (ValueError says why not), and what it is where it is missing."""

    read: Read
    default: Any = None
    required: bool = False


def needed(read: Read) -> Field:
    """A field that must be there."""
    return Field(read, required=True)


def check(fields: Mapping[str, Field], given: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """Return the values of all fields; raises Refusal with every fault."""
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
        raise Refusal(400, "Error validating request.", faults)
    return values


def query(text: str) -> dict[str, Any]:
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


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(value, "string")
    return value


def number(low: float = -math.inf, high: float = math.inf, *, whole: bool = False) -> Read:
    """A finite number within bounds."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, "number")
        return _bounded(value, low, high, whole=whole)

    return read


def boolean(value: object) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise _wrong(value, "boolean")
    return value


def texts(value: object) -> list[str]:
    """A list of strings."""
    if not isinstance(value, list):
        raise _wrong(value, "array")
    return [text(each) for each in value]


def choice(*words: str) -> Read:
    """One of some words."""

    def read(value: object) -> str:
        if value not in words:
            options = " | ".join(f"'{word}'" for word in words)
            message = f"Invalid enum value. Expected {options}, received '{value}'"
            raise ValueError(message)
        return str(value)

    return read


def anything(value: object) -> object:
    """Any value but null."""
    if value is None:
        raise _wrong(value, "object")
    return value


# Of queries


def numeral(low: float = -math.inf, high: float = math.inf, *, whole: bool = False) -> Read:
    """A number as text, within bounds."""

    def read(value: object) -> float:
        try:
            parsed = float(text(value))
        except ValueError:
            message = "Expected number, received nan"
            raise ValueError(message) from None
        return _bounded(parsed, low, high, whole=whole)

    return read


def yes_no(value: object) -> bool:
    """One of the words true and false."""
    return bool(choice("true", "false")(value) == "true")


def one_or_more(value: object) -> list[str]:
    """A string, or a list of them."""
    return [value] if isinstance(value, str) else texts(value)


def impossible(value: object) -> object:
    """A real boolean, which no query can hold."""
    raise _wrong(value, "boolean")


def _wrong(value: object, kind: str) -> ValueError:
    names = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", type(None): "null"}
    return ValueError(f"Expected {kind}, received {names.get(type(value), 'object')}")


def _bounded(value: float, low: float, high: float, *, whole: bool) -> float:
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
    "term": Field(text, ""),
    "filter": Field(choice(*_FILTERS), "all"),
    "sort": Field(choice(*_SORTS), "score"),
    "contractType": Field(choice(*_TYPES), "ALL"),
    "limit": Field(numeral(1, 1000, whole=True), 100),
    "offset": Field(numeral(0, 1000, whole=True), 0),
    "beforeTime": Field(numeral()),
    "topicSlug": Field(text),
    "creatorId": Field(text),
    "gids": Field(text),
    "liquidity": Field(numeral()),
    "token": Field(choice("MANA", "CASH", "ALL", "CASH_AND_MANA"), "MANA"),
    "includeLiteAnswers": Field(yes_no, default=False),
    "hasBets": Field(choice("0", "1"), "0"),
    "forYou": Field(choice("0", "1"), "0"),
    "isPrizeMarket": Field(choice("0", "1", "true", "false"), "0"),
}
MARKETS = {
    "limit": Field(numeral(0, 1000, whole=True), 500),
    "sort": Field(choice("created-time", "updated-time", "last-bet-time", "last-comment-time"), "created-time"),
    "order": Field(choice("asc", "desc"), "desc"),
    "before": Field(text),
    "userId": Field(text),
    "groupId": Field(text),
}
PROBS = {"ids": needed(texts)}
ONE_MARKET = {"lite": Field(yes_no, default=False)}
BETS = {
    "id": Field(text),
    "userId": Field(text),
    "username": Field(text),
    "contractId": Field(one_or_more),
    "contractSlug": Field(text),
    "answerId": Field(text),
    "limit": Field(numeral(0, 10_000, whole=True), 10_000),
    "before": Field(text),
    "after": Field(text),
    "beforeTime": Field(numeral()),
    "afterTime": Field(numeral()),
    "order": Field(choice("asc", "desc"), "desc"),
    "kinds": Field(choice("open-limit")),
    "minAmount": Field(numeral()),
    "filterRedemptions": Field(yes_no, default=False),
    "excludeApi": Field(yes_no, default=False),
    "count": Field(yes_no, default=False),
    "points": Field(yes_no, default=False),
}
COMMENTS = {
    "contractId": Field(text),
    "contractSlug": Field(text),
    "userId": Field(text),
    "limit": Field(numeral(0, 1000, whole=True), 1000),
    "page": Field(numeral(0, whole=True), 0),
    "afterTime": Field(numeral()),
    "order": Field(choice("likes", "newest", "oldest"), "newest"),
}
POSITIONS = {
    "userId": Field(text),
    "answerId": Field(text),
    "top": Field(numeral(whole=True)),
    "bottom": Field(numeral(whole=True)),
    "order": Field(choice("shares", "profit")),
    "summaryOnly": Field(impossible),
}
METRICS = {
    "userId": needed(text),
    "limit": Field(numeral(0, 10_000, whole=True), 100),
    "offset": Field(numeral(0, whole=True), 0),
    "perAnswer": Field(yes_no, default=False),
    "order": Field(choice("lastBetTime", "profit")),
}
PORTFOLIO = {"userId": needed(text)}

BET = {
    "contractId": needed(text),
    "amount": needed(number(1)),
    "outcome": Field(choice("YES", "NO"), "YES"),
    "limitProb": Field(number(0.01, 0.99)),
    "expiresAt": Field(number()),
    "expiresMillisAfter": Field(number()),
    "answerId": Field(text),
    "dryRun": Field(boolean, default=False),
    "deps": Field(texts),
    "deterministic": Field(boolean, default=False),
    "silent": Field(boolean, default=False),
    "replyToCommentId": Field(text),
}
CANCEL: Mapping[str, Field] = {}
SELL = {
    "outcome": needed(choice("YES", "NO")),
    "shares": Field(number(1e-12)),
    "answerId": Field(text),
    "deterministic": Field(boolean, default=False),
}
MULTI_BET = {
    "contractId": needed(text),
    "answerIds": needed(texts),
    "amount": needed(number(1)),
    "limitProb": Field(number(0.01, 0.99)),
    "expiresAt": Field(number()),
    "deterministic": Field(boolean, default=False),
}
COMMENT = {
    "contractId": needed(text),
    "content": Field(anything),
    "html": Field(text),
    "markdown": Field(text),
    "replyToCommentId": Field(text),
    "replyToAnswerId": Field(text),
    "replyToBetId": Field(text),
}
BOT_STATUS = {"userId": needed(text), "isBot": needed(boolean)}
