"""`foxcast transcript`: what agents did and wrote in forecasts, as text, JSON or a page of HTML."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree as ET

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import FORECAST_HELP
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import print_json
from bot.cli.output.files import require_writable, write_text_atomically
from bot.cli.output.trial_text import format_action
from bot.core.beliefs import Step
from bot.core.forecasts import TranscriptEntry, TranscriptFigure, TrialTranscript
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.core.predictions import BinaryPrediction, QuestionShape
from bot.core.redaction import redact_known_secrets
from bot.evaluation.explanation import ForecastExplanation, load_explanation
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import describe_changes, describe_prediction
from bot.plugin_system.registry import Registry
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import ReadOnlyState

ARGUMENT_CHARS = 200

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptOptions:
    """Which forecasts are shown, and how."""

    names: Annotated[list[str], typer.Argument(metavar="FORECAST...", help=FORECAST_HELP)]
    full: Annotated[bool, typer.Option("--full", help="Show the full result of each step.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page of HTML.")] = None


@app.command()
@options_from_dataclass(TranscriptOptions)
def transcript(ctx: typer.Context, options: TranscriptOptions) -> None:
    """Show what agents did and wrote in forecasts, step by step."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTranscript:
    """One recorded forecast, and the transcripts of its trials by number."""

    trace: ForecastTrace
    trials: Mapping[int, TrialTranscript]


def forecast_source(trace: ForecastTrace) -> str:
    """Return the id, forecaster and time of a forecast."""
    forecast = trace.forecast
    by = f" by {forecast.forecaster}, {forecast.made_at.isoformat()}" if forecast else f", {trace.state}"
    note = "" if trace.removal_note is None else f"; {trace.removal_note}"
    return f"forecast {trace.id}{by}{note}"


def read_transcript(found: ForecastExplanation, registry: Registry) -> ForecastTranscript:
    """Return the transcript that the plugin of the forecaster makes of the trials, or one entry for each step."""
    trace = found.trace
    names = (trace.forecast.forecaster if trace.forecast else "", (trace.setup and trace.setup.uses) or "")
    specs = [registry.forecasters[name] for name in names if name in registry.forecasters]
    make_transcript = specs[0].transcript if specs else None
    shape = trace.question.shape
    trials = {
        number: make_transcript(steps) if make_transcript else describe_steps(steps, shape)
        for number, steps in found.steps.items()
    }
    return ForecastTranscript(trace=trace, trials=trials)


def describe_steps(steps: Sequence[Step], shape: QuestionShape) -> TrialTranscript:
    """Return the transcript of a trial whose forecaster makes none: each step, and the belief after it."""
    return TrialTranscript(entries=tuple(_step_entry(number, step, shape) for number, step in enumerate(steps, 1)))


def _step_entry(number: int, step: Step, shape: QuestionShape) -> TranscriptEntry:
    predictions = [*step.belief.predictions.values()]
    first = predictions[0] if len(predictions) == 1 else None
    return TranscriptEntry(
        title=f"{number}. {format_action(step.action, argument_chars=ARGUMENT_CHARS)}",
        detail=step.observation.text,
        remarks=step.remarks,
        belief="; ".join(filter(None, (*describe_changes(None, step.belief.predictions, shape), step.belief.reason))),
        probability=first.probability if isinstance(first, BinaryPrediction) else None,
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
        yield f"   belief: {entry.belief}"
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


# Each speaker has a colour, as long as there are enough.
_COLOURS = ("#3b6ea5", "#b0413e", "#4f8a4b", "#8a5fa8", "#c07d2b", "#2f8f8f", "#7a7a52", "#a0527a")
_STYLE = (
    ":root{color-scheme:light dark;--ink:#222;--soft:#556;--line:#ccc;--paper:#fdfcf9;--warn:#a33}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--soft:#9ab;--line:#444;--paper:#191a1c;--warn:#e88}}"
    "body{font-family:Georgia,serif;max-width:46rem;margin:2rem auto;padding:0 1rem;line-height:1.5;"
    "color:var(--ink);background:var(--paper);overflow-wrap:anywhere}"
    "h1{font-size:1.6rem;line-height:1.25}h2{border-bottom:1px solid var(--line)}h3{font-size:1.05rem;margin:.4rem 0}"
    "article{border-left:4px solid var(--line);padding:.1rem 1rem;margin:1rem 0}p{white-space:pre-wrap;margin:.4rem 0}"
    ".source,.belief{color:var(--soft);font-size:.9rem}.answer{font-size:1.2rem}.remark{color:var(--warn);font-size:.9rem}"
    "meter{width:12rem;height:.8rem;vertical-align:middle}table{border-collapse:collapse;margin:1rem 0}"
    "td,th{border:1px solid var(--line);padding:.2rem .6rem;text-align:left}td:last-child{border:0}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}"
    "@media print{body{max-width:none}article{break-inside:avoid-page}}"
) + "".join(f".voice{number}{{border-color:{colour}}}" for number, colour in enumerate(_COLOURS))


def render_page(forecasts: Sequence[ForecastTranscript], *, full: bool = False) -> str:
    """Return all trials of these forecasts as HTML; every text is escaped, so that nothing becomes markup."""
    html = ET.Element("html", lang="en")
    head, body = ET.SubElement(html, "head"), ET.SubElement(html, "body")
    ET.SubElement(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", name="viewport", content="width=device-width")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    _add_element(head, "title", ", ".join(dict.fromkeys(found.trace.question.title for found in forecasts)))
    _add_element(head, "style", _STYLE)
    for found in forecasts:
        _add_forecast(body, found, full=full)
    page = ET.tostring(html, encoding="unicode", method="html")
    return redact_known_secrets(f"<!doctype html>\n{page}\n")


def _add_forecast(body: ET.Element, found: ForecastTranscript, *, full: bool) -> None:
    _add_heading(body, found.trace)
    speakers: dict[str, int] = {}
    for number, trial in found.trials.items():
        _add_element(body, "h2", f"Trial {number}")
        for entry in trial.entries:
            _add_entry(body, entry, speakers, full=full)
        _add_table(body, trial.figures)
        if trial.report:
            _add_element(body, "p", trial.report)


def _add_heading(body: ET.Element, trace: ForecastTrace) -> None:
    question, forecast = trace.question, trace.forecast
    _add_element(body, "h1", question.title)
    if forecast:
        answers = [
            f"{key} {describe_prediction(answer, question.shape)}" for key, answer in forecast.predictions.items()
        ]
        crowd = question.crowd.prediction if question.crowd and len(answers) == 1 else None
        others = f", the crowd {100 * crowd.probability:.1f} %" if isinstance(crowd, BinaryPrediction) else ""
        _add_element(body, "p", f"{forecast.forecaster}: {'; '.join(answers)}{others}", "answer")
    _add_element(body, "p", forecast_source(trace), "source")
    if question.criteria:
        _add_element(body, "p", question.criteria)


def _add_entry(body: ET.Element, entry: TranscriptEntry, speakers: dict[str, int], *, full: bool) -> None:
    article = ET.SubElement(body, "article")
    if entry.speaker:
        article.set("class", f"voice{speakers.setdefault(entry.speaker, len(speakers)) % len(_COLOURS)}")
    _add_element(article, "h3", entry.title)
    for remark in entry.remarks:
        _add_element(article, "p", remark, "remark")
    for text in filter(None, (entry.text, entry.detail if full else "")):
        _add_element(article, "p", text)
    if entry.belief:
        _add_bar(_add_element(article, "p", f"belief: {entry.belief} ", "belief"), entry.probability)


def _add_table(body: ET.Element, figures: Sequence[TranscriptFigure]) -> None:
    """Add a table of the figures, each probability with a bar; no figures, no table."""
    if not figures:
        return
    table = ET.SubElement(body, "table")
    for figure in figures:
        row = ET.SubElement(table, "tr")
        _add_element(row, "th", figure.name)
        _add_element(row, "td", figure.text, "number")
        is_bar = figure.is_probability and isinstance(figure.value, float)
        _add_bar(ET.SubElement(row, "td"), float(figure.value) if is_bar else None)


def _add_bar(parent: ET.Element, probability: float | None) -> None:
    if probability is not None:
        ET.SubElement(parent, "meter", min="0", max="1", value=f"{probability:.4f}")


def _add_element(parent: ET.Element, tag: str, text: str, kind: str = "") -> ET.Element:
    element = ET.SubElement(parent, tag, {"class": kind} if kind else {})
    element.text = replace_invisible(text)
    return element
