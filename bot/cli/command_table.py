"""The command table: the module behind each command name and its line in `foxcast --help`.

A command's module is imported only when it is called.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bot.core.errors import ConfigError
from bot.core.plain_text import suggest_names

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
    "run": CommandEntry(
        "bot.cli.run", "Run the daemon: find questions, forecast, submit, resolve and score; --once for one pass."
    ),
    "demo": CommandEntry("bot.cli.demo", "Run a demo in a simulated world: no keys, no network, no real orders."),
    "status": CommandEntry(
        "bot.cli.status", "Show status: venue modes, heartbeat, failed trials, counts, last job runs."
    ),
    "questions": CommandEntry("bot.cli.questions", "List questions, soonest close first."),
    "show": CommandEntry("bot.cli.show", "Show one question: forecasts, belief steps, decisions, outcome and score."),
    "explain": CommandEntry(
        "bot.cli.explain", "Explain one forecast: every step with its evidence and cost, and the answer."
    ),
    "transcript": CommandEntry("bot.cli.transcript", "Show what agents did and said in forecasts, move by move."),
    "diff": CommandEntry("bot.cli.diff", "Compare two forecasts of a question: inputs, beliefs, searches and costs."),
    "replay": CommandEntry("bot.cli.replay", "Replay a recorded forecast offline and compare every step."),
    "costs": CommandEntry("bot.cli.costs", "Show model costs and what remains of today's budgets."),
    "forecast": CommandEntry("bot.cli.forecast", "Forecast one question now and show every step."),
    "score": CommandEntry(
        "bot.cli.score", "Score resolved forecasts from the ledger, or forecast files from any source."
    ),
    "backtest": CommandEntry(
        "bot.cli.backtest", "Forecast past rounds with information available at the time, and score the forecasts."
    ),
    "leaks": CommandEntry(
        "bot.cli.leaks", "Check everything that forecasts read for information from after the cutoff."
    ),
    "lab": CommandEntry("bot.cli.lab", "Experiments that need no network and no key."),
    "fit": CommandEntry("bot.cli.fit", "Fit a forecaster's parameters to outcomes known before a date."),
    "lock": CommandEntry("bot.cli.lock", "Lock a question: no forecasts, no submissions.", "lock_app"),
    "unlock": CommandEntry("bot.cli.lock", "Remove the lock of a question.", "unlock_app"),
    "locks": CommandEntry("bot.cli.lock", "List active locks and their reasons.", "locks_app"),
    "portfolio": CommandEntry(
        "bot.cli.portfolio", "Show positions and profit of each account, paper and live, by market and forecaster."
    ),
    "orders": CommandEntry("bot.cli.orders", "List orders and submitted forecasts with status and fills."),
    "close": CommandEntry(
        "bot.cli.close", "Close positions in a question, or all positions, regardless of the forecast."
    ),
    "withdraw": CommandEntry("bot.cli.withdraw", "Withdraw a submitted forecast from its venue."),
    "preflight": CommandEntry(
        "bot.cli.preflight", "Show what would be submitted to a venue now, and why the rest is held."
    ),
    "arm": CommandEntry(
        "bot.cli.arm",
        "Allow live submission to a venue for a limited time and amount; changed settings end it.",
        "arm_app",
    ),
    "disarm": CommandEntry("bot.cli.arm", "Revoke live submission for a venue.", "disarm_app"),
    "approvals": CommandEntry(
        "bot.cli.approvals", "List submissions waiting for approval, with reasons.", "approvals_app"
    ),
    "approve": CommandEntry(
        "bot.cli.approvals",
        "Approve a waiting submission, up to the cost and price shown.",
        "approve_app",
    ),
    "reject": CommandEntry("bot.cli.approvals", "Reject a waiting submission.", "reject_app"),
    "halt": CommandEntry(
        "bot.cli.halt",
        "Halt all submissions and cancel this bot's resting orders. Needs no token.",
        "halt_app",
    ),
    "resume": CommandEntry(
        "bot.cli.halt",
        "Resume after a halt or an automatic stop; loss limits start again from zero.",
        "resume_app",
    ),
    "audit": CommandEntry("bot.cli.audit", "Show and verify the audit record of permissions and submissions."),
    "principal": CommandEntry("bot.cli.principal", "Manage people, their roles and tokens."),
    "plugins": CommandEntry("bot.cli.plugins", "List plugins: what they provide, and which are enabled or broken."),
    "config": CommandEntry("bot.cli.config", "Show the configuration and explain settings."),
    "doctor": CommandEntry("bot.cli.doctor", "Check this installation and suggest fixes."),
    "db": CommandEntry("bot.cli.db", "Check, back up, restore or export the ledger."),
}


# Commands that others took the place of.
RENAMED_COMMANDS = {"orchestra": "transcript"}


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

    if name in RENAMED_COMMANDS:
        return f"foxcast {name} is now foxcast {RENAMED_COMMANDS[name]}"
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
