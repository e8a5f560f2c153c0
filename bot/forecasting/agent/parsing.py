"""Numbers and texts as a model writes them: checked, or refused in words that the model can act on."""

import json
import math
import re
from datetime import UTC, datetime

from bot.core.values import Json

MAX_TEXT = 2000
# Ends a text that was cut.
CUT_MARK = " ..."

# Control characters other than line breaks and tabs, and halves of surrogate pairs, which no file can hold.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class UnreadableAnswer(ValueError):
    """A model's answer is not what was asked for; the message is for the model."""


def read_number(raw: Json, what: str) -> float:
    """Return a finite number; texts such as "0.7" and "70 %" count; raises UnreadableAnswer for anything else."""
    value: object = raw
    if isinstance(raw, str) and len(raw) <= 40:
        text, percent = raw.strip(), raw.strip().endswith("%")
        try:
            value = float(text.removesuffix("%")) / (100.0 if percent else 1.0)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"{what} should be a number, not {abbreviate_json(raw)}"
        raise UnreadableAnswer(message)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        message = f"{what} should be a finite number, not {abbreviate_json(raw)}"
        raise UnreadableAnswer(message)
    return found


def read_probability(raw: Json, what: str, *, percent: bool) -> float:
    """Return a probability in [0, 1], given as such or in percent; raises UnreadableAnswer.

    A percentage between 0 and 1 counts only as a text with its sign.
    """
    value = round(read_percentage(raw, what) / 100.0, 12) if percent else read_number(raw, what)
    if percent and 0.0 < value < 0.01 and not _has_percent_sign(raw):
        # 0.7 may be seven in a thousand or a fraction, and a wrong guess would be very costly.
        given = round(100.0 * value, 10)
        message = (
            f"{what} is {abbreviate_json(raw)}, which may mean {given:g} % or {100.0 * given:g} %; "
            f'write {100.0 * given:g}, or "{given:g} %" if you mean less than one percent'
        )
        raise UnreadableAnswer(message)
    if not 0.0 <= value <= 1.0:
        message = f"{what} should be between 0 and 1, not {abbreviate_json(raw)}"
        raise UnreadableAnswer(message)
    return value


def read_percentage(raw: Json, what: str) -> float:
    """Return a percentage in [0, 100], with or without its sign; raises UnreadableAnswer."""
    given = read_number(raw, what) * (100.0 if _has_percent_sign(raw) else 1.0)
    if not 0.0 <= given <= 100.0:
        message = f"{what} should be between 0 and 100, not {abbreviate_json(raw)}"
        raise UnreadableAnswer(message)
    return given


def _has_percent_sign(raw: Json) -> bool:
    return isinstance(raw, str) and raw.strip().endswith("%")


def read_timestamp(raw: Json, what: str) -> float:
    """Return seconds since 1970 for an ISO date or moment (UTC if it names no zone); raises UnreadableAnswer."""
    try:
        parsed = datetime.fromisoformat(raw.strip()) if isinstance(raw, str) else None
        if parsed is not None:
            return (parsed if parsed.utcoffset() is not None else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    message = f"{what} should be a date such as 2026-03-01, not {abbreviate_json(raw)}"
    raise UnreadableAnswer(message)


def read_text(raw: Json, limit: int = MAX_TEXT) -> str:
    """Return a text of at most ``limit`` characters, without those that no file can hold; "" for other types.

    A longer text is cut behind a word.
    """
    return cut_text(remove_control_characters(raw[: 2 * limit]).strip(), limit) if isinstance(raw, str) else ""


def cut_text(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters: a longer one is cut behind a word, and ends with dots."""
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - len(CUT_MARK))]
    whole_words = kept.rsplit(None, 1)[0] if not text[len(kept)].isspace() else kept
    # A text without spaces, such as an address or Chinese, is cut where it must be.
    return f"{(whole_words if 2 * len(whole_words) > limit else kept).rstrip()}{CUT_MARK}"[:limit]


def remove_control_characters(raw: str) -> str:
    """Return a text without characters that no file can hold."""
    # Printable text can always be written, and this check is far faster.
    return raw if raw.isprintable() else _UNWRITABLE.sub("", raw)


def clean_json(raw: Json) -> Json:
    """Return a JSON value with all its texts as ``read_text`` cleans them, uncut."""
    match raw:
        case str():
            return remove_control_characters(raw)
        case list():
            return [clean_json(item) for item in raw]
        case dict():
            return {remove_control_characters(key): clean_json(item) for key, item in raw.items()}
        case _:
            return raw


def abbreviate_json(raw: Json) -> str:
    """Return a value for use in a message: JSON of at most 60 characters."""
    shown = json.dumps(raw, ensure_ascii=True, default=str)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
