"""Speed of the statistics that run every night or on every report; one line for each figure.

Run with ``python -m tests.benchmarks.bench_science`` from the root of the repository.
"""

import resource
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

from bot.science.aggregate import logit_moments
from bot.science.bootstrap import differences, resample_means, to_index
from bot.science.difficulty import adjust, brier_table, fit_difficulty
from bot.science.logit import sigmoid
from bot.science.platt import calibration_rows, leave_one_out
from bot.science.shrinkage import tune_leave_one_out


def main() -> None:
    """Measure and print everything."""
    rng = np.random.default_rng(2026)
    _report("platt: 791 leave-one-out fits, 9 groups", _leave_one_out(rng, 791))
    _report("platt: 8,990 leave-one-out fits, 9 groups", _leave_one_out(rng, 8990))
    _report("shrinkage: tuned leave-one-out, 121 rules, 8,000 items of 5 trials", _shrinkage(rng, 8000))
    _report("difficulty: 60 forecasters, 20,000 questions, 80 % answered", _difficulty(rng))
    _report("bootstrap: 20 methods x 20,000 rows x 5,000 resamples, no clusters", _bootstrap(rng, 20_000))
    _report("bootstrap: the same rows in 6,000 clusters", _bootstrap(rng, 6000))
    _report("bootstrap: the same rows in 14 clusters", _bootstrap(rng, 14))


def _leave_one_out(rng: np.random.Generator, size: int) -> Callable[[], object]:
    log_odds = rng.normal(0.0, 1.5, size)
    outcomes = (rng.random(size) < sigmoid(0.8 * log_odds)).astype(float)
    rows = calibration_rows(sigmoid(log_odds), outcomes, [str(group) for group in rng.integers(9, size=size)])
    return lambda: leave_one_out(rows)


def _shrinkage(rng: np.random.Generator, items: int) -> Callable[[], object]:
    trials = sigmoid(rng.normal(0.0, 1.5, (5, items)))
    outcomes = rng.integers(2, size=items)
    return lambda: tune_leave_one_out(logit_moments(trials), outcomes)


def _difficulty(rng: np.random.Generator) -> Callable[[], object]:
    who, what = np.nonzero(rng.random((60, 20_000)) < 0.8)
    table = brier_table(who.tolist(), what.tolist(), rng.random(who.size))
    return lambda: adjust(table, fit_difficulty(table, set(range(60))))


def _bootstrap(rng: np.random.Generator, clusters: int) -> Callable[[], object]:
    scores = rng.random((20_000, 20))
    methods = [str(method) for method in range(20)]
    codes = None if clusters == len(scores) else rng.integers(clusters, size=len(scores))
    return lambda: differences(
        to_index(resample_means(scores, methods, resamples=5000, rng=rng, clusters=codes)), methods[0]
    )


def _report(what: str, work: Callable[[], object]) -> None:
    started = perf_counter()
    work()
    seconds = perf_counter() - started
    # The peak of the process so far, so a line that does not raise it used no more than an earlier one.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    sys.stdout.write(f"{what}: {seconds:.2f} s, peak of the process {peak:.0f} MB\n")


if __name__ == "__main__":
    main()
