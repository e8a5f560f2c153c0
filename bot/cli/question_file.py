"""A question of somebody's own, as TOML or JSON: read, checked, and told what to mend."""

import json
import math
import re
import stat
import tomllib
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.cli.question_tables import QuestionTable
from bot.config.document import Key
from bot.config.nearest import instead
from bot.config.problems import KINDS, TEXTS, dotted
from bot.config.shape import at, known, names
from bot.domain.invisible import visible
from bot.domain.question import Question, QuestionRef
from bot.errors import ContractError, NotFound

FILE_VENUE = "file"
ENDINGS = (".toml", ".json")
MAX_BYTES = 1024 * 1024
SLUG_CHARS = 80
# No key has more than three parts; the parser needs a time that grows with the square of them.
_PART = r"(?:[\w-]++|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"
_DEEP_KEY = re.compile(rf"(?<![\w\\-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{16}}")
EXAMPLES = {"title": 'title = "Will it rain in Paris on 24 December 2026?"'}


def read_question(path: Path, *, now: datetime) -> Question:
    """Return the question of a file; ``now`` is when the crowd said what it says, unless the file tells.

    Raises NotFound for a file that is not there, and ContractError, with a line for each fault that names file, key and
    remedy, for one that is not of the documented form.
    """
    table = _checked(path, _parsed(path))
    try:
        key = table.key or slug(table.title)
        return table.question(QuestionRef(FILE_VENUE, key), now=now)
    except ValueError as error:
        message = f"{path}: {str(error).removeprefix(f'{FILE_VENUE}:')}"
        raise ContractError(message) from error


def slug(title: str) -> str:
    """Return a title as a key: lower-case letters and digits of any script with hyphens between; raises ValueError."""
    words = re.findall(r"\w+", visible(unicodedata.normalize("NFKC", title)).casefold().replace("_", " "))
    joined = "-".join(words)
    if not joined:
        message = 'title: has no letter or digit to make a key of; add one, such as key = "rain-in-paris"'
        raise ValueError(message)
    return joined[:SLUG_CHARS].rstrip("-")


def _parsed(path: Path) -> Any:  # noqa: ANN401 - the edge of JSON and TOML
    text = _text(path)
    is_json = path.suffix.lower() == ".json"
    if not is_json and (deep := _DEEP_KEY.search(text)) is not None:
        line = text.count("\n", 0, deep.start()) + 1
        message = f"{path}: line {line}: a key of so many parts is none of a question; take out its dots"
        raise ContractError(message)
    try:
        return json.loads(text) if is_json else tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: is not valid TOML: {error}; texts stand in quotes, and a file of JSON ends in .json"
    except json.JSONDecodeError as error:
        message = f"{path}: is not valid JSON: {error}"
    except RecursionError:
        message = f"{path}: is nested too deeply for a question"
    except ValueError as error:  # a date such as 2026-02-30
        message = f"{path}: {error}"
    raise ContractError(message)


def _text(path: Path) -> str:
    try:
        # To open a pipe would wait for somebody who writes, and a device may never end.
        if not stat.S_ISREG(path.stat().st_mode):
            message = f"{path}: is no file that can be read as a whole; name a .toml or .json file"
            raise NotFound(message)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}; name a question, an address, or a .toml or .json file"
        raise NotFound(message) from error
    if len(content) > MAX_BYTES:
        message = f"{path}: is larger than {MAX_BYTES} bytes; a question has no such long texts"
        raise ContractError(message)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise ContractError(message) from error


def _checked(path: Path, plain: Any) -> QuestionTable:  # noqa: ANN401 - as it was parsed
    if not isinstance(plain, dict):
        message = f"{path}: should be one table (in JSON an object) with a title"
        raise ContractError(message)
    try:
        return QuestionTable.model_validate(plain)
    except ValidationError as error:
        lines = _lines(path, error.errors(include_url=False))
    # Without its cause: pydantic repeats the whole file.
    raise ContractError("\n".join(lines)) from None


def _lines(path: Path, faults: list[ErrorDetails]) -> list[str]:
    """Tell the first fault of each key: where several types would do, each of them has its own."""
    told: dict[Key, str] = {}
    for fault in faults:
        key = known(QuestionTable, fault["loc"])
        told.setdefault(key, ": ".join(filter(None, (str(path), dotted(key), _said(key, fault)))))
    return [*told.values()]


def _said(key: Key, fault: ErrorDetails) -> str:
    given = fault["input"]
    if isinstance(given, float) and math.isnan(given):
        # It breaks whichever bound is looked at first.
        return "should be a number (found nan)"
    message = fault["msg"].removeprefix("Value error, ")
    kind, text = fault["type"], TEXTS.get(fault["type"], message.removeprefix("Input "))
    if kind == "extra_forbidden":
        return f"there is no such key; {instead(str(key[-1]), names(at(QuestionTable, key[:-1])) or ())}"
    if kind == "missing":
        example = EXAMPLES.get(str(key[-1]))
        return f"is missing; add {example}" if example else "is missing"
    if kind.endswith(("_type", "_parsing")):
        return f"{text} (found {KINDS.get(type(fault['input']), 'something else')})"
    return text
