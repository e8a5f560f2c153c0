"""The scorer against figures of the benchmark that were computed by two programs of other hands."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bot.core.learning import Round
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef
from bot.evaluation.score_report import BinaryScores, FamilyScores, ScoreReport, build_report
from bot.evaluation.score_rows import BinaryScoreRow, binary_score_rows
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings

TOLERANCE = 1e-6
# The expected file gives six decimals of an index and eight of a Brier score.
HALF_A_DIGIT = {"brier_index": 5e-7, "brier": 5e-9, "base_rate": 5e-7}


@pytest.fixture(scope="module")
def expected(shared: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((shared / "venues" / "forecastbench_expected.json").read_bytes())
    return found


@pytest.fixture(scope="module")
def archive(shared: Path) -> ForecastBenchArchive:
    return ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")


def prior_of(priors: Mapping[str, float]) -> Callable[[Question], float]:
    """Return the rule of the expected file: the crowd's price, else the printed rate of the template."""

    def prior(question: Question) -> float:
        if question.crowd is not None:
            assert isinstance(question.crowd.prediction, BinaryPrediction)
            return question.crowd.prediction.probability
        return priors[_template(question.source, question.title)]

    return prior


def _template(source: str, text: str) -> str:
    if source == "acled":
        return "acled_10x" if "ten times" in text else "acled_inc"
    words = {
        "vaccine": "wiki_vaccine",
        "Elo rating": "wiki_elo",
        "FIDE ranking": "wiki_rank",
        "world record": "wiki_swim",
    }
    return next((name for word, name in words.items() if word in text), source) if source == "wikipedia" else source


def answered(a_round: Round, prior: Callable[[Question], float]) -> dict[tuple[QuestionRef, str], float]:
    return {
        (question.ref, target.key): prior(question) for question in a_round.questions for target in question.targets
    }


def report(rows: list[BinaryScoreRow]) -> ScoreReport:
    return build_report(rows, rng=np.random.default_rng(1))


@pytest.fixture(scope="module")
def rows(archive: ForecastBenchArchive, expected: Mapping[str, Any]) -> list[BinaryScoreRow]:
    prior = prior_of(expected["definitions"]["subtypes"]["priors"])
    rounds = [archive.read_round(key) for key in archive.round_keys()]
    return [row for a_round in rounds for row in binary_score_rows(a_round, answered(a_round, prior))]


def require_equal(cell: BinaryScores, wanted: Mapping[str, Any]) -> None:
    assert cell.n == wanted["n"]
    for name, half in HALF_A_DIGIT.items():
        assert getattr(cell, name) == pytest.approx(wanted[name], abs=half + 1e-12), name


def require_block(block: FamilyScores, wanted: Mapping[str, Any]) -> None:
    require_equal(block.market, wanted["market"])
    require_equal(block.dataset, wanted["dataset"])
    assert block.overall.mean_of_indices == pytest.approx(wanted["overall_mean_of_indices"], abs=TOLERANCE)
    assert block.overall.index_of_mean_brier == pytest.approx(wanted["overall_forecastbench"], abs=TOLERANCE)


def test_crowd_and_printed_rates_score_as_published_in_every_cell(
    rows: list[BinaryScoreRow], expected: Mapping[str, Any]
) -> None:
    found, wanted = report(rows), expected["crowd_emp"]
    require_block(found.block, wanted["pooled"])
    assert set(found.by_round) == set(wanted["by_date"])
    for due, block in wanted["by_date"].items():
        require_block(found.by_round[due], block)
    for source, cell in wanted["by_source"].items():
        require_equal(found.by_source[source], cell)
    for horizon, cell in wanted["by_horizon_dataset"].items():
        require_equal(found.by_horizon[horizon], cell)


@pytest.mark.parametrize("constant", ["0.0", "0.5", "1.0"])
def test_constant_forecasts_score_as_published(
    rows: list[BinaryScoreRow], expected: Mapping[str, Any], constant: str
) -> None:
    said = [replace(row, probability=float(constant)) for row in rows]
    found = report(said).block
    for family in ("market", "dataset"):
        wanted = expected["constant_forecasts"][constant][family]
        assert getattr(found, family).brier == pytest.approx(wanted, abs=5e-9 + 1e-12)


def test_missing_rows_count_as_one_half(archive: ForecastBenchArchive, expected: Mapping[str, Any]) -> None:
    prior = prior_of(expected["definitions"]["subtypes"]["priors"])
    found: list[BinaryScoreRow] = []
    for key in archive.round_keys():
        a_round = archive.read_round(key)
        answers = answered(a_round, prior)
        for resolution in a_round.resolutions[::10]:
            del answers[resolution.ref, resolution.target]
        found += binary_score_rows(a_round, answers)
    result = report(found)
    require_block(result.block, expected["imputation_check"]["pooled"])
    assert result.imputed / len(found) == pytest.approx(expected["imputation_check"]["share_imputed"], abs=5e-7)


@pytest.mark.parametrize(("tranche", "due"), [("A", "2025-10-26"), ("B", "2025-11-09")])
def test_the_tranches_of_the_paper_score_as_published(
    shared: Path, tmp_path: Path, expected: Mapping[str, Any], tranche: str, due: str
) -> None:
    data = shared / "data" / "forecastbench"
    shutil.copytree(data / "question_sets", tmp_path / "question_sets")
    shutil.copytree(data / "resolution_sets_asof_2026-04-11", tmp_path / "resolution_sets")
    a_round = ForecastBenchArchive(ForecastBenchSettings(), tmp_path).read_round(due)
    prior = prior_of(expected["definitions"]["subtypes"]["priors"])
    found = report(list(binary_score_rows(a_round, answered(a_round, prior))))
    wanted = expected["blf_tranches"][tranche]
    require_block(found.block, wanted)
    assert found.block.market.n == 100
    for source, cell in wanted["market_by_source"].items():
        require_equal(found.by_source[source], cell)


def test_plain_files_are_read_like_packed_ones(shared: Path, tmp_path: Path) -> None:
    for name in ("question_sets/2026-04-26-llm.json", "resolution_sets/2026-04-26_resolution_set.json"):
        (tmp_path / name).parent.mkdir()
        packed = (shared / "data" / "forecastbench" / f"{name}.gz").read_bytes()
        (tmp_path / name).write_bytes(gzip.decompress(packed))
    plain = ForecastBenchArchive(ForecastBenchSettings(), tmp_path).read_round("2026-04-26")
    packed_round = ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench").read_round(
        "2026-04-26"
    )
    assert plain == packed_round
