"""The end of one pass on paper: what the jobs did, the newest forecasts, the scores, and what to try next."""

from rich.console import Console

from bot.cli.call import Call
from bot.cli.output.beliefs import shown
from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.figures import NOTHING
from bot.cli.output.marks import outcome_words
from bot.cli.output.report import print_kinds
from bot.cli.score_ledger import graded_by_forecaster, print_total, rows_by_forecaster
from bot.cli.summary import Line, Summary
from bot.clock import SeededRandom
from bot.domain.prediction import CurveShape
from bot.domain.question import SINGLE_TARGET
from bot.lab.kinds import kinds_of

RUNS = (Column("job"), Column("took", Kind.NUMBER), Column("what it did", Kind.TEXT))
FORECASTS = (Column("question", Kind.TITLE), Column("by"), Column("for"))


def print_summary(console: Console, summary: Summary, call: Call) -> None:
    """Print the whole summary; how the program was called is repeated in the commands to try."""
    heading(console, "Jobs")
    console.print(
        table(RUNS, [(run.job, f"{run.took_s:.1f} s", _what(run.outcome, run.detail)) for run in summary.runs])
    )
    if summary.lines:
        heading(console, f"Newest forecasts ({summary.forecasts} in all, of {summary.questions} questions)")
        # Quantiles are too long for a line of their own width.
        kind = Kind.TEXT if any(isinstance(line.shape, CurveShape) for line in summary.lines) else Kind.NUMBER
        columns = (*FORECASTS, Column("forecast", kind), Column("crowd", kind), Column("outcome"))
        console.print(table(columns, [_row(line) for line in summary.lines]))
    for name, rows in rows_by_forecaster(summary.scored).items():
        print_total(console, name, rows, SeededRandom(summary.seed))
    for name, others in graded_by_forecaster(summary.marked).items():
        kinds = kinds_of(others, rng=SeededRandom(summary.seed).stream("kinds"))
        print_kinds(console, kinds, whose=f"{name}: ", groups=False)
    heading(console, "Where it is")
    console.print(f"ledger: {summary.ledger}")
    for folder, count in summary.written.items():
        console.print(f"written for the venue: {folder} ({count} {'file' if count == 1 else 'files'})")
    _print_next(console, summary, call)


def _what(ended: str, detail: str) -> str:
    return detail if ended == "done" else f"{ended}: {detail}"


def _row(line: Line) -> tuple[str, ...]:
    return (
        line.title,
        line.forecast.forecaster,
        "" if line.target == SINGLE_TARGET else line.target,
        shown(line.forecast.predictions[line.target], line.shape),
        NOTHING if line.crowd is None else shown(line.crowd, line.shape),
        outcome_words(line.resolution.outcome if line.resolution else None, line.shape),
    )


def _print_next(console: Console, summary: Summary, call: Call) -> None:
    newest = summary.lines[0].forecast if summary.lines else None
    refs = [*summary.scored.ref, *(one.ref for one in summary.marked)]
    scored = refs[-1].venue if refs else None
    heading(console, "Try next")
    if newest is None:
        console.print(f"  {call.next('doctor')}")
        return
    console.print(f"  {call.next('show', str(newest.ref))}")
    console.print(f"  {call.next('show', newest.id, '--json')}")
    last = ("score", "--venue", scored) if scored else ("questions", "--venue", newest.ref.venue)
    console.print(f"  {call.next(*last)}")
