"""`foxcast prompts`: the prompt files of a forecaster, to read, or to copy and replace."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, stdout_console
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.errors import ConfigError, NotFoundError
from bot.core.plain_text import suggest_names
from bot.core.plugin_specs import ForecasterSpec, PluginSettings
from bot.forecasting.prompt_files import SUFFIX, list_prompt_files, load_template
from bot.plugin_system.registry import Registry

app = typer.Typer(add_completion=False, no_args_is_help=True)

# The setting of forecasters that read prompts from a folder of the user.
FOLDER_SETTING = "prompts"
COLUMNS = (
    TableColumn("forecaster"),
    TableColumn("files", ColumnKind.NUMBER),
    TableColumn("changed", ColumnKind.TEXT),
    TableColumn("folder", ColumnKind.TEXT),
)
FORECASTER_HELP = "A forecaster of an enabled plugin."

ForecasterArgument = Annotated[str, typer.Argument(metavar="FORECASTER", help=FORECASTER_HELP, show_default=False)]


@app.callback()
def prompts() -> None:
    """List, show or copy the prompt files of forecasters."""


@app.command("list")
def list_forecasters(ctx: typer.Context) -> None:
    """List the forecasters with prompt files, and which of their files you changed."""
    config, registry = load_config_and_plugins(ctx)
    rows = []
    for spec in registry.forecasters:
        try:
            packages = _prompt_packages(registry, spec.name)
        except NotFoundError:
            continue
        folder = _own_folder(spec, config)
        changed = [name for name, package in packages.items() if _is_changed(package, name, folder)]
        rows.append((spec.name, str(len(packages)), ", ".join(changed) or "-", "" if folder is None else str(folder)))
    stdout_console().print(make_table(COLUMNS, rows) if rows else "no enabled forecaster has prompt files")


@app.command()
def show(
    ctx: typer.Context,
    forecaster: ForecasterArgument,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="One file, such as loop.txt; default: all.", show_default=False)
    ] = None,
) -> None:
    """Show prompt files as this configuration uses them, with their placeholders."""
    config, registry = load_config_and_plugins(ctx)
    packages = _prompt_packages(registry, forecaster)
    if file is not None and file not in packages:
        message = f"{forecaster} has no prompt file {file}; {suggest_names(file, packages)}"
        raise NotFoundError(message)
    folder = _own_folder(registry.forecasters[forecaster], config)
    console = stdout_console()
    for name in packages if file is None else (file,):
        if file is None:
            print_heading(console, f"{name} ({_describe_source(name, folder)})")
        typer.echo(load_template(packages[name], name.removesuffix(SUFFIX), folder).template)


@app.command()
def copy(
    ctx: typer.Context,
    forecaster: ForecasterArgument,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to; files that exist are kept.", show_default=False)
    ],
) -> None:
    """Copy the prompt files of a forecaster, to be edited and used instead of the shipped ones."""
    _, registry = load_config_and_plugins(ctx)
    packages = _prompt_packages(registry, forecaster)
    if FOLDER_SETTING not in registry.forecasters[forecaster].settings.model_fields:
        message = f"{forecaster} has no setting {FOLDER_SETTING}, so its files cannot be replaced; show them instead"
        raise ConfigError(message)
    try:
        written = [*_write_missing(packages, folder)]
    except OSError as error:
        message = f"{folder} cannot be written ({error.strerror}); name another folder"
        raise ConfigError(message) from error
    kept = len(packages) - len(written)
    typer.echo(f"wrote {len(written)} files to {folder}" + (f"; {kept} existed and were kept" if kept else ""))
    typer.echo(f"To use them: [forecasters.{forecaster}.settings] {FOLDER_SETTING} = {str(folder)!r}")


def _prompt_packages(registry: Registry, forecaster: str) -> dict[str, str]:
    """Return the package of each prompt file of a forecaster, its own files first; raises NotFoundError for none."""
    module = registry.forecasters.plugin_of(forecaster).load()
    # A single file is a module without a folder of its own.
    if registry.forecasters[forecaster].asks_models and isinstance(module, ModuleType) and hasattr(module, "__path__"):
        return dict(list_prompt_files(module.__name__))
    message = f"{forecaster} has no prompt files: it asks no model, or its plugin is no package with a folder prompts"
    raise NotFoundError(message)


def _own_folder(spec: ForecasterSpec[PluginSettings], config: Config) -> Path | None:
    folder = getattr(load_plugin_settings(spec, config), FOLDER_SETTING, None)
    return folder if isinstance(folder, Path) else None


def _is_changed(package: str, name: str, folder: Path | None) -> bool:
    stem = name.removesuffix(SUFFIX)
    return load_template(package, stem, folder).template != load_template(package, stem).template


def _describe_source(name: str, folder: Path | None) -> str:
    return str(folder / name) if folder is not None and (folder / name).is_file() else "shipped"


def _write_missing(packages: dict[str, str], folder: Path) -> Iterator[str]:
    for name, package in packages.items():
        path = folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{load_template(package, name.removesuffix(SUFFIX)).template}\n", encoding="utf-8")
            yield name
