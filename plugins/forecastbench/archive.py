"""Past rounds in a folder, for learning, backtests and scoring. Synchronous reads of files, never a network.

Only what had resolved counts: unresolved market rows are prices. Each file is parsed once per archive and again only
when it changes on disk.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from bot.api import Example, NotFound, Question, QuestionRef, Resolution, Round, Sheet
from plugins.forecastbench.files import parsed, read_bytes, rounds_folder
from plugins.forecastbench.parse import QuestionSet, bare_question, frame, question_set, resolution_set
from plugins.forecastbench.rounds import of_round
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.sheet import forecast_sheet
from plugins.forecastbench.terms import start_of

T = TypeVar("T")


class ForecastBenchArchive:
    """The archive of a folder with ``question_sets/`` and ``resolution_sets/``; ``Path("sample")`` is the bundled one.

    Raises NotFound for a folder that holds neither.
    """

    def __init__(self, settings: ForecastBenchSettings, folder: Path) -> None:
        self._folder = rounds_folder(folder)
        self._kind = settings.question_sets
        self._parsed: dict[Path, tuple[tuple[int, int], object]] = {}

    def rounds(self) -> Sequence[str]:
        """Return the due dates of all rounds with a question set of the kind in the settings, oldest first."""
        return [due.isoformat() for due in self._folder.question_files(self._kind)]

    def round(self, key: str) -> Round:
        """Return the round of a due date; its resolutions are limited to its questions and targets.

        Raises NotFound for an unknown round, ContractError for a file that is not in the published form.
        """
        asked = self._question_set(key)
        targets = {question.ref: {target.key for target in question.targets} for question in asked.questions}
        return Round(
            key=key,
            as_of=start_of(asked.due),
            questions=asked.questions,
            resolutions=tuple(
                resolution
                for resolution in self._outcomes(asked.due)
                if resolution.target in targets.get(resolution.ref, ())
            ),
        )

    def examples(self, before: datetime) -> Iterator[Example]:
        """Yield outcomes of earlier rounds with a resolution date strictly before the date of ``before``.

        A round without question set gives bare questions: an empty title and the facts ``id`` and ``due_date``. The
        rule is that of the venue document, section 1, item 9.
        """
        day = before.date()
        asked = {**self._folder.question_files("human"), **self._folder.question_files("llm")}
        for due in self._folder.resolution_files():
            if due >= day:
                break
            known = [found for found in self._outcomes(due) if found.resolved_at.date() < day]
            yield from _examples(known, self._questions(asked.get(due)))

    def sheet(self, path: Path) -> Sheet:
        """Read a forecast set by anyone; raises NotFound, or ContractError for one that the rules refuse whole."""
        return parsed(read_bytes(path), partial(self._sheet, path.name), name=path.name)

    def _sheet(self, name: str, raw: object) -> Sheet:
        due, _ = frame(raw, "forecasts")
        known = due in self._folder.question_files(self._kind)
        return forecast_sheet(raw, name=name, asked=self.round(due.isoformat()) if known else None)

    def _question_set(self, key: str) -> QuestionSet:
        path = {due.isoformat(): path for due, path in self._folder.question_files(self._kind).items()}.get(key)
        if path is None:
            message = f"no round {key!r} in {self._folder.path}: there are {', '.join(self.rounds()) or 'none'}"
            raise NotFound(message)
        return of_round(self._read(path, question_set), date.fromisoformat(key), path.name)

    def _questions(self, path: Path | None) -> Mapping[QuestionRef, Question]:
        if path is None:
            return {}
        return {question.ref: question for question in self._read(path, question_set).questions}

    def _outcomes(self, due: date) -> Sequence[Resolution]:
        path = self._folder.resolution_files().get(due)
        return () if path is None else self._read(path, resolution_set).resolutions

    def _read(self, path: Path, form: Callable[[object], T]) -> T:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        kept = self._parsed.get(path)
        if kept is None or kept[0] != stamp:
            kept = (stamp, parsed(read_bytes(path), form, name=path.name))
            self._parsed[path] = kept
        return kept[1]  # type: ignore[return-value]  # a path is always read in the same form


def _examples(known: Sequence[Resolution], questions: Mapping[QuestionRef, Question]) -> Iterator[Example]:
    dates: dict[QuestionRef, list[str]] = defaultdict(list)
    for found in known:
        dates[found.ref].append(found.target)
    bare = {ref: bare_question(ref, keys) for ref, keys in dates.items() if ref not in questions}
    for found in known:
        yield Example(question=questions.get(found.ref) or bare[found.ref], resolution=found)
