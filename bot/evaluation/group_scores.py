"""Brier scores of groups of recorded forecasts, with bootstrap intervals and the crowd's scores on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bot.evaluation.score_report import RESAMPLES, ScoreInterval, score_interval
from bot.evaluation.score_rows import BinaryScoreRow
from bot.stats.arrays import EncodedKeys, FloatArray, encode_keys
from bot.stats.bootstrap import (
    BootstrapResamples,
    confidence_intervals,
    method_differences,
    resample_means,
    to_brier_index,
)
from bot.stats.scores import brier_scores, index_from_brier, mean_outcome


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


def score_groups(groups: Mapping[str, Sequence[BinaryScoreRow]], rng: Generator) -> dict[str, GroupScore]:
    """Return the scores of each group by name, horizons in the order of their days."""
    return {name: score_group(groups[name], rng) for name in sorted(groups, key=_group_order)}


def score_group(rows: Sequence[BinaryScoreRow], rng: Generator) -> GroupScore:
    """Score one group of at least one row; intervals resample clusters."""
    outcomes, clusters = [row.outcome for row in rows], _encode_clusters(rows)
    scores = brier_scores([row.probability for row in rows], outcomes)
    drawn = to_brier_index(_resampled_means({"forecast": scores}, clusters, rng))
    with_crowd = [row for row in rows if row.crowd is not None]
    return GroupScore(
        n=len(rows),
        base_rate=mean_outcome(outcomes),
        brier=float(scores.mean()),
        brier_index=score_interval(confidence_intervals(drawn)[0], len(clusters.labels)),
        crowd=compare_with_crowd(with_crowd, rng, clusters=clusters if len(with_crowd) == len(rows) else None),
    )


def compare_with_crowd(
    rows: Sequence[BinaryScoreRow], rng: Generator, *, clusters: EncodedKeys | None = None
) -> CrowdComparison | None:
    """Compare forecaster and crowd on rows that all have a crowd; None without rows.

    ``clusters`` are those of the rows, where they are known already.
    """
    if not rows:
        return None
    clusters = clusters or _encode_clusters(rows)
    outcomes = [row.outcome for row in rows]
    scores = {
        "forecast": brier_scores([row.probability for row in rows], outcomes),
        "crowd": brier_scores([row.crowd or 0.0 for row in rows], outcomes),
    }
    (gain,) = method_differences(to_brier_index(_resampled_means(scores, clusters, rng)), "crowd")
    return CrowdComparison(
        n=len(rows),
        brier_index=float(index_from_brier(scores["forecast"].mean())),
        crowd_brier_index=float(index_from_brier(scores["crowd"].mean())),
        gain=score_interval(gain.interval, len(clusters.labels)),
    )


def _encode_clusters(rows: Sequence[BinaryScoreRow]) -> EncodedKeys:
    return encode_keys(row.cluster for row in rows)


def _resampled_means(scores: Mapping[str, FloatArray], clusters: EncodedKeys, rng: Generator) -> BootstrapResamples:
    return resample_means(
        np.column_stack([*scores.values()]),
        [*scores],
        resamples=RESAMPLES,
        rng=rng,
        clusters=clusters.codes,
    )


def _group_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (0, name)
