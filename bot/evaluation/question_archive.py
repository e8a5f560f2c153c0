"""Resolved questions of a user's own as past rounds: one file of questions with outcomes, a round for each day.

``foxcast lab questions import`` writes the file; backtests, fits and the laboratory read it like a venue's archive.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from functools import cached_property
from pathlib import Path

from bot.core.errors import ConfigError, MalformedDataError, NotFoundError
from bot.core.learning import ForecastFile, Round, TrainingExample
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.store.serialization import QUESTION, RESOLUTION

ARCHIVE_FILE = "resolved_questions.jsonl"
# The name under which reports speak of these questions; they belong to no venue.
ARCHIVE_NAME = "imported questions"


def write_question_archive(examples: Iterable[TrainingExample], folder: Path) -> Path:
    """Write resolved questions to a folder, oldest first, and return the file; raises ConfigError if that fails."""
    path = folder / ARCHIVE_FILE
    ordered = sorted(examples, key=lambda one: (asked_at(one.question), str(one.question.ref), one.resolution.target))
    lines = [
        json.dumps(
            {"question": QUESTION.plain(one.question), "resolution": RESOLUTION.plain(one.resolution)},
            ensure_ascii=False,
        )
        for one in ordered
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error
    return path


def asked_at(question: Question) -> datetime:
    """Return the moment after which nothing may inform a forecast; raises MalformedDataError where it is missing."""
    if question.as_of is None:
        message = f"{question.ref} has no time at which it was asked"
        raise MalformedDataError(message)
    return question.as_of


@dataclass(frozen=True)
class QuestionArchive:
    """Implements RoundArchive for a folder with imported questions."""

    folder: Path

    @cached_property
    def _rounds(self) -> Mapping[str, Sequence[TrainingExample]]:
        rounds: dict[str, list[TrainingExample]] = {}
        for example in self._read_examples():
            rounds.setdefault(asked_at(example.question).astimezone(UTC).date().isoformat(), []).append(example)
        return dict(sorted(rounds.items()))

    def round_keys(self) -> Sequence[str]:
        """Return the days on which questions were asked, oldest first."""
        return [*self._rounds]

    def read_round(self, key: str) -> Round:
        """Return the questions of a day; each keeps the moment at which it was asked."""
        if key not in self._rounds:
            message = f"no question was asked on {key}"
            raise NotFoundError(message)
        examples = self._rounds[key]
        return Round(
            key=key,
            as_of=datetime.combine(datetime.fromisoformat(key).date(), time(), UTC),
            questions=tuple({one.question.ref: one.question for one in examples}.values()),
            resolutions=tuple(one.resolution for one in examples),
        )

    def examples(self, before: datetime) -> Iterator[TrainingExample]:
        """Yield every outcome that was known before the moment."""
        for examples in self._rounds.values():
            yield from (one for one in examples if one.resolution.resolved_at < before)

    def read_forecast_file(self, path: Path) -> ForecastFile:
        """Refuse: forecasts of such questions are tables of trials."""
        message = f"{path}: forecasts of imported questions are scored by foxcast lab trials"
        raise ConfigError(message)

    def _read_examples(self) -> Iterator[TrainingExample]:
        path = self.folder / ARCHIVE_FILE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                plain = json.loads(line)
                yield TrainingExample(
                    question=QUESTION.value(plain["question"]), resolution=RESOLUTION.value(plain["resolution"])
                )
            except (ValueError, KeyError, TypeError, MalformedDataError) as error:
                message = f"{path} line {number}: {error}; write it again with: foxcast lab questions import"
                raise MalformedDataError(message) from error
