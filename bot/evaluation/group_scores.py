"""Brier scores of groups of recorded forecasts, with bootstrap intervals and the crowd's scores on the same rows.

A group is given by the sums of its clusters (``SUMS``). All groups of a forecaster are computed on the same resamples
of its clusters, as domains of one sample (C.-E. Särndal, B. Swensson and J. Wretman, Model Assisted Survey Sampling,
1992, chapter 10). A resample without a row of a group says nothing about it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from bot.core.light_dataclass import dataclass
from bot.evaluation.score_report import RESAMPLES, ScoreInterval
from bot.evaluation.score_rows import BinaryScoreRow
from bot.stats.arrays import FloatArray, encode_keys
from bot.stats.bootstrap import cluster_sums, resample_sums
from bot.stats.scores import brier_scores, index_from_brier

# The columns of the sums of a group; the last three are over the rows that have a crowd.
SUMS = ("n", "outcome", "value", "crowd_n", "value_with_crowd", "crowd")
_TAIL = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdComparison:
    """Forecaster and crowd on the rows where there was a crowd; ``gain`` is the first minus the second."""

    n: int
    brier_index: float
    crowd_brier_index: float
    gain: ScoreInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """One group of rows: its base rate, the forecaster's Brier score and index, and the comparison with the crowd."""

    n: int
    base_rate: float
    brier: float
    brier_index: ScoreInterval
    crowd: CrowdComparison | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResampledGroup:
    """The sums of a group: of its clusters, shape (clusters, columns), and of each resample, (resamples, columns)."""

    clusters: FloatArray
    drawn: FloatArray

    def mean_interval(self) -> ScoreInterval:
        """Return the mean of the values with its interval."""
        n, _, value, *_ = self.clusters.sum(axis=0).tolist()
        return self.interval(value / n, divide_sums(self.drawn[:, 2], self.drawn[:, 0]), count=0)

    def interval(self, estimate: float, drawn: FloatArray, *, count: int) -> ScoreInterval:
        """Return the percentile interval of a figure over the resamples in which this column of counts is not zero.

        Without ends where a single cluster has rows.
        """
        if np.count_nonzero(self.clusters[:, count]) < 2:
            return ScoreInterval(estimate=estimate, low=None, high=None)
        known = np.sort(drawn[self.drawn[:, count] > 0.0])
        # The same as np.quantile, which imports 30 ms of masked arrays.
        low, high = np.interp([_TAIL, 1.0 - _TAIL], np.linspace(0.0, 1.0, len(known)), known).tolist()
        return ScoreInterval(estimate=estimate, low=low, high=high)


def score_group(rows: Sequence[BinaryScoreRow], rng: Generator) -> GroupScore:
    """Score one group of at least one row; intervals resample clusters."""
    return score_resampled(_resample_rows(rows, rng))


def compare_sums(sums: FloatArray, rng: Generator) -> CrowdComparison:
    """Compare two forecasters on the same rows: number, own sum and the other's sum of each cluster, shape (n, 3)."""
    count, own, other = sums.T
    columns = np.column_stack([count, np.zeros_like(count), own, count, own, other])
    found = score_resampled(resample_groups([columns], rng)[0]).crowd
    if found is None:
        message = "needs at least one row"
        raise ValueError(message)
    return found


def resample_groups(groups: Sequence[FloatArray], rng: Generator) -> list[ResampledGroup]:
    """Resample the clusters of groups together; each has shape (clusters, len(SUMS)), and zeros where it has no row."""
    drawn = resample_sums(np.hstack(groups), RESAMPLES, rng)
    parts = np.hsplit(drawn, len(groups))
    return [ResampledGroup(clusters=sums, drawn=part) for sums, part in zip(groups, parts, strict=True)]


def score_resampled(group: ResampledGroup) -> GroupScore:
    """Score a group of Brier scores with at least one row."""
    n, outcome, value, *_ = group.clusters.sum(axis=0).tolist()
    index = divide_sums(group.drawn[:, 2], group.drawn[:, 0])
    return GroupScore(
        n=round(n),
        base_rate=outcome / n,
        brier=value / n,
        brier_index=group.interval(_brier_index(value / n), index_from_brier(index), count=0),
        crowd=_compare_sums(group),
    )


def _resample_rows(rows: Sequence[BinaryScoreRow], rng: Generator) -> ResampledGroup:
    outcome = [row.outcome for row in rows]
    value = brier_scores([row.probability for row in rows], outcome)
    with_crowd = np.array([row.crowd is not None for row in rows], dtype=np.float64)
    crowd = brier_scores([row.crowd or 0.0 for row in rows], outcome) * with_crowd
    columns = np.column_stack([np.ones(len(rows)), outcome, value, with_crowd, value * with_crowd, crowd])
    clusters = encode_keys(row.cluster for row in rows).codes
    return resample_groups([cluster_sums(columns, clusters)], rng)[0]


def _compare_sums(group: ResampledGroup) -> CrowdComparison | None:
    n, own, crowd = group.clusters.sum(axis=0)[3:].tolist()
    if not n:
        return None
    drawn_n, drawn_own, drawn_crowd = group.drawn.T[3:]
    gain = index_from_brier(divide_sums(drawn_own, drawn_n)) - index_from_brier(divide_sums(drawn_crowd, drawn_n))
    index, crowd_index = _brier_index(own / n), _brier_index(crowd / n)
    return CrowdComparison(
        n=round(n),
        brier_index=index,
        crowd_brier_index=crowd_index,
        gain=group.interval(index - crowd_index, gain, count=3),
    )


def divide_sums(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the means of resamples, zero in those without a row."""
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0.0)


def _brier_index(brier: float) -> float:
    return float(index_from_brier(brier))
