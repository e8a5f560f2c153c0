"""What both dialects end in: a move, or the reason why an answer is none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import structlog

from bot.agent.reading import written
from bot.domain.prompt import Completion, Finish, Message, Prompt, Tool
from bot.domain.step import Json

log = structlog.get_logger()

# What stands in a conversation for an answer that held nothing.
NOTHING = "(nothing)"
# An answer of the largest model is far below this; what is longer is not looked at.
MOST_CHARS = 200_000

_THOUGHTS = re.compile(r"<(think|thinking|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_REST_OF_THOUGHTS = re.compile(r"^.*</(?:think|thinking|thought)>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One action of a model. ``belief`` is the update as it was sent, unchecked; None where there was none.

    ``call`` is the id of the native call that it was; ``notes`` say what was strange about it.
    """

    name: str
    arguments: Mapping[str, Json]
    belief: Json = None
    call: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Garble:
    """An answer that is no move, and why; the reason is for the model too."""

    why: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A JSON object, with notes on how it was found."""

    value: dict[str, Json]
    notes: tuple[str, ...] = field(default=())


class Speech(Protocol):
    """A dialect: how a prompt is put, an answer read, and both kept in the conversation."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], allowed: Sequence[Tool] = ()) -> Prompt:
        """Return the prompt that offers ``tools``, of which those ``allowed`` may be called now (none: all of them)."""
        ...

    def listing(self, tools: Sequence[Tool]) -> str:
        """Return what the conversation has to say of tools that it did not offer before."""
        ...

    def read(self, completion: Completion) -> Move | Garble:
        """Return the move that an answer is."""
        ...

    def message(self, completion: Completion, move: Move | None) -> Message:
        """Return the answer as it stays in the conversation: as it came, wherever a provider takes that back.

        Without a ``move`` it is an answer that could not be used.
        """
        ...

    def replies(self, message: Message, text: str) -> list[Message]:
        """Return the messages that answer ``message``: ``text`` for its first call, a remark for each other one."""
        ...


def parsed(text: str, *, complete: bool) -> Parsed | Garble:
    """Return the first JSON object in a text, after any thinking aloud.

    Numbers that are no numbers (NaN, Infinity, 1e999) make it garble. One that is not quite JSON is mended where it
    came to its end (``complete``): mending a text that was cut off would turn 75 into 7.
    """
    bare = _without_thoughts(text[:MOST_CHARS].strip())
    start = bare.find("{")
    if start < 0:
        return Garble("there was no JSON object in the answer")
    try:
        value, end = _DECODER.raw_decode(bare, start)
    except _Unusable as error:
        return Garble(str(error))
    except (ValueError, RecursionError):
        return _mended(bare[start:], complete=complete)
    more = "{" in bare[end:]
    return Parsed(
        value if _is_writable(bare) else written_object(value),
        ("more than one object came; only the first counts",) if more else (),
    )


def written_object(value: Mapping[str, Json]) -> dict[str, Json]:
    """Return an object whose texts any file can hold."""
    cleaned = written(dict(value))
    return cleaned if isinstance(cleaned, dict) else {}


def _is_writable(text: str) -> bool:
    """Say whether what JSON text means can be written as it is; most texts are told at a glance."""
    return text.isascii() and "\x7f" not in text and not any(escape in text for escape in _ESCAPES)


def why_empty(completion: Completion) -> str:
    """Return why an answer holds no move at all."""
    match completion.finish:
        case Finish.REFUSED:
            return "the model refused to answer"
        case Finish.LENGTH:
            return "the answer was cut off at its greatest length"
        case _:
            return "the answer held no action"


def _without_thoughts(text: str) -> str:
    # What begins with an object is left alone: a quotation inside of it may hold such a mark.
    return text if text.startswith("{") else _REST_OF_THOUGHTS.sub("", _THOUGHTS.sub("", text))


class _Unusable(ValueError):
    """The text is JSON in form, with a value that nobody can use."""


def _no_number(text: str) -> NoReturn:
    message = f"{text[:40]} is not a number that can be used"
    raise _Unusable(message)


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


# Integers beyond a float are as unusable as infinity.
def _integer(text: str) -> int:
    return int(text) if len(text) < 300 else _no_number(text)


# How JSON text may say what no file can hold; line breaks, tabs and quotation marks have escapes of their own.
_ESCAPES = ("\\u", "\\b", "\\f")
_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_number, parse_int=_integer)


def _mended(text: str, *, complete: bool) -> Parsed | Garble:
    if not complete or not text.rstrip().rstrip("`").rstrip().endswith("}"):
        return Garble("the JSON object was cut off")
    import json_repair  # noqa: PLC0415 - needed for the rare answer that is not JSON

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except Exception as error:  # noqa: BLE001 - a foreign parser on foreign text: whatever it raises costs one move
        return Garble(f"the answer was not JSON ({type(error).__name__})")
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict) or not value or not _finite(value):
        return Garble("the answer was not a JSON object")
    log.info("answer mended", chars=len(text))
    return Parsed(written_object(value), ("the answer was not quite JSON and was mended",))


def _finite(value: object) -> bool:
    match value:
        case dict():
            return all(isinstance(key, str) and _finite(item) for key, item in value.items())
        case list():
            return all(map(_finite, value))
        case float():
            return math.isfinite(value)
        case int():
            return abs(value) < 10**300
        case _:
            return value is None or isinstance(value, str)
