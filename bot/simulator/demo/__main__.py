"""``python -m bot.simulator.demo``.

The program behind ``foxcast demo``; its one argument is a DemoRequest as JSON.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from bot.cli.command_exit import SIGNAL_EXIT_CODES, ExitCode, exit_code
from bot.cli.output.console import SafeConsole
from bot.cli.output.files import require_writable, write_text_atomically
from bot.config.process_setup import configure_process
from bot.core.clock import SystemClock
from bot.core.errors import FoxcastError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.core.redaction import redact_message
from bot.daemon.runner import ExitReason
from bot.simulator.demo.browser_view import serve_demo_dashboard
from bot.simulator.demo.configuration import DEFAULT_DAYS, DEFAULT_QUESTIONS, DEFAULT_SEED, LIMIT_S, LOG_FILE, DemoPlan
from bot.simulator.demo.demo_run import DemoResult, DemoRun
from bot.simulator.demo.final_report import print_figures, print_next_commands
from bot.simulator.demo.folder import lock_demo_folder, require_outside
from bot.simulator.demo.screen import DemoScreen

FAST_DAYS, FAST_SIZE = 14, 60
_CODES = {ExitReason.STORE: ExitCode.STORE, ExitReason.UNAUTHORIZED: ExitCode.UNAUTHORIZED}
# Lines are not broken for a pipe.
_NO_WRAP_WIDTH = 20_000
_SVG_WIDTH, _SVG_HEIGHT = 120, 50
# A person who sets the days will wait for them.
_KEEP_LIMIT_S = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """The request of the demo; ``begun_s`` is when the command was called, ``program`` how it is called again."""

    folder: Path
    program: str = "foxcast"
    begun_s: float | None = None
    seed: int = DEFAULT_SEED
    days: int | None = None
    fast: bool = False
    plain: bool = False
    keep: bool = False
    svg: Path | None = None
    web: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code; what goes wrong is one line on stderr."""
    configure_process()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A letter that the terminal cannot show must not end the demo.
            stream.reconfigure(errors="backslashreplace")
    asked = TypeAdapter(DemoRequest).validate_json((sys.argv[1:] if arguments is None else arguments)[0])
    try:
        return _run_request(asked)
    except FoxcastError as error:
        sys.stderr.write(f"foxcast: {replace_invisible(redact_message(str(error)))}\n")
        return exit_code(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE


def _run_request(asked: DemoRequest) -> int:
    plan = DemoPlan(
        folder=asked.folder,
        seed=asked.seed,
        days=asked.days or (FAST_DAYS if asked.fast else DEFAULT_DAYS),
        size=FAST_SIZE if asked.fast else DEFAULT_QUESTIONS,
        limit_s=LIMIT_S if asked.days is None else _KEEP_LIMIT_S,
    )
    require_outside(plan.folder, asked.svg, "--svg")
    require_writable(asked.svg, "--svg")
    with lock_demo_folder(plan.folder, keep=asked.keep, at=SystemClock().now()):
        _log_to(plan.folder / LOG_FILE)
        return _run_on_screen(asked, plan)


def _run_on_screen(asked: DemoRequest, plan: DemoPlan) -> int:
    clock, console = SystemClock(), _make_console()
    lines = asked.plain or not console.is_terminal or console.is_dumb_terminal
    screen = DemoScreen(console=console, plan=plan, plain=lines)
    begun_s = clock.monotonic() if asked.begun_s is None else asked.begun_s
    played = DemoRun(plan=plan, screen=screen, begun_s=begun_s).run()
    print_report = partial(_print_ending, screen=screen, played=played, asked=asked, took_s=clock.monotonic() - begun_s)
    print_report(console)
    if asked.svg is not None:
        recording_console = Console(
            record=True, width=_SVG_WIDTH, height=_SVG_HEIGHT, file=io.StringIO(), force_terminal=True
        )
        screen.console = recording_console
        recording_console.print(screen.picture())
        print_report(recording_console)
        write_text_atomically(asked.svg, recording_console.export_svg(title="foxcast demo (simulation)"))
    if asked.web and played.ended_at is not None and played.signal is None:
        serve_demo_dashboard(plan.folder, played.ended_at)
    return _exit_code(played)


def _print_ending(
    console: Console, *, screen: DemoScreen, played: DemoResult, asked: DemoRequest, took_s: float
) -> None:
    """Print the end: the results, and where to continue."""
    if played.figures is None:
        console.print("stopped before anything was forecast")
        return
    print_figures(console, played.figures, early=played.ended_early)
    first = (
        "" if played.first_score_s is None else f", the first forecast was scored after {played.first_score_s:.1f} s"
    )
    took = (
        f"{screen.day} days of an invented world in {took_s:.1f} s{first}; the log is {screen.plan.folder / LOG_FILE}"
    )
    console.print(Text(f"\n{took}"), soft_wrap=True)
    if played.signal is not None:
        console.print("it was interrupted; the next demo begins from the start")
    elif played.cut_short:
        console.print(f"it ended early; --days {screen.plan.days} lets it run to the end")
    print_next_commands(console, screen.plan, asked.program, played.example)


def _exit_code(played: DemoResult) -> int:
    if played.signal is not None:
        return SIGNAL_EXIT_CODES[played.signal]
    end = played.exit
    # The demo's own stop may cut off a job on a busy machine, which is no failure.
    if end is None or end.is_clean or end.reason is ExitReason.CUT:
        return ExitCode.DONE
    sys.stderr.write(
        f"foxcast: the daemon ended: {replace_invisible(end.reason.value)}: {replace_invisible(end.detail)}\n"
    )
    return _CODES.get(end.reason, ExitCode.FAILED)


def _make_console() -> Console:
    width = None if sys.stdout.isatty() else shutil.get_terminal_size((_NO_WRAP_WIDTH, 40)).columns
    return SafeConsole(width=width, markup=False, highlight=False, emoji=False)


def _log_to(path: Path) -> None:
    """Let the daemon and the libraries log to a file: the screen is for people."""
    file = path.open("a", encoding="utf-8")
    logging.basicConfig(stream=file, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
            _without_secrets,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file),
    )


def _without_secrets(_logger: object, _method: str, line: Any) -> str:  # noqa: ANN401 - as the library has it
    return redact_message(line)


if __name__ == "__main__":
    sys.exit(main())
