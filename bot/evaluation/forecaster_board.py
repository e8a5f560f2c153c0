"""Forecasters next to each other: scores with intervals, calibration, the gain over the crowd and over a baseline."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bot.core.clock import SeededRandom
from bot.evaluation.group_scores import CrowdComparison, GroupScore, compare_with_crowd, score_group
from bot.evaluation.ledger_scores import VenueScoreRow, rows_by_forecaster, rule_scores_by_forecaster
from bot.evaluation.score_report import KindReport, kind_reports
from bot.evaluation.score_rows import BinaryScoreRow, RuleScoreRow
from bot.store.ledger import Ledger
from bot.store.model_calls import CostGrouping, CostRow
from bot.store.scores import ScoreFilter

BASELINE_FORECASTER = "baseline"
CALIBRATION_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterStanding:
    """One forecaster: its questions of yes or no (``score``), those of other kinds, and what its models cost.

    ``baseline_gain`` compares it with the baseline on the targets of both, as ``score.crowd`` does with the crowd.
    ``bins`` are number, mean forecast and share that came true.
    """

    name: str
    score: GroupScore | None
    baseline_gain: CrowdComparison | None
    bins: Sequence[tuple[int, float, float]]
    kinds: Mapping[str, KindReport]
    cost: CostRow | None


async def load_forecaster_board(
    ledger: Ledger, seed: int, *, since: datetime | None = None
) -> Sequence[ForecasterStanding]:
    """Return all forecasters that have a score or a cost since then, by name."""
    chosen = ScoreFilter(since=since)
    columns = await ledger.scores.read_binary_columns(chosen)
    others = await ledger.scores.read_non_binary_scores(chosen)
    costs = {row.name: row for row in await ledger.calls.costs(CostGrouping.FORECASTER, since=since)}
    return await asyncio.to_thread(
        lambda: _rank_forecasters(rows_by_forecaster(columns), rule_scores_by_forecaster(others), costs, seed)
    )


def _rank_forecasters(
    scored: Mapping[str, Sequence[VenueScoreRow]],
    others: Mapping[str, Sequence[RuleScoreRow]],
    costs: Mapping[str, CostRow],
    seed: int,
) -> list[ForecasterStanding]:
    rows = {name: [one.row for one in found] for name, found in scored.items()}
    baseline = {_target_key(row): row.probability for row in rows.get(BASELINE_FORECASTER, ())}
    found = []
    for name in sorted({*rows, *others, *costs}):
        own, random = rows.get(name, []), SeededRandom(seed)
        compared = [
            replace(row, crowd=baseline[key])
            for row in own
            if name != BASELINE_FORECASTER and (key := _target_key(row)) in baseline
        ]
        found.append(
            ForecasterStanding(
                name=name,
                score=score_group(own, random.stream("board", name)) if own else None,
                baseline_gain=compare_with_crowd(compared, random.stream("board", name, BASELINE_FORECASTER)),
                bins=_calibration_bins(own),
                kinds=kind_reports(others.get(name, ()), rng=random.stream("board kinds", name)),
                cost=costs.get(name),
            )
        )
    return found


def _target_key(row: BinaryScoreRow) -> tuple[object, ...]:
    return row.series, row.round, row.horizon_days, row.outcome


def _calibration_bins(rows: Sequence[BinaryScoreRow]) -> list[tuple[int, float, float]]:
    from bot.stats.calibration import equal_width_bins  # noqa: PLC0415 - numpy

    if not rows:
        return []
    bins = equal_width_bins([row.probability for row in rows], [row.outcome for row in rows], CALIBRATION_BINS)
    return [*zip(bins.rows.tolist(), bins.mean_forecast.tolist(), bins.event_rate.tolist(), strict=True)]
