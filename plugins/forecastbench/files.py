"""Published files on disk: where they are, plain or gzip, read with bounds. Synchronous; callers choose the thread."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from bot.api import ContractError, NotFound
from plugins.forecastbench.terms import MAX_FILE_BYTES

T = TypeVar("T")

SAMPLE = "sample"
QUESTION_SETS = "question_sets"
RESOLUTION_SETS = "resolution_sets"

_DUE = r"(\d{4}-\d{2}-\d{2})"
_PACKED = r"\.json(?:\.gz)?"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder in the published layout."""

    path: Path

    def question_files(self, kind: str) -> Mapping[date, Path]:
        """Return the question set files of one kind, ``llm`` or ``human``, by due date in order."""
        return _by_due_date(self.path / QUESTION_SETS, re.compile(f"{_DUE}-{kind}{_PACKED}"))

    def resolution_files(self) -> Mapping[date, Path]:
        """Return the resolution set files by due date in order."""
        return _by_due_date(self.path / RESOLUTION_SETS, re.compile(f"{_DUE}_resolution_set{_PACKED}"))


def sample_folder() -> Path:
    """Return the folder of the rounds that come with the package."""
    return Path(str(files("plugins.forecastbench") / SAMPLE))


def holds_rounds(path: Path) -> bool:
    """Say whether there is a folder of rounds at the path; ``sample`` is the bundled one."""
    return str(path) == SAMPLE or any((path / part).is_dir() for part in (QUESTION_SETS, RESOLUTION_SETS))


def rounds_folder(path: Path) -> Folder:
    """Return the folder of rounds at the path; raises NotFound with the remedy where there is none."""
    if not holds_rounds(path):
        message = f"{path} has neither {QUESTION_SETS}/ nor {RESOLUTION_SETS}/: name the folder that holds them"
        raise NotFound(message)
    return Folder(sample_folder() if str(path) == SAMPLE else path)


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a file, unpacked if it is gzip.

    Raises NotFound where it is not there, ContractError where it is broken or unpacks to more than ``max_bytes``.
    """
    try:
        content = _unpacked(path, max_bytes + 1)
    except FileNotFoundError as error:
        message = f"{path} is not there"
        raise NotFound(message) from error
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path} cannot be read ({error}); get the file anew, or take it out of its folder"
        raise ContractError(message) from error
    if len(content) > max_bytes:
        message = f"{path} is larger than {max_bytes} bytes"
        raise ContractError(message)
    return content


def decode(content: bytes, *, name: str) -> object:
    """Return the JSON value in the content; raises ContractError naming the file."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        why = "it is no text" if isinstance(error, UnicodeDecodeError) else str(error)
        message = f"{name} is not JSON: {why}"
        raise ContractError(message) from error
    return value


def _unpacked(path: Path, limit: int) -> bytes:
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        if not packed:
            return plain.read(limit)
        with gzip.open(plain) as unpacked:
            return unpacked.read(limit)


def parsed(content: bytes, form: Callable[[object], T], *, name: str) -> T:
    """Return what the form makes of the JSON in the content; raises ContractError naming the file."""
    try:
        value = decode(content, name=name)
    except ContractError as error:
        message = f"{error}; get the file anew, or take it out of its folder"
        raise ContractError(message) from error
    try:
        return form(value)
    except ContractError as error:
        message = f"{name}: {error}"
        raise ContractError(message) from error


def _by_due_date(folder: Path, pattern: re.Pattern[str]) -> Mapping[date, Path]:
    if not folder.is_dir():
        return {}
    named = [(pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir())]
    dated = [(_day(name[1]), path) for name, path in named if name is not None]
    return {due: path for due, path in dated if due is not None}


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # digits like those of a date, in a file that is none of the published ones
        return None
