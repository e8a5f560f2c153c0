"""`foxcast data`: keep the series of past rounds in files, so that backtests are repeatable."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.app.venues import find_archive
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import progress_bars, stdout_console
from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, FoxcastError, describe_error
from bot.core.interfaces import RoundArchive
from bot.core.light_dataclass import dataclass
from bot.evaluation.backtest import BacktestWindow
from bot.forecasting.series_archive import SeriesArchive, keep_series
from bot.forecasting.services import ConfiguredDataSource
from bot.forecasting.trial_tools import question_cutoff
from bot.plugin_system.registry import Registry

MAX_FAILURES_SHOWN = 5

app = typer.Typer(
    add_completion=False, help="Keep the series of data sources in files, so that backtests are repeatable."
)


@app.callback()
def data() -> None:
    """Keep the series of data sources in files, so that backtests are repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """Of which rounds series are kept, and where."""

    rounds: Annotated[Path, typer.Option(metavar="DIR", help=ROUNDS_HELP)]
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to keep them in; default: research.series.")
    ] = None
    first: Annotated[
        date | None, typer.Option("--from", parser=parse_date, metavar="DATE", help="Skip earlier rounds.")
    ] = None
    last: Annotated[date | None, typer.Option("--to", parser=parse_date, metavar="DATE", help="Skip later rounds.")] = (
        None
    )
    venue: Annotated[str | None, typer.Option(metavar="NAME", help=ROUNDS_VENUE_HELP)] = None


@dataclass(frozen=True, slots=True, order=True)
class WantedSeries:
    """One series as of the cutoff of a question."""

    source: str
    name: str
    before: datetime


@dataclass(slots=True)
class SnapshotResult:
    """How many series were kept now, were there or are unknown, and why others failed."""

    kept: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


@app.command()
@options_from_dataclass(SnapshotOptions)
def snapshot(ctx: typer.Context, options: SnapshotOptions) -> None:
    """Keep the series of the questions of past rounds, as they were known before each round.

    Ask for the same again to get what is missing. Backtests read them if the setting research.series names the folder.
    """
    config, registry = load_config_and_plugins(ctx)
    folder = options.out or config.research.series
    if folder is None:
        message = 'name a folder: --out DIR, or series = "DIR" in [research] of config.toml'
        raise ConfigError(message)
    require_venue_archive(config, registry, options.venue)
    _, archive = find_archive(config, registry, options.venue, options.rounds)
    window = BacktestWindow(first=options.first, last=options.last)
    result = asyncio.run(_keep_rounds(config, registry, archive, window, folder))
    console = stdout_console()
    console.print(f"{result.kept} series kept in {folder}, {result.skipped} were there or are not known to the source")
    for failure in result.failures[:MAX_FAILURES_SHOWN]:
        console.print(f"failed: {failure}")
    if result.failures:
        console.print(f"{len(result.failures)} series failed; ask for the same again to get them")
        raise typer.Exit(ExitCode.FAILED)


async def _keep_rounds(
    config: Config, registry: Registry, archive: RoundArchive, window: BacktestWindow, folder: Path
) -> SnapshotResult:
    async with AsyncExitStack() as stack:
        factory, _ = await open_read_only_plugins(config, registry, (), clock=SystemClock(), stack=stack)
        sources = await factory.open_data_sources(archived=False)
        if not sources:
            message = "no data source is enabled; add one to plugins in config.toml (foxcast plugins lists them)"
            raise ConfigError(message)
        wanted = sorted(_wanted_series(archive, window, sources))
        result = SnapshotResult()
        with progress_bars() as bars:
            for one in bars.track(wanted, description="series"):
                await _keep_one(one, sources, folder, result)
        return result


def _wanted_series(
    archive: RoundArchive, window: BacktestWindow, sources: Mapping[str, ConfiguredDataSource]
) -> set[WantedSeries]:
    return {
        WantedSeries(source, name, question_cutoff(question, a_round.as_of))
        for a_round in map(archive.read_round, archive.round_keys())
        if window.contains(a_round)
        for question in a_round.questions
        for source, configured in sources.items()
        for name in configured.source.series_names(question)
    }


async def _keep_one(
    one: WantedSeries, sources: Mapping[str, ConfiguredDataSource], folder: Path, result: SnapshotResult
) -> None:
    try:
        kept = await keep_series(sources[one.source].source, SeriesArchive(folder, one.source), one.name, one.before)
    except FoxcastError as error:
        result.failures.append(f"{one.source} {one.name}: {describe_error(error)}")
        return
    result.kept += kept
    result.skipped += not kept
