"""The entry point: the commands, global options, one line on stderr for each error, and the exit code.

A command's module is imported only when it is called.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bot.cli.command_exit import ExitCode, TerminatedBySignal, exit_code, exit_code_help
from bot.cli.options import CommandInvocation
from bot.cli.output.safe_output import OutputError, redacted_streams
from bot.config.process_setup import configure_process, resume_garbage_collection
from bot.core.errors import ConfigError, FoxcastError, describe_error_with_type
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import nearest_names, replace_invisible, suggest_names
from bot.core.redaction import redact_foreign_message, redact_message

if TYPE_CHECKING:
    from typer._click import Command, Context  # Typer does not export the types of its groups


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
    "init": CommandEntry(
        "bot.cli.init", "Write a first configuration with key files, test both, and say the next commands."
    ),
    "serve": CommandEntry(
        "bot.cli.serve",
        "Answer questions of callers over HTTP, and serve results as JSON; nothing is submitted anywhere.",
    ),
    "status": CommandEntry(
        "bot.cli.status", "Show status: venue modes, heartbeat, failed trials, counts, last job runs."
    ),
    "web": CommandEntry(
        "bot.cli.web", "Show the dashboard in a browser, with the daemon or without it; it only reads."
    ),
    "questions": CommandEntry("bot.cli.questions", "List questions, soonest close first."),
    "show": CommandEntry("bot.cli.show", "Show one question: forecasts, belief steps, decisions, outcome and score."),
    "explain": CommandEntry(
        "bot.cli.explain", "Explain one forecast: every step with its evidence and cost, and the answer."
    ),
    "transcript": CommandEntry("bot.cli.transcript", "Show what agents did and wrote in forecasts, step by step."),
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
    "lab": CommandEntry(
        "bot.cli.lab", "Experiments, and tables of trials: pools, calibration, blends, scores and comparisons."
    ),
    "data": CommandEntry("bot.cli.data", "Keep the series of data sources in files, so that backtests are repeatable."),
    "fit": CommandEntry("bot.cli.fit", "Fit a forecaster's parameters to outcomes known before a date."),
    "pairs": CommandEntry(
        "bot.cli.pairs", "List questions of different venues that may ask the same, and confirm or refuse them."
    ),
    "lock": CommandEntry("bot.cli.lock", "Lock a question: no forecasts, no submissions.", "lock_app"),
    "unlock": CommandEntry("bot.cli.lock", "Remove the lock of a question.", "unlock_app"),
    "locks": CommandEntry(
        "bot.cli.lock", "List active locks and their reasons, and requests that wait for the daemon.", "locks_app"
    ),
    "portfolio": CommandEntry(
        "bot.cli.portfolio", "Show positions and profit of each account, paper and live, by market and forecaster."
    ),
    "orders": CommandEntry("bot.cli.orders", "List orders and submitted forecasts with status and fills."),
    "close": CommandEntry(
        "bot.cli.close", "Close positions in a question, or all positions, regardless of the forecast."
    ),
    "withdraw": CommandEntry("bot.cli.close", "Withdraw a submitted forecast from its venue.", "withdraw_app"),
    "preflight": CommandEntry(
        "bot.cli.preflight", "Show what would be submitted to a venue now, and why the rest is held."
    ),
    "arm": CommandEntry(
        "bot.cli.arm",
        "Allow live submission to a venue for a limited time and amount; changed settings end it.",
        "arm_app",
    ),
    "disarm": CommandEntry("bot.cli.arm", "Revoke live submission for a venue.", "disarm_app"),
    "adopt": CommandEntry(
        "bot.cli.adopt",
        "Make a copied or moved state folder live again; stop the other copy first. Ends all arm records.",
    ),
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
    "plugins": CommandEntry(
        "bot.cli.plugins", "List plugins: what they provide, and which are enabled or broken; or check one of them."
    ),
    "new": CommandEntry(
        "bot.cli.new", "Write an installable package for a plugin of your own, which passes its tests at once."
    ),
    "trust": CommandEntry(
        "bot.cli.trust", "Allow the plugin files and programs of ./config.toml to run as you; recorded once per folder."
    ),
    "prompts": CommandEntry("bot.cli.prompts", "List, show or copy the prompt files of forecasters."),
    "config": CommandEntry("bot.cli.config", "Show the configuration and explain settings."),
    "notify": CommandEntry("bot.cli.notify", "List notifiers and test them."),
    "service": CommandEntry("bot.cli.service", "Run the daemon as a service of systemd."),
    "doctor": CommandEntry("bot.cli.doctor", "Check this installation and suggest fixes."),
    "db": CommandEntry("bot.cli.db", "Check, back up, list, restore or export the ledger."),
}


# Old names of commands.
RENAMED_COMMANDS = {"orchestra": "transcript"}


class CommandGroup(TyperGroup):
    """Lists commands without importing them; an unknown name is searched among the enabled plugins."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names in the order of the table."""
        return [*COMMANDS]

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return the name and summary of a command, for ``--help`` and completion."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str, Command, list[str]]":
        """Load the command that was called; a usage error suggests the nearest name."""
        try:
            return self._load_command(ctx, *args)
        finally:
            resume_garbage_collection()

    def _load_command(self, ctx: "Context", name: str, *rest: str) -> "tuple[str, Command, list[str]]":
        if name in COMMANDS:
            entry = COMMANDS[name]
            return name, get_command(getattr(importlib.import_module(entry.module), entry.app)), [*rest]
        if name in RENAMED_COMMANDS:
            ctx.fail(f"foxcast {name} is now foxcast {RENAMED_COMMANDS[name]}")
        app = _find_plugin_command(ctx, name)
        if app is None:
            ctx.fail(_unknown_command_message(ctx, name))
        return name, get_command(app), [*rest]


def _unknown_command_message(ctx: "Context", name: str) -> str:
    from bot.cli.command_setup import find_command_plugin

    plugin = find_command_plugin(ctx.params.get("config"), name)
    if plugin is None:
        return f"there is no command {name}; {suggest_names(name, COMMANDS)}"
    return f'the command {name} is in the plugin {plugin}: add "{plugin}" to plugins in config.toml'


def _find_plugin_command(ctx: "Context", name: str) -> typer.Typer | None:
    """Return the command of an enabled plugin, None if there is none; raises ConfigError if not all can be searched."""
    from bot.cli.command_setup import load_plugin_command

    try:
        return load_plugin_command(ctx.params.get("config"), name)
    except ConfigError as error:
        nearest = f" ({suggest_names(name, COMMANDS)})" if nearest_names(name, COMMANDS) else ""
        message = f"there is no built-in command {name}{nearest}, and those of plugins cannot be searched: {error}"
        raise ConfigError(message) from error


GLOBAL_OPTIONS = frozenset({"--config", "--debug", "--version"})

app = typer.Typer(
    cls=CommandGroup,
    help="Foxcast forecasts questions of prediction markets and tournaments and records why.",
    epilog=exit_code_help(),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _show_version(requested: bool) -> None:  # noqa: FBT001 - Typer calls it with one positional argument
    if requested:
        from importlib.metadata import version

        typer.echo(f"foxcast {version('foxcast')}")
        raise typer.Exit


@app.callback()
def foxcast(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The configuration file; default: FOXCAST_CONFIG, else ./config.toml."),
    ] = None,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Store the global options; without a command print the help."""
    call = ctx.ensure_object(CommandInvocation)
    call.config_path, call.debug = config, debug
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), nl=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` defaults to those of the process."""
    configure_process()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A title with characters that the terminal cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    with redacted_streams():
        return _run_command(arguments)


def _run_command(arguments: Sequence[str] | None) -> int:
    call = CommandInvocation(arguments=tuple(sys.argv[1:] if arguments is None else arguments))
    try:
        result = get_command(app).main([*call.arguments], prog_name="foxcast", standalone_mode=False, obj=call)
        sys.stdout.flush()
    except (BrokenPipeError, OutputError) as error:
        # The interpreter flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE if isinstance(error, BrokenPipeError) else _report_error(error, call)
    except SystemExit as end:
        # Typer caught the broken pipe first, and made stdout safe to flush.
        if isinstance(end.__context__, BrokenPipeError):
            return ExitCode.PIPE
        raise
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except TerminatedBySignal:
        return ExitCode.TERMINATED
    except Exception as error:  # noqa: BLE001 - the last place that can report an error in one line
        return _report_error(error, call)
    return result if isinstance(result, int) else ExitCode.DONE


def _report_error(error: Exception, call: CommandInvocation) -> int:
    if call.debug:
        typer.echo(
            replace_invisible(redact_foreign_message("".join(traceback.format_exception(error)))), err=True, nl=False
        )
    message, code = _undecodable_line(error, call) or _error_line(error)
    typer.echo(f"foxcast: {replace_invisible(message)}", err=True)
    return code


def _undecodable_line(error: Exception, call: CommandInvocation) -> tuple[str, ExitCode] | None:
    """Return the line for an argument that is no text and that nothing could work with, None for another error."""
    if not isinstance(error, UnicodeEncodeError):
        return None
    found = next((text for text in call.arguments if text != text.encode(errors="replace").decode()), None)
    if found is None:
        return None
    return f"the argument {os.fsencode(found)!r} is not UTF-8 text; type it again", ExitCode.USAGE


def _error_line(error: Exception) -> tuple[str, ExitCode]:
    match error:
        case FoxcastError():
            return redact_message(str(error)), exit_code(error)
        case typer.TyperException():
            return _usage_message(error), ExitCode.USAGE
        case _:
            text = describe_error_with_type(error).rstrip(": ")
            return f"unexpected {text}; run again as foxcast --debug ... and report the traceback", ExitCode.FAILED


def _usage_message(error: typer.TyperException) -> str:
    # Typer puts the kind of error in front of the messages of its checks.
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    message = message[:1].lower() + message[1:]
    if getattr(error, "option_name", None) in GLOBAL_OPTIONS:
        return f"{message}; it goes before the command: foxcast {getattr(error, 'option_name', '')} ... COMMAND"
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path if context else 'foxcast'} --help"
