"""Brier score, index and both Overalls against vectors, scikit-learn and the published rounds."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from bot.stats.aggregation import logit_mean_probability
from bot.stats.scores import (
    brier_index,
    brier_scores,
    choice_brier_scores,
    index_from_brier,
    mean_brier,
    mean_outcome,
    overall_index_of_mean_brier,
    overall_mean_of_indices,
)
from tests.unit.stats.published_rounds import ScoredRow

Columns = tuple[list[float], list[float]]


def columns(rows: Sequence[ScoredRow]) -> Columns:
    return [row.probability for row in rows], [row.outcome for row in rows]


def test_single_scores_agree_with_the_vectors(vectors: dict[str, Any]) -> None:
    cases = vectors["scores"]
    scores = brier_scores([case["p"] for case in cases], [case["o"] for case in cases])
    assert scores == pytest.approx([case["brier"] for case in cases], abs=1e-9)


@pytest.mark.parametrize("column", ["agg", "hier_loo", "first_trial"])
def test_the_population_index_agrees_with_the_vectors(vectors: dict[str, Any], column: str) -> None:
    rows = vectors["rows"]
    forecasts = {
        "agg": [row["agg"] for row in rows],
        "hier_loo": vectors["platt_hier_loo"],
        "first_trial": [row["trials"][0] for row in rows],
    }
    index = brier_index(forecasts[column], [row["y"] for row in rows])
    assert index == pytest.approx(100 * vectors["brier_index_population"][column], abs=1e-7)


def test_a_mean_of_per_question_indices_is_a_different_number(vectors: dict[str, Any]) -> None:
    rows = vectors["rows"]
    p, o = [row["agg"] for row in rows], [row["y"] for row in rows]
    wrong = float(index_from_brier(brier_scores(p, o)).mean())
    assert wrong == pytest.approx(100 * vectors["brier_index_wrong_mean_of_per_question"]["agg"], abs=1e-7)
    assert wrong - brier_index(p, o) > 5


def test_the_rows_of_the_vectors_are_logit_means_of_their_trials(vectors: dict[str, Any]) -> None:
    rows = vectors["rows"]
    means = logit_mean_probability(np.array([row["trials"] for row in rows]).T)
    assert means == pytest.approx([row["agg"] for row in rows], abs=1e-9)


def test_the_pooled_rounds_score_as_published(published: list[ScoredRow], expected: dict[str, Any]) -> None:
    pooled = expected["crowd_emp"]["pooled"]
    briers = []
    for name, rows in (
        ("market", [row for row in published if row.market]),
        ("dataset", [row for row in published if not row.market]),
    ):
        p, o = columns(rows)
        assert len(rows) == pooled[name]["n"]
        assert mean_outcome(o) == pytest.approx(pooled[name]["base_rate"], abs=1e-6)
        assert brier_index(p, o) == pytest.approx(pooled[name]["brier_index"], abs=1e-6)
        briers.append(mean_brier(p, o))
    assert overall_mean_of_indices(briers) == pytest.approx(pooled["overall_mean_of_indices"], abs=1e-6)
    assert overall_index_of_mean_brier(briers) == pytest.approx(pooled["overall_forecastbench"], abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_the_mean_score_agrees_with_scikit_learn(rows: list[tuple[float, int]]) -> None:
    p, o = [p for p, _ in rows], [o for _, o in rows]
    assert mean_brier(p, o) == pytest.approx(brier_score_loss(o, p, pos_label=1, labels=[0, 1]), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_index_of_the_mean_never_exceeds_the_mean_of_indices(briers: list[float]) -> None:
    assert overall_index_of_mean_brier(briers) <= overall_mean_of_indices(briers) + 1e-9


def test_always_one_half_has_index_fifty_and_a_negative_mean_counts_as_zero() -> None:
    assert brier_index([0.5] * 4, [0, 1, 1, 0]) == pytest.approx(50.0)
    assert index_from_brier([-0.01, 0.0, 1.0]) == pytest.approx([100.0, 100.0, 0.0])


@given(st.floats(0, 1), st.integers(0, 1))
def test_a_choice_of_two_scores_twice_the_binary(probability: float, outcome: int) -> None:
    score = choice_brier_scores([[1 - probability, probability]], [outcome])
    assert score == pytest.approx(2 * brier_scores([probability], [outcome]), abs=1e-12)


def test_a_choice_of_three_scores_by_hand_and_padding_is_free() -> None:
    # (0.5 - 1)^2 + 0.3^2 + 0.2^2 = 0.38
    assert choice_brier_scores([[0.5, 0.3, 0.2]], [0]) == pytest.approx([0.38])
    assert choice_brier_scores([[0.5, 0.3, 0.2, 0.0]], [0]) == pytest.approx([0.38])


@pytest.mark.parametrize(
    ("pmfs", "outcomes"),
    [
        ([0.5, 0.5], [0]),
        ([[0.5, 0.5]], [0, 1]),
        (np.zeros((0, 2)), []),
        ([[0.5, 0.5]], [2]),
        ([[0.5, 0.5]], [-1]),
        ([[0.5, 0.4]], [0]),
    ],
)
def test_a_malformed_choice_is_refused(pmfs: list[list[float]], outcomes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"needs|option"):
        choice_brier_scores(pmfs, outcomes)


@pytest.mark.parametrize(("p", "o"), list(product([[], [0.5], [[0.5]]], [[], [[1.0]], [1.0, 0.0]])))
def test_columns_of_other_lengths_are_refused(p: list[float], o: list[float]) -> None:
    with pytest.raises(ValueError, match="one length"):
        mean_brier(p, o)
