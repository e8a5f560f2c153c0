"""Paired bootstrap over clusters: intervals of mean scores, of indices and of differences between methods.

All methods are scored on the same rows and every resample is shared by all of them, so the difficulty of the drawn
questions cancels in differences. Rows of one cluster (a question, a date) are drawn together. A resample is a row of
cluster counts, and one matrix product turns a block of resamples into the means of all methods.
Source: BLF paper, appendix G.2; B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), section 13.3; for
random groups K. Wolter, Introduction to Variance Estimation (2007), chapter 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from bot.core.light_dataclass import dataclass
from bot.stats.arrays import FloatArray, IntArray, require_finite, require_same_length
from bot.stats.scores import index_from_brier

# Counts in one block of resamples, 8 bytes each: small enough to stay in the cache between the draw and the product.
_BLOCK_CELLS = 50_000
# Products in one block: for more, OpenBLAS starts threads, which wait for one another longer than they compute.
_BLOCK_PRODUCTS = 250_000
# More clusters than this are put into so many random groups, which are drawn as wholes. Sums of groups spread as sums
# of single clusters do; the width of an interval is right to 1 / sqrt(2 x 5,000), one per cent.
MAX_DRAWN_UNITS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BootstrapResamples:
    """Means of every method: ``observed`` on the rows as they are, shape (methods,), ``drawn`` (resamples, methods)."""

    methods: tuple[str, ...]
    observed: FloatArray
    drawn: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceInterval:
    """An estimate with the ends of its percentile interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDifference:
    """Method minus reference, with its interval.

    ``p_value`` is the share of resamples on the other side of zero from the estimate, or on zero itself (one-sided).
    """

    method: str
    reference: str
    interval: ConfidenceInterval
    p_value: float


def resample_means(
    scores: ArrayLike,
    methods: Sequence[str],
    *,
    resamples: int,
    rng: Generator,
    clusters: IntArray | None = None,
) -> BootstrapResamples:
    """Draw clusters with replacement and return the mean score of each method over the rows drawn.

    scores has shape (rows, methods) without gaps: paired comparison needs every method on every row. clusters holds an
    integer for each row, shape (rows,); None makes each row its own cluster. Raises ValueError for gaps, wrong shapes
    or fewer than one resample. Memory does not grow with resamples beyond the result.
    """
    values = require_finite(scores, "score")
    if values.ndim != 2 or values.shape[1] != len(methods) or not len(values) or resamples < 1:
        message = f"needs (rows, {len(methods)}) scores and resamples >= 1, got {values.shape}"
        raise ValueError(message)
    sums = resample_sums(cluster_sums(np.column_stack([values, np.ones(len(values))]), clusters), resamples, rng)
    return BootstrapResamples(methods=tuple(methods), observed=values.mean(axis=0), drawn=sums[:, :-1] / sums[:, -1:])


def cluster_sums(values: FloatArray, clusters: IntArray | None) -> FloatArray:
    """Return the sums of each cluster, shape (clusters, columns), in the order of their numbers; None: the rows.

    values has shape (rows, columns), clusters an integer for each row.
    """
    if clusters is None:
        return values
    require_same_length(clusters=clusters, rows=values[:, -1])
    names, codes = np.unique(clusters, return_inverse=True)
    columns = [np.bincount(codes, weights=column, minlength=names.size) for column in values.T]
    return np.column_stack(columns)


def resample_sums(sums: FloatArray, resamples: int, rng: Generator) -> FloatArray:
    """Draw clusters with replacement and return the sums over those drawn, shape (resamples, columns).

    sums has shape (clusters, columns). Memory does not grow with resamples beyond the result.
    """
    units = _group_randomly(sums, rng)
    drawn = np.empty((resamples, units.shape[1]))
    block = max(1, min(_BLOCK_CELLS, _BLOCK_PRODUCTS // units.shape[1]) // len(units))
    for first in range(0, resamples, block):
        size = min(block, resamples - first)
        drawn[first : first + size] = _draw_counts(rng, size, len(units)) @ units
    return drawn


def to_brier_index(resamples: BootstrapResamples) -> BootstrapResamples:
    """Turn mean Brier scores into Brier Indices in percent, resample by resample."""
    return BootstrapResamples(
        methods=resamples.methods,
        observed=index_from_brier(resamples.observed),
        drawn=index_from_brier(resamples.drawn),
    )


def average_parts(parts: Sequence[BootstrapResamples]) -> BootstrapResamples:
    """Average independent parts with the same methods and number of resamples, such as market and dataset.

    Averaging the parts' indices gives the Overall of the BLF paper, the index of their average the leaderboard's.
    Raises ValueError when the parts do not match or there are none.
    """
    if len({(part.methods, part.drawn.shape) for part in parts}) != 1:
        message = "parts must share their methods and the number of resamples"
        raise ValueError(message)
    return BootstrapResamples(
        methods=parts[0].methods,
        observed=np.mean([part.observed for part in parts], axis=0),
        drawn=np.mean([part.drawn for part in parts], axis=0),
    )


def confidence_intervals(resamples: BootstrapResamples, level: float = 0.95) -> tuple[ConfidenceInterval, ...]:
    """Return one percentile interval for each method. Raises ValueError for a level outside (0, 1)."""
    return _percentile_intervals(resamples.observed, resamples.drawn, level)


def method_differences(
    resamples: BootstrapResamples, reference: str, level: float = 0.95
) -> tuple[MethodDifference, ...]:
    """Compare each other method with the reference, in the order of the methods.

    Raises ValueError for an unknown reference or a level outside (0, 1).
    """
    column = resamples.methods.index(reference)
    observed = resamples.observed - resamples.observed[column]
    drawn = resamples.drawn - resamples.drawn[:, [column]]
    # The side of zero away from the estimate; for an estimate of exactly 0 every resample counts.
    against = np.mean(np.sign(observed) * drawn <= 0.0, axis=0)
    return tuple(
        MethodDifference(method=method, reference=reference, interval=interval, p_value=float(p_value))
        for method, interval, p_value in zip(
            resamples.methods, _percentile_intervals(observed, drawn, level), against, strict=True
        )
        if method != reference
    )


def _group_randomly(totals: FloatArray, rng: Generator) -> FloatArray:
    """Return the totals of at most ``MAX_DRAWN_UNITS`` random groups of clusters, of equal size but for one cluster."""
    if len(totals) <= MAX_DRAWN_UNITS:
        return totals
    starts = np.arange(MAX_DRAWN_UNITS) * len(totals) // MAX_DRAWN_UNITS
    grouped: FloatArray = np.add.reduceat(totals[rng.permutation(len(totals))], starts, axis=0)
    return grouped


def _draw_counts(rng: Generator, size: int, clusters: int) -> FloatArray:
    # Counting uniform draws is many times faster than Generator.multinomial, and the same law.
    drawn = rng.integers(clusters, size=(size, clusters))
    drawn += np.arange(size)[:, None] * clusters
    counts = np.bincount(drawn.ravel(), minlength=size * clusters)
    return counts.reshape(size, clusters).astype(np.float64)


def _percentile_intervals(observed: FloatArray, drawn: FloatArray, level: float) -> tuple[ConfidenceInterval, ...]:
    if not 0.0 < level < 1.0:
        message = f"level {level} is outside (0, 1)"
        raise ValueError(message)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    rows = np.column_stack([observed, low, high]).tolist()
    return tuple(ConfidenceInterval(estimate=row[0], low=row[1], high=row[2]) for row in rows)
