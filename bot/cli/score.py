"""``foxcast score``: what resolved, scored; of the ledger, or of forecast files written by anyone."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.options import ROUNDS_HELP, day, spread
from bot.cli.records import read
from bot.cli.score_files import FilesAsked, score_files
from bot.cli.score_ledger import LedgerAsked, score_ledger
from bot.cli.session import equipped
from bot.cli.venues import require_archive, require_venue
from bot.errors import ConfigError

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is scored: with ``rounds`` files, without the ledger."""

    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files after --forecasts.", show_default=False)
    ] = None
    rounds: Annotated[Path | None, typer.Option(metavar="DIR", help=f"Score files: {ROUNDS_HELP}")] = None
    forecasts: Annotated[
        list[Path] | None, typer.Option(metavar="FILE...", help="Forecast sets to score against the rounds.")
    ] = None
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this forecaster (ledger).")] = None
    venue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this venue; with --rounds, whose they are.")
    ] = None
    since: Annotated[
        date | None, typer.Option(parser=day, metavar="DATE", help="Only forecasts made since this day (ledger).")
    ] = None
    on_paper: Annotated[
        bool | None,
        typer.Option("--paper/--live", help="Only what went to a paper book, or only what went to a venue (ledger)."),
    ] = None
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None


@app.command()
@spread(Options)
def score(ctx: typer.Context, options: Options) -> None:
    """Score what has resolved, or forecast files written by anyone."""
    files = [*(options.forecasts or ()), *(options.more or ())]
    if options.rounds is None:
        _refuse(files, "--forecasts needs --rounds DIR, the rounds to score the files against")
        config, _ = equipped(ctx)
        read(config, lambda records: require_venue(records, options.venue))
        asked = LedgerAsked(
            forecaster=options.forecaster,
            venue=options.venue,
            since=options.since,
            paper=options.on_paper,
            json=options.json,
        )
        score_ledger(config, asked)
        return
    if not files:
        message = "--rounds needs --forecasts FILE..., the files to score"
        raise ConfigError(message)
    chosen = options.forecaster or options.since or options.on_paper is not None
    _refuse(chosen, "--forecaster, --since, --paper and --live choose from the ledger, not from files")
    config, registry = equipped(ctx)
    require_archive(config, registry, options.venue)
    score_files(config, registry, FilesAsked(options.rounds, files, options.venue, options.json))


def _refuse(given: object, message: str) -> None:
    if given:
        raise ConfigError(message)
