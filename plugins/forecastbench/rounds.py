"""Where rounds come from: a folder, one file, or the published address; each gives the same parsed sets.

Files are read in a thread, one round at a time, so that a large set never holds up the event loop.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from bot.api import ConfigError, ContractError, Http, NotFound
from plugins.forecastbench.files import (
    QUESTION_SETS,
    RESOLUTION_SETS,
    SAMPLE,
    Folder,
    decode,
    holds_rounds,
    parsed,
    read_bytes,
    rounds_folder,
)
from plugins.forecastbench.parse import QuestionSet, ResolutionSet, frame, question_set, resolution_set
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.terms import MAX_FILE_BYTES


class Rounds(Protocol):
    """A source of rounds."""

    async def due_dates(self) -> Sequence[date]:
        """Return the due dates on offer, oldest first."""
        ...

    async def latest(self) -> date:
        """Return the newest due date; raises NotFound if there is none."""
        ...

    async def questions(self, due: date) -> QuestionSet:
        """Return a question set; raises NotFound if it is not there."""
        ...

    async def resolutions(self, due: date) -> ResolutionSet:
        """Return a resolution set; raises NotFound if it is not published yet."""
        ...


def rounds_from(settings: ForecastBenchSettings, http: Http) -> Rounds:
    """Return the source that the settings name; raises NotFound for a path where there is nothing."""
    source = settings.source
    if isinstance(source, str) and source != SAMPLE:
        return WebRounds(http, source.rstrip("/"), settings.question_sets)
    path = Path(source)
    if path.is_file():
        return FileRounds(path)
    return FolderRounds(rounds_folder(path), settings.question_sets)


def folder_from(settings: ForecastBenchSettings) -> Path | None:
    """Return the folder of past rounds that the settings read from; None for an address or where there is none."""
    path = Path(settings.source)
    folder = path.parent.parent if path.is_file() else path
    return folder if holds_rounds(folder) else None


def of_round(found: QuestionSet, due: date, name: str) -> QuestionSet:
    """Return the question set if it is that of the due date in its name; raises ContractError."""
    if found.due != due:
        message = f"{name} holds the round of {found.due}; one of the two dates is wrong"
        raise ContractError(message)
    return found


@dataclass(frozen=True, slots=True)
class FolderRounds:
    """Rounds in a folder of the published layout."""

    folder: Folder
    kind: str

    async def due_dates(self) -> Sequence[date]:
        return tuple(self.folder.question_files(self.kind))

    async def latest(self) -> date:
        found = await self.due_dates()
        if not found:
            message = f"{self.folder.path / QUESTION_SETS} holds no <due date>-{self.kind}.json"
            raise NotFound(message)
        return found[-1]

    async def questions(self, due: date) -> QuestionSet:
        path = self.folder.question_files(self.kind).get(due)
        if path is None:
            message = f"{self.folder.path / QUESTION_SETS} holds no {due}-{self.kind}.json"
            raise NotFound(message)
        return of_round(await asyncio.to_thread(_question_file, path), due, path.name)

    async def resolutions(self, due: date) -> ResolutionSet:
        path = self.folder.resolution_files().get(due)
        if path is None:
            message = f"{self.folder.path / RESOLUTION_SETS} holds no {due}_resolution_set.json"
            raise NotFound(message)
        return await asyncio.to_thread(_resolution_file, path)


@dataclass(frozen=True, slots=True)
class FileRounds:
    """One question set file; outcomes come from the folder beside it where the layout is the published one."""

    path: Path

    async def due_dates(self) -> Sequence[date]:
        return (await self.latest(),)

    async def latest(self) -> date:
        return (await asyncio.to_thread(_question_file, self.path)).due

    async def questions(self, due: date) -> QuestionSet:
        found = await asyncio.to_thread(_question_file, self.path)
        if found.due != due:
            message = f"{self.path} is the round of {found.due}, not of {due}"
            raise NotFound(message)
        return found

    async def resolutions(self, due: date) -> ResolutionSet:
        return await FolderRounds(Folder(self.path.parent.parent), "").resolutions(due)


@dataclass(frozen=True, slots=True)
class WebRounds:
    """Rounds at the published address, read by GET alone."""

    http: Http
    address: str
    kind: str

    async def due_dates(self) -> Sequence[date]:
        message = 'a web address cannot list its rounds: set rounds = "latest" or a list of due dates'
        raise ConfigError(message)

    async def latest(self) -> date:
        # The newest set is a symbolic link; a raw download of it gives its target's name instead of JSON.
        name = f"latest-{self.kind}.json"
        body = await self._get(f"{QUESTION_SETS}/{name}")
        link = re.fullmatch(rb"(\d{4}-\d{2}-\d{2})-" + self.kind.encode() + rb"\.json", body.strip())
        if link is None:
            return frame(decode(body, name=name), "questions")[0]
        try:
            return date.fromisoformat(link[1].decode())
        except ValueError as error:
            message = f"{name} names {link[0]!r}, which has no date"
            raise ContractError(message) from error

    async def questions(self, due: date) -> QuestionSet:
        name = f"{due}-{self.kind}.json"
        return of_round(parsed(await self._get(f"{QUESTION_SETS}/{name}"), question_set, name=name), due, name)

    async def resolutions(self, due: date) -> ResolutionSet:
        name = f"{due}_resolution_set.json"
        return parsed(await self._get(f"{RESOLUTION_SETS}/{name}"), resolution_set, name=name)

    async def _get(self, path: str) -> bytes:
        return await self.http.get(f"{self.address}/{path}", max_bytes=MAX_FILE_BYTES)


def _question_file(path: Path) -> QuestionSet:
    return parsed(read_bytes(path), question_set, name=path.name)


def _resolution_file(path: Path) -> ResolutionSet:
    return parsed(read_bytes(path), resolution_set, name=path.name)
