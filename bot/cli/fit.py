"""`foxcast fit`: fit the parameters of a forecaster to past outcomes, and write them with their provenance."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from bot.app.forecast_context import forecaster_training
from bot.app.venues import find_archive
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lab_trials import RoundForecasters
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import ColumnKind, TableColumn, make_table, progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import HistoryLearner, ParameterLearner, RoundArchive
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.evaluation.lookup import query_ledger
from bot.evaluation.trial_history import table_forecasts
from bot.evaluation.trial_table import read_trial_tables
from bot.forecasting.aggregation import ELSEWHERE_MEMBER
from bot.forecasting.parameter_fitting import fit_parameters, read_history
from bot.plugin_system.registry import Registry
from bot.store.question_pairs import PairUse
from bot.store.serialization import FITTED

app = typer.Typer(add_completion=False)

INPUT_FOLDERS = ("question_sets", "resolution_sets")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Which forecaster is fitted to which outcomes."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="The forecaster.")]
    before: Annotated[
        date,
        typer.Option(parser=parse_date, metavar="DATE", help="Use only outcomes known before this day began (UTC)."),
    ]
    rounds: Annotated[Path | None, typer.Option(metavar="DIR", help=ROUNDS_HELP)] = None
    trials: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TABLE",
            help="For a forecaster that builds on others: tables of trials with their forecasts; with --rounds, "
            "outcomes are the published ones, and members that ask no model forecast the rounds.",
        ),
    ] = None
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="MEMBER=METHOD", help="The method of the tables that counts as a member."),
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write, - is stdout; default: NAME-DATE.json.")
    ] = None
    venue: Annotated[str | None, typer.Option(metavar="NAME", help=ROUNDS_VENUE_HELP)] = None


@app.command()
@options_from_dataclass(FitOptions)
def fit(ctx: typer.Context, options: FitOptions) -> None:
    """Fit a forecaster's parameters to outcomes known before a date."""
    before = _require_past(options.before)
    config, registry = load_config_and_plugins(ctx)
    learner = forecaster_training(config, registry, options.name).learner
    if learner is None:
        message = f"{options.name} has no parameters to fit"
        raise ConfigError(message)
    path = options.out or Path(f"{options.name}-{options.before}.json")
    require_writable(path, "--out")
    require_venue_archive(config, registry, options.venue)
    with progress_bars() as bars:
        bars.add_task(f"fitting {options.name}", total=None)
        fitted = _fit_parameters(_FitRun(config, registry, options, before), learner)
    write_json(FITTED.plain(fitted), path)
    if path != STDOUT:
        _print_fitted(fitted, path)


def _require_past(before: date) -> datetime:
    moment = datetime.combine(before, time(), UTC)
    if moment > SystemClock().now():
        message = f"--before {before} is in the future; give a past day"
        raise ConfigError(message)
    return moment


@dataclass(frozen=True, slots=True)
class _FitRun:
    config: Config
    registry: Registry
    options: FitOptions
    before: datetime

    def archive(self) -> RoundArchive | None:
        rounds = self.options.rounds
        return None if rounds is None else find_archive(self.config, self.registry, self.options.venue, rounds)[1]

    def history(self, learner: ParameterLearner) -> list[ResolvedForecast]:
        """Return what the members said of resolved questions: in the tables, or else in the ledger."""
        if not isinstance(learner, HistoryLearner):
            if self.options.trials:
                message = f"{self.options.name} does not build on other forecasters; leave out --trials"
                raise ConfigError(message)
            return []
        if self.options.trials:
            return self._table_history(learner)
        try:
            names = {self.options.name, *learner.other_forecasters}
            use = PairUse(self.config.pairs.use)
            return query_ledger(self.config, lambda state: read_history(state.ledger, names, self.before, pair_use=use))
        except NotFoundError:
            return []

    def _table_history(self, learner: HistoryLearner) -> list[ResolvedForecast]:
        table = read_trial_tables(self.options.trials or ())
        # A table need not say what other venues said.
        members = [one for one in learner.other_forecasters if one != ELSEWHERE_MEMBER or one in table.by_method]
        methods = _read_methods(self.options.method or (), members)
        archive = self.archive()
        if archive is not None:
            named = RoundForecasters(self.config, self.registry, archive)
            table = named.apply_rounds(table, list(methods.values()), self.options.rounds or Path()).table
        table.require_methods(methods.values())
        return [*table_forecasts(table, {method: member for member, method in methods.items()}, self.before)]


def _read_methods(given: Sequence[str], members: Sequence[str]) -> dict[str, str]:
    """Return the method of each member; without one given it is the method of the same name."""
    methods = {member: member for member in members}
    for text in given:
        member, equals, method = text.partition("=")
        if not equals or not method or member not in methods:
            message = f"--method {text}: write MEMBER=METHOD; the members are {', '.join(members) or 'none'}"
            raise ConfigError(message)
        methods[member] = method
    return methods


def _fit_parameters(run: _FitRun, learner: ParameterLearner) -> FittedParameters:
    options, pasts = run.options, run.history(learner)
    # Only tables have no questions that the archive could teach about.
    archive = None if options.trials else run.archive()
    if archive is None and not pasts:
        builds = isinstance(learner, HistoryLearner)
        message = (
            "no recorded forecast of a member has an outcome that was known before that day; name --trials TABLE"
            if builds
            else f"{options.name} learns from past rounds; name them with --rounds DIR"
        )
        raise NotFoundError(message)
    archives = [] if archive is None else [archive]
    fitted = fit_parameters(options.name, learner, archives, before=run.before, pasts=pasts)
    if fitted.examples == 0:
        message = f"no outcome in {options.rounds} was known before {options.before}; name a later day"
        raise NotFoundError(message)
    provenance = {
        **fitted.provenance,
        **({} if options.rounds is None else _input_digest(options.rounds)),
        "foxcast": version("foxcast"),
        "command": " ".join(_fit_command(options)),
    }
    return replace(fitted, provenance=provenance)


def _fit_command(options: FitOptions) -> Iterator[str]:
    yield f"foxcast fit {options.name}"
    if options.rounds is not None:
        yield f"--rounds {options.rounds.name}"
    for path in options.trials or ():
        yield f"--trials {path.name}"
    for text in options.method or ():
        yield f"--method {text}"
    yield f"--before {options.before}"


def _input_digest(folder: Path) -> dict[str, str]:
    """Return one SHA-256 over names and contents of the input files; {} for the bundled rounds."""
    digest = hashlib.sha256()
    files = sorted(path for part in INPUT_FOLDERS for path in (folder / part).rglob("*") if path.is_file())
    if not files:
        return {}
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return {"inputs": f"{len(files)} files, sha256 {digest.hexdigest()}"}


def _print_fitted(fitted: FittedParameters, path: Path) -> None:
    console = stdout_console()
    console.print(f"{fitted.forecaster} was fitted to {fitted.examples} outcomes known before {fitted.before:%Y-%m-%d}")
    console.print(f"rounds: {fitted.provenance['rounds']}")
    columns = (TableColumn("parameter"), TableColumn("value", ColumnKind.TEXT))
    console.print(make_table(columns, [(name, _value_summary(part)) for name, part in fitted.payload.items()]))
    console.print(f"written to {path}")


def _value_summary(part: Json) -> str:
    match part:
        case Mapping():
            return f"{len(part)} entries: {', '.join([*part][:6])}"
        case list():
            return f"{len(part)} values"
        case _:
            return str(part)
