"""Mutates real samples of inputs: values, keys and structure of JSON, and the bytes of anything."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

Mutate = Callable[[bytes], bytes]
# Of how many inputs of JSON the values are changed; of the others, the bytes.
STRUCTURED = 0.75
MOST_EDITS = 3
ODD_VALUES: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    10**30,
    2**63,
    -(2**63) - 1,
    float("nan"),
    float("inf"),
    float("-inf"),
    253402300800,
    253402300800000,
    -62135596801,
    "",
    " ",
    "0",
    "NaN",
    "-1",
    "1e999",
    "9" * 5_000,
    "null",
    "\x00",
    "\ud800",
    "\u202e\u0000",
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "2026-02-30",
    "2026-03-01T24:00:00Z",
    "http://[",
    "https://\ud800.example/",
    "../../etc/passwd",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"\ud800": "\ud800"},
)
TOKENS: Sequence[bytes] = (
    b"",
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b'"',
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"&",
    b"&#0;",
    b"&#55296;",
    b"]]>",
    b"<![CDATA[",
    b"<!--",
    b",",
    b";",
    b":",
    b"=",
    b".",
    b"\n",
    b"\r",
    b"\t",
    b"-",
    b"null",
    b"true",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-0",
    b"99999999999999999999",
    b"\\ud800",
    b"\\u0000",
    b"{" * 400,
    b"[" * 100_000,
    b"a." * 60,
)
ODD_BYTES = 256


def mutate(chance: random.Random, body: bytes) -> bytes:
    """Return the body with one to three changes."""
    known = _parsed(body) if chance.random() < STRUCTURED else None
    if known is None:
        for _ in range(chance.randint(1, MOST_EDITS)):
            body = _with_other_bytes(chance, body)
        return body
    (value,) = known
    for _ in range(chance.randint(1, MOST_EDITS)):
        value = _with_other_value(chance, value)
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError):
        return body


@lru_cache(maxsize=256)
def _parsed(body: bytes) -> tuple[Any] | None:
    try:
        return (json.loads(body),)
    except (ValueError, RecursionError):
        return None


def _with_other_bytes(chance: random.Random, body: bytes) -> bytes:
    first, last = sorted(chance.randrange(len(body) + 1) for _ in range(2))
    before, after = body[:first], body[first:]
    changes: Sequence[Callable[[], bytes]] = (
        lambda: before,
        lambda: before + body[min(last, first + 40) :],
        lambda: before + chance.choice(TOKENS) + after,
        lambda: before + chance.choice(TOKENS) + after[1:],
        lambda: before + after[:200] * chance.randint(2, 20) + after,
        lambda: before + bytes([chance.randrange(ODD_BYTES)]) + after[1:],
        lambda: body[first:last] + before,
    )
    return chance.choice(changes)()


def _with_other_value(chance: random.Random, value: Any) -> Any:
    """Return a copy in which one value somewhere is another; what is not changed is shared."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice([*value])
        return {**value, key: _with_other_value(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        return [*value[:place], _with_other_value(chance, value[place]), *value[place + 1 :]]
    if chance.random() < 0.4:
        return chance.choice(ODD_VALUES)
    return _with_other_form(chance, value)


def _with_other_form(chance: random.Random, value: Any) -> Any:
    match value:
        case dict():
            return _with_other_keys(chance, value)
        case list():
            return chance.choice(
                [value * 2, value[::-1], value[1:], [value], [*value, *[None] * 3], dict.fromkeys("ab", value)]
            )
        case bool():
            return not value
        case int() | float():
            return chance.choice(
                [
                    -value,
                    value * 1e3,
                    value / 7,
                    str(value),
                    [value],
                    value + 1,
                    round(value) if abs(value) < 1e300 else 0,
                ]
            )
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return _with_other_bytes(chance, text).decode("utf-8", "replace")[:20_000]
    return [value]


def _with_other_keys(chance: random.Random, value: dict[str, Any]) -> Any:
    keys = [*value] or [""]
    one, other = chance.choice(keys), chance.choice(keys)
    match chance.randrange(5):
        case 0:
            return {key: item for key, item in value.items() if key != one}
        case 1:
            return {**value, one: value.get(other), other: value.get(one)}
        case 2:
            return {**value, f"{one}_": value.get(one), "": one}
        case 3:
            return [*value.items()]
        case _:
            return {**value, one: dict(value)}
