"""The report of a backtest or of scored files: stable keys that others can script against, documented in README.

Every Brier Index is computed over a population of rows, never as a mean over questions or rounds, and both definitions
of Overall stand under their own names.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TypeVar

from bot.lab.kinds import RESAMPLES, KindReport, Span, kinds_of
from bot.lab.rows import Graded, Row

if TYPE_CHECKING:
    import numpy as np

    from bot.science.bootstrap import Resamples

__all__ = ["RESAMPLES", "Block", "Cell", "Overall", "Report", "Span", "report_of"]

MARKET = "market"
DATASET = "dataset"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Scores of one group of rows; all but ``n`` are None where the group is empty."""

    n: int
    base_rate: float | None = None
    brier: float | None = None
    brier_index: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Both definitions of the overall index over the two families; None unless both have rows."""

    mean_of_indices: float | None = None
    index_of_mean_brier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Scores of one set of rows by family, and overall."""

    market: Cell
    dataset: Cell
    overall: Overall


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a report says; ``crowd`` scores the crowd on the rows that had one.

    ``kinds`` is about choices and curves, all the rest about yes-or-no questions.
    """

    block: Block
    crowd: Cell
    by_source: dict[str, Cell]
    by_round: dict[str, Block]
    by_horizon: dict[str, Cell]
    intervals: dict[str, Span]
    imputed: int
    kinds: dict[str, KindReport] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return plain values under the documented keys."""
        plain = asdict(self)
        return {**plain.pop("block"), **plain}


def report_of(
    rows: Sequence[Row], *, rng: "np.random.Generator", graded: Sequence[Graded] = (), notes: Sequence[str] = ()
) -> Report:
    """Score the rows by family, source, round and horizon; intervals resample whole question series.

    ``graded`` are choices and curves, which are told by themselves; a round of them alone has an empty block.
    """
    return Report(
        block=_block(rows),
        crowd=_cell_of([(row.crowd, row.outcome) for row in rows if row.crowd is not None]),
        by_source=_by(rows, lambda row: row.source, _cell),
        by_round=_by_round(rows, graded),
        by_horizon=_by_horizon(rows),
        intervals=_intervals(rows, rng),
        imputed=sum(row.imputed for row in rows),
        kinds=kinds_of(graded, rng=rng),
        notes=list(notes),
    )


def _by(rows: Sequence[Row], key: Callable[[Row], str], score: Callable[[Sequence[Row]], T]) -> dict[str, T]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: score(groups[name]) for name in sorted(groups)}


def _by_round(rows: Sequence[Row], graded: Sequence[Graded]) -> dict[str, Block]:
    found = _by(rows, lambda row: row.round, _block)
    others = {row.round for row in graded} - found.keys()
    return dict(sorted({**found, **dict.fromkeys(others, _block(()))}.items()))


def _by_horizon(rows: Sequence[Row]) -> dict[str, Cell]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if row.horizon_days is not None:
            groups.setdefault(row.horizon_days, []).append(row)
    return {str(days): _cell(groups[days]) for days in sorted(groups)}


def _family(rows: Sequence[Row], family: str) -> list[Row]:
    return [row for row in rows if row.family == family]


def _block(rows: Sequence[Row]) -> Block:
    from bot.science.brier import overall_index_of_mean_brier, overall_mean_of_indices  # noqa: PLC0415 - numpy

    market, dataset = _cell(_family(rows, MARKET)), _cell(_family(rows, DATASET))
    overall = Overall()
    if market.brier is not None and dataset.brier is not None:
        briers = (market.brier, dataset.brier)
        overall = Overall(
            mean_of_indices=overall_mean_of_indices(briers), index_of_mean_brier=overall_index_of_mean_brier(briers)
        )
    return Block(market=market, dataset=dataset, overall=overall)


def _cell(rows: Sequence[Row]) -> Cell:
    return _cell_of([(row.probability, row.outcome) for row in rows])


def _cell_of(pairs: Sequence[tuple[float, float]]) -> Cell:
    from bot.science.brier import base_rate, index_of_brier, mean_brier  # noqa: PLC0415 - numpy

    if not pairs:
        return Cell(n=0)
    probabilities, outcomes = zip(*pairs, strict=True)
    brier = mean_brier(probabilities, outcomes)
    return Cell(n=len(pairs), base_rate=base_rate(outcomes), brier=brier, brier_index=float(index_of_brier(brier)))


def _intervals(rows: Sequence[Row], rng: "np.random.Generator") -> dict[str, Span]:
    """Give intervals of the indices; a whole series is drawn at once, so asking again adds no certainty."""
    from bot.science.bootstrap import average, intervals, to_index  # noqa: PLC0415 - numpy

    families = [_family(rows, name) for name in (MARKET, DATASET)]
    parts = {
        f"{name}.brier_index": to_index(_resample(family, rng))
        for name, family in zip((MARKET, DATASET), families, strict=True)
        if family
    }
    if all(families):
        parts["overall.mean_of_indices"] = average(list(parts.values()))
    spans = {name: intervals(part)[0] for name, part in parts.items()}
    return {name: Span(estimate=span.estimate, low=span.low, high=span.high) for name, span in spans.items()}


def _resample(rows: Sequence[Row], rng: "np.random.Generator") -> "Resamples":
    from bot.science.arrays import encode  # noqa: PLC0415 - numpy
    from bot.science.bootstrap import resample_means  # noqa: PLC0415 - numpy
    from bot.science.brier import brier_scores  # noqa: PLC0415 - numpy

    scores = brier_scores([row.probability for row in rows], [row.outcome for row in rows])
    return resample_means(
        scores[:, None],
        ["forecast"],
        resamples=RESAMPLES,
        rng=rng,
        clusters=encode(row.series for row in rows).codes,
    )
