"""The entry point: global options, one line on stderr for each error, and the exit code."""

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from bot.cli.command_exit import ExitCode, TerminatedBySignal, exit_code, exit_code_help
from bot.cli.command_table import CommandGroup
from bot.cli.options import CommandInvocation
from bot.cli.output.safe_output import redacted_streams
from bot.config.process_setup import configure_process
from bot.core.errors import FoxcastError, describe_error_with_type
from bot.core.plain_text import replace_invisible
from bot.core.redaction import redact_foreign_message, redact_message

GLOBAL_OPTIONS = frozenset({"--config", "--debug", "--version"})

app = typer.Typer(
    cls=CommandGroup,
    help="Foxcast forecasts questions of prediction markets and tournaments and records why.",
    epilog=exit_code_help(),
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - the form of a callback for a flag
    if asked:
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
    """Keep the options that stand before the command; without a command print the help."""
    call = ctx.ensure_object(CommandInvocation)
    call.config_path, call.debug = config, debug
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), nl=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` are those of the process unless given."""
    configure_process()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A title in a script that the terminal cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    with redacted_streams():
        return _run_command(arguments)


def _run_command(arguments: Sequence[str] | None) -> int:
    call = CommandInvocation(arguments=tuple(sys.argv[1:] if arguments is None else arguments))
    try:
        result = get_command(app).main([*call.arguments], prog_name="foxcast", standalone_mode=False, obj=call)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE
    except SystemExit as end:
        # Typer saw the broken pipe first, and has made stdout safe to flush.
        if isinstance(end.__context__, BrokenPipeError):
            return ExitCode.PIPE
        raise
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except TerminatedBySignal:
        return ExitCode.TERMINATED
    except Exception as error:  # noqa: BLE001 - the last place that can turn an error into one line
        return _report_error(error, call)
    return result if isinstance(result, int) else ExitCode.DONE


def _report_error(error: Exception, call: CommandInvocation) -> int:
    if call.debug:
        typer.echo(
            replace_invisible(redact_foreign_message("".join(traceback.format_exception(error)))), err=True, nl=False
        )
    message, code = _error_line(error)
    typer.echo(f"foxcast: {replace_invisible(message)}", err=True)
    return code


def _error_line(error: Exception) -> tuple[str, ExitCode]:
    match error:
        case FoxcastError():
            return redact_message(str(error)), exit_code(error)
        case typer.TyperException():
            return _usage_message(error), ExitCode.USAGE
        case _:
            what = describe_error_with_type(error).rstrip(": ")
            return f"unexpected {what}; run again as foxcast --debug ... and report the traceback", ExitCode.FAILED


def _usage_message(error: typer.TyperException) -> str:
    # Typer passes on what its own checks say with the kind of error in front.
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    message = message[:1].lower() + message[1:]
    if getattr(error, "option_name", None) in GLOBAL_OPTIONS:
        return f"{message}; it stands before the command: foxcast {getattr(error, 'option_name', '')} ... COMMAND"
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path if context else 'foxcast'} --help"
