"""`foxcast fit`: fit the parameters of a forecaster to past outcomes, and write them with their provenance."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from bot.app.forecast_context import forecaster_training
from bot.app.venues import find_archive
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import require_venue_archive
from bot.cli.options import ROUNDS_HELP, ROUNDS_VENUE_HELP, options_from_dataclass, parse_date
from bot.cli.output.console import ColumnKind, TableColumn, make_table, progress_bars, stdout_console
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import ParameterLearner, RoundArchive
from bot.core.learning import FittedParameters
from bot.core.values import Json
from bot.forecasting.parameter_fitting import fit_parameters
from bot.store.serialization import FITTED

app = typer.Typer(add_completion=False)

INPUT_FOLDERS = ("question_sets", "resolution_sets")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Which forecaster is fitted to which outcomes."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="The forecaster.")]
    rounds: Annotated[Path, typer.Option(metavar="DIR", help=ROUNDS_HELP)]
    before: Annotated[
        date,
        typer.Option(parser=parse_date, metavar="DATE", help="Use only outcomes known before this day began (UTC)."),
    ]
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
    _, archive = find_archive(config, registry, options.venue, options.rounds)
    fitted = _fit_parameters(options, learner, archive, before)
    write_json(FITTED.plain(fitted), path)
    if path != STDOUT:
        _print_fitted(fitted, path)


def _require_past(before: date) -> datetime:
    moment = datetime.combine(before, time(), UTC)
    if moment > SystemClock().now():
        message = f"--before {before} is in the future; give a past day"
        raise ConfigError(message)
    return moment


def _fit_parameters(
    options: FitOptions, learner: ParameterLearner, archive: RoundArchive, before: datetime
) -> FittedParameters:
    with progress_bars() as bars:
        bars.add_task(f"fitting {options.name}", total=None)
        fitted = fit_parameters(options.name, learner, [archive], before=before)
    if fitted.examples == 0:
        message = f"no outcome in {options.rounds} was known before {options.before}; name a later day"
        raise NotFoundError(message)
    provenance = {
        **fitted.provenance,
        **_input_digest(options.rounds),
        "foxcast": version("foxcast"),
        "command": f"foxcast fit {options.name} --rounds {options.rounds.name} --before {options.before}",
    }
    return replace(fitted, provenance=provenance)


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
