"""Published files on disk.

Where they are, plain or gzip, read with bounds, and the complaints about odd records in them. Synchronous; callers
choose the thread.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from bot.api import MalformedDataError, NotFoundError
from plugins.forecastbench.file_format import MAX_FILE_BYTES

MAX_KEPT_COMPLAINTS = 100


MAX_COMPLAINT_CHARS = 300


@dataclass(slots=True)
class FileComplaints:
    """Collects complaints, but keeps only the first of them."""

    _kept: list[str] = field(default_factory=list)
    _more: int = 0

    def add(self, text: str) -> None:
        """Keep one complaint, shortened, or count it."""
        if len(self._kept) < MAX_KEPT_COMPLAINTS:
            self._kept.append(text if len(text) <= MAX_COMPLAINT_CHARS else f"{text[:MAX_COMPLAINT_CHARS]} ...")
        else:
            self._more += 1

    def to_tuple(self) -> tuple[str, ...]:
        """Return those that were kept, and a last one that counts the others."""
        return (*self._kept, f"{self._more} more complaints") if self._more else tuple(self._kept)


ParsedT = TypeVar("ParsedT")


SAMPLE_NAME = "sample"


QUESTION_SET_FOLDER = "question_sets"


RESOLUTION_SET_FOLDER = "resolution_sets"


_DUE_DATE_PATTERN = r"(\d{4}-\d{2}-\d{2})"


_FILE_SUFFIX_PATTERN = r"\.json(?:\.gz)?"


@dataclass(frozen=True, slots=True)
class RoundFolder:
    """A folder in the published layout."""

    path: Path

    def question_files(self, kind: str) -> Mapping[date, Path]:
        """Return the question set files of one kind, ``llm`` or ``human``, by due date in order."""
        return _files_by_due_date(
            self.path / QUESTION_SET_FOLDER, re.compile(f"{_DUE_DATE_PATTERN}-{kind}{_FILE_SUFFIX_PATTERN}")
        )

    def resolution_files(self) -> Mapping[date, Path]:
        """Return the resolution set files by due date in order."""
        return _files_by_due_date(
            self.path / RESOLUTION_SET_FOLDER, re.compile(f"{_DUE_DATE_PATTERN}_resolution_set{_FILE_SUFFIX_PATTERN}")
        )


def sample_folder() -> Path:
    """Return the folder of the rounds that come with the package."""
    return Path(str(files("plugins.forecastbench") / SAMPLE_NAME))


def holds_rounds(path: Path) -> bool:
    """Return whether there is a folder of rounds at the path; ``sample`` is the bundled one."""
    return str(path) == SAMPLE_NAME or any(
        (path / part).is_dir() for part in (QUESTION_SET_FOLDER, RESOLUTION_SET_FOLDER)
    )


def find_round_folder(path: Path) -> RoundFolder:
    """Return the folder of rounds at the path; raises NotFoundError with the remedy where there is none."""
    if not holds_rounds(path):
        message = (
            f"{path} has neither {QUESTION_SET_FOLDER}/ nor {RESOLUTION_SET_FOLDER}/: name the folder that holds them"
        )
        raise NotFoundError(message)
    return RoundFolder(sample_folder() if str(path) == SAMPLE_NAME else path)


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a file, unpacked if it is gzip.

    Raises NotFoundError where it is not there, MalformedDataError where it is broken or unpacks to more than
    ``max_bytes``.
    """
    try:
        content = _read_unpacked(path, max_bytes + 1)
    except FileNotFoundError as error:
        message = f"{path} does not exist"
        raise NotFoundError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path} cannot be read ({error}); download the file again, or remove it from its folder"
        raise MalformedDataError(message) from error
    if len(content) > max_bytes:
        message = f"{path} is larger than {max_bytes} bytes"
        raise MalformedDataError(message)
    return content


def decode_json(content: bytes, *, name: str) -> object:
    """Return the JSON value in the content; raises MalformedDataError naming the file."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        message = f"{name} is not JSON: {why}"
        raise MalformedDataError(message) from error
    return value


def _read_unpacked(path: Path, limit: int) -> bytes:
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        if not packed:
            return plain.read(limit)
        with gzip.open(plain) as unpacked:
            return unpacked.read(limit)


def parse_content(content: bytes, form: Callable[[object], ParsedT], *, name: str) -> ParsedT:
    """Return the JSON in the content as parsed by the form; raises MalformedDataError naming the file."""
    try:
        value = decode_json(content, name=name)
    except MalformedDataError as error:
        message = f"{error}; download the file again, or remove it from its folder"
        raise MalformedDataError(message) from error
    try:
        return form(value)
    except MalformedDataError as error:
        message = f"{name}: {error}"
        raise MalformedDataError(message) from error


def _files_by_due_date(folder: Path, pattern: re.Pattern[str]) -> Mapping[date, Path]:
    if not folder.is_dir():
        return {}
    named = [(pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir())]
    dated = [(_parse_day(name[1]), path) for name, path in named if name is not None]
    return {due: path for due, path in dated if due is not None}


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # digits like those of a date, in a file that is none of the published ones
        return None
