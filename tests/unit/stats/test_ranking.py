"""Accuracy, absolute error and the areas under two curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve, roc_curve

from bot.stats.ranking import rank_forecasts, trace_ranking_curves

FORECASTS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.35, 0.5, 0.8, 1.0]), st.booleans()), min_size=2)


def test_the_example_of_the_scikit_learn_documentation() -> None:
    # From the documentation of roc_auc_score and average_precision_score.
    figures = rank_forecasts([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    assert figures.auc == pytest.approx(0.75)
    assert figures.precision == pytest.approx(0.8333, abs=5e-5)


def test_accuracy_counts_one_half_as_half_and_the_error_is_absolute() -> None:
    figures = rank_forecasts([0.9, 0.5, 0.2], [1, 1, 1])
    assert figures.accuracy == pytest.approx(0.5)
    assert figures.absolute_error == pytest.approx((0.1 + 0.5 + 0.8) / 3)
    assert (figures.auc, figures.precision) == (None, None)


@given(FORECASTS)
def test_the_area_is_the_share_of_pairs_in_the_right_order(pairs: list[tuple[float, bool]]) -> None:
    p, o = np.array([one for one, _ in pairs]), np.array([float(one) for _, one in pairs])
    yes, no = p[o == 1.0], p[o == 0.0]
    figures = rank_forecasts(p, o)
    if not yes.size or not no.size:
        assert figures.auc is None
        return
    wins = (yes[:, None] > no[None, :]).mean() + (yes[:, None] == no[None, :]).mean() / 2.0
    assert figures.auc == pytest.approx(wins)


@given(FORECASTS)
def test_average_precision_is_the_area_of_its_steps(pairs: list[tuple[float, bool]]) -> None:
    p, o = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    figures = rank_forecasts(p, o.astype(float))
    if o.all() or not o.any():
        assert figures.precision is None
        return
    area, recall = 0.0, 0.0
    for threshold in sorted({*p.tolist()}, reverse=True):
        taken = p >= threshold
        reached = (taken & o).sum() / o.sum()
        area += (reached - recall) * (taken & o).sum() / taken.sum()
        recall = reached
    assert figures.precision == pytest.approx(area)


@pytest.mark.parametrize(
    ("probabilities", "outcomes"), [([], []), ([0.5], [0, 1]), ([1.5], [1]), ([0.5], [0.5]), ([float("nan")], [1])]
)
def test_bad_columns_are_refused(probabilities: list[float], outcomes: list[float]) -> None:
    with pytest.raises(ValueError, match=r"vectors|outside|neither|finite"):
        rank_forecasts(probabilities, outcomes)


def test_the_points_of_both_curves() -> None:
    rng = np.random.default_rng(3)
    outcomes = (rng.random(200) < 0.4).astype(float)
    forecasts = np.round(np.clip(0.3 * outcomes + 0.7 * rng.random(200), 0, 1), 1)
    found = trace_ranking_curves(forecasts, outcomes)
    alarms, recall, _ = roc_curve(outcomes, forecasts, drop_intermediate=False)
    assert found.false_alarms == pytest.approx(alarms[1:])
    assert found.recall == pytest.approx(recall[1:])
    precision, _, _ = precision_recall_curve(outcomes, forecasts)
    # From low to high thresholds there, with one more point at the end.
    assert found.precision == pytest.approx(precision[:-1][::-1])
