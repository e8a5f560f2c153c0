"""Parses values of this venue: numbers as numbers or text, lists as JSON inside JSON, moments in four forms.

An invalid value is None; the caller decides what that means.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

_MAX_EXPONENT = 60
# Whole numbers above the first are seconds, above the second milliseconds since 1970.
_MIN_SECONDS = 100_000_000
_MIN_MILLISECONDS = 100_000_000_000


def parse_decimal(value: object) -> Decimal | None:
    """Return a number given as int, float or text; None for anything else, also for NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    text = str(value).strip()
    if not text.isascii() or "_" in text:
        return None
    try:
        number = Decimal(text)
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _MAX_EXPONENT else None


def parse_moment(value: object) -> datetime | None:
    """Return a moment in UTC: RFC 3339 with any number of digits, ``2026-05-09 02:07:01+00``, seconds or milliseconds.

    Seconds and milliseconds since 1970 may be text. A moment without a zone is in UTC.
    """
    if isinstance(value, str) and not value.strip().isdigit():
        return _parse_written_moment(value.strip())
    number = parse_decimal(value)
    if number is None or number < _MIN_SECONDS:
        return None
    try:
        return datetime.fromtimestamp(float(number) / (1000.0 if number >= _MIN_MILLISECONDS else 1.0), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _parse_written_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_list(value: object) -> list[object] | None:
    """Return a list given as a list or as JSON text; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return list(value) if isinstance(value, list | tuple) else None


def parse_texts(value: object) -> tuple[str, ...] | None:
    """Return a list of texts, each not empty; whole numbers in it become texts, digit by digit.

    A float is invalid: it has already lost digits of an id.
    """
    found = parse_list(value)
    if found is None:
        return None
    texts = tuple(str(item) for item in found if isinstance(item, str | int) and not isinstance(item, bool))
    return texts if len(texts) == len(found) and all(texts) else None


def parse_text(value: object) -> str:
    """Return a text that can be encoded, "" for anything else."""
    if not isinstance(value, str):
        return ""
    return value.encode(errors="replace").decode().strip()


def parse_flag(value: object) -> bool | None:
    """Return true or false, also given as text; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def parse_record(value: object) -> Mapping[str, object]:
    """Return a JSON object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
