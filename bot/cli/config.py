"""``foxcast config``: what is configured, and where each value comes from."""

from typing import Annotated

import typer

from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.cli.session import equipped
from bot.config.origins import origins
from bot.config.plugin_settings import settings_key, settings_of
from bot.specs import Table

app = typer.Typer(add_completion=False)

COLUMNS = (Column("key"), Column("value", Kind.TEXT), Column("from", Kind.TEXT))


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
    specs = [spec for kind in Table for spec in registry.configurable(kind)]
    values = origins(loaded, {settings_key(spec): settings_of(spec, loaded) for spec in specs})
    if as_json:
        emit({each.key: {"value": each.value, "origin": each.source} for each in values})
    else:
        stdout().print(table(COLUMNS, [(each.key, each.value, each.source) for each in values]))
