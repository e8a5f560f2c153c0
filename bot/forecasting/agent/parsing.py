"""The parsing of a model's answer: numbers, texts, JSON objects, and the action in it.

An invalid value is refused with an UnreadableAnswer in words that the model can act on. An answer without an action
becomes a ParseFailure with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import NoReturn, Protocol

import structlog

from bot.core.language_models import FinishReason, Message, ModelCompletion, Prompt, ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.values import Json

MAX_TEXT = 2000
# Ends a text that was cut.
CUT_MARK = " ..."

_WORD = re.compile(r"\w+")
# Control characters other than line breaks and tabs, and halves of surrogate pairs, which no file can hold.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class UnreadableAnswer(ValueError):
    """A model's answer is not what was asked for; the message is for the model."""


def read_number(raw: Json, what: str) -> float:
    """Return a finite number; texts such as "0.7" and "70 %" count; raises UnreadableAnswer for anything else."""
    if isinstance(raw, float) and math.isfinite(raw):
        return raw
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
    # Ten texts of each answer are read, nearly all of them short and printable.
    if not raw or not isinstance(raw, str):
        return ""
    text = raw[: 2 * limit]
    if not text.isprintable():
        text = remove_control_characters(text)
    text = text.strip()
    return text if len(text) <= limit else cut_text(text, limit)


def cut_text(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters: a longer one is cut behind a word, and ends with dots."""
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - len(CUT_MARK))]
    whole_words = (kept.rsplit(None, 1) or [""])[0] if not text[len(kept)].isspace() else kept
    # A text without spaces, such as an address or Chinese, is cut where it must be.
    return f"{(whole_words if 2 * len(whole_words) > limit else kept).rstrip()}{CUT_MARK}"[:limit]


def cut_line(text: str, limit: int) -> str:
    """Return a text in one line of at most ``limit`` characters."""
    return cut_text(" ".join(text.split()), limit)


def significant_words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, without those of one or two letters, which every text has."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if len(word) > 2 or word.isdigit())


def read_whole_number(raw: Json, what: str, most: int) -> int:
    """Return a whole number from 1 to ``most``; raises UnreadableAnswer for any other value."""
    given = read_number(raw, what)
    if not given.is_integer() or not 1 <= given <= most:
        message = f"{what} should be a whole number from 1 to {most}, not {abbreviate_json(raw)}"
        raise UnreadableAnswer(message)
    return int(given)


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


log = structlog.get_logger()

# Represents an empty answer in a conversation.
EMPTY_ANSWER = "(nothing)"
# An answer of the largest model is far shorter; longer ones are not parsed.
MAX_ANSWER_CHARS = 200_000

_THOUGHTS = re.compile(r"<(think|thinking|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_REST_OF_THOUGHTS = re.compile(r"^.*</(?:think|thinking|thought)>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAction:
    """One action of a model. ``belief`` is the update as sent, unchecked; None if there was none.

    ``call`` is the id of the native call; ``notes`` describe anything unusual about it.
    """

    name: str
    arguments: Mapping[str, Json]
    belief: Json = None
    call: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """An answer without an action, and why; the reason is for the model too."""

    reason: str


@dataclass(frozen=True, slots=True)
class ParsedObject:
    """A JSON object, with notes on how it was found."""

    value: dict[str, Json]
    notes: tuple[str, ...] = field(default=())


class ActionDialect(Protocol):
    """A dialect: how a prompt is written, an answer parsed, and both kept in the conversation."""

    def build_prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        allowed: Sequence[ToolDefinition] = (),
        *,
        model: str = "",
        handover: tuple[Message, ...] = (),
    ) -> Prompt:
        """Return the prompt that offers ``tools``; those in ``allowed`` may be called now (None: all of them).

        ``model`` took part in the conversation, and another one gets the ``handover``.
        """
        ...

    def describe_tools(self, tools: Sequence[ToolDefinition]) -> str:
        """Return the description of tools that the conversation did not offer before."""
        ...

    def read_action(self, completion: ModelCompletion) -> ModelAction | ParseFailure:
        """Return the action in an answer."""
        ...

    def build_message(self, completion: ModelCompletion, action: ModelAction | None) -> Message:
        """Return the answer as it is kept in the conversation: unchanged, if a provider accepts that.

        Without an ``action`` the answer could not be used.
        """
        ...

    def build_replies(self, message: Message, text: str) -> list[Message]:
        """Return the messages that answer ``message``: ``text`` for its first call, a remark for each other call."""
        ...


def parse_object(text: str, *, complete: bool) -> ParsedObject | ParseFailure:
    """Return the first JSON object in a text, after any thinking aloud.

    Values that are not finite numbers (NaN, Infinity, 1e999) make the answer invalid. Invalid JSON is repaired if the
    answer is ``complete``: repairing a truncated text would turn 75 into 7.
    """
    stripped = _remove_thoughts(text[:MAX_ANSWER_CHARS].strip())
    start = stripped.find("{")
    if start < 0:
        return ParseFailure("there was no JSON object in the answer")
    try:
        value, end = _DECODER.raw_decode(stripped, start)
    except _UnusableNumber as error:
        return ParseFailure(str(error))
    except (ValueError, RecursionError):
        return _repair_object(stripped[start:], complete=complete)
    more = "{" in stripped[end:]
    return ParsedObject(
        value if _is_writable(stripped) else clean_object(value),
        ("more than one object came; only the first counts",) if more else (),
    )


def clean_object(value: Mapping[str, Json]) -> dict[str, Json]:
    """Return the object with texts that any file can hold."""
    cleaned = clean_json(dict(value))
    return cleaned if isinstance(cleaned, dict) else {}


def _is_writable(text: str) -> bool:
    """Say whether the value of a JSON text can be written unchanged; for most texts this check is fast."""
    return text.isascii() and "\x7f" not in text and _ESCAPED_CHARACTER.search(text) is None


def explain_empty_answer(completion: ModelCompletion) -> str:
    """Return why an answer holds no action."""
    match completion.finish:
        case FinishReason.REFUSED:
            return "the model refused to answer"
        case FinishReason.LENGTH:
            return "the answer was cut off at its greatest length"
        case _:
            return "the answer held no action"


def _remove_thoughts(text: str) -> str:
    # A text that begins with an object is not changed: a quotation in it may hold such a mark.
    return text if text.startswith("{") else _REST_OF_THOUGHTS.sub("", _THOUGHTS.sub("", text))


class _UnusableNumber(ValueError):
    """The text is valid JSON, with a value that cannot be used."""


def _refuse_number(text: str) -> NoReturn:
    message = f"{text[:40]} is not a number that can be used"
    raise _UnusableNumber(message)


def _parse_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


# Integers beyond a float are as unusable as infinity.
def _parse_integer(text: str) -> int:
    return int(text) if len(text) < 300 else _refuse_number(text)


# Escapes in JSON text for characters that no file can hold; line breaks, tabs and quotation marks have their own.
_ESCAPED_CHARACTER = re.compile(r"\\[ubf]")
_DECODER = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_parse_float, parse_int=_parse_integer)


def _repair_object(text: str, *, complete: bool) -> ParsedObject | ParseFailure:
    if not complete or not text.rstrip().rstrip("`").rstrip().endswith("}"):
        return ParseFailure("the JSON object was cut off")
    import json_repair  # noqa: PLC0415 - needed for the rare answer that is not JSON

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except Exception as error:  # noqa: BLE001 - a foreign parser on foreign text: its errors cost one action
        return ParseFailure(f"the answer was not JSON ({type(error).__name__})")
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict) or not value or not _is_finite(value):
        return ParseFailure("the answer was not a JSON object")
    log.info("answer repaired", chars=len(text))
    return ParsedObject(clean_object(value), ("the answer was not quite JSON and was mended",))


def _is_finite(value: object) -> bool:
    match value:
        case dict():
            return all(isinstance(key, str) and _is_finite(item) for key, item in value.items())
        case list():
            return all(map(_is_finite, value))
        case float():
            return math.isfinite(value)
        case int():
            return abs(value) < 10**300
        case _:
            return value is None or isinstance(value, str)
