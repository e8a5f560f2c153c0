"""Changes of mind, step by step: what was done, what came back, how far each reason moved the belief."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.text import Text

from bot.cli.output.console import indented
from bot.cli.output.figures import argument, in_short, prediction
from bot.domain.belief import Belief, Evidence
from bot.domain.prediction import Prediction
from bot.domain.step import Json, Step, Usage
from bot.errors import unnamed
from bot.store.trials import TrialRecord

Each = Callable[[Prediction], str]

ARGUMENT_SHOWN = 60
OBSERVATION_SHOWN = 300


def print_trial(console: Console, record: TrialRecord, each: Each = prediction, *, several: bool) -> None:
    """Print one trial, its number only where there are several; ``each`` tells a prediction."""
    end = f"ended: {record.end}" if record.end else "not ended yet"
    title = f"Trial {record.number}, {end}" if several else f"Steps, {end}"
    console.print(Text(title, style="underline"))
    before: Mapping[str, Prediction] | None = None
    for logged in record.steps:
        _print_step(console, logged.number, logged.step, before, each)
        before = logged.step.belief.predictions
    if record.trial is not None and record.trial.detail:
        console.print(f"  {unnamed(record.trial.detail)}")


def _print_step(console: Console, number: int, step: Step, before: Mapping[str, Prediction] | None, each: Each) -> None:
    belief = step.belief
    console.print(Text(f"{number}. {step.action.name}{_arguments(step.action.arguments)}", style="cyan"))
    seen = _cut(step.observation.text, OBSERVATION_SHOWN)
    if seen:
        indented(console, seen, style="dim")
    for remark in [remark for remark in step.remarks if remark not in seen]:
        indented(console, remark, style="yellow")
    _print_belief(console, before, belief, each)
    if before is None and belief.anchor:
        indented(console, f"anchor: {belief.anchor}")
    if belief.reason:
        indented(console, f"reason: {belief.reason}")
    _print_reasons(console, belief)
    if cost := _usage(step.usage):
        indented(console, cost, style="dim")


def _print_reasons(console: Console, belief: Belief) -> None:
    for sign, side in (("+", belief.evidence_for), ("-", belief.evidence_against)):
        for evidence in side:
            indented(console, f"{sign} {_evidence(evidence)}", style="green" if sign == "+" else "red")
    for question in belief.open_questions:
        indented(console, f"? {question}")


def _evidence(evidence: Evidence) -> str:
    moved = "" if evidence.log_odds is None else f"{evidence.log_odds:+.2f} log-odds: "
    source = f" [{evidence.source}]" if evidence.source else ""
    return f"{moved}{evidence.text}{source}"


def _print_belief(console: Console, before: Mapping[str, Prediction] | None, belief: Belief, each: Each) -> None:
    """Print the belief in a line, or in one for each target where they differ."""
    after = belief.predictions
    sure = f"({belief.confidence} confidence)"
    if len({*map(each, after.values())}) == 1:
        indented(console, f"belief: {_move(in_short(before, each) if before else None, in_short(after, each))} {sure}")
        return
    indented(console, f"belief {sure}:")
    for key, value in after.items():
        move = _move(each(before[key]) if before else None, each(value))
        indented(console, f"{key}: {move}", by=5)


def _move(before: str | None, after: str) -> str:
    if before is None:
        return after
    return f"{after}, as before" if before == after else f"{before} -> {after}"


def _arguments(arguments: Mapping[str, Json]) -> str:
    if not arguments:
        return ""
    return "(" + ", ".join(f"{name}={_cut(argument(value), ARGUMENT_SHOWN)}" for name, value in arguments.items()) + ")"


def _usage(usage: Usage) -> str:
    if usage == Usage():
        return ""
    return f"{usage.calls} calls, {usage.tokens_in} tokens in, {usage.tokens_out} out, {usage.cost_usd:.4f} USD"


def _cut(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[:length].rstrip()} ..."
