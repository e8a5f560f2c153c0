"""Speed of the statistics that run every night or on every report; one line for each figure."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from bot.stats.aggregation import logit_moments, tune_leave_one_out
from bot.stats.arrays import sigmoid
from bot.stats.bootstrap import method_differences, resample_means, to_brier_index
from bot.stats.calibration import calibrate_leave_one_out, calibration_rows
from bot.stats.comparison import adjust_scores, build_brier_table, fit_difficulty
from tests.benchmarks.figures import MeasureSize, peak_mb, say


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    rng = np.random.default_rng(2026)
    rows, resamples = size.pick(20_000, 500), size.pick(5000, 50)
    for count in (size.pick(791, 50), size.pick(8990, 100)):
        _report(f"platt: {count:,} leave-one-out fits, 9 groups", _leave_one_out(rng, count))
    items = size.pick(8000, 100)
    _report(f"shrinkage: tuned leave-one-out, 121 rules, {items:,} items of 5 trials", _shrinkage(rng, items))
    _report(f"difficulty: 60 forecasters, {rows:,} questions, 80 % answered", _difficulty(rng, rows))
    task = f"bootstrap: 20 methods x {rows:,} rows x {resamples:,} resamples"
    for clusters in (rows, rows * 3 // 10, 14):
        _report(f"{task}, {clusters:,} clusters", _bootstrap(rng, rows, clusters=clusters, resamples=resamples))


def _leave_one_out(rng: np.random.Generator, size: int) -> Callable[[], object]:
    log_odds = rng.normal(0.0, 1.5, size)
    outcomes = (rng.random(size) < sigmoid(0.8 * log_odds)).astype(float)
    rows = calibration_rows(sigmoid(log_odds), outcomes, [str(group) for group in rng.integers(9, size=size)])
    return lambda: calibrate_leave_one_out(rows)


def _shrinkage(rng: np.random.Generator, items: int) -> Callable[[], object]:
    trials = sigmoid(rng.normal(0.0, 1.5, (5, items)))
    outcomes = rng.integers(2, size=items)
    return lambda: tune_leave_one_out(logit_moments(trials), outcomes)


def _difficulty(rng: np.random.Generator, questions: int) -> Callable[[], object]:
    who, what = np.nonzero(rng.random((60, questions)) < 0.8)
    table = build_brier_table(who.tolist(), what.tolist(), rng.random(who.size))
    return lambda: adjust_scores(table, fit_difficulty(table, set(range(60))))


def _bootstrap(rng: np.random.Generator, rows: int, *, clusters: int, resamples: int) -> Callable[[], object]:
    scores = rng.random((rows, 20))
    methods = [str(method) for method in range(20)]
    codes = None if clusters == rows else rng.integers(clusters, size=rows)
    return lambda: method_differences(
        to_brier_index(resample_means(scores, methods, resamples=resamples, rng=rng, clusters=codes)), methods[0]
    )


def _report(what: str, work: Callable[[], object]) -> None:
    started = perf_counter()
    work()
    seconds = perf_counter() - started
    # The peak of the process so far, so a line that does not raise it used no more than an earlier one.
    say(what, f"{seconds:.2f} s, peak of the process {peak_mb():.0f} MB")
