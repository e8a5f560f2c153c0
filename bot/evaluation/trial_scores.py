"""Scores of the methods of a table of trials, and paired comparisons of them on identical events."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bot.core.interfaces import RandomStreams
from bot.core.light_dataclass import dataclass
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable, named_columns
from bot.evaluation.score_report import DATASET_FAMILY, FAMILIES, MARKET_FAMILY, score_interval
from bot.evaluation.summed_scores import reliability_table
from bot.evaluation.trial_table import EventKey, TrialTable
from bot.stats.arrays import FloatArray, encode_keys
from bot.stats.bootstrap import (
    BootstrapResamples,
    MethodDifference,
    average_parts,
    confidence_intervals,
    method_differences,
    resample_means,
    to_brier_index,
)
from bot.stats.calibration import equal_width_bins
from bot.stats.comparison import adjust_scores, build_brier_table, decompose_variance, fit_difficulty
from bot.stats.ranking import rank_forecasts
from bot.stats.scores import (
    binary_baseline_scores,
    brier_scores,
    index_from_brier,
    log_scores,
    mean_brier,
    peer_scores,
)

MEAN_INDEX = "mean"
# Platforms accept no probability closer to 0 or 1 than this, and logarithmic scores count it as such.
LEAST_MASS = 0.001
HALF, HALF_BRIER = 0.5, 0.25
COUNT_COLUMNS = (ReportColumn("market_n", "market events"), ReportColumn("dataset_n", "dataset events"))
# The most methods of which every pair is compared in a report.
MAX_PAIRED_METHODS = 15

ClusterOf = Callable[[EventKey], Hashable]


@dataclass(frozen=True)
class EventScores:
    """Brier scores of methods on identical events, ``scores`` of shape (events, methods)."""

    table: TrialTable
    methods: tuple[str, ...]
    events: tuple[EventKey, ...]
    scores: FloatArray

    def resample_indices(
        self, cluster_of: ClusterOf, random: RandomStreams, count: int
    ) -> dict[str, BootstrapResamples]:
        """Resample whole clusters; return the Brier Indices of each family with events, and the mean of two."""
        parts = {}
        families = np.array([self.table.family(event) for event in self.events])
        for family in FAMILIES:
            rows = np.flatnonzero(families == family)
            if rows.size:
                clusters = encode_keys(cluster_of(self.events[row]) for row in rows.tolist()).codes
                means = resample_means(
                    self.scores[rows],
                    self.methods,
                    resamples=count,
                    rng=random.stream(f"trials {family}"),
                    clusters=clusters,
                )
                parts[family] = to_brier_index(means)
        return {**parts, MEAN_INDEX: average_parts([*parts.values()])} if len(parts) > 1 else parts


def common_scores(table: TrialTable, methods: Sequence[str]) -> EventScores:
    """Return the Brier scores of methods on the resolved events that all of them answered."""
    rows = [table.by_method[name] for name in methods]
    events = tuple(event for event in table.resolved if all(event in found for found in rows))
    outcomes = [outcome for event in events if (outcome := table.resolved[event].outcome) is not None]
    columns = [brier_scores([found[event].forecast for event in events], outcomes) for found in rows] if events else []
    scores = np.column_stack(columns) if columns else np.empty((0, len(methods)))
    return EventScores(table, tuple(methods), events, scores)


def question_cluster(event: EventKey) -> Hashable:
    """Return the question of an event: its dates and its later rounds are resampled together."""
    return event.source, event.question


def summarise_methods(table: TrialTable) -> ReportTable:
    """Return what each method did: answers, trials, runs that got stuck, and work for each event."""
    usage = ("n_steps", "n_searches", "tokens_in", "tokens_out", "elapsed_seconds", "cost_usd")
    rows: list[Mapping[str, ReportCell]] = []
    for name, answers in table.by_method.items():
        found = [*answers.values()]
        means = {
            key: sum(values) / len(values)
            for key in usage
            if (values := [r.usage[key] for r in found if key in r.usage])
        }
        rows.append(
            {
                "method": name,
                "answers": len(found),
                "resolved": sum(row.event in table.resolved for row in found),
                "trials": sum(len(row.trials) for row in found) / len(found) if any(r.trials for r in found) else None,
                "stuck": 100.0 * sum(row.is_stuck for row in found) / len(found),
                **means,
            }
        )
    titles = ("steps", "searches", "tokens in", "tokens out", "seconds", "USD")
    return ReportTable(
        key="methods",
        title="Methods",
        columns=(
            *named_columns("method", "answers", "resolved", "trials"),
            ReportColumn("stuck", "stuck, %", 1),
            *(
                ReportColumn(key, f"{title} per answer", 4 if key == "cost_usd" else 0)
                for key, title in zip(usage, titles, strict=True)
                if any(key in row for row in rows)
            ),
        ),
        rows=rows,
        notes=(
            (
                "A run got stuck if it says exactly one half, or ended without an answer at the price from which it "
                "started. Work is that of all trials of an answer; rows of one question repeat it."
            ),
        ),
    )


def score_methods(table: TrialTable, random: RandomStreams, resamples: int) -> ReportTable:
    """Return the scores of each method on all of its resolved events."""
    adjusted, notes = _adjusted_indices(table)
    peers = _mean_peer_scores(table)
    rows = []
    for name in table.by_method:
        found = common_scores(table, [name])
        if not found.events:
            continue
        drawn = found.resample_indices(table.block, random, resamples)
        blocks = len({table.block(event) for event in found.events})
        spans = {key: confidence_intervals(part)[0] for key, part in drawn.items()}
        rows.append(
            {
                "method": name,
                "market_n": sum(table.family(event) == MARKET_FAMILY for event in found.events),
                "dataset_n": sum(table.family(event) == DATASET_FAMILY for event in found.events),
                "blocks": blocks,
                **{key: score_interval(span, blocks) for key, span in spans.items()},
                "adjusted": adjusted.get(name),
                "peer": peers.get(name),
                **_other_scores(found),
            }
        )
    return ReportTable(
        key="scores",
        title="Scores of each method on its own resolved events",
        columns=(
            *named_columns("method"),
            *COUNT_COLUMNS,
            *named_columns("blocks"),
            ReportColumn(MARKET_FAMILY, "market Brier Index [95 %]"),
            ReportColumn(DATASET_FAMILY, "dataset Brier Index [95 %]"),
            ReportColumn(MEAN_INDEX, "mean of the two [95 %]"),
            ReportColumn("adjusted", "difficulty-adjusted mean"),
            ReportColumn("brier", "Brier", 4),
            ReportColumn("log", "log score", 4),
            ReportColumn("baseline", "baseline score"),
            ReportColumn("peer", "peer score"),
            ReportColumn("ece", "calibration error", 4),
        ),
        rows=rows,
        notes=(
            "Intervals resample blocks: all outcomes of one round, day and source are drawn together.",
            (
                "Brier, log (less is better), baseline and peer scores (more is better) are means over all events; the "
                "CRPS of a yes-or-no event is its Brier score."
            ),
            *notes,
        ),
    )


def _other_scores(found: EventScores) -> dict[str, float]:
    answers = found.table.by_method[found.methods[0]]
    probabilities = np.array([answers[event].forecast for event in found.events])
    outcomes = np.array([found.table.resolved[event].outcome for event in found.events], dtype=np.float64)
    on_outcome = np.where(outcomes >= 0.5, probabilities, 1.0 - probabilities)
    return {
        "brier": mean_brier(probabilities, outcomes),
        "log": float(log_scores(on_outcome).mean()),
        "baseline": float(binary_baseline_scores(probabilities, outcomes).mean()),
        "ece": equal_width_bins(probabilities, outcomes).expected_calibration_error,
    }


def _adjusted_indices(table: TrialTable) -> tuple[dict[str, float], list[str]]:
    """Return the mean over families of the index after subtracting the difficulty of events, by method."""
    by_family: list[dict[str, float]] = []
    for family in FAMILIES:
        rows = [r for r in table.rows if r.event in table.resolved and table.family(r.event) == family]
        if not rows:
            continue
        scores = brier_scores([r.forecast for r in rows], [table.resolved[r.event].outcome or 0.0 for r in rows])
        brier = build_brier_table([r.method for r in rows], [r.event for r in rows], scores)
        try:
            adjusted = adjust_scores(brier, fit_difficulty(brier, set(brier.forecasters)), HALF_BRIER)
        except ValueError as error:
            return {}, [f"No difficulty adjustment: {error}."]
        by_family.append({str(one.forecaster): one.index for one in adjusted})
    names = [name for name in table.by_method if all(name in found for found in by_family)]
    return {name: float(np.mean([found[name] for found in by_family])) for name in names}, []


def _mean_peer_scores(table: TrialTable) -> dict[str, float]:
    """Return the mean peer score of each method against the other methods of each event; {} for a single method."""
    if len(table.by_method) < 2:
        return {}
    scores: dict[str, list[float]] = {name: [] for name in table.by_method}
    for event, row in table.resolved.items():
        names = [name for name, answers in table.by_method.items() if event in answers]
        forecasts = np.array([table.by_method[name][event].forecast for name in names])
        masses = np.clip(forecasts if (row.outcome or 0.0) >= 0.5 else 1.0 - forecasts, LEAST_MASS, 1.0 - LEAST_MASS)
        for name, score in zip(names, peer_scores(masses).tolist(), strict=True):
            scores[name].append(score)
    return {name: float(np.mean(found)) for name, found in scores.items() if found}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """Methods compared with one reference on the events that the reference and all of ``together`` answered."""

    reference: str
    methods: Sequence[str]
    together: Collection[str] = ()


def compare_methods(
    table: TrialTable, plans: Sequence[ComparisonPlan], random: RandomStreams, resamples: int
) -> ReportTable:
    """Return paired differences of Brier Indices, with intervals by blocks and by questions."""
    rows: list[dict[str, ReportCell]] = []
    for plan in plans:
        names = [name for name in plan.methods if name != plan.reference]
        for name in names:
            required = dict.fromkeys((name, plan.reference, *(plan.together if name in plan.together else ())))
            rows += _compare_pair(common_scores(table, [*required]), random, resamples)
    p_values = [row["p_value"] for row in rows if isinstance(row["p_value"], float)]
    adjusted = iter(adjust_p_values(p_values))
    for row in rows:
        row["p_holm"] = next(adjusted) if isinstance(row["p_value"], float) else None
    return ReportTable(
        key="comparison",
        title="Paired comparisons on identical events",
        columns=(
            *named_columns("method"),
            ReportColumn("reference", "compared with"),
            *COUNT_COLUMNS,
            *(
                column
                for family in FAMILIES
                for column in (
                    ReportColumn(f"{family}_own", f"{family} index"),
                    ReportColumn(f"{family}_other", f"its {family} index"),
                )
            ),
            ReportColumn("own", "mean index"),
            ReportColumn("other", "its mean index"),
            *(ReportColumn(f"{family}_difference", f"{family} difference [95 %]") for family in FAMILIES),
            ReportColumn("difference", "mean difference [95 %, blocks]"),
            ReportColumn("difference_questions", "mean difference [95 %, questions]"),
            ReportColumn("p_value", "p", 4),
            ReportColumn("p_holm", "p, Holm", 4),
        ),
        rows=rows,
        notes=(
            (
                "A difference above zero favours the method. Intervals and p (two-sided) are of a paired bootstrap; by "
                "blocks is the honest one, since outcomes of one round, day and source share shocks."
            ),
            f"Of {len(rows)} comparisons some differ by chance: p after Holm's correction allows for that.",
        ),
    )


def _compare_pair(found: EventScores, random: RandomStreams, resamples: int) -> list[dict[str, ReportCell]]:
    """Return the row of the first method against the second; none without common events."""
    if not found.events:
        return []
    method, reference = found.methods[:2]
    by_blocks = found.resample_indices(found.table.block, random, resamples)
    by_questions = found.resample_indices(question_cluster, random, resamples)
    blocks = len({found.table.block(event) for event in found.events})
    main = MEAN_INDEX if MEAN_INDEX in by_blocks else next(iter(by_blocks))
    difference = _pair_difference(by_blocks[main], method, reference)
    row: dict[str, ReportCell] = {
        "method": method,
        "reference": reference,
        **{f"{family}_n": sum(found.table.family(event) == family for event in found.events) for family in FAMILIES},
        "own": float(by_blocks[main].observed[0]),
        "other": float(by_blocks[main].observed[1]),
        "difference": score_interval(difference.interval, blocks),
        "difference_questions": score_interval(
            _pair_difference(by_questions[main], method, reference).interval,
            len({*map(question_cluster, found.events)}),
        ),
        "p_value": _two_sided(difference.p_value, resamples) if blocks > 1 else None,
    }
    for family in FAMILIES:
        if family in by_blocks:
            row[f"{family}_own"], row[f"{family}_other"] = map(float, by_blocks[family].observed[:2])
            row[f"{family}_difference"] = score_interval(
                _pair_difference(by_blocks[family], method, reference).interval, blocks
            )
    return [row]


def _two_sided(share: float, resamples: int) -> float:
    """Return the p value of a bootstrap: never 0, since the data themselves count as one more resample."""
    return min(1.0, 2.0 * (share * resamples + 1.0) / (resamples + 1.0))


def _pair_difference(drawn: BootstrapResamples, method: str, reference: str) -> MethodDifference:
    return next(one for one in method_differences(drawn, reference) if one.method == method)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, in the same order.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6
    (1979).
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    if len(p_values):
        scaled = np.asarray(p_values)[order] * (len(p_values) - np.arange(len(p_values)))
        adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in adjusted]


def measure_reliability(table: TrialTable) -> ReportTable:
    """Return how often what each method said came true, in up to ten bins of equal width."""
    pairs = {name: forecasts_with_outcomes(table, name) for name in table.by_method}
    return reliability_table({name: equal_width_bins(*pair) for name, pair in pairs.items() if pair[0]})


def forecasts_with_outcomes(table: TrialTable, method: str) -> tuple[list[float], list[float]]:
    """Return the probabilities of a method for resolved events, and the outcomes."""
    answers = table.by_method[method]
    events = [event for event in answers if event in table.resolved]
    return [answers[event].forecast for event in events], [table.resolved[event].outcome or 0.0 for event in events]


def rank_methods(table: TrialTable) -> ReportTable:
    """Return how well each method separates yes from no: against outcomes, and against the side of the crowd.

    Where events have a price, the crowd itself has a row for them, once for each set of events.
    """
    rows: list[dict[str, ReportCell]] = []
    priced_sets: set[frozenset[EventKey]] = set()
    for name, answers in table.by_method.items():
        events = [e for e in answers if e in table.resolved and table.resolved[e].outcome in {0.0, 1.0}]
        if not events:
            continue
        forecasts = {event: answers[event].forecast for event in events}
        rows.append({"method": name, **_ranking_cells(table, forecasts)})
        prices = {event: table.prices[event] for event in events if event in table.prices}
        if prices and len(prices) < len(events):
            own = {event: forecasts[event] for event in prices}
            rows.append({"method": f"{name}, with a price", **_ranking_cells(table, own)})
        if prices and frozenset(prices) not in priced_sets:
            priced_sets.add(frozenset(prices))
            rows.append({"method": f"crowd, events of {name}", **_ranking_cells(table, prices)})
    return ReportTable(
        key="ranking",
        title="How well answers separate yes from no",
        columns=(
            ReportColumn("method", "method"),
            ReportColumn("events", "events"),
            ReportColumn("accuracy", "accuracy", 3),
            ReportColumn("absolute_error", "absolute error", 3),
            ReportColumn("auc", "AUC", 3),
            ReportColumn("precision", "average precision", 3),
            ReportColumn("auc_crowd", "AUC, crowd's side", 3),
            ReportColumn("precision_crowd", "average precision, crowd's side", 3),
        ),
        rows=rows,
        notes=(
            (
                "Accuracy is the share on the outcome's side of one half; average precision is the area under the "
                "curve of precision over recall. The crowd's side is yes where its price is above one half. None of "
                "these rewards calibration, which the Brier score does."
            ),
        ),
    )


def _ranking_cells(table: TrialTable, forecasts: Mapping[EventKey, float]) -> dict[str, ReportCell]:
    outcomes = [table.resolved[event].outcome or 0.0 for event in forecasts]
    found = rank_forecasts([*forecasts.values()], outcomes)
    priced = [event for event in forecasts if event in table.prices and table.prices[event] != HALF]
    crowd = (
        rank_forecasts([forecasts[one] for one in priced], [float(table.prices[one] > HALF) for one in priced])
        if priced
        else None
    )
    return {
        "events": len(forecasts),
        "accuracy": found.accuracy,
        "absolute_error": found.absolute_error,
        "auc": found.auc,
        "precision": found.precision,
        "auc_crowd": None if crowd is None else crowd.auc,
        "precision_crowd": None if crowd is None else crowd.precision,
    }


def decompose_methods(table: TrialTable) -> ReportTable | None:
    """Return how much of the spread of the trials' Brier scores is method, event or chance; None without trials."""
    names = [name for name, answers in table.by_method.items() if any(len(r.trials) > 1 for r in answers.values())]
    rows: list[dict[str, ReportCell]] = []
    for family in FAMILIES if len(names) > 1 else ():
        found = common_scores(table, names)
        events = [event for event in found.events if table.family(event) == family]
        marks = [
            (name, event, (trial - (table.resolved[event].outcome or 0.0)) ** 2)
            for name in names
            for event in events
            for trial in table.by_method[name][event].trials
        ]
        if len(events) < 2:
            continue
        parts = decompose_variance(*zip(*marks, strict=True))
        total = parts.method.sum_of_squares + parts.question.sum_of_squares + parts.residual
        rows.append(
            {
                "family": family,
                "methods": len(names),
                "events": len(events),
                "method_share": 100.0 * parts.method.share,
                "event_share": 100.0 * parts.question.share,
                "residual_share": 100.0 * parts.residual / total,
                "p_method": parts.method.p_value,
            }
        )
    if not rows:
        return None
    return ReportTable(
        key="variance",
        title="Variance of the trials' Brier scores",
        columns=(
            *named_columns("family", "methods", "events"),
            ReportColumn("method_share", "method, %"),
            ReportColumn("event_share", "event, %"),
            ReportColumn("residual_share", "rest, %"),
            ReportColumn("p_method", "p of the methods", 4),
        ),
        rows=rows,
        notes=("Two-way analysis of variance over all trials of the methods that have several, on common events.",),
    )


def measure_diversity(table: TrialTable) -> ReportTable | None:
    """Return the mean Jensen-Shannon divergence in bits of each pair of methods; None for one or for many methods.

    Source: J. Lin, Divergence measures based on the Shannon entropy, IEEE Transactions on Information Theory 37 (1991).
    """
    names = [*table.by_method]
    if not 2 <= len(names) <= MAX_PAIRED_METHODS:
        return None
    rows: list[dict[str, ReportCell]] = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            one, other = table.by_method[first], table.by_method[second]
            events = [event for event in one if event in other]
            if events:
                pairs = np.array([(one[event].forecast, other[event].forecast) for event in events])
                middle = _binary_entropy(pairs.mean(axis=1)) - _binary_entropy(pairs).mean(axis=1)
                rows.append({"one": first, "other": second, "events": len(events), "bits": float(middle.mean())})
    return ReportTable(
        key="diversity",
        title="Diversity of methods",
        columns=(
            ReportColumn("one", "method"),
            ReportColumn("other", "and"),
            ReportColumn("events", "common events"),
            ReportColumn("bits", "Jensen-Shannon divergence, bits", 4),
        ),
        rows=rows,
    )


def _binary_entropy(p: FloatArray) -> FloatArray:
    q = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(-(q * np.log2(q) + (1.0 - q) * np.log2(1.0 - q)), dtype=np.float64)


@dataclass(frozen=True)
class IndexScorer:
    """Scores forecasts of the same events again and again: ``outcomes`` and ``families`` have shape (events,)."""

    outcomes: FloatArray
    families: NDArray[np.str_]

    @classmethod
    def of_events(cls, table: TrialTable, events: Sequence[EventKey]) -> "IndexScorer":
        """Return the scorer of resolved events of a table."""
        return cls(
            outcomes=np.array([table.resolved[event].outcome for event in events], dtype=np.float64),
            families=np.array([table.family(event) for event in events]),
        )

    def indices(self, forecasts: FloatArray) -> dict[str, float]:
        """Return the Brier Index of each family that has events, and the mean of the two."""
        found = {
            family: float(index_from_brier(mean_brier(forecasts[rows], self.outcomes[rows])))
            for family in FAMILIES
            if (rows := self.families == family).any()
        }
        return {**found, MEAN_INDEX: float(np.mean([*found.values()]))} if len(found) > 1 else found
