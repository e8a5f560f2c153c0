"""`foxcast lab paper`: the tables of a paper from its public trials, and its experiments with models of your own."""

import asyncio
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from bot.app.app import open_backtest_forecasters
from bot.app.plugin_factory import PLUGINS_PACKAGE
from bot.app.venues import find_archive
from bot.cli.backtest import BacktestOptions, run_configured_backtest
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP
from bot.cli.output.console import progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json, write_text_atomically
from bot.cli.output.report_tables import print_report_tables
from bot.config.schema import Config, ForecasterTable
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.light_dataclass import dataclass
from bot.evaluation.paper_tables import PaperTables, compare_with_paper, make_paper_sample, parse_paper_tables
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable
from bot.evaluation.trial_table import read_trial_tables
from bot.forecasting.cost_check import expected_cost
from bot.plugin_system.registry import Registry, load_registry, with_all_members

TABLES_FILE = "paper_tables.toml"
TABLE_PREFIX = "table-"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Which tables are recomputed from which trials; or which experiment is repeated on which questions."""

    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables, as table-1; default: all that are known.")
    ] = None
    trials: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Recompute the tables from the public trials in this folder."),
    ] = None
    questions: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Repeat the experiment of one table with your own models. {ROUNDS_HELP}"),
    ] = None
    estimate: Annotated[bool, typer.Option("--estimate", help="With --questions: only say what it would cost.")] = False
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --questions: write every forecast as a table of trials.")
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Accept the expected cost without asking.")] = False
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")] = None


def report_paper(ctx: typer.Context, options: PaperOptions) -> None:
    """Recompute tables, or repeat the experiment of one."""
    require_writable(options.json, "--json")
    require_writable(options.markdown, "--markdown")
    numbers = [name.removeprefix(TABLE_PREFIX) for name in options.tables or ()]
    paper = parse_paper_tables(resources.files(PLUGINS_PACKAGE).joinpath(TABLES_FILE).read_text(encoding="utf-8"))
    paper.select(numbers)
    if (options.trials is None) == (options.questions is None):
        message = "name either --trials DIR, to recompute tables, or --questions DIR, to repeat an experiment"
        raise ConfigError(message)
    if options.trials is not None:
        _write_tables(_recompute_tables(paper, numbers, options.trials), options)
    else:
        _repeat_experiment(ctx, paper, numbers, options)


def _recompute_tables(paper: PaperTables, numbers: Sequence[str], folder: Path) -> list[ReportTable]:
    chosen, random = paper.select(numbers), SeededRandom(1)
    with progress_bars() as bars:
        task = bars.add_task("trials", total=None)
        samples = {
            name: make_paper_sample(read_trial_tables([folder / f"{name}.csv.gz"]), paper.samples[name], random)
            for name in dict.fromkeys(table.file for table in chosen)
        }
        found = []
        for table in chosen:
            bars.update(task, description=f"table {table.number}")
            found.append(compare_with_paper(table, samples[table.file]))
    return found


def _write_tables(tables: Sequence[ReportTable], options: PaperOptions) -> None:
    if options.json is not None:
        write_json({table.key: table.to_json() for table in tables}, options.json)
    if options.markdown is not None:
        write_text_atomically(options.markdown, "\n".join(table.to_markdown() for table in tables))
    if options.json != STDOUT:
        print_report_tables(stdout_console(), tables)


def _repeat_experiment(ctx: typer.Context, paper: PaperTables, numbers: Sequence[str], options: PaperOptions) -> None:
    if len(numbers) != 1:
        message = (
            f"name one table whose experiment is repeated: {', '.join(TABLE_PREFIX + n for n in paper.experiments)}"
        )
        raise ConfigError(message)
    names = paper.experiments.get(numbers[0], ())
    if not names:
        message = f"table {numbers[0]} has no experiment; there are {', '.join(paper.experiments)}"
        raise NotFoundError(message)
    config = with_variants(load_config_and_plugins(ctx)[0], paper)
    registry = load_registry(config)
    plan = BacktestOptions(
        rounds=options.questions or Path(),
        forecasters=",".join(names),
        run=f"paper table {numbers[0]}",
        yes=options.yes,
        json=options.json,
        rows=options.rows,
    )
    if options.estimate:
        _write_tables([asyncio.run(_estimate_costs(config, registry, plan, names))], options)
    else:
        run_configured_backtest(config, registry, plan)


def with_variants(config: Config, paper: PaperTables) -> Config:
    """Return the configuration with the variants of the experiments; tables of the operator stay as they are."""
    base = config.forecaster_table("blf")
    variants = {
        name: ForecasterTable(
            uses="blf", trials=base.trials, aggregate=base.aggregate, settings={**base.settings, **settings}
        )
        for name, settings in paper.variants.items()
        if settings and name not in config.forecasters
    }
    return config.model_copy(update={"forecasters": {**config.forecasters, **variants}})


async def _estimate_costs(
    config: Config, registry: Registry, plan: BacktestOptions, names: Sequence[str]
) -> ReportTable:
    """Return what the forecasters are expected to cost on all questions; nothing is asked."""
    require_venue_archive(config, registry, plan.venue)
    _, archive = find_archive(config, registry, plan.venue, plan.rounds)
    questions = sum(len(archive.read_round(key).questions) for key in archive.round_keys())
    rows: list[dict[str, ReportCell]] = []
    every = with_all_members(config, registry, names)
    async with open_backtest_forecasters(config, registry, every, clock=SystemClock()) as opened:
        for name, one in opened.items():
            cost = 0.0 if one.gateway is None else await expected_cost(one.gateway, one.forecaster, questions)
            rows.append({"forecaster": name, "questions": questions, "trials": one.forecaster.trials, "usd": cost})
    known = [usd for row in rows if isinstance(usd := row["usd"], float)]
    total = f"Expected in all: {sum(known):.2f} US dollars" + (
        "." if len(known) == len(rows) else ", and what has no price or no earlier forecast to go by."
    )
    return ReportTable(
        key="estimate",
        title="Expected costs",
        columns=(
            ReportColumn("forecaster", "forecaster"),
            ReportColumn("questions", "questions"),
            ReportColumn("trials", "trials"),
            ReportColumn("usd", "US dollars"),
        ),
        rows=rows,
        notes=(total, "Nothing was asked. Answers that are on record cost nothing."),
    )
