"""Pools of trials, calibrations and blends of the methods of a table of trials.

What is learned for a round is learned from what had resolved before its day; where something is fitted on the rows that
it is applied to, leaving out one question at a time, the report says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from bot.core.beliefs import PriorSource
from bot.core.interfaces import RandomStreams
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable, named_columns
from bot.evaluation.score_report import DATASET_FAMILY, MARKET_FAMILY, ScoreInterval
from bot.evaluation.trial_scores import MEAN_INDEX, IndexScorer, question_cluster
from bot.evaluation.trial_table import EventKey, TrialRow, TrialTable
from bot.stats import aggregation
from bot.stats.arrays import BoolArray, FloatArray, IntArray, encode_keys, logit, sigmoid
from bot.stats.blending import BlendExample, BlendWeights, fit_blend_weights
from bot.stats.calibration import (
    calibrate_leave_one_out,
    calibration_rows,
    fit_platt,
)
from bot.stats.calibration_gate import CalibrationHistory, CalibrationPolicy, decide_calibration

# Draws of which trials of a method are used.
TRIAL_DRAWS = 200
BLEND_METHOD = "blend"
PRIOR_BLEND_METHOD = "blend, prior weights"
EQUAL_BLEND_METHOD = "mean of log odds"
INDEX_COLUMNS = (
    ReportColumn(MARKET_FAMILY, "market Brier Index"),
    ReportColumn(DATASET_FAMILY, "dataset Brier Index"),
    ReportColumn(MEAN_INDEX, "mean of the two"),
)

Pool = Callable[[FloatArray, FloatArray], FloatArray]


def known_before(table: TrialTable, day: str) -> list[EventKey]:
    """Return the events of earlier rounds whose outcome was known before a day."""
    return [event for event, row in table.resolved.items() if event.round < day and row.day < day]


def _shrink_trials(trials: FloatArray, prior: FloatArray) -> FloatArray:
    moments = aggregation.logit_moments(trials)
    by_price = aggregation.shrink_to_prior(
        moments, aggregation.DEFAULT_WEIGHTS[PriorSource.CROWD], np.nan_to_num(prior, nan=0.5)
    )
    by_half = aggregation.shrink_to_prior(moments, aggregation.DEFAULT_WEIGHTS[PriorSource.EVEN], 0.5)
    return np.where(np.isnan(prior), by_half, by_price)


# Trials (count, events) and prior (events,) to one probability each. A missing trial is NaN.
POOLS: Mapping[str, Pool] = {
    "mean": lambda trials, _: aggregation.mean_probability(trials),
    "logit mean": lambda trials, _: aggregation.logit_mean_probability(trials),
    "median": lambda trials, _: aggregation.median_probability(trials),
    "shrink": _shrink_trials,
}


def pool_trials(table: TrialTable, random: RandomStreams) -> ReportTable | None:
    """Return the index of each pool of 1 to all trials; the intervals are over which trials are used."""
    rows: list[dict[str, ReportCell]] = []
    for name, answers in table.by_method.items():
        found = {event: row for event, row in answers.items() if row.trials and event in table.resolved}
        most = max((len(row.trials) for row in found.values()), default=0)
        if most < 2:
            continue
        events, trials = [*found], trial_array([row.trials for row in found.values()], most)
        prior = np.array([np.nan if row.price is None else row.price for row in found.values()])
        scorer = IndexScorer.of_events(table, events)
        for count in range(1, most + 1):
            drawn = draw_trials(trials, count, random.stream(f"pool {name} {count}"))
            for pool, combine in POOLS.items():
                indices = [scorer.indices(combine(one, prior)) for one in drawn]
                rows.append({"method": name, "pool": pool, "trials": count, **_spread_over_draws(indices)})
        for pool, values in _tuned_shrinkage(table, events, trials).items():
            rows.append({"method": name, "pool": pool, "trials": most, **scorer.indices(values)})
    if not rows:
        return None
    return ReportTable(
        key="pools",
        title="Pools of trials",
        columns=(*named_columns("method", "pool", "trials"), *INDEX_COLUMNS),
        rows=rows,
        notes=(
            (
                "Intervals are the middle 95 % over which trials are drawn, not over questions; an event with fewer "
                "trials uses all it has. Shrinkage moves trials towards the price, or one half where there is none; "
                "tuned, its weights come from earlier rounds (forward) or from all other questions (leave-one-out, "
                "optimistic)."
            ),
        ),
    )


def trial_array(trials: Sequence[Sequence[float]], most: int) -> FloatArray:
    """Return trials as (most, events), NaN where an event has fewer."""
    found = np.full((most, len(trials)), np.nan)
    for column, values in enumerate(trials):
        found[: len(values), column] = values
    return found


def draw_trials(trials: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return draws of ``count`` trials of each event without replacement; one draw where all are used."""
    if count == len(trials):
        return [trials]
    drawn = []
    for _ in range(TRIAL_DRAWS):
        order = np.argsort(np.where(np.isnan(trials), 2.0, rng.random(trials.shape)), axis=0)[:count]
        drawn.append(np.take_along_axis(trials, order, axis=0))
    return drawn


def _spread_over_draws(indices: Sequence[Mapping[str, ReportCell]]) -> dict[str, ReportCell]:
    if len(indices) == 1:
        return dict(indices[0])
    found: dict[str, ReportCell] = {}
    for key in indices[0]:
        values = np.array([one[key] for one in indices], dtype=np.float64)
        low, high = np.quantile(values, [0.025, 0.975]).tolist()
        found[key] = ScoreInterval(estimate=float(values.mean()), low=low, high=high)
    return found


def _tuned_shrinkage(table: TrialTable, events: Sequence[EventKey], trials: FloatArray) -> dict[str, FloatArray]:
    """Return forecasts by shrinkage to one half with the weights of earlier rounds, and of all other questions."""
    moments, outcomes = aggregation.logit_moments(trials), _outcomes(table, events)
    clusters = encode_keys(map(question_cluster, events)).codes
    found: dict[str, FloatArray] = {}
    if np.unique(clusters).size > 1:
        tuned = aggregation.tune_leave_one_out(moments, outcomes, clusters=clusters)
        found["shrink, leave-one-out"] = tuned.probabilities
    forward = aggregation.shrink_to_prior(moments, aggregation.DEFAULT_WEIGHTS[PriorSource.EVEN], 0.5)
    is_tuned = False
    for rows, known in _forward_splits(table, events):
        if known.any():
            rule = aggregation.tune_weight_rule(_select_moments(moments, known), outcomes[known])
            forward[rows] = aggregation.shrink_to_prior(_select_moments(moments, rows), rule, 0.5)
            is_tuned = True
    return {"shrink, tuned forward": forward, **found} if is_tuned else found


def _select_moments(moments: aggregation.LogitMoments, rows: BoolArray) -> aggregation.LogitMoments:
    return aggregation.LogitMoments(mean=moments.mean[rows], std=moments.std[rows], single=moments.single[rows])


def _forward_splits(table: TrialTable, events: Sequence[EventKey]) -> list[tuple[BoolArray, BoolArray]]:
    """Return for each round the events in it, and those of earlier rounds whose outcome was known before it."""
    rounds = np.array([event.round for event in events])
    days = np.array([table.resolved[event].day for event in events])
    return [(rounds == one, (rounds < one) & (days < one)) for one in sorted(set(rounds.tolist()))]


def _outcomes(table: TrialTable, events: Sequence[EventKey]) -> FloatArray:
    return np.array([table.resolved[event].outcome for event in events], dtype=np.float64)


def calibrate_methods(table: TrialTable) -> ReportTable:
    """Return the index of each method without calibration and with each way of calibrating, the honest ones first."""
    rows: list[dict[str, ReportCell]] = []
    for name, answers in table.by_method.items():
        events = [event for event in answers if event in table.resolved]
        if not events:
            continue
        raw, scorer = np.array([answers[event].forecast for event in events]), IndexScorer.of_events(table, events)
        ways = {"none": raw, **_forward_calibrations(table, events, raw), **_held_out_calibrations(table, events, raw)}
        for way, values in ways.items():
            rows.append({"method": name, "calibration": way, **scorer.indices(values)})
    return ReportTable(
        key="calibration",
        title="Calibration",
        columns=(*named_columns("method", "calibration"), *INDEX_COLUMNS),
        rows=rows,
        notes=(
            (
                "Forward is the honest figure: each round by a fit on what had resolved before it. Gated is what "
                "forecasts use: a fit counts only if it helped in two later windows. Leave-one-out fits see outcomes "
                "of the same round and of later ones, so they promise more than they keep."
            ),
        ),
    )


def _forward_calibrations(table: TrialTable, events: Sequence[EventKey], raw: FloatArray) -> dict[str, FloatArray]:
    """Return the forecasts calibrated round by round; nothing for a table with a single round."""
    splits = _forward_splits(table, events)
    if len(splits) < 2:
        return {}
    ways = {"gated, forward": raw.copy(), "Platt, forward": raw.copy(), "hierarchical Platt, forward": raw.copy()}
    policy = CalibrationPolicy()
    for rows, known in splits:
        if known.sum() < policy.min_rows:
            continue
        now = [event for event, is_now in zip(events, rows.tolist(), strict=True) if is_now]
        groups = [event.source for event in now]
        history = _calibration_history(table, events, raw, known)
        pooled = calibration_rows(history.rows.probabilities, history.rows.outcomes)
        decision = decide_calibration(history, before=date.fromisoformat(now[0].round), policy=policy)
        ways["gated, forward"][rows] = decision.apply(raw[rows], groups)
        ways["Platt, forward"][rows] = fit_platt(pooled).apply(raw[rows])
        ways["hierarchical Platt, forward"][rows] = fit_platt(history.rows).apply(raw[rows], groups)
    return ways


def _calibration_history(
    table: TrialTable, events: Sequence[EventKey], raw: FloatArray, known: BoolArray
) -> CalibrationHistory:
    chosen = [event for event, is_known in zip(events, known.tolist(), strict=True) if is_known]
    return CalibrationHistory(
        rows=calibration_rows(raw[known], _outcomes(table, chosen), [event.source for event in chosen]),
        made_on=np.array([event.round for event in chosen], dtype="datetime64[D]"),
        resolved_on=np.array([table.resolved[event].day for event in chosen], dtype="datetime64[D]"),
    )


def _held_out_calibrations(table: TrialTable, events: Sequence[EventKey], raw: FloatArray) -> dict[str, FloatArray]:
    outcomes, sources = _outcomes(table, events), [event.source for event in events]
    clusters: IntArray = encode_keys(map(question_cluster, events)).codes
    if np.unique(clusters).size < 2:
        return {}
    return {
        "Platt, leave-one-out": calibrate_leave_one_out(calibration_rows(raw, outcomes), clusters=clusters),
        "hierarchical Platt, leave-one-out": calibrate_leave_one_out(
            calibration_rows(raw, outcomes, sources), clusters=clusters
        ),
    }


def blend_methods(table: TrialTable, members: Sequence[str]) -> tuple[list[TrialRow], ReportTable]:
    """Return the rows of the blends of these methods, and a table of the weights that were used in each round.

    A blend answers every event that any of the members answered; runs that got stuck do not count.
    """
    rows: list[TrialRow] = []
    weights: list[dict[str, ReportCell]] = []
    events = dict.fromkeys(event for name in members for event in table.by_method[name])
    for day in sorted({event.round for event in events}):
        fitted = fit_blend_weights([_blend_example(table, one, members) for one in known_before(table, day)], members)
        weights = [*_weight_rows(table, fitted, day), *weights]
        for event in (one for one in events if one.round == day):
            rows += _blend_rows(table, event, fitted)
    columns = (
        *named_columns("round"),
        ReportColumn("examples", "known outcomes"),
        *named_columns("blocks", "source", "kind"),
        *(ReportColumn(name, f"weight of {name}", 3) for name in members),
    )
    notes = (
        (
            "Weights of the log odds, fitted for each round on outcomes known before it; they need not sum to one. The "
            "prior is equal weights with the sum 1.15. Blocks count as one outcome each."
        ),
    )
    return rows, ReportTable(key="blend", title="Weights of the blend", columns=columns, rows=weights, notes=notes)


def member_answers(table: TrialTable, event: EventKey, members: Sequence[str]) -> dict[str, float]:
    """Return the members' probabilities for an event; runs that got stuck count only where every run did."""
    found = {name: row for name in members if (row := table.by_method[name].get(event)) is not None}
    return {name: row.forecast for name, row in found.items() if not row.is_stuck} or {
        name: row.forecast for name, row in found.items()
    }


def _blend_example(table: TrialTable, event: EventKey, members: Sequence[str]) -> BlendExample:
    return BlendExample(
        answers=member_answers(table, event, members),
        kind=table.kinds[event.source],
        source=event.source,
        outcome=table.resolved[event].outcome or 0.0,
        block=table.block(event),
    )


def _blend_rows(table: TrialTable, event: EventKey, fitted: BlendWeights) -> list[TrialRow]:
    answers = member_answers(table, event, fitted.members)
    kind = table.kinds[event.source]
    some = next(row for name in fitted.members if (row := table.by_method[name].get(event)) is not None)
    blends = {
        BLEND_METHOD: fitted.pool(answers, kind, event.source),
        PRIOR_BLEND_METHOD: BlendWeights(members=fitted.members).pool(answers, kind, event.source),
        EQUAL_BLEND_METHOD: float(logit([*answers.values()]).mean()),
    }
    return [
        replace(some, method=name, forecast=float(sigmoid(pooled)), trials=(), submitted=None, usage={})
        for name, pooled in blends.items()
    ]


def _weight_rows(table: TrialTable, fitted: BlendWeights, day: str) -> list[dict[str, ReportCell]]:
    return [
        {
            "round": day,
            "examples": fitted.examples,
            "blocks": fitted.blocks,
            "source": source,
            "kind": kind.value,
            **fitted.weights(kind, source, fitted.members),
        }
        for source, kind in table.kinds.items()
    ]
