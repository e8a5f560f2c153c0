"""Past rounds in a folder, for learning, backtests and scoring. Synchronous reads of files, never a network.

Only resolved rows count: unresolved market rows are prices. Each file is parsed once per archive and again only when it
changes on disk.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from bot.api import ForecastFile, NotFoundError, Question, QuestionRef, Resolution, Round, TrainingExample
from plugins.forecastbench.file_format import start_of_day
from plugins.forecastbench.file_parser import (
    QuestionSet,
    bare_question,
    parse_frame,
    parse_question_set,
    parse_resolution_set,
)
from plugins.forecastbench.forecast_file import parse_forecast_file
from plugins.forecastbench.round_files import find_round_folder, parse_content, read_bytes
from plugins.forecastbench.round_sources import require_due_date
from plugins.forecastbench.settings import ForecastBenchSettings

ParsedT = TypeVar("ParsedT")


class ForecastBenchArchive:
    """The archive of a folder with ``question_sets/`` and ``resolution_sets/``; ``Path("sample")`` is the bundled one.

    Raises NotFoundError for a folder that holds neither.
    """

    def __init__(self, settings: ForecastBenchSettings, folder: Path) -> None:
        self._folder = find_round_folder(folder)
        self._kind = settings.question_sets
        self._parsed: dict[Path, tuple[tuple[int, int], object]] = {}

    def round_keys(self) -> Sequence[str]:
        """Return the due dates of all rounds with a question set of the kind in the settings, oldest first."""
        return [due.isoformat() for due in self._folder.question_files(self._kind)]

    def read_round(self, key: str) -> Round:
        """Return the round of a due date; its resolutions are limited to its questions and targets.

        Raises NotFoundError for an unknown round, MalformedDataError for a file that is not in the published form.
        """
        asked = self._question_set(key)
        targets = {question.ref: {target.key for target in question.targets} for question in asked.questions}
        return Round(
            key=key,
            as_of=start_of_day(asked.due_date),
            questions=asked.questions,
            resolutions=tuple(
                resolution
                for resolution in self._outcomes(asked.due_date)
                if resolution.target in targets.get(resolution.ref, ())
            ),
        )

    def examples(self, before: datetime) -> Iterator[TrainingExample]:
        """Yield outcomes of earlier rounds with a resolution date strictly before the date of ``before``.

        A round without a question set gives bare questions: an empty title, their id and their due date. The
        rule is that of docs/facts/forecastbench.md#resolution-set.
        """
        day = before.date()
        asked = {**self._folder.question_files("human"), **self._folder.question_files("llm")}
        for due in self._folder.resolution_files():
            if due >= day:
                break
            known = [found for found in self._outcomes(due) if found.resolved_at.date() < day]
            yield from _training_examples(known, self._questions(asked.get(due)))

    def read_forecast_file(self, path: Path) -> ForecastFile:
        """Read a forecast set by anyone.

        Raises NotFoundError, or MalformedDataError for one that the rules refuse whole.
        """
        return parse_content(read_bytes(path), partial(self._parse_forecast_file, path.name), name=path.name)

    def _parse_forecast_file(self, name: str, raw: object) -> ForecastFile:
        due, _ = parse_frame(raw, "forecasts")
        known = due in self._folder.question_files(self._kind)
        return parse_forecast_file(raw, name=name, asked=self.read_round(due.isoformat()) if known else None)

    def _question_set(self, key: str) -> QuestionSet:
        path = {due.isoformat(): path for due, path in self._folder.question_files(self._kind).items()}.get(key)
        if path is None:
            message = f"no round {key!r} in {self._folder.path}; available: {', '.join(self.round_keys()) or 'none'}"
            raise NotFoundError(message)
        return require_due_date(self._read_parsed(path, parse_question_set), date.fromisoformat(key), path.name)

    def _questions(self, path: Path | None) -> Mapping[QuestionRef, Question]:
        if path is None:
            return {}
        return {question.ref: question for question in self._read_parsed(path, parse_question_set).questions}

    def _outcomes(self, due: date) -> Sequence[Resolution]:
        path = self._folder.resolution_files().get(due)
        return () if path is None else self._read_parsed(path, parse_resolution_set).resolutions

    def _read_parsed(self, path: Path, form: Callable[[object], ParsedT]) -> ParsedT:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        kept = self._parsed.get(path)
        if kept is None or kept[0] != stamp:
            kept = (stamp, parse_content(read_bytes(path), form, name=path.name))
            self._parsed[path] = kept
        return kept[1]  # type: ignore[return-value]  # a path is always read in the same form


def _training_examples(
    known: Sequence[Resolution], questions: Mapping[QuestionRef, Question]
) -> Iterator[TrainingExample]:
    dates: dict[QuestionRef, list[str]] = defaultdict(list)
    for found in known:
        dates[found.ref].append(found.target)
    bare = {ref: bare_question(ref, keys) for ref, keys in dates.items() if ref not in questions}
    for found in known:
        yield TrainingExample(question=questions.get(found.ref) or bare[found.ref], resolution=found)
