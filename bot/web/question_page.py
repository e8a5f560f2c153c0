"""The page of one question: beliefs of every trial, evidence, texts and their changes, decisions, orders, outcome."""

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bot.core.beliefs import Belief, ModelUsage
from bot.core.errors import strip_error_type
from bot.core.forecasts import Forecast
from bot.core.outcomes import scoring_rules_for
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction, QuestionShape
from bot.core.questions import Question, QuestionRef
from bot.evaluation.question_record import QuestionRecord, RecordedForecast, load_question_record
from bot.evaluation.value_text import (
    describe_changes,
    describe_prediction_short,
    format_decision,
    format_number,
    format_predictions,
    format_usage,
)
from bot.store.question_pages import read_price_series, read_question_versions
from bot.store.submission_queries import list_question_orders
from bot.store.trials import TrialRecord
from bot.web.page_context import DashboardContext, PageRequestError
from bot.web.svg_charts import (
    PROBABILITY_AXIS,
    ChartAxis,
    ChartSeries,
    draw_chart,
    series_style,
    time_axis,
)

MAX_PRICES, MAX_VERSIONS, MAX_HISTORY, MAX_ORDERS = 500, 20, 60, 50
# A page of a tool may have a megabyte; its beginning shows what it is.
SEEN_CHARS = 1_500


async def show_question(context: DashboardContext, request: Request) -> Response:
    """Answer with the page; raises NotFoundError for an unknown question."""
    try:
        ref = QuestionRef.parse(request.query_params.get("ref", ""))
    except ValueError as error:
        raise PageRequestError(str(error)) from error
    ledger, wanted = context.state.ledger, request.query_params.get("forecast")
    forecast = None if wanted is None else await ledger.forecasts.get(wanted)
    if forecast is not None and forecast.ref != ref:
        message = f"forecast {forecast.id} is not of {ref}"
        raise PageRequestError(message)
    record = await load_question_record(context.records, ref, forecast)
    readers = ledger.questions.readers
    prices = await readers.run(lambda database: read_price_series(database, str(ref), MAX_PRICES))
    versions = await readers.run(lambda database: read_question_versions(database, str(ref), MAX_VERSIONS))
    orders = await readers.run(lambda database: list_question_orders(database, ref, MAX_ORDERS))
    question = record.question
    values = {
        "orders": orders,
        "question": question,
        "state": record.state.value,
        "excluded": record.excluded,
        "rules": scoring_rules_for(question.shape.kind),
        "targets": [*_target_rows(record)],
        "history_chart": _draw_history(context, record, prices),
        "forecasts": [_forecast_values(context, record, one) for one in _in_order(context, record)],
        "history": [_history_row(record, one) for one in reversed(record.history)][:MAX_HISTORY],
        "changes": [*_version_changes(versions)],
        "chosen": wanted,
    }
    return await context.respond(request, "question.html", values, live=True)


def _in_order(context: DashboardContext, record: QuestionRecord) -> list[RecordedForecast]:
    """Return the forecasts in the order in which config names their forecasters: the first one is submitted."""
    venue = context.state.config.venues.get(record.question.ref.venue)
    names = [*(venue.forecasters if venue else ())]

    def place(case: RecordedForecast) -> tuple[int, str]:
        name = case.forecast.forecaster
        return (names.index(name) if name in names else len(names), name)

    return sorted(record.recorded_forecasts, key=place)


def _target_rows(record: QuestionRecord) -> Iterator[Mapping[str, Any]]:
    for target in record.question.targets:
        found = record.outcomes.get(target.key)
        yield {
            "key": target.key,
            "resolves_at": target.resolves_at,
            "outcome": None if found is None else found.outcome,
            "resolved_at": None if found is None else found.resolved_at,
        }


def _history_row(record: QuestionRecord, forecast: Forecast) -> Mapping[str, Any]:
    shape = record.versions[forecast.version].shape
    return {"forecast": forecast, "text": _predictions_text(forecast.predictions, shape)}


def _predictions_text(predictions: Mapping[str, Prediction], shape: QuestionShape) -> str:
    return format_predictions(predictions, lambda one: describe_prediction_short(one, shape))


def _draw_history(context: DashboardContext, record: QuestionRecord, prices: Sequence[tuple[Any, float]]) -> object:
    """Return crowd and forecasts of the first target over time, None where they are no probabilities of yes."""
    if not isinstance(record.question.shape, BinaryShape):
        return None
    target = record.question.targets[0].key
    series: dict[str, list[tuple[Any, float]]] = {}
    for one in record.history:
        prediction = one.predictions.get(target)
        if isinstance(prediction, BinaryPrediction):
            series.setdefault(one.forecaster, []).append((one.made_at, prediction.probability))
    moments = [at for points in (prices, *series.values()) for at, _ in points]
    if not moments:
        return None
    lines = [
        ChartSeries(name=name, points=[(at.timestamp(), p) for at, p in points], style=style, stepped=True)
        for name, style, points in (
            ("crowd", "crowd", prices),
            *((name, context.forecaster_style(name), points) for name, points in sorted(series.items())),
        )
        if points
    ]
    chart = draw_chart(
        lines, label="Crowd and forecasts over time", x_axis=time_axis(moments), y_axis=PROBABILITY_AXIS, dots=True
    )
    return {"chart": chart, "legend": [(one.style, one.name) for one in lines]}


def _forecast_values(context: DashboardContext, record: QuestionRecord, case: RecordedForecast) -> Mapping[str, Any]:
    forecast, question = case.forecast, case.trace.question
    shape = question.shape
    rules = scoring_rules_for(shape.kind)
    return {
        "forecast": forecast,
        "style": context.forecaster_style(forecast.forecaster),
        "text": _predictions_text(forecast.predictions, shape),
        "raw": _predictions_text(forecast.raw, shape) if forecast.raw != forecast.predictions else None,
        "changes": record.question_changes(forecast.version),
        "removed": case.trace.removal_note,
        "scores": [
            (target, [format_number(scores.get(rule.name), rule.digits) for rule in rules])
            for target in forecast.predictions
            if (scores := record.target_scores(case, target))
        ],
        "rules": rules,
        "decisions": [(row.at, format_decision(row.decision)) for row in case.decisions],
        "chart": _draw_trials(case.trace.trials, question),
        "trials": [_trial_values(one, shape) for one in case.trace.trials],
        "usage": format_usage(_sum_usage(case.trace.trials)),
        "evidence": [*_last_evidence(case.trace.trials)],
    }


def _sum_usage(trials: Sequence[TrialRecord]) -> ModelUsage:
    return sum((one.step.usage for trial in trials for one in trial.steps), ModelUsage())


def _draw_trials(trials: Sequence[TrialRecord], question: Question) -> object:
    """Return the probability of the first target after each step, a line for each trial."""
    target = question.targets[0].key
    lines = []
    for record in trials:
        points = [
            (float(one.number), found.probability)
            for one in record.steps
            if isinstance(found := one.step.belief.predictions.get(target), BinaryPrediction)
        ]
        if points:
            name = f"trial {record.number}"
            lines.append(ChartSeries(name=name, points=points, style=series_style(record.number - 1), stepped=True))
    if all(len(one.points) < 2 for one in lines):
        return None
    most = max(x for one in lines for x, _ in one.points)
    ticks = sorted({1.0, float(round((1 + most) / 2)), most})
    x_axis = ChartAxis(low=1.0, high=max(most, 2.0), ticks=[(tick, f"step {tick:g}") for tick in ticks])
    chart = draw_chart(
        lines,
        label="Belief of each trial over its steps",
        x_axis=x_axis,
        y_axis=PROBABILITY_AXIS,
        height=180,
        dots=True,
    )
    return {"chart": chart, "legend": [(one.style, one.name) for one in lines]}


def _trial_values(record: TrialRecord, shape: QuestionShape) -> Mapping[str, Any]:
    steps = []
    before: Mapping[str, Prediction] | None = None
    for one in record.steps:
        belief, seen = one.step.belief, one.step.observation.text
        steps.append(
            {
                "number": one.number,
                "at": one.at,
                "action": one.step.action,
                "seen": seen if len(seen) <= SEEN_CHARS else f"{seen[:SEEN_CHARS]} ...",
                "remarks": one.step.remarks,
                "belief": "; ".join(describe_changes(before, belief.predictions, shape)),
                "confidence": belief.confidence.value,
                "anchor": belief.anchor if before is None else "",
                "reason": belief.reason,
                "usage": format_usage(one.step.usage),
            }
        )
        before = belief.predictions
    detail = strip_error_type(record.trial.detail) if record.trial is not None and record.trial.detail else ""
    end = "not ended yet" if record.end is None else record.end.value
    return {"number": record.number, "end": end, "detail": detail, "steps": steps}


def _last_evidence(trials: Sequence[TrialRecord]) -> Iterator[Mapping[str, Any]]:
    for record in trials:
        belief: Belief | None = record.steps[-1].step.belief if record.steps else None
        if belief is not None and (belief.evidence_for or belief.evidence_against or belief.open_questions):
            yield {"number": record.number, "belief": belief}


def _version_changes(versions: Sequence[tuple[Any, Question]]) -> Iterator[Mapping[str, Any]]:
    """Yield each version after the first, newest first, with the lines that changed against the one before."""
    for (_, before), (at, after) in reversed([*itertools.pairwise(versions)]):
        lines = [
            line.rstrip("\n")
            for line in difflib.unified_diff(_version_lines(before), _version_lines(after), n=1, lineterm="")
            if not line.startswith(("---", "+++", "@@"))
        ]
        yield {"at": at, "lines": [({"+": "add", "-": "cut"}.get(line[:1], ""), line) for line in lines]}


def _version_lines(question: Question) -> list[str]:
    closes = "" if question.closes_at is None else f"closes {question.closes_at:%Y-%m-%d %H:%M} UTC"
    return [question.title, closes, *question.background.splitlines(), *question.criteria.splitlines()]
