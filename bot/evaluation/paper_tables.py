"""The tables of a paper, recomputed from its public trials and shown with its own figures.

Which rows they have, and how each follows from the trials, is data: ``plugins/paper_tables.toml``.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from bot.core.errors import NotFoundError
from bot.core.interfaces import RandomStreams
from bot.core.light_dataclass import dataclass
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable
from bot.evaluation.score_report import DATASET_FAMILY, FAMILIES, MARKET_FAMILY
from bot.evaluation.trial_pools import POOLS, draw_trials, trial_array
from bot.evaluation.trial_scores import HALF_BRIER, question_cluster
from bot.evaluation.trial_table import EventKey, TrialTable
from bot.stats.aggregation import logit_moments, tune_leave_one_out
from bot.stats.arrays import BoolArray, FloatArray, encode_keys
from bot.stats.calibration import calibrate_leave_one_out, calibration_rows
from bot.stats.comparison import adjust_scores, build_brier_table, decompose_variance, fit_difficulty
from bot.stats.scores import binary_baseline_scores, brier_scores, index_from_brier

Pool = Literal["stored", "logit", "mean", "median", "shrink", "price"]
Calibration = Literal["", "global", "hierarchical"]
ALL = "all"
FAMILY_COLUMNS = (MARKET_FAMILY, DATASET_FAMILY, ALL)
MEASURE_COLUMNS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("index", "count", "adjusted", "baseline", "brier"), FAMILY_COLUMNS),
    "difference": (MARKET_FAMILY, DATASET_FAMILY),
    "tournament": ("baseline score", "Brier Index", "Brier score x 100"),
    "variance": ("method, %", "question, %", "rest, %"),
}
POOL_NAMES = {"logit": "logit mean", "mean": "mean", "median": "median"}


class PaperRow(BaseModel):
    """A row of a table: how it follows from the trials of a method, and the paper's figures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    method: str
    pool: Pool = "stored"
    trials: int | None = None
    calibrate: Calibration = ""
    less: str = ""
    less_pool: Pool = "stored"
    paper: tuple[float, ...] = ()


class PaperTable(BaseModel):
    """One table of the paper; ``methods`` are those of an analysis of variance."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: str
    title: str
    measure: Literal["index", "count", "adjusted", "baseline", "brier", "difference", "tournament", "variance"]
    file: Literal["tranche_a", "aibq2"]
    note: str
    rows: tuple[PaperRow, ...]
    methods: tuple[str, ...] = ()


class PaperTables(BaseModel):
    """All tables, the method whose events each file is about, and the experiments that anybody can repeat.

    ``variants`` are settings of forecasters by name, and ``experiments`` the forecasters by table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: Mapping[str, str]
    tables: tuple[PaperTable, ...]
    variants: Mapping[str, Mapping[str, bool | str | list[str]]] = Field(default_factory=dict)
    experiments: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    def select(self, numbers: Sequence[str]) -> Sequence[PaperTable]:
        """Return the named tables, all without names; raises NotFoundError for one that is not there."""
        known = {table.number: table for table in self.tables}
        if missing := [number for number in numbers if number not in known]:
            message = f"there is no table {missing[0]} here; there are {', '.join(known)}"
            raise NotFoundError(message)
        return [known[number] for number in numbers] if numbers else self.tables


def parse_paper_tables(text: str) -> PaperTables:
    """Return the tables of a TOML text."""
    return PaperTables.model_validate(tomllib.loads(text))


@dataclass(frozen=True)
class PaperSample:
    """The events that a file is about, and the methods' trials for them; random numbers draw trials."""

    trials: TrialTable
    events: tuple[EventKey, ...]
    random: RandomStreams

    def answered(self, row: PaperRow) -> list[EventKey]:
        """Return the events that the row has a forecast for; with the price, those that have one."""
        answers = self.trials.by_method[row.method]
        has_forecast = self.trials.prices if row.pool == "price" else answers
        return [event for event in self.events if event in answers and event in has_forecast]

    def outcomes(self, events: Sequence[EventKey]) -> FloatArray:
        """Return the outcomes, shape (events,)."""
        return np.array([self.trials.resolved[event].outcome for event in events], dtype=np.float64)

    def forecasts(self, row: PaperRow, events: Sequence[EventKey]) -> list[FloatArray]:
        """Return the forecasts of a row for events; several where its trials are drawn."""
        pooled = self._pooled(row, events)
        if not row.calibrate:
            return pooled
        groups = [event.source for event in events] if row.calibrate == "hierarchical" else ()
        clusters = encode_keys(map(question_cluster, events)).codes
        outcomes = self.outcomes(events)
        return [calibrate_leave_one_out(calibration_rows(one, outcomes, groups), clusters=clusters) for one in pooled]

    def _pooled(self, row: PaperRow, events: Sequence[EventKey]) -> list[FloatArray]:
        answers = self.trials.by_method[row.method]
        if row.pool == "price":
            return [np.array([self.trials.prices[event] for event in events])]
        if row.pool == "stored":
            return [np.array([answers[event].forecast for event in events])]
        found = [answers[event].trials or (answers[event].forecast,) for event in events]
        trials = trial_array(found, max(map(len, found)))
        if row.pool == "shrink":
            clusters = encode_keys(map(question_cluster, events)).codes
            return [tune_leave_one_out(logit_moments(trials), self.outcomes(events), clusters=clusters).probabilities]
        drawn = draw_trials(trials, row.trials or len(trials), self.random.stream(f"paper {row.label}"))
        price = np.full(len(events), np.nan)
        return [POOLS[POOL_NAMES[row.pool]](one, price) for one in drawn]


def make_paper_sample(trials: TrialTable, method: str, random: RandomStreams) -> PaperSample:
    """Return the sample of the resolved events that a method answered."""
    trials.require_methods([method])
    events = tuple(event for event in trials.by_method[method] if event in trials.resolved)
    return PaperSample(trials, events, random)


def compare_with_paper(paper: PaperTable, sample: PaperSample) -> ReportTable:
    """Return a table with the figures of the paper, those of the public trials, and the differences."""
    names = MEASURE_COLUMNS[paper.measure]
    sample.trials.require_methods([*(row.method for row in paper.rows if row.method), *paper.methods])
    rows: list[dict[str, ReportCell]] = []
    for row, found in zip(paper.rows, _measure_rows(paper, sample), strict=True):
        cells: dict[str, ReportCell] = {"row": row.label}
        for place, name in enumerate(names):
            published = row.paper[place] if place < len(row.paper) else None
            here = found[place] if place < len(found) else None
            cells[f"{name} paper"], cells[f"{name} here"] = published, here
            cells[f"{name} difference"] = None if None in {published, here} else (here or 0.0) - (published or 0.0)
        rows.append(cells)
    digits = 0 if paper.measure == "count" else 1
    columns = [
        ReportColumn(f"{name} {part}", f"{name}, {part}", digits)
        for name in names
        for part in ("paper", "here", "difference")
    ]
    return ReportTable(
        key=f"table_{paper.number}",
        title=f"Table {paper.number}: {paper.title}",
        columns=(ReportColumn("row", ""), *columns),
        rows=rows,
        notes=(" ".join(paper.note.split()),),
    )


def _measure_rows(paper: PaperTable, sample: PaperSample) -> list[Sequence[float | None]]:
    if paper.measure == "variance":
        return [_variance_shares(paper.methods, sample)]
    if paper.measure == "adjusted":
        return _adjusted_indices(paper.rows, sample)
    return [_measure_row(paper.measure, row, sample) for row in paper.rows]


def _measure_row(measure: str, row: PaperRow, sample: PaperSample) -> Sequence[float | None]:
    if measure == "difference":
        other = row.model_copy(update={"method": row.less, "pool": row.less_pool, "calibrate": ""})
        own, theirs = (_measure_row("index", one, sample) for one in (row, other))
        return [
            None if one is None or less is None else one - less for one, less in zip(own[:2], theirs[:2], strict=True)
        ]
    events = sample.answered(row)
    if measure == "count":
        families = _families(sample, events)
        return [*(float(rows.sum()) for rows in families.values()), float(len(events))]
    if measure == "tournament":
        return _tournament_scores(row, sample, events)
    return _mean_over_draws(_FAMILY_MEASURES[measure], row, sample, events)


def _families(sample: PaperSample, events: Sequence[EventKey]) -> dict[str, BoolArray]:
    names = np.array([sample.trials.family(event) for event in events])
    return {family: names == family for family in FAMILIES}


ScoreMeasure = Callable[[FloatArray, FloatArray], float]
_FAMILY_MEASURES: Mapping[str, ScoreMeasure] = {
    "index": lambda p, o: float(index_from_brier(float(brier_scores(p, o).mean()))),
    "baseline": lambda p, o: float(binary_baseline_scores(p, o).mean()),
    "brier": lambda p, o: 100.0 * float(brier_scores(p, o).mean()),
}


def _mean_over_draws(
    measure: ScoreMeasure, row: PaperRow, sample: PaperSample, events: Sequence[EventKey]
) -> list[float | None]:
    """Return the measure of each family, and the mean of both; None for a family without forecasts."""
    outcomes, drawn = sample.outcomes(events), sample.forecasts(row, events)
    found = [
        float(np.mean([measure(one[rows], outcomes[rows]) for one in drawn])) if rows.any() else None
        for rows in _families(sample, events).values()
    ]
    known = [value for value in found if value is not None]
    return [*found, sum(known) / len(known) if len(known) == len(found) else None]


def _tournament_scores(row: PaperRow, sample: PaperSample, events: Sequence[EventKey]) -> list[float]:
    outcomes, (forecasts,) = sample.outcomes(events), sample.forecasts(row, events)
    return [_FAMILY_MEASURES[name](forecasts, outcomes) for name in ("baseline", "index", "brier")]


def _adjusted_indices(rows: Sequence[PaperRow], sample: PaperSample) -> list[Sequence[float | None]]:
    """Return the difficulty-adjusted indices of each family, and the index of the mean of both scores."""
    by_family: list[dict[str, float]] = []
    for family in FAMILIES:
        long: list[tuple[str, EventKey, float]] = []
        for row in rows:
            events = sample.answered(row)
            (forecasts,) = sample.forecasts(row, events)
            scores = brier_scores(forecasts, sample.outcomes(events)).tolist()
            kept = [place for place, event in enumerate(events) if sample.trials.family(event) == family]
            long += [(row.label, events[place], scores[place]) for place in kept]
        table = build_brier_table(*zip(*long, strict=True))
        adjusted = adjust_scores(table, fit_difficulty(table, set(table.forecasters)), HALF_BRIER)
        by_family.append({str(one.forecaster): one.adjusted_brier for one in adjusted})
    return [
        [float(index_from_brier(max(0.0, value))) for value in (*briers, sum(briers) / len(briers))]
        for row in rows
        if (briers := [found[row.label] for found in by_family])
    ]


def _variance_shares(methods: Sequence[str], sample: PaperSample) -> list[float]:
    """Return the shares of method, question and the rest in the variance of trials, in percent.

    The score of a trial is one minus the root of its mean Brier score over the dates of a question.
    """
    errors: dict[tuple[str, object, int], list[float]] = {}
    for name in methods:
        answers = sample.trials.by_method[name]
        for event in sample.events:
            row = answers.get(event)
            for number, trial in enumerate(row.trials if row else ()):
                outcome = sample.trials.resolved[event].outcome or 0.0
                errors.setdefault((name, question_cluster(event), number), []).append((trial - outcome) ** 2)
    scores = [1.0 - float(np.sqrt(np.mean(found))) for found in errors.values()]
    parts = decompose_variance([key[0] for key in errors], [key[1] for key in errors], scores)
    shares = [100.0 * parts.method.share, 100.0 * parts.question.share]
    return [*shares, 100.0 - sum(shares)]
