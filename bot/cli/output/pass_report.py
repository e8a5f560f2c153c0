"""What `foxcast run --once` prints at the end: its jobs, the newest forecasts and scores, and what to do next."""

from rich.console import Console

from bot.cli.options import CommandInvocation
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.cli.output.score_report import print_kinds
from bot.cli.pass_summary import PassSummary, SummaryLine
from bot.core.clock import SeededRandom
from bot.core.predictions import CurveShape
from bot.core.questions import SINGLE_TARGET
from bot.evaluation.value_text import NO_VALUE, describe_outcome, describe_prediction_short

JOB_COLUMNS = (TableColumn("job"), TableColumn("took", ColumnKind.NUMBER), TableColumn("result", ColumnKind.TEXT))


FORECAST_COLUMNS = (TableColumn("question", ColumnKind.TITLE), TableColumn("by"), TableColumn("for"))


def print_pass_summary(console: Console, summary: PassSummary, call: CommandInvocation) -> None:
    """Print the whole summary; the suggested commands repeat how the program was called."""
    print_heading(console, "Jobs")
    console.print(
        make_table(
            JOB_COLUMNS,
            [(run.job, f"{run.took_s:.1f} s", _job_result_text(run.outcome, run.detail)) for run in summary.runs],
        )
    )
    if summary.lines:
        print_heading(console, f"Newest forecasts ({summary.forecasts} in all, of {summary.questions} questions)")
        # Quantiles are too long for an unbroken column.
        kind = (
            ColumnKind.TEXT if any(isinstance(line.shape, CurveShape) for line in summary.lines) else ColumnKind.NUMBER
        )
        columns = (*FORECAST_COLUMNS, TableColumn("forecast", kind), TableColumn("crowd", kind), TableColumn("outcome"))
        console.print(make_table(columns, [_summary_cells(line) for line in summary.lines]))
    if summary.scored.rule:
        _print_scores(console, summary)
    print_heading(console, "Files")
    console.print(f"ledger: {summary.ledger}")
    for folder, count in summary.written.items():
        console.print(f"files of the venue: {folder} ({count} {'file' if count == 1 else 'files'})")
    _print_next_commands(console, summary, call)


def _print_scores(console: Console, summary: PassSummary) -> None:
    # With numpy, which a program without scores does not need.
    from bot.cli.score import print_total_scores
    from bot.evaluation.summed_scores import FAMILY, sums_by_forecaster

    random = SeededRandom(summary.seed)
    by_forecaster = sums_by_forecaster(summary.scored)
    for name, own in by_forecaster.items():
        print_total_scores(console, name, own.score_groups(random.stream("groups"), [FAMILY]))
    for name, own in by_forecaster.items():
        print_kinds(console, own.report_kinds(random.stream("kinds")), prefix=f"{name}: ", groups=False)


def _job_result_text(outcome: str, detail: str) -> str:
    return detail if outcome == "done" else f"{outcome}: {detail}"


def _summary_cells(line: SummaryLine) -> tuple[str, ...]:
    return (
        line.title,
        line.forecast.forecaster,
        "" if line.target == SINGLE_TARGET else line.target,
        describe_prediction_short(line.forecast.predictions[line.target], line.shape),
        NO_VALUE if line.crowd is None else describe_prediction_short(line.crowd, line.shape),
        describe_outcome(line.resolution.outcome if line.resolution else None, line.shape),
    )


def _print_next_commands(console: Console, summary: PassSummary, call: CommandInvocation) -> None:
    newest = summary.lines[0].forecast if summary.lines else None
    scored = next(iter(summary.scored.venue), None)
    print_heading(console, "Try next")
    if newest is None:
        console.print(f"  {call.command_line_for('doctor')}")
        return
    console.print(f"  {call.command_line_for('show', str(newest.ref))}")
    console.print(f"  {call.command_line_for('show', newest.id, '--json')}")
    last = ("score", "--venue", scored) if scored else ("questions", "--venue", newest.ref.venue)
    console.print(f"  {call.command_line_for(*last)}")
