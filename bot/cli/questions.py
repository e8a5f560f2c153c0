"""`foxcast questions`: the questions in the ledger, soonest close first."""

import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_command_config
from bot.cli.lookup import require_known_venue
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.cli.output.lists import ListOptions, print_csv
from bot.core.clock import SystemClock
from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_day, format_percent, format_predictions_short
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionFilter, QuestionRow, QuestionState
from bot.store.serialization import PREDICTIONS

app = typer.Typer(add_completion=False)

MAX_QUESTIONS = 100_000
COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("title", ColumnKind.TITLE),
    TableColumn("state"),
    TableColumn("closes"),
    TableColumn("crowd", ColumnKind.NUMBER),
    TableColumn("forecast"),
    TableColumn("resolved", ColumnKind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsOptions(ListOptions):
    """Which questions are listed."""

    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only this source.")] = None
    state: Annotated[QuestionState | None, typer.Option(help="Only open, closed or resolved questions.")] = None
    limit: Annotated[int, typer.Option(min=1, max=MAX_QUESTIONS, help="The largest number of questions.")] = 50


@dataclass(frozen=True, slots=True)
class ListedQuestion:
    """A question with the newest forecast of the forecaster whose forecasts are submitted, if there is one."""

    row: QuestionRow
    forecast: Forecast | None


@app.command()
@options_from_dataclass(QuestionsOptions)
def questions(ctx: typer.Context, options: QuestionsOptions) -> None:
    """List questions, soonest close first."""
    config, now = load_command_config(ctx), SystemClock().now()
    found = query_ledger(config, lambda records: list_questions(records, options, now))
    if options.as_json or options.as_csv:
        rows = [_question_to_json(item, now) for item in found]
        print_csv(rows) if options.as_csv else print_json(rows)
        return
    console = stdout_console()
    console.print(make_table(COLUMNS, [_question_cells(item, now) for item in found]))
    console.print("show one with: foxcast show QUESTION" if found else "no question fits")


async def list_questions(records: ReadOnlyState, options: QuestionsOptions, now: datetime) -> list[ListedQuestion]:
    """Return the chosen questions with their forecasts; raises NotFoundError for an unknown venue."""
    await require_known_venue(records, options.venue)
    ledger = records.ledger
    limit = options.limit if options.sort is None else MAX_QUESTIONS
    chosen = QuestionFilter(
        venue=options.venue, source=options.source, state=options.state, text=options.search, limit=limit
    )
    rows = await ledger.questions.rows(chosen, now=now)
    if options.sort is not None and len(rows) == MAX_QUESTIONS:
        sys.stderr.write(f"only the {MAX_QUESTIONS} questions that close first are sorted; choose some with --search\n")
    rows = options.arrange(rows, lambda row: _row_to_json(row, now))[: options.limit]
    found = []
    for row in rows:
        primary = await _primary_forecaster(records, row)
        found.append(ListedQuestion(row, await ledger.forecasts.latest(row.ref, primary) if primary else None))
    return found


async def _primary_forecaster(records: ReadOnlyState, row: QuestionRow) -> str | None:
    venue = records.config.venues.get(row.ref.venue)
    if venue is None or not venue.choose:
        return venue.forecasters[0] if venue else None
    return venue.forecasters_of(await records.ledger.questions.get(row.ref))[0]


def _question_cells(item: ListedQuestion, now: datetime) -> tuple[str, ...]:
    row = item.row
    return (
        str(row.ref),
        row.title,
        str(row.state(now)),
        format_day(row.closes_at),
        format_percent(row.crowd),
        format_predictions_short(item.forecast.predictions) if item.forecast else "-",
        f"{row.resolved}/{row.targets}",
    )


def _question_to_json(item: ListedQuestion, now: datetime) -> dict[str, Any]:
    return {
        **_row_to_json(item.row, now),
        "forecast": item.forecast.id if item.forecast else None,
        "predictions": PREDICTIONS.plain(item.forecast.predictions) if item.forecast else None,
    }


def _row_to_json(row: QuestionRow, now: datetime) -> dict[str, Any]:
    return {
        "ref": str(row.ref),
        "title": row.title,
        "state": str(row.state(now)),
        "source": row.source,
        "family": row.family,
        "batch": row.batch,
        "closes_at": row.closes_at.isoformat() if row.closes_at else None,
        "crowd": row.crowd,
        "targets": row.targets,
        "resolved": row.resolved,
    }
