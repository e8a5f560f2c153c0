"""`foxcast explain`: one forecast from the question to the score, step by step, read from the ledger alone."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from bot.cli.command_setup import load_command_config
from bot.cli.lookup import FORECAST_HELP, FORECASTER_HELP
from bot.cli.options import options_from_dataclass
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
from bot.cli.show import question_record_to_json
from bot.core.beliefs import Belief, Evidence, ModelUsage, Step
from bot.core.errors import strip_error_type
from bot.core.forecasts import ForecasterSetup
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.evaluation.explanation import (
    ForecastExplanation,
    RecordedCalls,
    RecordedModelCall,
    TrialSources,
    load_explanation,
    no_search_reasons,
)
from bot.evaluation.lookup import query_ledger
from bot.evaluation.question_record import QuestionRecord, RecordedForecast
from bot.evaluation.value_text import (
    describe_changes,
    describe_outcome,
    describe_prediction,
    describe_prediction_short,
    format_decision,
    format_minute,
    format_predictions,
    format_token_counts,
    format_usage,
    order_options,
    score_cells,
    truncate_text,
)
from bot.store.model_calls import CallState
from bot.store.serialization import FORECAST, PREDICTIONS, QUESTION, SETUP, STEP, TRIAL, format_timestamp
from bot.store.trials import LoggedStep, TrialRecord

T = TypeVar("T")


ARGUMENT_CHARS_SHOWN = 200


OBSERVATION_CHARS_SHOWN = 400


DOCUMENT_DIGEST_CHARS = 12


def print_trial_steps(console: Console, found: ForecastExplanation, record: TrialRecord, *, full: bool) -> None:
    """Print one trial, step by step, and how it ended."""
    printer = _StepPrinter(console, found, record.number, full)
    before: Belief | None = None
    for logged in record.steps:
        printer.print_step(logged, before)
        before = logged.step.belief
    if record.trial is not None:
        total = format_usage(record.trial.usage)
        console.print(f"in all: {record.trial.steps} steps{', ' if total else ''}{total}")
        if record.trial.detail:
            console.print(f"detail: {strip_error_type(record.trial.detail)}")


@dataclass(frozen=True, slots=True)
class _StepPrinter:
    console: Console
    found: ForecastExplanation
    trial: int
    full: bool

    @property
    def _chain(self) -> RecordedCalls:
        return self.found.chain

    def print_step(self, logged: LoggedStep, before: Belief | None) -> None:
        step = logged.step
        action = format_action(step.action, argument_chars=None if self.full else ARGUMENT_CHARS_SHOWN)
        self.console.print(Text(f"{logged.number}. {action}", style="cyan"))
        seen = step.observation.text if self.full else truncate_text(step.observation.text, OBSERVATION_CHARS_SHOWN)
        if seen.strip():
            print_indented(self.console, seen, style="dim")
        for remark in [remark for remark in step.remarks if remark not in seen]:
            print_indented(self.console, remark, style="yellow")
        self._print_belief(step.belief, before)
        self._print_evidence(step.belief, before)
        self._print_usage(step)

    def _print_belief(self, belief: Belief, before: Belief | None) -> None:
        lines = describe_changes(
            before.predictions if before else None, belief.predictions, self.found.trace.question.shape
        )
        sure = str(belief.confidence)
        if before is not None and before.confidence is not belief.confidence:
            sure = f"{before.confidence} -> {sure}"
        if len(lines) == 1:
            print_indented(self.console, f"belief: {lines[0]} ({sure} confidence)")
        else:
            print_indented(self.console, f"belief ({sure} confidence):")
            for line in lines:
                print_indented(self.console, line, by=5)
        if belief.anchor and (before is None or before.anchor != belief.anchor):
            print_indented(self.console, f"anchor: {belief.anchor}")
        if belief.reason and (before is None or before.reason != belief.reason):
            print_indented(self.console, f"reason: {belief.reason}")

    def _print_evidence(self, belief: Belief, before: Belief | None) -> None:
        sides = (
            ("+", "green", belief.evidence_for, before.evidence_for if before else ()),
            ("-", "red", belief.evidence_against, before.evidence_against if before else ()),
        )
        for sign, style, now, then in sides:
            for evidence in now if self.full else _added_items(now, then):
                print_indented(self.console, f"{sign} {self._evidence_text(evidence)}", style=style)
            for evidence in _added_items(then, now):
                print_indented(self.console, f"withdrawn: {sign} {self._evidence_text(evidence)}", style="dim")
        for question in _added_items(belief.open_questions, before.open_questions if before and not self.full else ()):
            print_indented(self.console, f"? {question}")

    def _evidence_text(self, evidence: Evidence) -> str:
        address = self._chain.result_address(self.trial, evidence.source)
        remark = self.found.sources.remark(self.trial, evidence.source)
        return format_evidence(evidence, address=address or "", remark=remark)

    def _print_usage(self, step: Step) -> None:
        models = dict.fromkeys(call.answer.model for call in self._chain.calls_of(self.trial, step))
        if cost := ", ".join(filter(None, (*models, format_usage(step.usage)))):
            print_indented(self.console, cost, style="dim")
        if step.observation.documents:
            print_indented(self.console, f"sources: {', '.join(self._document_names(step))}", style="dim")

    def _document_names(self, step: Step) -> Iterator[str]:
        for document in step.observation.documents:
            yield f"{self._chain.document_kind(document)} {document if self.full else document[:DOCUMENT_DIGEST_CHARS]}"


def _added_items(now: Sequence[T], then: Sequence[T]) -> list[T]:
    return [item for item in now if item not in then]


TEXT_CHARS_SHOWN = 600


DIGEST_CHARS_SHOWN = 12


# An amount that rounds to zero is not shown.
MIN_USD_SHOWN = 0.00005


UNANSWERED_CALL_STATES = {
    CallState.FAILED: "without an answer, interrupted ones at their maximum cost",
    CallState.LOST: "lost when the program ended, at their maximum cost",
    CallState.RESERVED: "in progress, at their maximum cost",
}


TARGET_COLUMNS = (
    TableColumn("target"),
    TableColumn("resolves (UTC)"),
    TableColumn("forecast", ColumnKind.TEXT),
    TableColumn("outcome"),
)


CALL_COLUMNS = (
    *map(TableColumn, ("trial", "role", "model", "request", "finish")),
    *(TableColumn(name, ColumnKind.NUMBER) for name in ("messages", "tokens in", "cached", "out", "USD")),
)


CALL_TOTAL_COLUMNS = tuple(
    TableColumn(name, ColumnKind.NUMBER) for name in ("calls", "from record", "tokens in", "cached", "out", "USD")
)


MODEL_COLUMNS = (TableColumn("role"), TableColumn("model"), *CALL_TOTAL_COLUMNS)


def print_explanation(console: Console, found: ForecastExplanation, *, full: bool) -> None:
    """Print it for a person."""
    _print_question_header(console, found.trace.question, full=full)
    _print_forecast_header(console, found)
    if found.trace.removal_note is not None:
        console.print(found.trace.removal_note)
    several = len(found.trace.trials) > 1
    for record in found.trace.trials:
        print_heading(console, _trial_heading(found, record.number, several=several))
        print_trial_steps(console, found, record, full=full)
    if found.question_record is not None:
        _print_answer(console, found, found.question_record)
    _print_model_calls(console, found, full=full)


def _print_question_header(console: Console, question: Question, *, full: bool) -> None:
    console.print(Text(question.title, style="bold"))
    console.print(", ".join([str(question.ref), *(part for part in (question.source, question.family) if part)]))
    if question.url:
        console.print(question.url)
    for name, at in (("opens", question.opens_at), ("closes", question.closes_at), ("cutoff", question.as_of)):
        if at is not None:
            console.print(f"{name} {format_minute(at)} UTC")
    for text in filter(str.strip, (question.background, question.criteria)):
        whole = full or len(text) <= TEXT_CHARS_SHOWN
        console.print()
        print_indented(console, text.strip() if whole else f"{text.strip()[:TEXT_CHARS_SHOWN]} ...", by=2, style="dim")


def _print_forecast_header(console: Console, found: ForecastExplanation) -> None:
    trace, forecast = found.trace, found.trace.forecast
    if forecast is None:
        print_heading(console, f"Forecast {trace.id}: {trace.state}")
        if trace.detail:
            console.print(trace.detail)
    else:
        print_heading(
            console, f"Forecast {trace.id} by {forecast.forecaster} (revision {forecast.revision}, {forecast.why})"
        )
        console.print(
            f"made {format_minute(forecast.made_at)} UTC with information until {format_minute(forecast.cutoff)} UTC"
        )
        console.print(f"version of the question: {forecast.version[:DIGEST_CHARS_SHOWN]}")
    _print_setup(console, trace.setup)
    crowd = trace.question.crowd
    crowd_text = (
        "none"
        if crowd is None
        else f"{describe_prediction(crowd.prediction, trace.question.shape)} at {format_minute(crowd.at)} UTC"
    )
    console.print(f"crowd: {crowd_text}")
    for line in no_search_reasons(found.grounds):
        console.print(line)
    if found.fitted is not None and forecast is not None:
        source = f"{found.fitted.examples} outcomes known before {format_minute(found.fitted.before)} UTC"
        console.print(f"fitted: parameters {(forecast.fitted or '')[:DIGEST_CHARS_SHOWN]} from {source}")


def _print_setup(console: Console, setup: ForecasterSetup | None) -> None:
    if setup is None:
        console.print("setup: not recorded")
        return
    labelled = {name: value for name, value in setup.labelled_values().items() if value is not None}
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in labelled.items():
        kind, colon, key = name.partition(": ")
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines[f"{kind}s" if colon else "setup"].append(f"{key or kind} {shown}")
    for kind, values in lines.items():
        print_indented(console, f"{kind}: {', '.join(values)}", by=0)


def _trial_heading(found: ForecastExplanation, trial: int, *, several: bool) -> str:
    record = next(record for record in found.trace.trials if record.number == trial)
    ended = "not ended yet" if record.trial is None else f"ended: {record.trial.end}"
    name = f"Trial {trial}" if several else "Steps"
    return f"{name}, {ended}"


def _print_answer(console: Console, found: ForecastExplanation, record: QuestionRecord) -> None:
    (case,) = record.recorded_forecasts
    forecast = case.forecast
    print_heading(console, "Answer")
    _print_aggregation(console, found)
    if forecast.raw == forecast.predictions:
        console.print("calibration: none" if forecast.calibration is None else f"{_calibration_name(case)}: no change")
    else:
        each = partial(describe_prediction_short, shape=case.trace.question.shape)
        change = f"{format_predictions(forecast.raw, each)} -> {format_predictions(forecast.predictions, each)}"
        console.print(f"{_calibration_name(case)}: {change}")
    question = case.trace.question
    columns = (*TARGET_COLUMNS, *score_columns(question.shape))
    console.print(make_table(columns, [_target_cells(record, case, target.key) for target in question.targets]))
    for row in case.decisions:
        console.print(f"decision {format_minute(row.at)} UTC: {format_decision(row.decision)}")
    for intent in case.intents:
        detail = f" ({intent.detail})" if intent.detail else ""
        console.print(f"intent {intent.intent.id}: {intent.state}{detail}, {intent.mode}")


def _print_aggregation(console: Console, found: ForecastExplanation) -> None:
    how = found.aggregation
    if how is None:
        return
    counted = ", ".join(map(str, how.counted_trials))
    if len(how.counted_trials) == 1:
        console.print(f"aggregate: trial {counted} unchanged")
    elif how.method is None:
        console.print(f"aggregate: of the trials {counted}, with a method unknown to this version of Foxcast")
    else:
        console.print(f"aggregate: {how.method} of the trials {counted}")
    for trial, why in how.excluded.items():
        console.print(f"left out: trial {trial}, {why}")


def _calibration_name(case: RecordedForecast) -> str:
    digest = case.forecast.calibration
    return "calibration" if digest is None else f"calibration {digest[:DIGEST_CHARS_SHOWN]}"


def _target_cells(record: QuestionRecord, case: RecordedForecast, key: str) -> tuple[str, ...]:
    question, resolution = case.trace.question, record.outcomes.get(key)
    return (
        key,
        format_minute(question.target(key).resolves_at),
        describe_prediction(case.forecast.predictions[key], question.shape),
        describe_outcome(resolution.outcome if resolution else None, question.shape),
        *score_cells(record.target_scores(case, key), question.shape),
    )


def _print_model_calls(console: Console, found: ForecastExplanation, *, full: bool) -> None:
    chain = found.chain
    if not chain.calls and not chain.failures and not chain.call_tallies:
        return
    print_heading(console, "Models")
    groups: defaultdict[tuple[str, str], list[RecordedModelCall]] = defaultdict(list)
    for call in chain.calls:
        groups[call.role or "-", call.answer.model].append(call)
    if groups:
        console.print(
            make_table(MODEL_COLUMNS, [(*names, *_call_totals(calls)) for names, calls in sorted(groups.items())])
        )
    for fault in chain.failures:
        console.print(f"trial {fault.trial}, {fault.kind} failed: {fault.message}")
    for line in unanswered_call_costs(chain):
        console.print(line)
    console.print(f"spent on this forecast, including calls without an answer: {chain.cost_usd:.4f} USD")
    if full and chain.calls:
        console.print()
        console.print(make_table(CALL_COLUMNS, [_call_cells(call) for call in chain.calls]))


def unanswered_call_costs(chain: RecordedCalls) -> list[str]:
    """Return the amounts booked for calls without a usable answer, a line for each way in which calls ended."""
    lines = []
    for state, how in UNANSWERED_CALL_STATES.items():
        if tally := chain.call_tallies.get(state):
            calls = "1 call" if tally.calls == 1 else f"{tally.calls} calls"
            lines.append(f"{calls} {how}: {tally.usage.cost_usd:.4f} USD booked")
    if chain.unused_answers_usd >= MIN_USD_SHOWN:
        lines.append(f"answered too late for their trial: {chain.unused_answers_usd:.4f} USD booked")
    return lines


def _call_totals(calls: list[RecordedModelCall]) -> tuple[str, ...]:
    usage = sum((call.answer.usage for call in calls), ModelUsage())
    stored = sum(call.answer.stored for call in calls)
    return (str(len(calls)), str(stored), *format_token_counts(usage), f"{usage.cost_usd:.4f}")


def _call_cells(call: RecordedModelCall) -> tuple[str, ...]:
    usage, request = call.answer.usage, call.request
    return (
        str(call.trial),
        call.role or "-",
        call.answer.model,
        "-" if request is None else request.digest[:DIGEST_CHARS_SHOWN],
        call.answer.completion.finish.value,
        "-" if request is None else str(len(request.messages)),
        *format_token_counts(usage),
        f"{usage.cost_usd:.4f}",
    )


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Which forecast is explained, and how."""

    name: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)]
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    full: Annotated[bool, typer.Option("--full", help="Do not shorten texts, and list every model call.")] = False
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot of the belief steps as .svg or .png.")
    ] = None


@app.command()
@options_from_dataclass(ExplainOptions)
def explain(ctx: typer.Context, options: ExplainOptions) -> None:
    """Explain one forecast: every step with its evidence and cost, and the answer."""
    from bot.cli.output.belief_plot import draw_beliefs, require_plot_file

    if options.plot is not None:
        require_plot_file(options.plot)
    found = query_ledger(
        load_command_config(ctx), lambda records: load_explanation(records, options.name, options.forecaster)
    )
    if options.plot is not None:
        draw_beliefs(found.trace, options.plot)
    if options.as_json:
        print_json(explanation_to_json(found))
    else:
        print_explanation(stdout_console(), found, full=options.full)


def explanation_to_json(found: ForecastExplanation) -> dict[str, Any]:
    """Return it as JSON values."""
    trace, chain = found.trace, found.chain
    forecast = trace.forecast
    values = {
        "id": trace.id,
        "state": trace.state,
        "detail": trace.detail,
        "evidence_removed_at": format_timestamp(trace.evidence_removed_at),
        "question": QUESTION.plain(trace.question),
        "forecast": None if forecast is None else FORECAST.plain(forecast),
        "setup": None if trace.setup is None else SETUP.plain(trace.setup),
        "trials": [_trial_to_json(found, record) for record in trace.trials],
        "aggregate": _aggregation_to_json(found),
        "fitted": _fitted_to_json(found.fitted),
        "calls": [_call_to_json(call) for call in chain.calls],
        "faults": [{"trial": fault.trial, "kind": fault.kind, "says": fault.message} for fault in chain.failures],
        "spent_usd": chain.cost_usd,
        "booked": _costs_to_json(chain),
        **_decisions_to_json(found.question_record),
    }
    plain: dict[str, Any] = order_options(values, trace.question.shape)
    return plain


def _costs_to_json(chain: RecordedCalls) -> dict[str, Any]:
    """Return calls and costs by state; their sum is the total cost."""
    by_state = {
        state.value: {"calls": tally.calls, "cost_usd": tally.usage.cost_usd}
        for state, tally in chain.call_tallies.items()
    }
    return {"by_state": by_state, "unheard_usd": chain.unused_answers_usd}


def _decisions_to_json(record: QuestionRecord | None) -> dict[str, Any]:
    if record is None:
        return {"decisions": [], "intents": [], "brier": {}, "outcomes": {}}
    values = question_record_to_json(record)
    (case,) = values["forecasts"]
    return {name: case[name] for name in ("decisions", "intents", "brier")} | {"outcomes": values["outcomes"]}


def _aggregation_to_json(found: ForecastExplanation) -> dict[str, Any] | None:
    forecast, how = found.trace.forecast, found.aggregation
    if forecast is None or how is None:
        return None
    return {
        "pool": how.method and how.method.value,
        "counted": list(how.counted_trials),
        "left_out": {str(number): why for number, why in how.excluded.items()},
        "raw": PREDICTIONS.plain(forecast.raw),
        "calibration": forecast.calibration,
        "predictions": PREDICTIONS.plain(forecast.predictions),
    }


def _fitted_to_json(fitted: FittedParameters | None) -> dict[str, Any] | None:
    if fitted is None:
        return None
    return {
        "before": fitted.before.isoformat(),
        "examples": fitted.examples,
        "provenance": dict(fitted.provenance),
    }


def _trial_to_json(found: ForecastExplanation, record: TrialRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "trial": None if record.trial is None else TRIAL.plain(record.trial),
        "counts": record.trial is not None and record.trial.is_answer,
        "no_search": found.grounds.get(record.number, TrialSources()).unsearched,
        "steps": [_step_to_json(found, record.number, logged) for logged in record.steps],
    }


def _step_to_json(found: ForecastExplanation, trial: int, logged: LoggedStep) -> dict[str, Any]:
    step, chain = logged.step, found.chain
    return {
        "number": logged.number,
        "at": logged.at.isoformat(),
        **STEP.plain(step),
        "documents": {one: chain.document_kind(one) for one in step.observation.documents},
        "models": sorted({call.answer.model for call in chain.calls_of(trial, step)}),
        "addresses": _source_addresses(chain, trial, step.belief),
        "no_such_sources": [one for one in _cited_sources(step.belief) if found.sources.unknown_sources(trial, one)],
    }


def _source_addresses(chain: RecordedCalls, trial: int, belief: Belief) -> Mapping[str, str]:
    found = {source: chain.result_address(trial, source) for source in _cited_sources(belief)}
    return {source: address for source, address in found.items() if address is not None}


def _cited_sources(belief: Belief) -> list[str]:
    return sorted({evidence.source for evidence in (*belief.evidence_for, *belief.evidence_against)})


def _call_to_json(call: RecordedModelCall) -> dict[str, Any]:
    answer, usage = call.answer, call.answer.usage
    request: dict[str, Any] = {}
    if call.request is not None:
        sampling = call.request.sampling
        request = {
            "request": call.request.digest,
            "messages": list(call.request.messages),
            "offer": call.request.offer,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "effort": sampling.effort,
            "seed": sampling.seed,
        }
    return {
        "trial": call.trial,
        "role": call.role,
        "model": answer.model,
        "finish": answer.completion.finish.value,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "tokens_out": usage.tokens_out,
        "cost_usd": usage.cost_usd,
        "from_record": answer.stored,
        "document": answer.document,
        **request,
    }
