"""The bundled rounds: complete in kind, in the published form, and sane to score."""

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from bot.api import BinaryOutcome, BinaryPrediction, Round
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.file_format import DATASET_SOURCES, MARKET_SOURCES
from plugins.forecastbench.round_files import RoundFolder, sample_folder
from plugins.forecastbench.settings import ForecastBenchSettings
from tests.plugins.forecastbench.records import complaints_of

FIRST_DUE_DATE = date(2024, 7, 21)


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    archive = ForecastBenchArchive(ForecastBenchSettings(), Path("sample"))
    return [archive.read_round(key) for key in archive.round_keys()]


def test_no_bundled_record_is_odd() -> None:
    assert complaints_of(RoundFolder(sample_folder())) == []


def test_due_dates_keep_to_the_calendar_of_the_venue(rounds: list[Round]) -> None:
    assert {(found.as_of.date() - FIRST_DUE_DATE).days % 14 for found in rounds} == {0}


def test_every_source_and_kind_of_question_occurs(rounds: list[Round]) -> None:
    for found in rounds:
        assert {question.source for question in found.questions} == MARKET_SOURCES | DATASET_SOURCES
        titles = " ".join(question.title for question in found.questions)
        for words in ("ten times", "vaccine", "Elo rating", "FIDE ranking", "world record"):
            assert words in titles
        assert "{" not in titles


def test_some_market_questions_are_open_and_some_question_is_annulled(rounds: list[Round]) -> None:
    for found in rounds:
        resolved = Counter(outcome.ref for outcome in found.resolutions)
        assert {question.ref for question in found.questions if question.family == "market"} - set(resolved)


def test_the_crowd_is_good_and_can_be_beaten(rounds: list[Round]) -> None:
    crowds = {question.ref: question.crowd for found in rounds for question in found.questions}
    pairs = [
        (crowd.prediction.probability, outcome.outcome.value)
        for found in rounds
        for outcome in found.resolutions
        if (crowd := crowds[outcome.ref]) is not None
        and isinstance(crowd.prediction, BinaryPrediction)
        and isinstance(outcome.outcome, BinaryOutcome)
    ]
    brier = sum((p - y) ** 2 for p, y in pairs) / len(pairs)
    base_rate = sum(y for _, y in pairs) / len(pairs)
    assert 0.03 < brier < base_rate * (1 - base_rate)
