"""Sources of rounds: a folder, one file, or the published address; each gives the same parsed sets.

Files are read in a thread, one round at a time, so that a large set never blocks the event loop.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from bot.api import ConfigError, HttpClient, MalformedDataError, NotFoundError
from plugins.forecastbench.file_format import MAX_FILE_BYTES
from plugins.forecastbench.file_parser import (
    QuestionSet,
    ResolutionSet,
    parse_frame,
    parse_question_set,
    parse_resolution_set,
)
from plugins.forecastbench.round_files import (
    QUESTION_SET_FOLDER,
    RESOLUTION_SET_FOLDER,
    SAMPLE_NAME,
    RoundFolder,
    decode_json,
    find_round_folder,
    holds_rounds,
    parse_content,
    read_bytes,
)
from plugins.forecastbench.settings import ForecastBenchSettings


class RoundSource(Protocol):
    """A source of rounds."""

    async def due_dates(self) -> Sequence[date]:
        """Return the due dates on offer, oldest first."""
        ...

    async def latest(self) -> date:
        """Return the newest due date; raises NotFoundError if there is none."""
        ...

    async def questions(self, due: date) -> QuestionSet:
        """Return a question set; raises NotFoundError if it does not exist."""
        ...

    async def resolutions(self, due: date) -> ResolutionSet:
        """Return a resolution set; raises NotFoundError if it is not published yet."""
        ...


def open_round_source(settings: ForecastBenchSettings, http: HttpClient) -> RoundSource:
    """Return the source that the settings name; raises NotFoundError for a path with no rounds."""
    source = settings.source
    if isinstance(source, str) and source != SAMPLE_NAME:
        return WebRoundSource(http, source.rstrip("/"), settings.question_sets)
    path = Path(source)
    if path.is_file():
        return FileRoundSource(path)
    return FolderRoundSource(find_round_folder(path), settings.question_sets)


def archive_folder(settings: ForecastBenchSettings) -> Path | None:
    """Return the folder of past rounds in the settings; None for an address or where there is none."""
    path = Path(settings.source)
    folder = path.parent.parent if path.is_file() else path
    return folder if holds_rounds(folder) else None


def require_due_date(found: QuestionSet, due: date, name: str) -> QuestionSet:
    """Return the question set if it is that of the due date in its name; raises MalformedDataError."""
    if found.due_date != due:
        message = f"{name} holds the round of {found.due_date}; one of the two dates is wrong"
        raise MalformedDataError(message)
    return found


@dataclass(frozen=True, slots=True)
class FolderRoundSource:
    """Rounds in a folder of the published layout."""

    folder: RoundFolder
    kind: str

    async def due_dates(self) -> Sequence[date]:
        return tuple(self.folder.question_files(self.kind))

    async def latest(self) -> date:
        found = await self.due_dates()
        if not found:
            message = f"{self.folder.path / QUESTION_SET_FOLDER} holds no <due date>-{self.kind}.json"
            raise NotFoundError(message)
        return found[-1]

    async def questions(self, due: date) -> QuestionSet:
        path = self.folder.question_files(self.kind).get(due)
        if path is None:
            message = f"{self.folder.path / QUESTION_SET_FOLDER} holds no {due}-{self.kind}.json"
            raise NotFoundError(message)
        return require_due_date(await asyncio.to_thread(_read_question_set, path), due, path.name)

    async def resolutions(self, due: date) -> ResolutionSet:
        path = self.folder.resolution_files().get(due)
        if path is None:
            message = f"{self.folder.path / RESOLUTION_SET_FOLDER} holds no {due}_resolution_set.json"
            raise NotFoundError(message)
        return await asyncio.to_thread(_read_resolution_set, path)


@dataclass(frozen=True, slots=True)
class FileRoundSource:
    """One question set file; outcomes come from the neighbouring folder where the layout is the published one."""

    path: Path

    async def due_dates(self) -> Sequence[date]:
        return (await self.latest(),)

    async def latest(self) -> date:
        return (await asyncio.to_thread(_read_question_set, self.path)).due_date

    async def questions(self, due: date) -> QuestionSet:
        found = await asyncio.to_thread(_read_question_set, self.path)
        if found.due_date != due:
            message = f"{self.path} is the round of {found.due_date}, not of {due}"
            raise NotFoundError(message)
        return found

    async def resolutions(self, due: date) -> ResolutionSet:
        return await FolderRoundSource(RoundFolder(self.path.parent.parent), "").resolutions(due)


@dataclass(frozen=True, slots=True)
class WebRoundSource:
    """Rounds at the published address, read only by GET."""

    http: HttpClient
    address: str
    kind: str

    async def due_dates(self) -> Sequence[date]:
        message = 'a web address cannot list its rounds: set rounds = "latest" or a list of due dates'
        raise ConfigError(message)

    async def latest(self) -> date:
        # The newest set is a symbolic link; a raw download of it gives its target's name instead of JSON.
        name = f"latest-{self.kind}.json"
        body = await self._get(f"{QUESTION_SET_FOLDER}/{name}")
        link = re.fullmatch(rb"(\d{4}-\d{2}-\d{2})-" + self.kind.encode() + rb"\.json", body.strip())
        if link is None:
            return parse_frame(decode_json(body, name=name), "questions")[0]
        try:
            return date.fromisoformat(link[1].decode())
        except ValueError as error:
            message = f"{name} names {link[0]!r}, which has no date"
            raise MalformedDataError(message) from error

    async def questions(self, due: date) -> QuestionSet:
        name = f"{due}-{self.kind}.json"
        return require_due_date(
            parse_content(await self._get(f"{QUESTION_SET_FOLDER}/{name}"), parse_question_set, name=name), due, name
        )

    async def resolutions(self, due: date) -> ResolutionSet:
        name = f"{due}_resolution_set.json"
        return parse_content(await self._get(f"{RESOLUTION_SET_FOLDER}/{name}"), parse_resolution_set, name=name)

    async def _get(self, path: str) -> bytes:
        return await self.http.get(f"{self.address}/{path}", max_bytes=MAX_FILE_BYTES)


def _read_question_set(path: Path) -> QuestionSet:
    return parse_content(read_bytes(path), parse_question_set, name=path.name)


def _read_resolution_set(path: Path) -> ResolutionSet:
    return parse_content(read_bytes(path), parse_resolution_set, name=path.name)
