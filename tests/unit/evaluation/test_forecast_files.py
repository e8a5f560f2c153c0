"""Files of forecasts by anyone, and what the rules did to them."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import ConfigError, NotFoundError
from bot.core.learning import ForecastFile, Round
from bot.core.outcomes import ChoiceOutcome
from bot.core.predictions import ChoiceShape
from bot.evaluation.score_rows import group_files, score_forecast_files
from tests.unit.testing.correct_venue import START, LanternArchive, outcome, question


class Printed(LanternArchive):
    """A round of twenty questions, five of which resolved; a file answers as many as its name says."""

    def read_round(self, key: str) -> Round:
        questions = tuple(question(number) for number in range(20))
        return Round(key=key, as_of=START, questions=questions, resolutions=tuple(map(outcome, range(5))))

    def read_forecast_file(self, path: Path) -> ForecastFile:
        key, answered = path.stem.split("-")
        return ForecastFile(
            name=path.name,
            author="somebody",
            round=key,
            probabilities={(question(number).ref, "outcome"): 0.9 for number in range(20 - int(answered), 20)},
            dropped_rows={"20": ("row 7 is doubled",), "10": ("too much is missing",)}.get(answered, ()),
        )


def test_missing_rows_count_as_one_half_and_whether_they_are_too_many_is_for_the_venue_to_say() -> None:
    full, short, poor = score_forecast_files(Printed(), [Path("0-20.json"), Path("0-19.json"), Path("1-10.json")])
    assert full.notes() == ["0-20.json: row 7 is doubled"]
    assert ([row.probability for row in full.rows], full.missing) == ([0.9] * 5, 0.0)
    assert short.notes() == ["0-19.json: 1 of 5 scored rows are missing and count as 0.5"]
    assert short.missing == pytest.approx(0.05)
    assert poor.notes() == [
        "1-10.json: too much is missing",
        "1-10.json: 5 of 5 scored rows are missing and count as 0.5",
    ]


class Mixed(Printed):
    """The same round, of which the first question asked for a colour."""

    def read_round(self, key: str) -> Round:
        plain = super().read_round(key)
        first = replace(plain.questions[0], shape=ChoiceShape(options=("red", "blue")))
        known = replace(plain.resolutions[0], outcome=ChoiceOutcome("red"))
        questions, resolutions = (first, *plain.questions[1:]), (known, *plain.resolutions[1:])
        return replace(plain, questions=questions, resolutions=resolutions)


def test_what_a_file_cannot_answer_is_neither_missing_nor_scored_and_is_told() -> None:
    [sheet] = score_forecast_files(Mixed(), [Path("0-19.json")])
    assert (len(sheet.rows), sheet.missing, sheet.unscored) == (4, 0.0, 1)
    assert sheet.notes() == ["0-19.json: 1 of the outcomes are of choices or curves, which no such file can answer"]


def test_a_file_of_an_unknown_round_names_those_there_are() -> None:
    with pytest.raises(NotFoundError, match=r"7-20.json is for round 7; there are 0, 1"):
        score_forecast_files(Printed(), [Path("7-20.json")])


def test_a_file_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"0-20\.json"):
        score_forecast_files(Printed(), [Path("0-20.json"), Path("./0-20.json")])


def test_files_of_one_author_are_pooled_unless_a_round_is_there_twice() -> None:
    scored = score_forecast_files(Printed(), [Path("0-20.json"), Path("0-19.json"), Path("1-10.json")])
    assert [*group_files(scored)] == ["0-20.json", "0-19.json", "1-10.json"]
    (pooled,) = group_files([scored[0], scored[2]]).values()
    assert [one.file.round for one in pooled] == ["0", "1"]
    by_others = replace(scored[1], file=replace(scored[1].file, author="others"))
    assert {name: len(files) for name, files in group_files([scored[0], by_others, scored[2]]).items()} == {
        scored[0].file.author: 2,
        "others": 1,
    }
