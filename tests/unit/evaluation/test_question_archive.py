"""Imported questions as rounds: what was known when, and files that somebody changed."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import ConfigError, MalformedDataError, NotFoundError
from bot.core.learning import TrainingExample
from bot.evaluation.question_archive import ARCHIVE_FILE, QuestionArchive, write_question_archive
from tests.unit.testing.correct_venue import START, outcome, question

HOUR = timedelta(hours=1)


def example(number: int, asked_after: timedelta, known_after: timedelta) -> TrainingExample:
    return TrainingExample(
        question=replace(question(number), as_of=START + asked_after),
        resolution=replace(outcome(number), resolved_at=START + known_after),
    )


EXAMPLES = [example(1, 30 * HOUR, 90 * HOUR), example(0, 5 * HOUR, 20 * HOUR), example(2, 6 * HOUR, 40 * HOUR)]


def test_questions_of_one_day_are_a_round_that_begins_with_the_day(tmp_path: Path) -> None:
    write_question_archive(EXAMPLES, tmp_path / "new" / "folder")
    archive = QuestionArchive(tmp_path / "new" / "folder")
    first, second = (archive.read_round(key) for key in archive.round_keys())
    assert [one.ref.key for one in first.questions] == ["0", "2"]
    assert (first.as_of, second.as_of) == (START, START + 24 * HOUR)
    assert first.questions[0] == EXAMPLES[1].question
    assert second.resolutions == (EXAMPLES[0].resolution,)
    with pytest.raises(NotFoundError, match="no question was asked on 2026-05-05"):
        archive.read_round("2026-05-05")


def test_only_what_was_known_before_a_moment_teaches(tmp_path: Path) -> None:
    write_question_archive(EXAMPLES, tmp_path)
    archive = QuestionArchive(tmp_path)
    known = {hours: len([*archive.examples(START + hours * HOUR)]) for hours in (20, 21, 41, 91)}
    assert known == {20: 0, 21: 1, 41: 2, 91: 3}


def test_a_changed_file_is_refused_with_its_line_and_remedy(tmp_path: Path) -> None:
    write_question_archive(EXAMPLES, tmp_path)
    path = tmp_path / ARCHIVE_FILE
    path.write_text(path.read_text().replace('"happened"', '"guessed"', 1))
    with pytest.raises(MalformedDataError, match=rf"{ARCHIVE_FILE} line 1: .*foxcast lab questions import"):
        QuestionArchive(tmp_path).round_keys()


def test_a_question_without_its_moment_is_refused(tmp_path: Path) -> None:
    undated = replace(EXAMPLES[0], question=replace(EXAMPLES[0].question, as_of=None))
    with pytest.raises(MalformedDataError, match="has no time at which it was asked"):
        write_question_archive([undated], tmp_path)


def test_forecast_files_are_scored_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="foxcast lab trials"):
        QuestionArchive(tmp_path).read_forecast_file(tmp_path / "x.json")
