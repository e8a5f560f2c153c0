"""Forecasters next to each other: scores with intervals, calibration, the gain over the crowd and over a baseline."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.evaluation.group_scores import CrowdComparison, GroupScore, compare_sums
from bot.evaluation.score_report import KindReport
from bot.evaluation.summed_scores import ALL, ForecasterSums, sums_by_forecaster
from bot.store.cost_totals import CostGrouping, CostRow
from bot.store.ledger import Ledger
from bot.store.score_totals import CalibrationBin, ScoreSums
from bot.store.scores import ScoreFilter

BASELINE_FORECASTER = "baseline"


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
    scores = BoardScores(
        sums=await ledger.scores.read_sums(chosen),
        bins=await ledger.scores.read_bins(chosen),
        pairs=await ledger.scores.read_pairs(chosen, other=BASELINE_FORECASTER),
    )
    costs = {row.name: row for row in await ledger.calls.costs(CostGrouping.FORECASTER, since=since)}
    return await asyncio.to_thread(lambda: _compare_forecasters(scores, costs, seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardScores:
    """What the ledger says of all forecasters: sums, calibration, and the pairs with the baseline."""

    sums: ScoreSums
    bins: Sequence[CalibrationBin]
    pairs: Sequence[tuple[str, int, int, float, float]]


def _compare_forecasters(scores: BoardScores, costs: Mapping[str, CostRow], seed: int) -> list[ForecasterStanding]:
    forecasters = sums_by_forecaster(scores.sums)
    pairs: dict[str, list[tuple[float, float, float]]] = {}
    for name, _, count, value, baseline in scores.pairs:
        pairs.setdefault(name, []).append((count, value, baseline))
    bins: dict[str, list[tuple[int, float, float]]] = {}
    for one in scores.bins:
        bins.setdefault(one.forecaster, []).append((one.n, one.probability / one.n, one.outcome / one.n))
    found = []
    for name in sorted({*forecasters, *costs}):
        own, random = forecasters.get(name, ForecasterSums(rules={})), SeededRandom(seed)
        shared = np.array(pairs.get(name, ()), dtype=np.float64)
        groups = own.score_groups(random.stream("board", name), ())
        found.append(
            ForecasterStanding(
                name=name,
                score=groups[ALL][ALL] if groups else None,
                baseline_gain=compare_sums(shared, random.stream("board", name, BASELINE_FORECASTER))
                if len(shared)
                else None,
                bins=bins.get(name, ()),
                kinds=own.report_kinds(random.stream("board kinds", name)),
                cost=costs.get(name),
            )
        )
    return found
