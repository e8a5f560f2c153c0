"""`foxcast lab`: experiments in a simulated world, without network or keys, and reports on tables of trials."""

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_exit import ExitCode, run_until_terminated
from bot.cli.lab_paper import PaperOptions, report_paper
from bot.cli.lab_trials import TrialsOptions, report_trials
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.cli.question_import import QuestionImportOptions, import_questions
from bot.core.child_process import child_command
from bot.core.errors import ConfigError, FoxcastError
from bot.core.light_dataclass import dataclass
from bot.evaluation.value_text import NO_VALUE, format_number, format_usd

COLUMNS = (
    TableColumn(""),
    TableColumn("Brier", ColumnKind.NUMBER),
    TableColumn("compared with"),
    TableColumn("difference [95 %]"),
    TableColumn("distance to truth", ColumnKind.NUMBER),
    TableColumn("difference [95 %]"),
    TableColumn("calls", ColumnKind.NUMBER),
    TableColumn("tokens", ColumnKind.NUMBER),
    TableColumn("USD", ColumnKind.NUMBER),
    TableColumn("steps", ColumnKind.NUMBER),
    TableColumn("s", ColumnKind.NUMBER),
)


RANKING_COLUMNS = (
    TableColumn(""),
    TableColumn("accuracy", ColumnKind.NUMBER),
    TableColumn("absolute error", ColumnKind.NUMBER),
    TableColumn("AUC", ColumnKind.NUMBER),
    TableColumn("precision", ColumnKind.NUMBER),
    TableColumn("AUC, crowd's side", ColumnKind.NUMBER),
    TableColumn("precision, crowd's side", ColumnKind.NUMBER),
)


DIGITS = 4


def print_lab_report(console: Console, report: Mapping[str, Any]) -> None:
    """Print a report for a person."""
    followed = f", followed for {report['days']} days: {report['forecasts']} forecasts" if report["days"] else ""
    questions = f"{report['questions']} questions of the world of seed {report['seed']}{followed}"
    print_heading(console, f"Simulation: {questions}")
    console.print(make_table(COLUMNS, [_lab_cells(row) for row in report["rows"]]))
    for row in report["rows"]:
        if row["note"]:
            console.print(f"{row['name']}: {row['note']}")
    if report["forecasters"]:
        print_heading(console, "How well answers separate yes from no")
        console.print(make_table(RANKING_COLUMNS, [_ranking_cells(row) for row in report["rows"]]))
    if report["recoveries"]:
        print_heading(console, "Planted and recovered effects")
        for one in report["recoveries"]:
            console.print(f"{one['verdict']}: {one['name']}\n   planted: {one['planted']}\n   found: {one['found']}")
    print_heading(console, "Notes")
    for note in _report_notes(report):
        console.print(note)


def _lab_cells(row: Mapping[str, Any]) -> Sequence[str]:
    use = row.get("use") or {}
    tokens = use.get("tokens_in", 0) + use.get("tokens_out", 0)
    return (
        row["name"],
        format_number(row["brier"], DIGITS),
        row["reference"] or NO_VALUE,
        _difference_text(row["difference"]),
        format_number(row["distance_to_truth"], DIGITS),
        _difference_text(row["distance_difference"]),
        *(
            (
                f"{use['calls']:,}",
                f"{tokens:,}",
                format_usd(use["cost_usd"]),
                f"{use['steps']:,}",
                format_number(use["seconds"], 1),
            )
            if use
            else (NO_VALUE,) * 5
        ),
    )


def _ranking_cells(row: Mapping[str, Any]) -> Sequence[str]:
    own, crowd = row["ranking"], row["crowd_ranking"]
    figures = (own["accuracy"], own["absolute_error"], own["auc"], own["precision"], crowd["auc"], crowd["precision"])
    return (row["name"], *map(format_number, figures))


def _difference_text(span: Mapping[str, float] | None) -> str:
    if span is None:
        return NO_VALUE
    return f"{span['estimate']:+.{DIGITS}f} [{span['low']:+.{DIGITS}f}, {span['high']:+.{DIGITS}f}]"


def _report_notes(report: Mapping[str, Any]) -> Iterator[str]:
    yield from report["notes"]
    prices, speed = report["prices_usd_per_million_tokens"], report["speed"]
    yield f"USD are at {prices['in']:g} per million tokens in and {prices['out']:g} out, a reference price."
    yield (
        f"{speed['trials']:,} trials in {speed['seconds']:.0f} s on {speed['processes']} processes, "
        f"{speed['trial_seconds']:.3f} s each"
    )


app = typer.Typer(add_completion=False)


# Named as text: the engine does not import the simulator.
LABORATORY_ENTRY_POINT = "bot.simulator.laboratory.__main__:main"


REPORT_FILE = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """What all experiments take: the world, the number of processes, and where ledgers and the report go."""

    seed: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Seed of the simulated world; the same seed gives the same results."),
    ] = 1
    hide_crowd: Annotated[
        bool,
        typer.Option("--hide-crowd", help="The compared forecasters do not see the market price."),
    ] = False
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of processes; default: one per core.")
    ] = None
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the ledgers in this empty folder; default: delete them.")
    ] = None
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions(ExperimentOptions):
    """Which parts or forecasters are measured, on how many questions."""

    questions: Annotated[
        int | None,
        typer.Option(
            min=20,
            max=2000,
            metavar="N",
            help="Number of questions; default: 100, or 60 with --forecasters. 40 is enough for a quick look.",
        ),
    ] = None
    only: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Only these parts: belief, trials, aggregate, gate, crowd, filter, leaks, overconfidence.",
        ),
    ] = ""
    forecasters: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Compare these forecasters instead, by cost too: baseline, blf (always there, the reference), court, "
            "team, solo, orchestra, blend.",
        ),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessOptions(ExperimentOptions):
    """Which forecasters follow how many questions, and for how long."""

    questions: Annotated[
        int,
        typer.Option(min=5, max=2000, metavar="N", help="Number of questions that are followed."),
    ] = 30
    days: Annotated[int, typer.Option(min=2, max=60, metavar="N", help="Days for which each is followed.")] = 8
    forecasters: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="These forecasters: baseline, blf, court, team, solo, orchestra."),
    ] = "solo"


@app.callback()
def lab() -> None:
    """Experiments, and tables of trials: pools, calibration, blends, scores and comparisons."""


@app.command()
@options_from_dataclass(LabOptions)
def sandbox(_ctx: typer.Context, options: LabOptions) -> None:
    """Measure the value of each part on questions of a simulated world with known outcomes."""
    if options.only.strip() and options.forecasters.strip():
        message = "it names parts, but --forecasters compares whole forecasters: leave out one of the two"
        raise typer.BadParameter(message, param_hint="--only")
    if options.hide_crowd and not options.forecasters.strip():
        message = "it goes with --forecasters; the part crowd measures the same for blf"
        raise typer.BadParameter(message, param_hint="--hide-crowd")
    _run_experiment(options, questions=options.questions, only=options.only, forecasters=options.forecasters)


@app.command()
@options_from_dataclass(StalenessOptions)
def staleness(_ctx: typer.Context, options: StalenessOptions) -> None:
    """Measure what forecasts lose that are used for several days, on simulated questions that are followed daily."""
    if not options.forecasters.strip():
        message = "it names no forecaster"
        raise typer.BadParameter(message, param_hint="--forecasters")
    _run_experiment(options, questions=options.questions, days=options.days, forecasters=options.forecasters)


def _run_experiment(options: ExperimentOptions, **arguments: object) -> None:
    require_writable(options.json, "--json")
    write_and_print_report(run_until_terminated(_run_laboratory(options, arguments)), options.json)


@app.command()
@options_from_dataclass(QuestionImportOptions)
def questions(ctx: typer.Context, options: QuestionImportOptions) -> None:
    """Import resolved questions of your own, to test forecasters on them."""
    import_questions(ctx, options)


@app.command()
@options_from_dataclass(TrialsOptions)
def trials(ctx: typer.Context, options: TrialsOptions) -> None:
    """Pool, calibrate, blend, score and compare the methods of tables of trials."""
    report_trials(ctx, options)


@app.command()
@options_from_dataclass(PaperOptions)
def paper(ctx: typer.Context, options: PaperOptions) -> None:
    """Recompute the tables of the BLF paper from its public trials, or repeat its experiments with your models."""
    report_paper(ctx, options)


def write_and_print_report(report: Mapping[str, Any], place: Path | None) -> None:
    """Write a report as JSON if a file is named, and print it for a person unless that file is stdout."""
    if place is not None:
        write_json(report, place)
    if place != STDOUT:
        print_lab_report(stdout_console(), report)


async def _run_laboratory(options: ExperimentOptions, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Run the laboratory in a child process, which reports its progress on stderr, and return its report."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / REPORT_FILE
        child = await asyncio.create_subprocess_exec(
            *child_command(LABORATORY_ENTRY_POINT, *_laboratory_arguments(options, arguments, out))
        )
        try:
            code = await child.wait()
        finally:
            # If this command is interrupted, the child process ends too.
            with suppress(ProcessLookupError):
                child.terminate()
            await child.wait()
        if code == ExitCode.USAGE:
            message = "the laboratory cannot do that; its message is above"
            raise ConfigError(message)
        if code:
            message = f"the laboratory ended with exit code {code}; its messages are above"
            raise FoxcastError(message)
        report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return report


def _laboratory_arguments(options: ExperimentOptions, arguments: Mapping[str, object], out: Path) -> list[str]:
    given = {
        **arguments,
        "seed": options.seed,
        "jobs": options.jobs,
        "folder": None if options.folder is None else options.folder.absolute(),
        "out": out,
    }
    valued = [part for name, value in given.items() if value not in {None, ""} for part in (f"--{name}", str(value))]
    return [*valued, *(("--hide-crowd",) if options.hide_crowd else ())]
