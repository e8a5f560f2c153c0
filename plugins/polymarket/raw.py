"""Values as this venue writes them: numbers as numbers or text, lists as JSON inside JSON, moments in four forms.

Whatever cannot be read is None here; whoever needs the value decides what that costs.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

_WIDEST = 60
# Whole numbers above the first are seconds, above the second milliseconds since 1970.
_EPOCH_S = 100_000_000
_EPOCH_MS = 100_000_000_000


def decimal_of(value: object) -> Decimal | None:
    """Return a number that came as int, float or text; None for anything else, also for NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    text = str(value).strip()
    if not text.isascii() or "_" in text:
        return None
    try:
        number = Decimal(text)
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _WIDEST else None


def moment_of(value: object) -> datetime | None:
    """Return a moment in UTC: RFC 3339 with any number of digits, ``2026-05-09 02:07:01+00``, seconds or milliseconds.

    Seconds and milliseconds since 1970 may come as text. A moment without a zone is meant in UTC.
    """
    if isinstance(value, str) and not value.strip().isdigit():
        return _written(value.strip())
    number = decimal_of(value)
    if number is None or number < _EPOCH_S:
        return None
    try:
        return datetime.fromtimestamp(float(number) / (1000.0 if number >= _EPOCH_MS else 1.0), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _written(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def list_of(value: object) -> list[object] | None:
    """Return a list that came as one, or as JSON text; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return list(value) if isinstance(value, list | tuple) else None


def texts_of(value: object) -> tuple[str, ...] | None:
    """Return a list of texts, each not empty; whole numbers in it become texts, digit by digit.

    A float is none: it has lost digits of an id already.
    """
    found = list_of(value)
    if found is None:
        return None
    texts = tuple(str(item) for item in found if isinstance(item, str | int) and not isinstance(item, bool))
    return texts if len(texts) == len(found) and all(texts) else None


def text_of(value: object) -> str:
    """Return a text, "" for anything that is none or could not be kept."""
    if not isinstance(value, str):
        return ""
    return value.encode(errors="replace").decode().strip()


def flag_of(value: object) -> bool | None:
    """Return true or false, also where it came as text; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def record_of(value: object) -> Mapping[str, object]:
    """Return a JSON object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
