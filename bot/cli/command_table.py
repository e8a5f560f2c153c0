"""The command table: the module behind each command name and its line in `foxcast --help`.

A command's module is imported only when it is called.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bot.core.nearest_names import suggest_names
from bot.errors import ConfigError

if TYPE_CHECKING:
    import typer
    from typer._click import Command, Context  # Typer does not export what its groups work with


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its module, its summary (the first line of its own help), and its app's name in the module."""

    module: str
    summary: str
    app: str = "app"


COMMANDS: dict[str, CommandEntry] = {
    "run": CommandEntry("bot.cli.run", "Find questions, forecast, submit, resolve and score: for ever, or once."),
    "demo": CommandEntry(
        "bot.cli.demo", "Show everything at work in a simulated world: no keys, no network, nothing real."
    ),
    "status": CommandEntry(
        "bot.cli.status", "Say how things stand: modes, heartbeat, failed trials, counts, last runs."
    ),
    "questions": CommandEntry("bot.cli.questions", "List questions, soonest close first."),
    "show": CommandEntry(
        "bot.cli.show", "Show one question: forecasts, every change of mind, decision, outcome, score."
    ),
    "explain": CommandEntry(
        "bot.cli.explain", "Explain one forecast: every step, what it rests on and costs, and the answer."
    ),
    "diff": CommandEntry(
        "bot.cli.diff", "Compare two forecasts of a question: what was known, believed, searched and paid."
    ),
    "replay": CommandEntry(
        "bot.cli.replay", "Run a forecast again on what is on record, offline, and compare every step."
    ),
    "costs": CommandEntry("bot.cli.costs", "Add up what models cost, and say what is left of today's budgets."),
    "forecast": CommandEntry("bot.cli.forecast", "Forecast one question now, and show every step."),
    "score": CommandEntry("bot.cli.score", "Score what has resolved, or forecast files written by anyone."),
    "backtest": CommandEntry("bot.cli.backtest", "Forecast past rounds with only what was known then, and score that."),
    "leaks": CommandEntry("bot.cli.leaks", "Check everything that forecasts read for knowledge of the future."),
    "lab": CommandEntry("bot.cli.lab", "Experiments that need no network and no key."),
    "fit": CommandEntry("bot.cli.fit", "Let a forecaster learn from outcomes known before a date."),
    "lock": CommandEntry("bot.cli.lock", "Leave a question alone: no forecast, no submission.", "lock_app"),
    "unlock": CommandEntry("bot.cli.lock", "Take a lock off a question.", "unlock_app"),
    "locks": CommandEntry("bot.cli.lock", "List the locks that hold now, with their reasons.", "locks_app"),
    "portfolio": CommandEntry(
        "bot.cli.portfolio", "Show what each account has and gained, on paper and live, per market and forecaster."
    ),
    "orders": CommandEntry("bot.cli.orders", "List what was to leave, what became of it, and what was filled."),
    "close": CommandEntry("bot.cli.close", "Sell what is held of a question, or everything, whatever the belief."),
    "withdraw": CommandEntry("bot.cli.withdraw", "Take back the forecast of a question that stands at its venue."),
    "preflight": CommandEntry("bot.cli.preflight", "Show what would leave to a venue now, and why all else would not."),
    "arm": CommandEntry(
        "bot.cli.arm",
        "Give leave to submit to a venue, for a time and up to amounts; a change of what leaves ends it.",
        "arm_app",
    ),
    "disarm": CommandEntry("bot.cli.arm", "Take back leave to submit to a venue.", "disarm_app"),
    "approvals": CommandEntry(
        "bot.cli.approvals", "List what waits for a person's approval, and why.", "approvals_app"
    ),
    "approve": CommandEntry(
        "bot.cli.approvals",
        "Let a forecast leave that waits for it, up to the cost and price that were shown.",
        "approve_app",
    ),
    "reject": CommandEntry("bot.cli.approvals", "Keep a forecast from leaving that waits for approval.", "reject_app"),
    "halt": CommandEntry(
        "bot.cli.halt",
        "Let nothing leave any more, and take back this bot's orders that rest at venues. Open to all.",
        "halt_app",
    ),
    "resume": CommandEntry(
        "bot.cli.halt",
        "End what was halted by people or stopped itself; losses are counted anew from here on.",
        "resume_app",
    ),
    "audit": CommandEntry("bot.cli.audit", "Look at the record of what was let go, and verify it."),
    "principal": CommandEntry("bot.cli.principal", "Say who may do what, and give them tokens."),
    "plugins": CommandEntry("bot.cli.plugins", "List plugins: what they offer, which are enabled, and what is broken."),
    "config": CommandEntry("bot.cli.config", "Look at the configuration."),
    "doctor": CommandEntry("bot.cli.doctor", "Check this installation and say what to do."),
    "db": CommandEntry("bot.cli.db", "Check, back up, restore or export the ledger."),
}


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
        app = _find_plugin_command(ctx, name)
        if app is None:
            ctx.fail(_unknown_command_message(ctx, name))
        return name, get_command(app), rest


def _unknown_command_message(ctx: Context, name: str) -> str:
    from bot.cli.command_setup import find_command_plugin

    plugin = find_command_plugin(ctx.params.get("config"), name)
    if plugin is None:
        return f"there is no command {name}; {suggest_names(name, COMMANDS)}"
    return f'the command {name} comes with the plugin {plugin}: add "{plugin}" to plugins in config.toml'


def _find_plugin_command(ctx: Context, name: str) -> typer.Typer | None:
    from bot.cli.command_setup import load_plugin_command

    try:
        return load_plugin_command(ctx.params.get("config"), name)
    except ConfigError:
        return None
