"""One forecast on paper, link by link: question, what was known, steps, answer, calls, decision, outcome."""

import json
from collections import defaultdict
from functools import partial

from rich.console import Console
from rich.text import Text

from bot.cli.dossier import Case, Dossier
from bot.cli.output.beliefs import shown, words
from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.explanation import Explanation
from bot.cli.output.figures import moment, predictions
from bot.cli.output.grounds import unsearched_in_words
from bot.cli.output.marks import mark_cells, mark_columns, outcome_words
from bot.cli.output.steps import counted_tokens, print_steps
from bot.domain.question import Question
from bot.domain.setup import Setup
from bot.domain.step import Usage
from bot.domain.submission import Decision, Hold
from bot.lab.chain import Call, Chain
from bot.store.calls import CallState

TEXT_SHOWN = 600
DIGEST_SHOWN = 12
# What rounds to nothing is no line.
LEAST_USD = 0.00005
UNHEARD = {
    CallState.FAILED: "without an answer, those that were cut off at their worst case",
    CallState.LOST: "lost when the program ended, at their worst case",
    CallState.RESERVED: "under way, at their worst case",
}
TARGETS = (
    Column("target"),
    Column("resolves (UTC)"),
    Column("forecast", Kind.TEXT),
    Column("outcome"),
)
COUNTS = tuple(Column(name, Kind.NUMBER) for name in ("calls", "from record", "tokens in", "cached", "out", "USD"))
MODELS = (Column("role"), Column("model"), *COUNTS)
CALLS = (
    *map(Column, ("trial", "role", "model", "request", "finish")),
    *(Column(name, Kind.NUMBER) for name in ("messages", "tokens in", "cached", "out", "USD")),
)


def print_explanation(console: Console, found: Explanation, *, full: bool) -> None:
    """Print all of it for a person."""
    _print_question(console, found.trace.question, full=full)
    _print_head(console, found)
    several = len(found.trace.trials) > 1
    for record in found.trace.trials:
        heading(console, _trial_title(found, record.number, several=several))
        print_steps(console, found, record, full=full)
    if found.dossier is not None:
        _print_answer(console, found, found.dossier)
    _print_calls(console, found, full=full)


def _print_question(console: Console, question: Question, *, full: bool) -> None:
    console.print(Text(question.title, style="bold"))
    console.print(", ".join([str(question.ref), *(part for part in (question.source, question.family) if part)]))
    if question.url:
        console.print(question.url)
    for name, at in (("opens", question.opens_at), ("closes", question.closes_at), ("known up to", question.as_of)):
        if at is not None:
            console.print(f"{name} {moment(at)} UTC")
    for text in filter(str.strip, (question.background, question.criteria)):
        whole = full or len(text) <= TEXT_SHOWN
        console.print()
        indented(console, text.strip() if whole else f"{text.strip()[:TEXT_SHOWN]} ...", by=2, style="dim")


def _print_head(console: Console, found: Explanation) -> None:
    trace, forecast = found.trace, found.trace.forecast
    if forecast is None:
        heading(console, f"Forecast {trace.id}: {trace.state}")
        if trace.detail:
            console.print(trace.detail)
    else:
        heading(console, f"Forecast {trace.id} by {forecast.forecaster} (revision {forecast.revision}, {forecast.why})")
        console.print(f"made {moment(forecast.made_at)} UTC with what was known until {moment(forecast.cutoff)} UTC")
        console.print(f"version of the question: {forecast.version[:DIGEST_SHOWN]}")
    _print_setup(console, trace.setup)
    crowd = trace.question.crowd
    told = "none" if crowd is None else f"{words(crowd.prediction, trace.question.shape)} at {moment(crowd.at)} UTC"
    console.print(f"crowd: {told}")
    for line in unsearched_in_words(found.grounds):
        console.print(line)
    if found.fitted is not None and forecast is not None:
        learned = f"{found.fitted.examples} outcomes known before {moment(found.fitted.before)} UTC"
        console.print(f"learned: parameters {(forecast.fitted or '')[:DIGEST_SHOWN]} from {learned}")


def _print_setup(console: Console, setup: Setup | None) -> None:
    if setup is None:
        console.print("setup: not on record")
        return
    told = {name: value for name, value in setup.named().items() if value is not None}
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in told.items():
        kind, colon, key = name.partition(": ")
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines[f"{kind}s" if colon else "setup"].append(f"{key or kind} {shown}")
    for kind, values in lines.items():
        indented(console, f"{kind}: {', '.join(values)}", by=0)


def _trial_title(found: Explanation, trial: int, *, several: bool) -> str:
    record = next(record for record in found.trace.trials if record.number == trial)
    ended = "not ended yet" if record.trial is None else f"ended: {record.trial.end}"
    name = f"Trial {trial}" if several else "Steps"
    return f"{name}, {ended}"


def _print_answer(console: Console, found: Explanation, dossier: Dossier) -> None:
    (case,) = dossier.cases
    forecast = case.forecast
    heading(console, "Answer")
    _print_pooling(console, found)
    if forecast.raw == forecast.predictions:
        console.print("calibration: none" if forecast.calibration is None else f"{_calibrator(case)} left it as it was")
    else:
        each = partial(shown, shape=case.trace.question.shape)
        told = f"{predictions(forecast.raw, each)} -> {predictions(forecast.predictions, each)}"
        console.print(f"{_calibrator(case)}: {told}")
    question = case.trace.question
    columns = (*TARGETS, *mark_columns(question.shape))
    console.print(table(columns, [_target(dossier, case, target.key) for target in question.targets]))
    for row in case.decisions:
        console.print(f"decision {moment(row.at)} UTC: {_decision(row.decision)}")
    for intent in case.intents:
        detail = f" ({intent.detail})" if intent.detail else ""
        console.print(f"intent {intent.intent.id}: {intent.state}{detail}, {intent.mode}")


def _print_pooling(console: Console, found: Explanation) -> None:
    how = found.pooled
    if how is None:
        return
    counted = ", ".join(map(str, how.counted))
    if len(how.counted) == 1:
        console.print(f"aggregate: trial {counted} alone, as it is")
    elif how.pool is None:
        console.print(f"aggregate: of the trials {counted}, in a way that this Foxcast does not have")
    else:
        console.print(f"aggregate: {how.pool} of the trials {counted}")
    for trial, why in how.left_out.items():
        console.print(f"left out: trial {trial}, {why}")


def _calibrator(case: Case) -> str:
    digest = case.forecast.calibration
    return "calibration" if digest is None else f"calibration {digest[:DIGEST_SHOWN]}"


def _target(dossier: Dossier, case: Case, key: str) -> tuple[str, ...]:
    question, resolution = case.trace.question, dossier.outcomes.get(key)
    return (
        key,
        moment(question.target(key).resolves_at),
        words(case.forecast.predictions[key], question.shape),
        outcome_words(resolution.outcome if resolution else None, question.shape),
        *mark_cells(dossier.marks(case, key), question.shape),
    )


def _decision(decision: Decision) -> str:
    if not isinstance(decision, Hold):
        return f"send in mode {decision.mode}: {decision.why}"
    again = "" if decision.until is None else f"; asked again from {moment(decision.until)} UTC on"
    return f"hold: {decision.why}{again}"


def _print_calls(console: Console, found: Explanation, *, full: bool) -> None:
    chain = found.chain
    if not chain.calls and not chain.faults and not chain.tallies:
        return
    heading(console, "Models")
    groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in chain.calls:
        groups[call.role or "-", call.answer.model].append(call)
    if groups:
        console.print(table(MODELS, [(*names, *_counts(calls)) for names, calls in sorted(groups.items())]))
    for fault in chain.faults:
        console.print(f"trial {fault.trial}, {fault.kind} failed: {fault.says}")
    for line in unheard_in_words(chain):
        console.print(line)
    console.print(f"spent on this forecast, calls without an answer included: {chain.spent_usd:.4f} USD")
    if full and chain.calls:
        console.print()
        console.print(table(CALLS, [_call(call) for call in chain.calls]))


def unheard_in_words(chain: Chain) -> list[str]:
    """Return what was booked for calls that brought the forecast nothing, a line for each way in which they ended."""
    lines = []
    for state, how in UNHEARD.items():
        if tally := chain.tallies.get(state):
            calls = "1 call" if tally.calls == 1 else f"{tally.calls} calls"
            lines.append(f"{calls} {how}: {tally.usage.cost_usd:.4f} USD booked")
    if chain.unheard_usd >= LEAST_USD:
        lines.append(f"answered too late for their trial: {chain.unheard_usd:.4f} USD booked")
    return lines


def _counts(calls: list[Call]) -> tuple[str, ...]:
    usage = sum((call.answer.usage for call in calls), Usage())
    stored = sum(call.answer.stored for call in calls)
    return (str(len(calls)), str(stored), *counted_tokens(usage), f"{usage.cost_usd:.4f}")


def _call(call: Call) -> tuple[str, ...]:
    usage, asked = call.answer.usage, call.asked
    return (
        str(call.trial),
        call.role or "-",
        call.answer.model,
        "-" if asked is None else asked.digest[:DIGEST_SHOWN],
        call.answer.completion.finish.value,
        "-" if asked is None else str(len(asked.messages)),
        *counted_tokens(usage),
        f"{usage.cost_usd:.4f}",
    )
