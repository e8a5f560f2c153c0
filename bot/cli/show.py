"""`foxcast show`: everything recorded about one question or forecast: trials, decisions, outcomes and scores."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bot.cli.command_setup import load_command_config
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    score_columns,
    stdout_console,
)
from bot.cli.output.trial_text import format_action, format_evidence
from bot.core.beliefs import Belief, Step
from bot.core.errors import NotFoundError, strip_error_type
from bot.core.forecasts import Forecast
from bot.core.plain_text import replace_invisible
from bot.core.predictions import CurveShape, Prediction
from bot.core.questions import Question
from bot.evaluation.lookup import FORECAST_ID, find_question, query_ledger
from bot.evaluation.question_record import QuestionRecord, RecordedForecast, load_question_record
from bot.evaluation.value_text import (
    describe_outcome,
    describe_prediction_short,
    format_decision,
    format_minute,
    format_prediction,
    format_predictions,
    format_predictions_short,
    format_usage,
    order_options,
    score_cells,
    truncate_text,
)
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionState
from bot.store.serialization import FORECAST, QUESTION, RESOLUTION, STEP, TRIAL
from bot.store.trials import TrialRecord

PredictionFormatter = Callable[[Prediction], str]


ARGUMENT_CHARS_SHOWN = 60


OBSERVATION_CHARS_SHOWN = 300


def print_trial_trace(
    console: Console, record: TrialRecord, each: PredictionFormatter = format_prediction, *, several: bool
) -> None:
    """Print one trial, with its number if there are several; ``each`` formats a prediction."""
    end = f"ended: {record.end}" if record.end else "not ended yet"
    title = f"Trial {record.number}, {end}" if several else f"Steps, {end}"
    console.print(Text(title, style="underline"))
    before: Mapping[str, Prediction] | None = None
    for logged in record.steps:
        _print_trace_step(console, logged.number, logged.step, before, each)
        before = logged.step.belief.predictions
    if record.trial is not None and record.trial.detail:
        console.print(f"  {strip_error_type(record.trial.detail)}")


def _print_trace_step(
    console: Console, number: int, step: Step, before: Mapping[str, Prediction] | None, each: PredictionFormatter
) -> None:
    belief = step.belief
    console.print(Text(f"{number}. {format_action(step.action, argument_chars=ARGUMENT_CHARS_SHOWN)}", style="cyan"))
    seen = truncate_text(step.observation.text, OBSERVATION_CHARS_SHOWN)
    if seen:
        print_indented(console, seen, style="dim")
    for remark in [remark for remark in step.remarks if remark not in seen]:
        print_indented(console, remark, style="yellow")
    _print_belief_change(console, before, belief, each)
    if before is None and belief.anchor:
        print_indented(console, f"anchor: {belief.anchor}")
    if belief.reason:
        print_indented(console, f"reason: {belief.reason}")
    _print_evidence(console, belief)
    if cost := format_usage(step.usage):
        print_indented(console, cost, style="dim")


def _print_evidence(console: Console, belief: Belief) -> None:
    for sign, side in (("+", belief.evidence_for), ("-", belief.evidence_against)):
        for evidence in side:
            print_indented(console, f"{sign} {format_evidence(evidence)}", style="green" if sign == "+" else "red")
    for question in belief.open_questions:
        print_indented(console, f"? {question}")


def _print_belief_change(
    console: Console, before: Mapping[str, Prediction] | None, belief: Belief, each: PredictionFormatter
) -> None:
    """Print the belief in one line, or in a line for each target if targets differ."""
    after = belief.predictions
    sure = f"({belief.confidence} confidence)"
    if len({*map(each, after.values())}) == 1:
        earlier = format_predictions_short(before, each) if before else None
        print_indented(console, f"belief: {_change_text(earlier, format_predictions_short(after, each))} {sure}")
        return
    print_indented(console, f"belief {sure}:")
    for key, value in after.items():
        move = _change_text(each(before[key]) if before else None, each(value))
        print_indented(console, f"{key}: {move}", by=5)


def _change_text(before: str | None, after: str) -> str:
    if before is None:
        return after
    return f"{after}, as before" if before == after else f"{before} -> {after}"


TEXT_CHARS_SHOWN = 600


TARGET_COLUMNS = (TableColumn("target"), TableColumn("resolves (UTC)"))


def print_question_record(console: Console, found: QuestionRecord) -> None:
    """Print it for a person; each forecast with the grid and the options of the version it was made for."""
    _print_question_header(console, found.question, found.state)
    if found.excluded:
        print_heading(console, "Excluded")
        console.print(f"{found.excluded}: it is neither forecast nor traded")
    elif not found.recorded_forecasts:
        print_heading(console, "Not forecast yet")
        console.print("forecast what is due with: foxcast run --once")
    for case in found.recorded_forecasts:
        _print_recorded_forecast(console, found, case)
    if len(found.history) > len(found.recorded_forecasts):
        print_heading(console, "All forecasts")
        columns = (
            *map(TableColumn, ("made (UTC)", "id", "forecaster", "forecast")),
            TableColumn("why", ColumnKind.TEXT),
        )
        rows = [
            (
                format_minute(one.made_at),
                one.id,
                one.forecaster,
                format_predictions_short(one.predictions, _prediction_formatter(found, one)),
                one.why,
            )
            for one in found.history
        ]
        console.print(make_table(columns, rows))


def _prediction_formatter(found: QuestionRecord, forecast: Forecast) -> Callable[[Prediction], str]:
    return partial(describe_prediction_short, shape=found.versions[forecast.version].shape)


def _print_question_header(console: Console, question: Question, state: QuestionState) -> None:
    console.print(Text(question.title, style="bold"))
    about = [str(question.ref), state.value, *(part for part in (question.source, question.family) if part)]
    console.print(", ".join(about))
    if question.url:
        console.print(question.url)
    labels = {"tags": question.tags, "tournaments": question.tournaments}
    labels |= {"category": (question.category,), "creator": (question.creator_name,)}
    for name, values in labels.items():
        if any(values):
            console.print(f"{name}: {replace_invisible(', '.join(values))}")
    for name, at in (("opens", question.opens_at), ("closes", question.closes_at), ("cutoff", question.as_of)):
        if at is not None:
            console.print(f"{name} {format_minute(at)} UTC")
    if question.crowd is not None:
        price = describe_prediction_short(question.crowd.prediction, question.shape)
        console.print(f"crowd: {price} at {format_minute(question.crowd.at)} UTC")
    for text in (question.background, question.criteria):
        if text.strip():
            words = text.strip() if len(text) <= TEXT_CHARS_SHOWN else f"{text.strip()[:TEXT_CHARS_SHOWN]} ..."
            console.print()
            print_indented(console, words, by=2, style="dim")


def _print_recorded_forecast(console: Console, found: QuestionRecord, case: RecordedForecast) -> None:
    forecast = case.forecast
    print_heading(
        console, f"{forecast.forecaster}, forecast {forecast.id} (revision {forecast.revision}, {forecast.why})"
    )
    console.print(
        f"made {format_minute(forecast.made_at)} UTC with information until {format_minute(forecast.cutoff)} UTC"
    )
    if forecast.fitted:
        console.print(f"parameters {forecast.fitted[:12]}")
    if changes := found.question_changes(forecast.version):
        print_indented(console, f"the question has changed since: {'; '.join(changes)}", by=0)
    question = case.trace.question
    # Quantiles are too long for an unbroken column.
    kind = ColumnKind.TEXT if isinstance(question.shape, CurveShape) else ColumnKind.NUMBER
    columns = (*TARGET_COLUMNS, TableColumn("forecast", kind), TableColumn("outcome"), *score_columns(question.shape))
    console.print(make_table(columns, [_target_cells(found, case, target.key) for target in question.targets]))
    if case.trace.removal_note is not None:
        console.print(case.trace.removal_note)
    for record in case.trace.trials:
        print_trial_trace(
            console,
            record,
            partial(describe_prediction_short, shape=question.shape),
            several=len(case.trace.trials) > 1,
        )
    if forecast.raw != forecast.predictions:
        each = partial(describe_prediction_short, shape=question.shape)
        raw = format_predictions(forecast.raw, each)
        console.print(f"calibrated from {raw} to {format_predictions(forecast.predictions, each)}")
    for row in case.decisions:
        console.print(f"decision {format_minute(row.at)} UTC: {format_decision(row.decision)}")
    for intent in case.intents:
        detail = f" ({intent.detail})" if intent.detail else ""
        console.print(f"intent {intent.intent.id}: {intent.state}{detail}, {intent.mode}")


def _target_cells(found: QuestionRecord, case: RecordedForecast, key: str) -> tuple[str, ...]:
    target, resolution = case.trace.question.target(key), found.outcomes.get(key)
    return (
        key,
        format_minute(target.resolves_at),
        describe_prediction_short(case.forecast.predictions[key], case.trace.question.shape),
        describe_outcome(resolution.outcome if resolution else None, case.trace.question.shape),
        *score_cells(found.target_scores(case, key), case.trace.question.shape),
    )


def question_record_to_json(found: QuestionRecord) -> dict[str, Any]:
    """Return it as JSON values; ``versions`` holds earlier versions of the question with forecasts."""
    older = {
        one: question
        for one, question in found.versions.items()
        if question.without_metadata != found.question.without_metadata
    }
    values = {
        "question": QUESTION.plain(found.question),
        "excluded": found.excluded or None,
        "state": found.state.value,
        "versions": {
            one: {"question": QUESTION.plain(question), "changes": list(found.question_changes(one))}
            for one, question in older.items()
        },
        "forecasts": [_recorded_forecast_to_json(found, case) for case in found.recorded_forecasts],
        "history": [FORECAST.plain(forecast) for forecast in found.history],
        "outcomes": {target: RESOLUTION.plain(resolution) for target, resolution in found.outcomes.items()},
    }
    plain: dict[str, Any] = order_options(values, found.question.shape)
    return plain


def _recorded_forecast_to_json(found: QuestionRecord, case: RecordedForecast) -> dict[str, Any]:
    scores = {target: found.target_scores(case, target) for target in case.forecast.predictions}
    return {
        **FORECAST.plain(case.forecast),
        "trials": [
            {
                "number": record.number,
                "trial": None if record.trial is None else TRIAL.plain(record.trial),
                "steps": [
                    {"number": one.number, "at": one.at.isoformat(), **STEP.plain(one.step)} for one in record.steps
                ],
            }
            for record in case.trace.trials
        ],
        "decisions": [{"at": row.at.isoformat(), "decision": format_decision(row.decision)} for row in case.decisions],
        "intents": [
            {"id": row.intent.id, "state": row.state.value, "mode": row.mode.value, "detail": row.detail}
            for row in case.intents
        ],
        "brier": found.brier_scores(case),
        "scores": scores,
    }


app = typer.Typer(add_completion=False)


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="A question (venue:key, a key, a unique part of it) or a forecast's id.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one question: forecasts, belief steps, decisions, outcome and score."""
    found = query_ledger(load_command_config(ctx), lambda records: _find_question_record(records, name))
    if as_json:
        print_json(question_record_to_json(found))
    else:
        print_question_record(stdout_console(), found)


async def _find_question_record(records: ReadOnlyState, name: str) -> QuestionRecord:
    forecasts: list[Any] = await records.ledger.forecasts.find(name) if FORECAST_ID.fullmatch(name) else []
    match forecasts:
        case []:
            return await load_question_record(records, await find_question(records, name))
        case [forecast]:
            return await load_question_record(records, forecast.ref, forecast=forecast)
        case several:
            listed = [f"  {forecast.id}  {forecast.ref}" for forecast in several]
            message = "\n".join([f"{name} fits several forecasts; name one of", *listed])
            raise NotFoundError(message)
