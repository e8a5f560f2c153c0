"""`foxcast transcript`: what was done and said in forecasts, move by move, as text, JSON or a page of HTML."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import FORECAST_HELP
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import print_json
from bot.cli.output.files import require_writable, write_text_atomically
from bot.cli.output.formatting import format_argument
from bot.cli.output.predictions import describe_changes
from bot.cli.transcript_page import ForecastTranscript, forecast_source, render_page
from bot.core.beliefs import Step
from bot.core.forecasts import TranscriptEntry, TranscriptFigure, TrialTranscript
from bot.core.plain_text import replace_invisible
from bot.core.predictions import BinaryPrediction, QuestionShape
from bot.evaluation.explanation import ForecastExplanation, load_explanation
from bot.evaluation.lookup import query_ledger
from bot.plugin_system.registry import Registry
from bot.store.ledger import ReadOnlyState

ARGUMENT_CHARS = 200

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptOptions:
    """Which forecasts are read, and how they are shown."""

    names: Annotated[list[str], typer.Argument(metavar="FORECAST...", help=FORECAST_HELP)]
    full: Annotated[bool, typer.Option("--full", help="Show all that each move brought.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of HTML.")] = None


@app.command()
@options_from_dataclass(TranscriptOptions)
def transcript(ctx: typer.Context, options: TranscriptOptions) -> None:
    """Show what agents did and said in forecasts, move by move."""
    require_writable(options.html, "--html")
    config, registry = load_config_and_plugins(ctx)

    async def load(records: ReadOnlyState) -> list[ForecastExplanation]:
        return [await load_explanation(records, name) for name in options.names]

    found = [read_transcript(one, registry) for one in query_ledger(config, load)]
    if options.html is not None:
        write_text_atomically(options.html, render_page(found, full=options.full))
    if options.as_json:
        print_json([_transcript_to_json(one) for one in found])
    elif options.html is not None:
        typer.echo(f"written to {options.html}")
    else:
        typer.echo(replace_invisible("\n".join(line for one in found for line in transcript_lines(one, options.full))))


def read_transcript(found: ForecastExplanation, registry: Registry) -> ForecastTranscript:
    """Return the trials as the plugin of the forecaster tells them; step by step where it tells nothing."""
    trace = found.trace
    names = (trace.forecast.forecaster if trace.forecast else "", (trace.setup and trace.setup.uses) or "")
    specs = [registry.forecasters[name] for name in names if name in registry.forecasters]
    tell = specs[0].transcript if specs else None
    shape = trace.question.shape
    trials = {number: tell(steps) if tell else tell_steps(steps, shape) for number, steps in found.steps.items()}
    return ForecastTranscript(trace=trace, trials=trials)


def tell_steps(steps: Sequence[Step], shape: QuestionShape) -> TrialTranscript:
    """Return a trial of a forecaster that has no transcript of its own: each step, and the belief after it."""
    return TrialTranscript(entries=tuple(_step_entry(number, step, shape) for number, step in enumerate(steps, 1)))


def _step_entry(number: int, step: Step, shape: QuestionShape) -> TranscriptEntry:
    given = ", ".join(f"{name}={_shorten(format_argument(value))}" for name, value in step.action.arguments.items())
    said = [*step.belief.predictions.values()]
    return TranscriptEntry(
        title=f"{number}. {step.action.name}({given})",
        detail=step.observation.text,
        remarks=step.remarks,
        belief="; ".join(filter(None, (*describe_changes(None, step.belief.predictions, shape), step.belief.reason))),
        probability=said[0].probability if len(said) == 1 and isinstance(said[0], BinaryPrediction) else None,
    )


def transcript_lines(found: ForecastTranscript, full: bool) -> Iterator[str]:  # noqa: FBT001 - one of two ways
    """Yield one forecast as text."""
    yield from (found.trace.question.title, forecast_source(found.trace), "")
    for number, trial in found.trials.items():
        yield from (f"== Trial {number} ==", "")
        for entry in trial.entries:
            yield from _entry_lines(entry, full)
        yield from map(_figure_line, trial.figures)
        yield from ((trial.report.strip(), "") if trial.report else ("",))


def _entry_lines(entry: TranscriptEntry, full: bool) -> Iterator[str]:  # noqa: FBT001 - as above
    yield f"-- {entry.title}"
    yield from (f"   ! {remark}" for remark in entry.remarks)
    yield from filter(None, (entry.text, entry.detail.strip() if full else ""))
    if entry.belief:
        yield f"   believed: {entry.belief}"
    yield ""


def _figure_line(figure: TranscriptFigure) -> str:
    return f"{figure.name:<24}{figure.text:>12}"


def _transcript_to_json(found: ForecastTranscript) -> dict[str, Any]:
    trace = found.trace
    return {
        "id": trace.id,
        "state": trace.state,
        "question": str(trace.question.ref),
        "title": trace.question.title,
        "forecaster": trace.forecast.forecaster if trace.forecast else None,
        "trials": [{"number": number, **dataclasses.asdict(trial)} for number, trial in found.trials.items()],
    }


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= ARGUMENT_CHARS else f"{flat[:ARGUMENT_CHARS].rstrip()} ..."
