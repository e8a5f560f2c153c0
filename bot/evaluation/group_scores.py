"""Brier scores of groups of recorded forecasts, with bootstrap intervals and the crowd's scores on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bot.evaluation.score_report import RESAMPLES, ScoreInterval, score_interval
from bot.evaluation.score_rows import BinaryScoreRow, count_clusters
from bot.stats.arrays import FloatArray, encode_keys
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
    outcomes = [row.outcome for row in rows]
    scores = brier_scores([row.probability for row in rows], outcomes)
    drawn = to_brier_index(_resampled_means({"forecast": scores}, rows, rng))
    return GroupScore(
        n=len(rows),
        base_rate=mean_outcome(outcomes),
        brier=float(scores.mean()),
        brier_index=score_interval(confidence_intervals(drawn)[0], count_clusters(rows)),
        crowd=compare_with_crowd([row for row in rows if row.crowd is not None], rng),
    )


def compare_with_crowd(rows: Sequence[BinaryScoreRow], rng: Generator) -> CrowdComparison | None:
    """Compare forecaster and crowd on rows that all have a crowd; None without rows."""
    if not rows:
        return None
    outcomes = [row.outcome for row in rows]
    scores = {
        "forecast": brier_scores([row.probability for row in rows], outcomes),
        "crowd": brier_scores([row.crowd or 0.0 for row in rows], outcomes),
    }
    (gain,) = method_differences(to_brier_index(_resampled_means(scores, rows, rng)), "crowd")
    return CrowdComparison(
        n=len(rows),
        brier_index=float(index_from_brier(scores["forecast"].mean())),
        crowd_brier_index=float(index_from_brier(scores["crowd"].mean())),
        gain=score_interval(gain.interval, count_clusters(rows)),
    )


def _resampled_means(
    scores: Mapping[str, FloatArray], rows: Sequence[BinaryScoreRow], rng: Generator
) -> BootstrapResamples:
    return resample_means(
        np.column_stack([*scores.values()]),
        [*scores],
        resamples=RESAMPLES,
        rng=rng,
        clusters=encode_keys(row.cluster for row in rows).codes,
    )


def _group_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (0, name)
