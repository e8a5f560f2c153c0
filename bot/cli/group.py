"""The commands as Typer sees them: names and summaries at once, the modules behind them only when one is called."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bot.cli.table import COMMANDS
from bot.config.nearest import instead
from bot.errors import ConfigError

if TYPE_CHECKING:
    import typer
    from typer._click import Command, Context  # Typer does not export what its groups work with


class CommandGroup(TyperGroup):
    """Lists commands without importing them; a name that is not ours is looked for among the enabled plugins."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names in the order of the table."""
        return [*COMMANDS]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return what ``--help`` and completion show of a command."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str, Command, list[str]]:
        """Load the command that is called; a usage error names the nearest one."""
        name, *rest = args
        if name in COMMANDS:
            entry = COMMANDS[name]
            return name, get_command(getattr(importlib.import_module(entry.module), entry.app)), rest
        app = _of_a_plugin(ctx, name)
        if app is None:
            ctx.fail(_missing(ctx, name))
        return name, get_command(app), rest


def _missing(ctx: Context, name: str) -> str:
    from bot.cli.session import bringer_of_command

    plugin = bringer_of_command(ctx.params.get("config"), name)
    if plugin is None:
        return f"there is no command {name}; {instead(name, COMMANDS)}"
    return f'the command {name} comes with the plugin {plugin}: add "{plugin}" to plugins in config.toml'


def _of_a_plugin(ctx: Context, name: str) -> typer.Typer | None:
    from bot.cli.session import plugin_command

    try:
        return plugin_command(ctx.params.get("config"), name)
    except ConfigError:
        return None
