"""Tuning of shrinkage: the vectors on the whole set, and honesty of leave-one-out."""

from typing import Any

import numpy as np
import pytest

from bot.core.beliefs import PriorSource
from bot.stats.aggregation import (
    DEFAULT_WEIGHTS,
    FIXED_GRID,
    SPREAD_GRID,
    FixedWeight,
    LogitMoments,
    SpreadWeight,
    logit_moments,
    shrink_to_prior,
    tune_leave_one_out,
    tune_weight_rule,
)
from bot.stats.arrays import FloatArray


def noisy(items: int, seed: int) -> tuple[LogitMoments, FloatArray]:
    """Trials that scatter far more than they know, so that shrinkage pays."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, 0.5, items)
    trials = 1 / (1 + np.exp(-(truth + rng.normal(0.0, 2.0, (3, items)))))
    return logit_moments(trials), (rng.random(items) < 1 / (1 + np.exp(-truth))).astype(float)


@pytest.fixture(scope="module")
def items(vectors: dict[str, Any]) -> tuple[LogitMoments, list[float]]:
    rows = vectors["rows"]
    return logit_moments(np.array([row["trials"] for row in rows]).T), [row["y"] for row in rows]


def test_by_default_trials_are_drawn_to_a_base_rate_as_the_vectors_have_it_and_not_to_the_crowd(
    vectors: dict[str, Any],
) -> None:
    for case in vectors["aggregate"]:
        moments = logit_moments([[probability] for probability in case["trials"]])
        with_rate = shrink_to_prior(moments, DEFAULT_WEIGHTS[PriorSource.BASE_RATE], 0.15)
        assert with_rate == pytest.approx(case["shrink_std_f.3_c.7_prior.15"], abs=1e-9)
        with_crowd = shrink_to_prior(moments, DEFAULT_WEIGHTS[PriorSource.CROWD], 0.15)
        assert with_crowd == pytest.approx(case["logit_mean"], abs=1e-9)


def test_the_weights_for_trials_that_started_from_nothing_are_the_best_under_the_model() -> None:
    rng, count = np.random.default_rng(1), 50_000
    truth, noise = rng.normal(0.0, 1.5, count), rng.uniform(0.2, 1.5, count)
    shared = rng.normal(0.0, 0.5, count) * noise
    logits = truth + shared + rng.normal(0.0, 1.0, (5, count)) * noise
    moments = logit_moments(np.clip(1 / (1 + np.exp(-logits)), 0.02, 0.98))
    # In place of outcomes the true probabilities: the same minimum in expectation, with less noise.
    best = tune_weight_rule(moments, 1 / (1 + np.exp(-truth)))
    assert best == DEFAULT_WEIGHTS[PriorSource.EVEN]


def test_the_spread_grid_finds_the_rule_of_the_vectors(
    items: tuple[LogitMoments, list[float]], vectors: dict[str, Any]
) -> None:
    assert tune_weight_rule(*items) == SpreadWeight(*vectors["fit_shrink_std_grid_n5"])
    assert tune_weight_rule(*items, prior=0.4) == SpreadWeight(*vectors["fit_shrink_std_prior.4_n5"])


def test_the_fixed_grid_finds_the_weight_of_the_vectors(
    items: tuple[LogitMoments, list[float]], vectors: dict[str, Any]
) -> None:
    assert tune_weight_rule(*items, rules=FIXED_GRID) == FixedWeight(vectors["fit_shrink_alpha_grid_n5"])


def test_each_item_gets_the_rule_that_is_best_on_the_others() -> None:
    moments, outcomes = noisy(40, seed=5)
    tuned = tune_leave_one_out(moments, outcomes)
    for item in range(40):
        others = np.arange(40) != item
        rule = tune_weight_rule(LogitMoments(*(column[others] for column in moments)), outcomes[others])
        assert tuned.chosen[item] == rule
        assert tuned.probabilities[item] == pytest.approx(shrink_to_prior(moments, rule)[item], abs=1e-12)


def test_flipping_an_outcome_leaves_its_own_forecast_alone() -> None:
    moments, outcomes = noisy(30, seed=6)
    for item in range(30):
        flipped = outcomes.copy()
        flipped[item] = 1 - flipped[item]
        before = tune_leave_one_out(moments, outcomes).probabilities[item]
        assert tune_leave_one_out(moments, flipped).probabilities[item] == before


def test_flipping_a_cluster_leaves_all_its_forecasts_alone() -> None:
    moments, outcomes = noisy(30, seed=7)
    clusters = np.arange(30) // 3 * 10
    flipped = np.where(clusters == 40, 1 - outcomes, outcomes)
    before = tune_leave_one_out(moments, outcomes, clusters=clusters).probabilities
    after = tune_leave_one_out(moments, flipped, clusters=clusters).probabilities
    assert after[clusters == 40].tolist() == before[clusters == 40].tolist()


def test_the_tuned_rule_shrinks_noisy_trials_and_the_grids_are_those_of_the_source() -> None:
    rule = tune_weight_rule(*noisy(400, seed=8), rules=FIXED_GRID)
    assert isinstance(rule, FixedWeight)
    assert rule.weight < 0.5
    assert (len(SPREAD_GRID), len(FIXED_GRID)) == (121, 20)
    assert SPREAD_GRID[1] == SpreadWeight(0.0, 0.2)


def test_an_item_of_more_weight_decides_on_the_rule() -> None:
    """The first item came true as its trials said, the second did not: whichever weighs more chooses."""
    moments, outcomes = logit_moments(np.full((3, 2), 0.9)), [1.0, 0.0]
    rules = [FixedWeight(1.0), FixedWeight(0.0)]
    assert tune_weight_rule(moments, outcomes, rules=rules, item_weights=[9.0, 1.0]) == rules[0]
    assert tune_weight_rule(moments, outcomes, rules=rules, item_weights=[1.0, 9.0]) == rules[1]
    # One rule alone is the best of them, and one that never shrinks by spread is a rule.
    assert tune_weight_rule(moments, outcomes, rules=[SpreadWeight(0.5, 0.0)]) == SpreadWeight(0.5, 0.0)


def test_impossible_rules_and_too_few_items_are_refused() -> None:
    moments, outcomes = noisy(2, seed=9)
    with pytest.raises(ValueError, match="weight"):
        FixedWeight(1.5)
    with pytest.raises(ValueError, match="floor"):
        SpreadWeight(-0.1, 0.0)
    with pytest.raises(ValueError, match="slope"):
        SpreadWeight(0.1, -1.0)
    with pytest.raises(ValueError, match="no rule"):
        tune_weight_rule(moments, outcomes, rules=[])
    with pytest.raises(ValueError, match="two or more"):
        tune_leave_one_out(moments, outcomes, clusters=np.array([4, 4]))
    with pytest.raises(ValueError, match="one length"):
        tune_weight_rule(moments, outcomes[:1])
    with pytest.raises(ValueError, match="one length"):
        tune_leave_one_out(moments, outcomes, clusters=np.array([1, 2, 3]))


def test_two_items_are_enough_to_tune_each_on_the_other() -> None:
    moments, outcomes = noisy(2, seed=9)
    tuned = tune_leave_one_out(moments, outcomes)
    for item in (0, 1):
        other = np.array([1 - item])
        assert tuned.chosen[item] == tune_weight_rule(
            LogitMoments(*(column[other] for column in moments)), outcomes[other]
        )
    with pytest.raises(ValueError, match="two or more"):
        tune_leave_one_out(LogitMoments(*(column[:1] for column in moments)), outcomes[:1])
