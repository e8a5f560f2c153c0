"""Scores of choices and of curves, each kind and each rule by itself: values of unlike scores are never averaged.

Values are in the units of their rule; differences to the crowd are signed so that more is better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.domain.score import Rule, rules_of
from bot.lab.rows import Graded

if TYPE_CHECKING:
    import numpy as np

    from bot.science.bootstrap import Interval, Resamples

RESAMPLES = 2_000
KINDS = ("choice", "curve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The mean of each rule over the rows of a group."""

    n: int
    scores: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The crowd on the rows that had one, and what the forecaster gains over it there; both by rule."""

    n: int
    scores: dict[str, float]
    gains: dict[str, Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReport:
    """All about one kind of questions: means with intervals by rule, the crowd, and the groups.

    ``imputed`` counts the missing answers that were scored as the flat forecast.
    """

    n: int
    imputed: int
    scores: dict[str, Span]
    crowd: Beside | None
    by_source: dict[str, Means]
    by_round: dict[str, Means]
    by_horizon: dict[str, Means]


def kinds_of(rows: Sequence[Graded], *, rng: "np.random.Generator") -> dict[str, KindReport]:
    """Return the report of each kind that has rows; intervals resample whole question series."""
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in KINDS}
    return {kind: _report(kind, found, rng) for kind, found in by_kind.items() if found}


def _report(kind: str, rows: Sequence[Graded], rng: "np.random.Generator") -> KindReport:
    from bot.science.bootstrap import intervals  # noqa: PLC0415 - numpy

    rules = rules_of(kind)
    spans = intervals(_drawn([[row.marks[rule.name] for rule in rules] for row in rows], rows, rules, rng))
    return KindReport(
        n=len(rows),
        imputed=sum(row.imputed for row in rows),
        scores={rule.name: _span(span) for rule, span in zip(rules, spans, strict=True)},
        crowd=_beside([row for row in rows if row.crowd], rules, rng),
        by_source=_by(rows, lambda row: row.source or None, rules),
        by_round=_by(rows, lambda row: row.round, rules),
        by_horizon=_by(rows, lambda row: None if row.horizon_days is None else str(row.horizon_days), rules),
    )


def _beside(rows: Sequence[Graded], rules: Sequence[Rule], rng: "np.random.Generator") -> Beside | None:
    from bot.science.bootstrap import intervals  # noqa: PLC0415 - numpy

    if not rows:
        return None
    gains = intervals(_drawn([[_gain(row, rule) for rule in rules] for row in rows], rows, rules, rng))
    return Beside(
        n=len(rows),
        scores={rule.name: sum(row.crowd[rule.name] for row in rows) / len(rows) for rule in rules},
        gains={rule.name: _span(gain) for rule, gain in zip(rules, gains, strict=True)},
    )


def _gain(row: Graded, rule: Rule) -> float:
    lead = row.marks[rule.name] - row.crowd[rule.name]
    return lead if rule.more_is_better else -lead


def _by(rows: Sequence[Graded], key: Callable[[Graded], str | None], rules: Sequence[Rule]) -> dict[str, Means]:
    groups: dict[str, list[Graded]] = {}
    for row in rows:
        if (name := key(row)) is not None:
            groups.setdefault(name, []).append(row)
    return {
        name: Means(
            n=len(group),
            scores={rule.name: sum(row.marks[rule.name] for row in group) / len(group) for rule in rules},
        )
        for name, group in sorted(groups.items(), key=lambda item: _order(item[0]))
    }


def _drawn(
    values: Sequence[Sequence[float]], rows: Sequence[Graded], rules: Sequence[Rule], rng: "np.random.Generator"
) -> "Resamples":
    from bot.science.arrays import encode  # noqa: PLC0415 - numpy
    from bot.science.bootstrap import resample_means  # noqa: PLC0415 - numpy

    return resample_means(
        values,
        [rule.name for rule in rules],
        resamples=RESAMPLES,
        rng=rng,
        clusters=encode(row.series for row in rows).codes,
    )


def _span(found: "Interval") -> Span:
    return Span(estimate=found.estimate, low=found.low, high=found.high)


def _order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (0, name)
