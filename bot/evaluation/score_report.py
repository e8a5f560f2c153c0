"""The report of a backtest or of scored files, under stable keys that scripts can rely on.

A Brier Index is computed over a population of rows, the two definitions of Overall have separate names, and scores of
different kinds are never averaged.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, TypeVar

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import ScoringRule, scoring_rules_for
from bot.evaluation.score_rows import BinaryScoreRow, RuleScoreRow, count_clusters

if TYPE_CHECKING:
    import numpy as np

    from bot.stats.bootstrap import BootstrapResamples, ConfidenceInterval

RESAMPLES = 2_000


REPORTED_KINDS = ("choice", "curve")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInterval:
    """An estimate and its 95 % interval; the ends are None where a single cluster says nothing about chance."""

    estimate: float
    low: float | None
    high: float | None


def score_interval(found: "ConfidenceInterval", clusters: int) -> ScoreInterval:
    """Return an interval from the resamples of this many clusters."""
    if clusters < 2:
        return ScoreInterval(estimate=found.estimate, low=None, high=None)
    return ScoreInterval(estimate=found.estimate, low=found.low, high=found.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeans:
    """The mean of each rule over the rows of a group."""

    n: int
    scores: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdScores:
    """The crowd on the rows that had one, and the forecaster's gain over it there; both by rule."""

    n: int
    scores: dict[str, float]
    gains: dict[str, ScoreInterval]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReport:
    """The scores of one kind of questions: means with intervals by rule, the crowd, and the groups.

    ``imputed`` counts the missing answers that were scored as the flat forecast.
    """

    n: int
    imputed: int
    scores: dict[str, ScoreInterval]
    crowd: CrowdScores | None
    by_source: dict[str, GroupMeans]
    by_round: dict[str, GroupMeans]
    by_horizon: dict[str, GroupMeans]


def kind_reports(rows: Sequence[RuleScoreRow], *, rng: "np.random.Generator") -> dict[str, KindReport]:
    """Return the report of each kind that has rows; intervals resample clusters (``BinaryScoreRow.cluster``)."""
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in REPORTED_KINDS}
    return {kind: _kind_report(kind, found, rng) for kind, found in by_kind.items() if found}


def _kind_report(kind: str, rows: Sequence[RuleScoreRow], rng: "np.random.Generator") -> KindReport:
    from bot.stats.bootstrap import confidence_intervals  # noqa: PLC0415 - numpy

    rules = scoring_rules_for(kind)
    spans = confidence_intervals(
        _resample_rules([[row.scores[rule.name] for rule in rules] for row in rows], rows, rules, rng)
    )
    return KindReport(
        n=len(rows),
        imputed=sum(row.imputed for row in rows),
        scores={rule.name: score_interval(span, count_clusters(rows)) for rule, span in zip(rules, spans, strict=True)},
        crowd=_compare_with_crowd([row for row in rows if row.crowd_scores], rules, rng),
        by_source=_means_by(rows, lambda row: row.source or None, rules),
        by_round=_means_by(rows, lambda row: row.round, rules),
        by_horizon=_means_by(rows, lambda row: None if row.horizon_days is None else str(row.horizon_days), rules),
    )


def _compare_with_crowd(
    rows: Sequence[RuleScoreRow], rules: Sequence[ScoringRule], rng: "np.random.Generator"
) -> CrowdScores | None:
    from bot.stats.bootstrap import confidence_intervals  # noqa: PLC0415 - numpy

    if not rows:
        return None
    gains = confidence_intervals(
        _resample_rules([[_gain_over_crowd(row, rule) for rule in rules] for row in rows], rows, rules, rng)
    )
    return CrowdScores(
        n=len(rows),
        scores={rule.name: sum(row.crowd_scores[rule.name] for row in rows) / len(rows) for rule in rules},
        gains={rule.name: score_interval(gain, count_clusters(rows)) for rule, gain in zip(rules, gains, strict=True)},
    )


def _gain_over_crowd(row: RuleScoreRow, rule: ScoringRule) -> float:
    lead = row.scores[rule.name] - row.crowd_scores[rule.name]
    return lead if rule.more_is_better else -lead


def _means_by(
    rows: Sequence[RuleScoreRow], key: Callable[[RuleScoreRow], str | None], rules: Sequence[ScoringRule]
) -> dict[str, GroupMeans]:
    groups: dict[str, list[RuleScoreRow]] = {}
    for row in rows:
        if (name := key(row)) is not None:
            groups.setdefault(name, []).append(row)
    return {
        name: GroupMeans(
            n=len(group),
            scores={rule.name: sum(row.scores[rule.name] for row in group) / len(group) for rule in rules},
        )
        for name, group in sorted(groups.items(), key=lambda item: _name_order(item[0]))
    }


def _resample_rules(
    values: Sequence[Sequence[float]],
    rows: Sequence[RuleScoreRow],
    rules: Sequence[ScoringRule],
    rng: "np.random.Generator",
) -> "BootstrapResamples":
    from bot.stats.arrays import encode_keys  # noqa: PLC0415 - numpy
    from bot.stats.bootstrap import resample_means  # noqa: PLC0415 - numpy

    return resample_means(
        values,
        [rule.name for rule in rules],
        resamples=RESAMPLES,
        rng=rng,
        clusters=encode_keys(row.cluster for row in rows).codes,
    )


def _name_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (0, name)


__all__ = [
    "RESAMPLES",
    "BinaryScores",
    "FamilyScores",
    "OverallIndices",
    "ScoreInterval",
    "ScoreReport",
    "build_report",
]


MARKET_FAMILY = "market"


DATASET_FAMILY = "dataset"


FAMILIES = (MARKET_FAMILY, DATASET_FAMILY)


ScoreT = TypeVar("ScoreT")


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryScores:
    """Scores of one group of rows; all but ``n`` are None where the group is empty."""

    n: int
    base_rate: float | None = None
    brier: float | None = None
    brier_index: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallIndices:
    """Both definitions of the overall index over the two families; None unless both have rows."""

    mean_of_indices: float | None = None
    index_of_mean_brier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScores:
    """Scores of one set of rows by family, and overall."""

    market: BinaryScores
    dataset: BinaryScores
    overall: OverallIndices


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReport:
    """The whole report; ``crowd`` scores the crowd on the rows that had one.

    ``kinds`` is about choices and curves, all the rest about yes-or-no questions.
    """

    block: FamilyScores
    crowd: BinaryScores
    by_source: dict[str, BinaryScores]
    by_round: dict[str, FamilyScores]
    by_horizon: dict[str, BinaryScores]
    intervals: dict[str, ScoreInterval]
    imputed: int
    kinds: dict[str, KindReport] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return plain values under the documented keys."""
        plain = asdict(self)
        return {**plain.pop("block"), **plain}


def build_report(
    rows: Sequence[BinaryScoreRow],
    *,
    rng: "np.random.Generator",
    graded: Sequence[RuleScoreRow] = (),
    notes: Sequence[str] = (),
) -> ScoreReport:
    """Score the rows by family, source, round and horizon; intervals resample clusters.

    ``graded`` are choices and curves, which have their own part; a round with only those has an empty block.
    """
    return ScoreReport(
        block=_family_scores(rows),
        crowd=_pair_scores([(row.crowd, row.outcome) for row in rows if row.crowd is not None]),
        by_source=_score_by(rows, lambda row: row.source, _row_scores),
        by_round=_score_by_round(rows, graded),
        by_horizon=_score_by_horizon(rows),
        intervals=_index_intervals(rows, rng),
        imputed=sum(row.imputed for row in rows),
        kinds=kind_reports(graded, rng=rng),
        notes=list(notes),
    )


def _score_by(
    rows: Sequence[BinaryScoreRow],
    key: Callable[[BinaryScoreRow], str],
    score: Callable[[Sequence[BinaryScoreRow]], ScoreT],
) -> dict[str, ScoreT]:
    groups: dict[str, list[BinaryScoreRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: score(groups[name]) for name in sorted(groups)}


def _score_by_round(rows: Sequence[BinaryScoreRow], graded: Sequence[RuleScoreRow]) -> dict[str, FamilyScores]:
    found = _score_by(rows, lambda row: row.round, _family_scores)
    others = {row.round for row in graded} - found.keys()
    return dict(sorted({**found, **dict.fromkeys(others, _family_scores(()))}.items()))


def _score_by_horizon(rows: Sequence[BinaryScoreRow]) -> dict[str, BinaryScores]:
    groups: dict[int, list[BinaryScoreRow]] = {}
    for row in rows:
        if row.horizon_days is not None:
            groups.setdefault(row.horizon_days, []).append(row)
    return {str(days): _row_scores(groups[days]) for days in sorted(groups)}


def _family_rows(rows: Sequence[BinaryScoreRow], family: str) -> list[BinaryScoreRow]:
    return [row for row in rows if row.family == family]


def _family_scores(rows: Sequence[BinaryScoreRow]) -> FamilyScores:
    return combine_families(*(_row_scores(_family_rows(rows, family)) for family in FAMILIES))


def combine_families(market: BinaryScores, dataset: BinaryScores) -> FamilyScores:
    """Return the scores of both families, and overall."""
    from bot.stats.scores import overall_index_of_mean_brier, overall_mean_of_indices  # noqa: PLC0415 - numpy

    overall = OverallIndices()
    if market.brier is not None and dataset.brier is not None:
        briers = (market.brier, dataset.brier)
        overall = OverallIndices(
            mean_of_indices=overall_mean_of_indices(briers), index_of_mean_brier=overall_index_of_mean_brier(briers)
        )
    return FamilyScores(market=market, dataset=dataset, overall=overall)


def _row_scores(rows: Sequence[BinaryScoreRow]) -> BinaryScores:
    return _pair_scores([(row.probability, row.outcome) for row in rows])


def _pair_scores(pairs: Sequence[tuple[float, float]]) -> BinaryScores:
    from bot.stats.scores import mean_brier, mean_outcome  # noqa: PLC0415 - numpy

    if not pairs:
        return BinaryScores(n=0)
    probabilities, outcomes = zip(*pairs, strict=True)
    return binary_scores(len(pairs), mean_outcome(outcomes), mean_brier(probabilities, outcomes))


def binary_scores(n: int, base_rate: float, brier: float) -> BinaryScores:
    """Return the scores of a group with these means."""
    from bot.stats.scores import index_from_brier  # noqa: PLC0415 - numpy

    return BinaryScores(n=n, base_rate=base_rate, brier=brier, brier_index=float(index_from_brier(brier)))


def _index_intervals(rows: Sequence[BinaryScoreRow], rng: "np.random.Generator") -> dict[str, ScoreInterval]:
    """Give intervals of the indices; a whole cluster is drawn at once, so what moves together adds no certainty."""
    from bot.stats.bootstrap import average_parts, confidence_intervals, to_brier_index  # noqa: PLC0415 - numpy

    families = [_family_rows(rows, name) for name in FAMILIES]
    parts = {
        f"{name}.brier_index": to_brier_index(_resample_brier(family, rng))
        for name, family in zip(FAMILIES, families, strict=True)
        if family
    }
    if all(families):
        parts["overall.mean_of_indices"] = average_parts(list(parts.values()))
    clusters = {f"{name}.brier_index": count_clusters(family) for name, family in zip(FAMILIES, families, strict=True)}
    least = min(clusters.values())
    return {
        name: score_interval(confidence_intervals(part)[0], clusters.get(name, least)) for name, part in parts.items()
    }


def _resample_brier(rows: Sequence[BinaryScoreRow], rng: "np.random.Generator") -> "BootstrapResamples":
    from bot.stats.arrays import encode_keys  # noqa: PLC0415 - numpy
    from bot.stats.bootstrap import resample_means  # noqa: PLC0415 - numpy
    from bot.stats.scores import brier_scores  # noqa: PLC0415 - numpy

    scores = brier_scores([row.probability for row in rows], [row.outcome for row in rows])
    return resample_means(
        scores[:, None],
        ["forecast"],
        resamples=RESAMPLES,
        rng=rng,
        clusters=encode_keys(row.cluster for row in rows).codes,
    )
