"""Bootstrap intervals against scipy, the normal approximation and exact small cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm

from bot.stats.arrays import FloatArray
from bot.stats.bootstrap import (
    MAX_DRAWN_UNITS,
    average_parts,
    confidence_intervals,
    method_differences,
    resample_means,
    to_brier_index,
)
from bot.stats.scores import index_from_brier, overall_index_of_mean_brier, overall_mean_of_indices

METHODS = ["good", "same", "bad"]


def scores(rows: int, seed: int) -> FloatArray:
    """Three methods on shared questions: the second equals the first, the third is worse on average."""
    rng = np.random.default_rng(seed)
    difficulty = rng.beta(1, 5, rows)
    return np.column_stack([difficulty, difficulty, np.minimum(difficulty + rng.normal(0.02, 0.05, rows), 1.0)])


def rng() -> np.random.Generator:
    return np.random.default_rng(42)


def test_the_interval_agrees_with_scipy() -> None:
    sample = scores(300, seed=1)[:, 2]
    ours = confidence_intervals(resample_means(sample[:, None], ["bad"], resamples=20_000, rng=rng()))[0]
    theirs = bootstrap((sample,), np.mean, n_resamples=20_000, method="percentile", rng=rng()).confidence_interval
    assert ours.estimate == pytest.approx(sample.mean())
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), rel=0.01)


def test_the_interval_of_the_index_agrees_with_scipy() -> None:
    sample = scores(300, seed=2)[:, 0]
    ours = confidence_intervals(
        to_brier_index(resample_means(sample[:, None], ["good"], resamples=20_000, rng=rng())), level=0.9
    )[0]
    theirs = bootstrap(
        (sample,),
        lambda drawn, axis: index_from_brier(drawn.mean(axis=axis)),
        n_resamples=20_000,
        confidence_level=0.9,
        method="percentile",
        rng=rng(),
    ).confidence_interval
    assert ours.estimate == pytest.approx(float(index_from_brier(sample.mean())))
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), rel=0.005)


def test_the_interval_of_a_difference_agrees_with_paired_scipy() -> None:
    sample = scores(300, seed=3)
    drawn = resample_means(sample, METHODS, resamples=20_000, rng=rng())
    bad = method_differences(drawn, "good")[1]
    theirs = bootstrap(
        (sample[:, 2], sample[:, 0]),
        lambda worse, better, axis: worse.mean(axis=axis) - better.mean(axis=axis),
        paired=True,
        n_resamples=20_000,
        method="percentile",
        rng=rng(),
    ).confidence_interval
    assert (bad.interval.low, bad.interval.high) == pytest.approx(tuple(theirs), rel=0.05)


def test_equal_methods_differ_by_exactly_nothing() -> None:
    same = method_differences(resample_means(scores(50, seed=4), METHODS, resamples=100, rng=rng()), "good")[0]
    assert (same.method, same.reference) == ("same", "good")
    assert (same.interval.low, same.interval.estimate, same.interval.high) == (0.0, 0.0, 0.0)
    assert same.p_value == 1.0


def test_the_p_value_agrees_with_the_normal_approximation() -> None:
    gaps = np.random.default_rng(5).normal(0.1, 1.0, 400)
    drawn = resample_means(np.column_stack([np.zeros(400), gaps]), ["zero", "gap"], resamples=20_000, rng=rng())
    (gap,) = method_differences(drawn, "zero")
    (zero,) = method_differences(drawn, "gap")
    standard_error = gaps.std() / np.sqrt(400)
    assert gap.p_value == pytest.approx(norm.sf(abs(gaps.mean()) / standard_error), abs=0.01)
    assert zero.p_value == gap.p_value
    assert (zero.interval.low, zero.interval.high) == pytest.approx((-gap.interval.high, -gap.interval.low))


def test_rows_of_a_cluster_are_drawn_together() -> None:
    # Two clusters of different size: a resample holds only the first, both, or only the second.
    values = np.array([[0.0], [0.0], [1.0], [1.0], [1.0], [1.0]])
    drawn = resample_means(values, ["m"], resamples=4000, rng=rng(), clusters=np.array([9, 9, 4, 4, 4, 4])).drawn
    found, times = np.unique(drawn.round(12), return_counts=True)
    assert found == pytest.approx([0.0, 2 / 3, 1.0])
    assert times / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


def test_correlated_rows_widen_the_interval_as_theory_says() -> None:
    # Ten copies of each question carry no new information: sqrt(10) times the naive width.
    sample = np.repeat(scores(200, seed=6)[:, [2]], 10, axis=0)
    clusters = np.repeat(np.arange(200), 10)
    naive = confidence_intervals(resample_means(sample, ["m"], resamples=4000, rng=rng()))[0]
    honest = confidence_intervals(resample_means(sample, ["m"], resamples=4000, rng=rng(), clusters=clusters))[0]
    assert (honest.high - honest.low) / (naive.high - naive.low) == pytest.approx(np.sqrt(10), rel=0.05)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 5))
def test_drawn_means_stay_within_the_scores(rows: int, resamples: int, seed: int) -> None:
    sample = scores(rows, seed)
    drawn = resample_means(sample, METHODS, resamples=resamples, rng=np.random.default_rng(seed)).drawn
    assert drawn.shape == (resamples, 3)
    assert (drawn >= sample.min(axis=0) - 1e-12).all()
    assert (drawn <= sample.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize("per_cluster", [1, 4])
def test_many_clusters_have_the_interval_of_the_normal_law(per_cluster: int) -> None:
    rng = np.random.default_rng(5)
    clusters = 3 * MAX_DRAWN_UNITS + 7
    effects = rng.gamma(0.5, size=clusters)
    values = np.repeat(effects, per_cluster)[:, None]
    names = np.repeat(np.arange(clusters), per_cluster)
    (found,) = confidence_intervals(resample_means(values, ["a"], resamples=4000, rng=rng, clusters=names))
    half = norm.ppf(0.975) * effects.std(ddof=1) / np.sqrt(clusters)
    assert found.estimate == pytest.approx(effects.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)


def test_the_same_generator_gives_the_same_draws_across_blocks() -> None:
    # 150,000 rows: one resample a block.
    sample = np.arange(150_000.0)[:, None]
    first = resample_means(sample, ["m"], resamples=3, rng=rng()).drawn
    assert first.tolist() == resample_means(sample, ["m"], resamples=3, rng=rng()).drawn.tolist()
    assert np.unique(first).size == 3


def test_an_overall_averages_the_indices_of_its_parts() -> None:
    parts = [
        to_brier_index(resample_means(scores(80, seed), METHODS, resamples=500, rng=np.random.default_rng(seed)))
        for seed in (7, 8)
    ]
    overall = average_parts(parts)
    assert overall.observed == pytest.approx((parts[0].observed + parts[1].observed) / 2)
    halves = [np.var(part.drawn, axis=0) / 4 for part in parts]
    assert np.var(overall.drawn, axis=0) == pytest.approx(sum(halves), rel=0.2)


def test_the_two_overalls_come_out_under_their_own_definitions() -> None:
    parts = [resample_means(scores(80, seed), METHODS, resamples=10, rng=rng()) for seed in (7, 8)]
    briers = list(zip(*(part.observed.tolist() for part in parts), strict=True))
    assert average_parts([to_brier_index(part) for part in parts]).observed == pytest.approx(
        [overall_mean_of_indices(pair) for pair in briers]
    )
    assert to_brier_index(average_parts(parts)).observed == pytest.approx(
        [overall_index_of_mean_brier(pair) for pair in briers]
    )


def test_gaps_and_impossible_requests_are_refused() -> None:
    sample = scores(10, seed=9)
    gap = sample.copy()
    gap[3, 1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        resample_means(gap, METHODS, resamples=10, rng=rng())
    with pytest.raises(ValueError, match="2\\) scores"):
        resample_means(sample, METHODS[:2], resamples=10, rng=rng())
    with pytest.raises(ValueError, match="one length"):
        resample_means(sample, METHODS, resamples=10, rng=rng(), clusters=np.zeros(9, dtype=np.int64))
    drawn = resample_means(sample, METHODS, resamples=10, rng=rng())
    with pytest.raises(ValueError, match="not in tuple"):
        method_differences(drawn, "nobody")
    with pytest.raises(ValueError, match="level"):
        confidence_intervals(drawn, level=1.0)
    with pytest.raises(ValueError, match="share"):
        average_parts([])
