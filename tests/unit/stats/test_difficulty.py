"""Difficulty adjustment against the published check and statsmodels."""

from collections.abc import Hashable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from bot.stats.arrays import FloatArray
from bot.stats.comparison import (
    AdjustedScore,
    BrierTable,
    adjust_scores,
    build_brier_table,
    fit_difficulty,
)
from bot.stats.scores import brier_scores, index_from_brier, overall_index_of_mean_brier
from tests.unit.stats.published_rounds import ScoredRow

CROWD, HALF, SHRUNK, CLIPPED = "F1_crowd_emp", "F2_always_0.5", "F3_shrunk", "F4_clipped"


def key(row: ScoredRow) -> Hashable:
    return row.due, row.source, row.question, row.horizon


def four_forecasters(rows: list[ScoredRow]) -> BrierTable:
    early = [row for row in rows if row.due < "2026-03-01"]
    late = [row for row in rows if row.due >= "2026-01-04"]
    answers = [(CROWD, row, row.probability) for row in rows]
    answers += [(HALF, row, 0.5) for row in rows]
    answers += [(SHRUNK, row, 0.8 * row.probability + 0.1) for row in early]
    answers += [(CLIPPED, row, min(max(row.probability, 0.05), 0.95)) for row in late]
    scores = brier_scores([p for _, _, p in answers], [row.outcome for _, row, _ in answers])
    return build_brier_table([name for name, _, _ in answers], [key(row) for _, row, _ in answers], scores)


def scores_of(table: BrierTable, forecaster: str) -> FloatArray:
    """Return the scores of one forecaster, the difficulty of market questions; each question must have one."""
    rows = table.forecaster == table.forecasters.index(forecaster)
    scores = np.full(len(table.questions), np.nan)
    scores[table.question[rows]] = table.brier[rows]
    return scores


@pytest.fixture(scope="module")
def adjusted(published: list[ScoredRow]) -> dict[str, dict[str, AdjustedScore]]:
    market = four_forecasters([row for row in published if row.market])
    dataset = four_forecasters([row for row in published if not row.market])
    tables = {
        "market": adjust_scores(market, scores_of(market, CROWD)),
        "dataset": adjust_scores(dataset, fit_difficulty(dataset, {CROWD, SHRUNK, CLIPPED})),
    }
    return {part: {str(score.forecaster): score for score in scores} for part, scores in tables.items()}


@pytest.mark.parametrize("part", ["market", "dataset"])
@pytest.mark.parametrize("name", [CROWD, HALF, SHRUNK, CLIPPED])
def test_the_published_check_is_reproduced(
    adjusted: dict[str, dict[str, AdjustedScore]], expected: dict[str, Any], part: str, name: str
) -> None:
    check = expected["difficulty_adjusted_check"]
    score = adjusted[part][name]
    assert score.raw_brier == pytest.approx(check["raw"][name][part], abs=1e-8)
    assert score.adjusted_brier == pytest.approx(check["adjusted"][name][part], abs=1e-8)
    assert score.index == pytest.approx(check["ABI"][name][part], abs=1e-5)


@pytest.mark.parametrize("name", [CROWD, HALF, SHRUNK, CLIPPED])
def test_the_overall_of_the_check_is_the_index_of_the_mean(
    adjusted: dict[str, dict[str, AdjustedScore]], expected: dict[str, Any], name: str
) -> None:
    briers = [adjusted[part][name].adjusted_brier for part in ("market", "dataset")]
    overall = expected["difficulty_adjusted_check"]["ABI"][name]["overall"]
    assert overall_index_of_mean_brier(briers) == pytest.approx(overall, abs=1e-5)


def test_effects_agree_with_ordinary_least_squares_on_dummies() -> None:
    rng = np.random.default_rng(3)
    who, what = np.nonzero(rng.random((5, 30)) < 0.6)
    scores = rng.random(who.size)
    table = build_brier_table(who.tolist(), what.tolist(), scores)
    dummies = np.zeros((who.size, 4 + 30))
    dummies[np.arange(who.size)[who > 0], who[who > 0] - 1] = 1.0
    dummies[np.arange(who.size), 4 + what] = 1.0
    reference = sm.OLS(scores, dummies).fit().params[4:]
    found = dict(zip(table.questions, fit_difficulty(table, set(range(5))), strict=True))
    ours = np.array([found[question] for question in range(30)])
    assert ours - ours.mean() == pytest.approx(reference - reference.mean(), abs=1e-10)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=6))
def test_equal_coverage_makes_the_adjusted_index_the_index(briers: list[list[float]]) -> None:
    forecasters = [name for name in range(len(briers)) for _ in range(3)]
    table = build_brier_table(
        [*forecasters, "half"] + ["half"] * 2,
        [0, 1, 2] * (len(briers) + 1),
        [*chain.from_iterable(briers), 0.25, 0.25, 0.25],
    )
    scores = adjust_scores(table, fit_difficulty(table, {*range(len(briers)), "half"}))
    assert [score.index for score in scores] == pytest.approx(
        [float(index_from_brier(score.raw_brier)) for score in scores], abs=1e-4
    )


def test_always_one_half_scores_exactly_a_quarter_and_a_negative_mean_has_index_100() -> None:
    # One easy and one hard question; "sharp" answers only the hard one, and better than the reference by 0.6.
    table = build_brier_table(
        ["reference", "reference", "half", "half", "sharp"],
        ["easy", "hard", "easy", "hard", "hard"],
        [0.0, 0.6, 0.25, 0.25, 0.0],
    )
    reference, half, sharp = adjust_scores(table, scores_of(table, "reference"))
    assert half.adjusted_brier == pytest.approx(0.25)
    assert reference.adjusted_brier == pytest.approx(0.3)
    assert sharp.adjusted_brier == pytest.approx(-0.3)
    assert (sharp.index, sharp.rows) == (100.0, 1)


def test_a_fractional_outcome_moves_the_constant() -> None:
    # Outcome 0.4: always one half scores 0.01 there, so with difficulty 0.01 the constant is 0.25.
    table = build_brier_table(["half"], ["split"], [0.01])
    (half,) = adjust_scores(table, np.array([0.01]), half_brier=0.01)
    assert half.adjusted_brier == pytest.approx(0.25)


def test_questions_without_a_difficulty_are_left_out() -> None:
    table = build_brier_table(["a", "b", "b"], ["q", "q", "alone"], [0.1, 0.3, 0.9])
    difficulty = fit_difficulty(table, {"a"})
    assert np.isnan(difficulty[1])
    assert [score.rows for score in adjust_scores(table, difficulty)] == [1, 1]


def test_a_forecaster_without_any_usable_row_is_named() -> None:
    table = build_brier_table(["a", "b"], ["q", "alone"], [0.1, 0.9])
    with pytest.raises(ValueError, match="'b'"):
        adjust_scores(table, fit_difficulty(table, {"a"}))


def test_groups_without_a_common_question_cannot_be_compared() -> None:
    table = build_brier_table(["a", "b"], ["q", "r"], [0.1, 0.9])
    with pytest.raises(ValueError, match="2 groups"):
        fit_difficulty(table, {"a", "b"})


def test_malformed_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="two scores"):
        build_brier_table(["a", "a"], ["q", "q"], [0.1, 0.2])
    table = build_brier_table(["a"], ["q"], [0.1])
    with pytest.raises(ValueError, match="no included"):
        fit_difficulty(table, {"z"})
    with pytest.raises(ValueError, match="1 questions"):
        adjust_scores(table, np.zeros(2))
