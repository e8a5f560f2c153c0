"""``foxcast questions``: what is in the ledger, soonest close first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from bot.app import Records
from bot.cli.options import spread
from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.cli.output.figures import day, in_short, percent
from bot.cli.records import read
from bot.cli.session import configured
from bot.cli.venues import require_venue
from bot.clock import SystemClock
from bot.domain.forecast import Forecast
from bot.store.codec import PREDICTIONS
from bot.store.questions import QuestionFilter, QuestionRow, QuestionState

app = typer.Typer(add_completion=False)

COLUMNS = (
    Column("question", Kind.TEXT),
    Column("title", Kind.TITLE),
    Column("state"),
    Column("closes"),
    Column("crowd", Kind.NUMBER),
    Column("forecast"),
    Column("resolved", Kind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which questions."""

    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only this source.")] = None
    state: Annotated[QuestionState | None, typer.Option(help="Only open, closed or resolved ones.")] = None
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 50
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A question with the newest forecast of the forecaster whose forecasts leave, if there is one."""

    row: QuestionRow
    forecast: Forecast | None


@app.command()
@spread(Options)
def questions(ctx: typer.Context, options: Options) -> None:
    """List questions, soonest close first."""
    config, now = configured(ctx), SystemClock().now()
    chosen = QuestionFilter(venue=options.venue, source=options.source, state=options.state, limit=options.limit)
    found = read(config, lambda records: listed(records, chosen, now))
    if options.as_json:
        emit([_plain(item, now) for item in found])
        return
    console = stdout()
    console.print(table(COLUMNS, [_cells(item, now) for item in found]))
    console.print("look at one with: foxcast show QUESTION" if found else "no question fits")


async def listed(records: Records, chosen: QuestionFilter, now: datetime) -> list[Listed]:
    """Return the chosen questions with their forecasts; raises ConfigError for a venue that nobody knows."""
    await require_venue(records, chosen.venue)
    ledger = records.ledger
    found = []
    for row in await ledger.questions.rows(chosen, now=now):
        primary = await _primary(records, row)
        found.append(Listed(row, await ledger.forecasts.latest(row.ref, primary) if primary else None))
    return found


async def _primary(records: Records, row: QuestionRow) -> str | None:
    venue = records.config.venues.get(row.ref.venue)
    if venue is None or not venue.choose:
        return venue.forecasters[0] if venue else None
    return venue.forecasters_of(await records.ledger.questions.get(row.ref))[0]


def _cells(item: Listed, now: datetime) -> tuple[str, ...]:
    row = item.row
    return (
        str(row.ref),
        row.title,
        str(row.state(now)),
        day(row.closes_at),
        percent(row.crowd),
        in_short(item.forecast.predictions) if item.forecast else "-",
        f"{row.resolved}/{row.targets}",
    )


def _plain(item: Listed, now: datetime) -> dict[str, Any]:
    row = item.row
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
        "forecast": item.forecast.id if item.forecast else None,
        "predictions": PREDICTIONS.plain(item.forecast.predictions) if item.forecast else None,
    }
