"""``foxcast config``: what is configured, and where each value comes from."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from bot.cli.keys import Secret, secrets_of
from bot.cli.output.console import Column, Kind, emit, heading, stdout, table
from bot.cli.session import equipped
from bot.config.document import Key
from bot.config.model import Config
from bot.config.origins import Origin, origins
from bot.config.plugin_settings import settings_key, settings_of
from bot.errors import ConfigError
from bot.registry import Registry
from bot.specs import Table

app = typer.Typer(add_completion=False)

COLUMNS = (Column("key", Kind.TEXT), Column("value", Kind.TEXT), Column("from", Kind.TEXT))
SECRETS = (Column("secret", Kind.TEXT), Column("variable", Kind.TEXT), Column("state", Kind.TEXT))


@app.callback()
def config() -> None:
    """Look at the configuration."""


@app.command()
def show(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every value with its origin; secrets are masked."""
    loaded, registry = equipped(ctx)
    secrets = [*secrets_of(loaded, registry)]
    checked, faults = _checked(loaded, registry)
    values = origins(_with_forecasters(loaded, registry), checked)
    if as_json:
        emit(_plain(values, secrets))
    else:
        _print(values, secrets)
    # What is wrong is told after what there is: a key that is missing is in the list with its variable.
    if faults:
        raise ConfigError("\n".join(faults))


def _with_forecasters(loaded: Config, registry: Registry) -> Config:
    """Return the config with a table for each forecaster there is, so that what holds without one is listed too."""
    tables = dict(loaded.forecasters)
    for spec in registry.forecasters:
        table = loaded.forecaster(spec.name)
        tables[spec.name] = table.model_copy(update={"trials": table.trials or spec.trials})
    return loaded.model_copy(update={"forecasters": tables})


def _checked(loaded: Config, registry: Registry) -> tuple[dict[Key, BaseModel], list[str]]:
    """Return the settings of all plugins that can be used, and what is wrong with the others."""
    checked: dict[Key, BaseModel] = {}
    faults = []
    for spec in (spec for kind in Table for spec in registry.configurable(kind)):
        try:
            checked[settings_key(spec)] = settings_of(spec, loaded)
        except ConfigError as error:
            faults.append(str(error))
    return checked, faults


def _print(values: Sequence[Origin], secrets: Sequence[Secret]) -> None:
    console = stdout()
    console.print(table(COLUMNS, [(each.key, each.value, each.source) for each in values]))
    if secrets:
        heading(console, "Secrets")
        console.print(table(SECRETS, [(each.key, each.variable, each.state) for each in secrets]))


def _plain(values: Sequence[Origin], secrets: Sequence[Secret]) -> dict[str, dict[str, Any]]:
    plain: dict[str, dict[str, Any]] = {each.key: {"value": each.value, "origin": each.source} for each in values}
    for secret in secrets:
        entry = plain.setdefault(secret.key, {"value": None, "origin": secret.origin or "default"})
        entry |= {"variable": secret.variable, "set": bool(secret.origin)}
    return plain
