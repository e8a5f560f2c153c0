"""`foxcast lab trials`: pool, calibrate, blend, score and compare the methods of tables of trials."""

import asyncio
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from bot.app.app import open_backtest_forecaster
from bot.app.venues import find_archive
from bot.cli.backtest import make_backtest_subject
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, split_names
from bot.cli.output.belief_plot import require_plot_file
from bot.cli.output.calibration_plot import draw_trial_report
from bot.cli.output.console import progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json, write_text_atomically
from bot.cli.output.report_tables import print_report_tables
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import RoundArchive
from bot.core.learning import Round
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction
from bot.evaluation.backtest import BacktestHistory, forecast_round
from bot.evaluation.mixed_effects import require_mixed_effects
from bot.evaluation.score_rows import TargetPredictions
from bot.evaluation.trial_report import TrialReport, TrialReportPlan, build_trial_report
from bot.evaluation.trial_table import (
    CROWD_METHOD,
    TrialRow,
    TrialTable,
    apply_published_outcomes,
    question_price,
    read_matching_rounds,
    read_trial_tables,
    round_rows,
)
from bot.plugin_system.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsOptions:
    """Which tables are read, what is made of them, and where the report is written."""

    tables: Annotated[list[Path], typer.Argument(metavar="TABLE...", help="Tables of trials, CSV, plain or gzip.")]
    rounds: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Take outcomes and prices from published rounds. {ROUNDS_HELP}"),
    ] = None
    venue: Annotated[str | None, typer.Option(metavar="NAME", help=ROUNDS_VENUE_HELP)] = None
    blend: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Blend these methods, fitted forward in time. With --rounds also: crowd, and forecasters of yours "
            "that ask no model; they forecast the rounds first, as in a backtest.",
        ),
    ] = ""
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Compare with these on identical events: members and blend, or without --blend every method.",
        ),
    ] = ""
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="Only these methods of the tables; * stands for any characters.")
    ] = ""
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Fit mixed effects of methods and questions; needs the extra mixed.")
    ] = False
    resamples: Annotated[int, typer.Option(min=100, max=100_000, metavar="N", help="Bootstrap resamples.")] = 2_000
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the resamples.")] = 1
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as Markdown.")] = None
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw calibration and indices, as .svg or .png.")
    ] = None


def report_trials(ctx: typer.Context, options: TrialsOptions) -> None:
    """Read the tables, build the report, and print and write it."""
    require_writable(options.json, "--json")
    require_writable(options.markdown, "--markdown")
    if options.plot is not None:
        require_plot_file(options.plot)
        require_writable(options.plot, "--plot")
    if options.mixed:
        require_mixed_effects()
    table = _select_methods(read_trial_tables(options.tables), split_names(options.methods))
    plan = TrialReportPlan(
        blend=split_names(options.blend),
        against=split_names(options.against),
        resamples=options.resamples,
        mixed=options.mixed,
    )
    notes: list[str] = []
    if options.rounds is not None:
        config, registry = load_config_and_plugins(ctx)
        require_venue_archive(config, registry, options.venue)
        _, archive = find_archive(config, registry, options.venue, options.rounds)
        named = RoundForecasters(config, registry, archive)
        found = named.apply_rounds(table, [*plan.blend, *plan.against], options.rounds)
        table, notes = found.table, found.notes
    with progress_bars() as bars:
        task = bars.add_task("report", total=None)
        report = build_trial_report(
            table,
            plan,
            SeededRandom(options.seed),
            notes=notes,
            progress=lambda part: bars.update(task, description=part),
        )
    _write_report(report, options)


def _select_methods(table: TrialTable, patterns: Sequence[str]) -> TrialTable:
    if not patterns:
        return table
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in table.by_method):
            message = f"--methods {pattern}: the tables have {', '.join(table.by_method)}"
            raise NotFoundError(message)
    return table.select_methods([name for name in table.by_method if any(fnmatchcase(name, one) for one in patterns)])


@dataclass(frozen=True, slots=True)
class ForecastRounds:
    """A table with published outcomes and the forecasts of forecasters of ours, and notes about both."""

    table: TrialTable
    notes: list[str]


@dataclass(frozen=True, slots=True)
class RoundForecasters:
    """Forecasters that ask no model, on the rounds of an archive."""

    config: Config
    registry: Registry
    archive: RoundArchive

    def apply_rounds(self, table: TrialTable, named: Sequence[str], folder: Path) -> ForecastRounds:
        """Return a table with published outcomes, and with forecasts of the named forecasters that it lacks.

        Raises NotFoundError if the archive has no round of the table, ConfigError for a forecaster that asks models.
        """
        rounds = [*read_matching_rounds(table, self.archive)]
        published = apply_published_outcomes(table, rounds)
        notes = [f"Outcomes are those published in {folder.name}; {published.changed} differ from the tables."]
        found = published.table
        for name in [one for one in dict.fromkeys(named) if one not in table.by_method]:
            if name == CROWD_METHOD:
                found = found.with_rows(_crowd_rows(rounds))
            elif name in self.registry.forecasters:
                found = found.with_rows(asyncio.run(self._forecast(name, rounds)))
                notes.append(f"{name} forecast the rounds with what had resolved before each of them.")
        return ForecastRounds(found, notes)

    async def _forecast(self, name: str, rounds: Sequence[Round]) -> list[TrialRow]:
        async with open_backtest_forecaster(self.config, self.registry, name, clock=SystemClock()) as opened:
            if opened.forecaster.uses_models or opened.forecaster.members:
                message = (
                    f"{name} asks models or other forecasters: run foxcast backtest --forecasters {name} --rows FILE "
                    "first, and name FILE as a table"
                )
                raise ConfigError(message)
            subject = make_backtest_subject(self.config, self.registry, self.archive, opened, history=BacktestHistory())
            random = SeededRandom(self.config.seed)
            return [
                row
                for one in rounds
                for row in round_rows(
                    one, name, _probabilities((await forecast_round(one, subject, random=random)).predictions)
                )
            ]


def _crowd_rows(rounds: Sequence[Round]) -> Iterator[TrialRow]:
    for a_round in rounds:
        prices = {
            (question.ref.key, target.key): question_price(question)
            for question in a_round.questions
            for target in question.targets
        }
        known = {key: price for key, price in prices.items() if price is not None}
        yield from round_rows(a_round, CROWD_METHOD, known)


def _probabilities(predictions: TargetPredictions) -> dict[tuple[str, str], float]:
    return {
        (ref.key, target): prediction.probability
        for (ref, target), prediction in predictions.items()
        if isinstance(prediction, BinaryPrediction)
    }


def _write_report(report: TrialReport, options: TrialsOptions) -> None:
    if options.json is not None:
        write_json(report.to_json(), options.json)
    if options.markdown is not None:
        write_text_atomically(options.markdown, report.to_markdown())
    if options.plot is not None:
        draw_trial_report(report, options.plot)
    if options.json != STDOUT:
        console = stdout_console()
        for note in report.notes:
            console.print(note)
        print_report_tables(console, report.tables)
