"""Numbers and texts as a model writes them: read with suspicion, or refused in words that the model can act on."""

import json
import math
import re
from datetime import UTC, datetime

from bot.domain.step import Json

MAX_TEXT = 2000

# Control characters other than line breaks and tabs, and halves of surrogate pairs, which no file can hold.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Misread(ValueError):
    """What a model wrote does not say what was asked for; the message is for the model."""


def number(raw: Json, what: str) -> float:
    """Return a finite number; texts such as "0.7" and "70 %" count; raises Misread for anything else."""
    value: object = raw
    if isinstance(raw, str) and len(raw) <= 40:
        text, percent = raw.strip(), raw.strip().endswith("%")
        try:
            value = float(text.removesuffix("%")) / (100.0 if percent else 1.0)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{what} should be a number, not {short(raw)}"
        raise Misread(message)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        message = f"{what} should be a finite number, not {short(raw)}"
        raise Misread(message)
    return found


def share(raw: Json, what: str, *, percent: bool) -> float:
    """Return a probability in [0, 1], given as such or in percent; raises Misread.

    A percentage between 0 and 1 counts only as a text with its sign.
    """
    value = round(in_percent(raw, what) / 100.0, 12) if percent else number(raw, what)
    if percent and 0.0 < value < 0.01 and not _has_sign(raw):
        # 0.7 may be seven in a thousand or a fraction; to guess wrong would cost most of what there is to lose.
        given = round(100.0 * value, 10)
        message = (
            f"{what} is {short(raw)}, which may mean {given:g} % or {100.0 * given:g} %; write {100.0 * given:g}, or "
            f'"{given:g} %" if you mean less than one percent'
        )
        raise Misread(message)
    if not 0.0 <= value <= 1.0:
        message = f"{what} should be between 0 and 1, not {short(raw)}"
        raise Misread(message)
    return value


def in_percent(raw: Json, what: str) -> float:
    """Return a percentage in [0, 100], with or without its sign; raises Misread."""
    given = number(raw, what) * (100.0 if _has_sign(raw) else 1.0)
    if not 0.0 <= given <= 100.0:
        message = f"{what} should be between 0 and 100, not {short(raw)}"
        raise Misread(message)
    return given


def _has_sign(raw: Json) -> bool:
    return isinstance(raw, str) and raw.strip().endswith("%")


def moment(raw: Json, what: str) -> float:
    """Return seconds since 1970 for an ISO date or moment (UTC where it names no zone); raises Misread."""
    try:
        parsed = datetime.fromisoformat(raw.strip()) if isinstance(raw, str) else None
        if parsed is not None:
            return (parsed if parsed.utcoffset() is not None else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    message = f"{what} should be a date such as 2026-03-01, not {short(raw)}"
    raise Misread(message)


def text(raw: Json, limit: int = MAX_TEXT) -> str:
    """Return a text cut to ``limit`` characters and without what no file can hold; empty for anything else."""
    return writable(raw[: 2 * limit]).strip()[:limit] if isinstance(raw, str) else ""


def writable(raw: str) -> str:
    """Return a text without what no file can hold."""
    # What can be printed is a part of what can be written, and is told apart far quicker.
    return raw if raw.isprintable() else _UNWRITABLE.sub("", raw)


def written(raw: Json) -> Json:
    """Return a JSON value with all its texts as ``text`` cleans them, uncut."""
    match raw:
        case str():
            return writable(raw)
        case list():
            return [written(item) for item in raw]
        case dict():
            return {writable(key): written(item) for key, item in raw.items()}
        case _:
            return raw


def short(raw: Json) -> str:
    """Return a value as it may stand in a message: JSON of at most 60 characters."""
    shown = json.dumps(raw, ensure_ascii=True, default=str)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
