"""The archive against the published rounds and the figures of docs/facts/forecastbench.md."""

import gzip
import json
import os
import shutil
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.api import BinaryOutcome, BinaryPrediction, MalformedDataError, NotFoundError, Round
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.round_files import RoundFolder
from plugins.forecastbench.round_sources import archive_folder
from plugins.forecastbench.settings import ForecastBenchSettings
from tests.plugins.forecastbench.records import complaints_of, market, question_file, resolution_file, row, series

ROUNDS = 14


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shared / "venues" / "forecastbench_expected.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def archive(shared: Path) -> ForecastBenchArchive:
    return ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")


@pytest.fixture(scope="module")
def rounds(archive: ForecastBenchArchive) -> list[Round]:
    return [archive.read_round(key) for key in archive.round_keys()]


def crowd_errors(found: Round) -> list[float]:
    """Squared errors of the crowd on the resolved market questions of a round."""
    crowds = {question.ref: question.crowd for question in found.questions if question.family == "market"}
    errors = []
    for resolution in found.resolutions:
        crowd = crowds.get(resolution.ref)
        if crowd is not None:
            assert isinstance(crowd.prediction, BinaryPrediction)
            assert isinstance(resolution.outcome, BinaryOutcome)
            errors.append((crowd.prediction.probability - resolution.outcome.value) ** 2)
    return errors


def test_questions_per_source_are_as_documented(rounds: list[Round], expected: dict[str, Any]) -> None:
    counts = {found.key: Counter(question.source for question in found.questions) for found in rounds}
    assert counts == expected["question_counts"]
    assert len(rounds) == ROUNDS


def test_rows_of_a_complete_file_are_as_documented(rounds: list[Round], expected: dict[str, Any]) -> None:
    for found in rounds:
        rows: Counter[str] = Counter()
        for question in found.questions:
            rows[question.family] += len(question.targets)
        assert rows == expected["forecast_set_rows"][found.key], found.key


def test_scored_rows_are_as_documented(rounds: list[Round], expected: dict[str, Any]) -> None:
    for found in rounds:
        families = {question.ref: question.family for question in found.questions}
        rows = Counter(families[resolution.ref] for resolution in found.resolutions)
        cells = expected["crowd_emp"]["by_date"][found.key]
        assert rows == {family: cells[family]["n"] for family in ("market", "dataset")}, found.key


def test_the_crowd_scores_as_documented(rounds: list[Round], expected: dict[str, Any]) -> None:
    for found in rounds:
        errors = crowd_errors(found)
        brier = expected["crowd_emp"]["by_date"][found.key]["market"]["brier"]
        assert sum(errors) / len(errors) == pytest.approx(brier, abs=1e-8)


@pytest.mark.parametrize("tranche", ["A", "B"])
def test_the_tranches_of_the_paper_have_a_hundred_market_outcomes(
    tranche: str, shared: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    cell = expected["blf_tranches"][tranche]
    data = shared / "data" / "forecastbench"
    (tmp_path / "question_sets").symlink_to(data / "question_sets")
    (tmp_path / "resolution_sets").symlink_to(data / "resolution_sets_asof_2026-04-11")
    found = ForecastBenchArchive(ForecastBenchSettings(), tmp_path).read_round(cell["date"])
    errors = crowd_errors(found)
    index = 100 * (1 - (sum(errors) / len(errors)) ** 0.5)
    assert len(errors) == 100
    assert index == pytest.approx({"A": 81.378388, "B": 81.588763}[tranche], abs=1e-6)
    assert len(found.resolutions) - len(errors) == cell["dataset"]["n"]


def test_no_published_record_is_odd(shared: Path) -> None:
    assert complaints_of(RoundFolder(shared / "data" / "forecastbench")) == []


def test_the_human_set_of_2024_is_read_when_asked_for(shared: Path) -> None:
    settings = ForecastBenchSettings(question_sets="human")
    archive = ForecastBenchArchive(settings, shared / "data" / "forecastbench")
    found = archive.read_round("2024-07-21")
    errors = crowd_errors(found)
    assert list(archive.round_keys()) == ["2024-07-21"]
    assert len(found.questions) == 200
    assert len(errors) == 56
    assert 100 * (1 - (sum(errors) / 56) ** 0.5) == pytest.approx(63.85, abs=0.005)


def test_examples_reach_back_to_rounds_without_questions(archive: ForecastBenchArchive) -> None:
    before = datetime(2025, 10, 26, tzinfo=UTC)
    examples = list(archive.examples(before))
    bare = [example for example in examples if not example.question.title]
    dataset = [example for example in examples if example.question.family == "dataset"]
    assert len({example.question.batch for example in examples}) == 13
    assert len(bare) / len(examples) > 0.9
    assert all(example.resolution.resolved_at < before for example in examples)
    assert all(example.question.targets[0].horizon_days is not None for example in dataset)


def test_all_dataset_outcomes_are_examples(archive: ForecastBenchArchive) -> None:
    examples = archive.examples(datetime(2026, 5, 10, tzinfo=UTC))
    horizons = Counter(
        example.question.target(example.resolution.target).horizon_days
        for example in examples
        if example.question.source == "dbnomics"
    )
    # See docs/facts/forecastbench.md#dataset-questions: rows of the dbnomics subtype by horizon.
    assert horizons == {7: 1196, 30: 1127, 90: 936, 180: 611, 365: 236}


def test_everything_is_read_within_seconds(shared: Path) -> None:
    start = time.process_time()
    archive = ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")
    count = sum(len(archive.read_round(key).questions) for key in archive.round_keys())
    count += sum(1 for _ in archive.examples(datetime(2026, 5, 10, tzinfo=UTC)))
    assert count > 30_000
    # About 1.3 s on the machine of development; the margin is for slow ones under coverage.
    assert time.process_time() - start < 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "question_sets").mkdir()
    (tmp_path / "resolution_sets").mkdir()
    questions = json.dumps(question_file(market(), series()))
    (tmp_path / "question_sets" / "2026-03-01-llm.json").write_text(questions)
    outcomes = json.dumps(
        resolution_file(
            row(),
            row(id="m2"),
            row(id="CPIX", source="fred", resolution_date="2026-03-08", resolved_to=0),
            row(id="CPIX", source="fred", resolution_date="2026-05-30", resolved_to=1),
        )
    )
    (tmp_path / "resolution_sets" / "2026-03-01_resolution_set.json.gz").write_bytes(gzip.compress(outcomes.encode()))
    return tmp_path


def test_outcomes_of_what_was_not_asked_do_not_belong_to_the_round(folder: Path) -> None:
    found = ForecastBenchArchive(ForecastBenchSettings(), folder).read_round("2026-03-01")
    assert [(outcome.ref.key, outcome.target) for outcome in found.resolutions] == [
        ("2026-03-01/manifold/m1", "outcome"),
        ("2026-03-01/fred/CPIX", "2026-03-08"),
    ]


@pytest.mark.parametrize(
    ("day", "count"),
    [
        (datetime(2026, 3, 1, tzinfo=UTC), 0),
        (datetime(2026, 3, 8, tzinfo=UTC), 0),
        (datetime(2026, 3, 9, tzinfo=UTC), 1),
        (datetime(2026, 3, 20, 23, 59, tzinfo=UTC), 1),
        (datetime(2026, 3, 21, tzinfo=UTC), 3),
    ],
)
def test_an_outcome_is_an_example_from_the_day_after(folder: Path, day: datetime, count: int) -> None:
    assert len(list(ForecastBenchArchive(ForecastBenchSettings(), folder).examples(day))) == count


def test_a_file_that_changes_is_read_again(folder: Path) -> None:
    archive = ForecastBenchArchive(ForecastBenchSettings(), folder)
    first = archive.read_round("2026-03-01")
    path = folder / "question_sets" / "2026-03-01-llm.json"
    path.write_text(json.dumps(question_file(market(question="Will it snow in Lysse?"))))
    os.utime(path, ns=(1, 1))
    assert len(first.questions) == 2
    assert [question.title for question in archive.read_round("2026-03-01").questions] == ["Will it snow in Lysse?"]


def test_a_file_named_by_a_day_that_no_calendar_has_is_passed_over(folder: Path) -> None:
    (folder / "question_sets" / "2026-02-30-llm.json").write_text("{}")
    (folder / "resolution_sets" / "2026-13-01_resolution_set.json").write_text("{}")
    archive = ForecastBenchArchive(ForecastBenchSettings(), folder)
    assert archive.round_keys() == ["2026-03-01"]
    assert len(list(archive.examples(datetime(2026, 4, 1, tzinfo=UTC)))) == 3


def test_outcomes_alone_make_examples_but_no_round(folder: Path) -> None:
    shutil.rmtree(folder / "question_sets")
    archive = ForecastBenchArchive(ForecastBenchSettings(), folder)
    examples = list(archive.examples(datetime(2026, 4, 1, tzinfo=UTC)))
    assert list(archive.round_keys()) == []
    assert [example.question.title for example in examples] == ["", "", ""]


def test_a_folder_of_another_kind_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="question_sets"):
        ForecastBenchArchive(ForecastBenchSettings(), tmp_path)


def test_an_unknown_round_names_those_there_are(folder: Path) -> None:
    with pytest.raises(NotFoundError, match="2026-03-01"):
        ForecastBenchArchive(ForecastBenchSettings(), folder).read_round("2026-03-02")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x1f\x8b cut", gzip.compress(b"{}")[:-4], b"[" * 100_000, gzip.compress(bytes(20_000_000))],
    ids=["empty", "open", "cut", "tail", "deep", "bomb"],
)
def test_a_broken_file_is_a_contract_error(folder: Path, content: bytes) -> None:
    (folder / "question_sets" / "2026-03-01-llm.json").write_bytes(content)
    with pytest.raises(MalformedDataError):
        ForecastBenchArchive(ForecastBenchSettings(), folder).read_round("2026-03-01")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n", b"<html>", b"\x1f\x8b cut"], ids=["picture", "page", "cut"])
def test_a_file_that_is_no_json_is_named_with_what_to_do(folder: Path, content: bytes) -> None:
    (folder / "question_sets" / "2026-03-01-llm.json").write_bytes(content)
    with pytest.raises(
        MalformedDataError, match=r"2026-03-01-llm\.json .*; download the file again, or remove it"
    ) as caught:
        ForecastBenchArchive(ForecastBenchSettings(), folder).read_round("2026-03-01")
    assert "codec" not in str(caught.value)


@pytest.mark.parametrize("source", [".", "question_sets/2026-03-01-llm.json"])
def test_the_archive_of_the_settings_is_what_the_reader_reads(folder: Path, source: str) -> None:
    assert archive_folder(ForecastBenchSettings(source=folder / source)) == folder


def test_the_sample_is_its_own_archive() -> None:
    found = archive_folder(ForecastBenchSettings())
    assert found is not None
    assert len(ForecastBenchArchive(ForecastBenchSettings(), found).round_keys()) == 3


@pytest.mark.parametrize("source", ["https://example.org/datasets", "nowhere"])
def test_an_address_or_a_missing_folder_has_no_archive(source: str) -> None:
    assert archive_folder(ForecastBenchSettings.model_validate({"source": source})) is None


def test_a_file_that_holds_another_round_than_its_name_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / "question_sets").mkdir()
    (tmp_path / "question_sets" / "2026-03-15-llm.json").write_text(json.dumps(question_file(market())))
    with pytest.raises(MalformedDataError, match=r"2026-03-15-llm\.json holds the round of 2026-03-01"):
        ForecastBenchArchive(ForecastBenchSettings(), tmp_path).read_round("2026-03-15")
