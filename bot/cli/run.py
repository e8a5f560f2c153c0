"""`foxcast run`: the daemon, or one pass of every job.

SIGUSR1 halts all submissions.
"""

import asyncio
import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
import typer

from bot.app.app import FORECAST_PASS_LIMIT_S, FoxcastApp, open_app
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.options import CommandInvocation
from bot.cli.serve import serve_web
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, StoreError
from bot.core.plain_text import replace_invisible
from bot.daemon.recorder import DaemonRecorder
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason
from bot.daemon.service import handle_signals, log_stop, run_daemon
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch
from bot.plugin_system.discovery import BUILT_IN_CONFIG

signal_log = structlog.get_logger(__name__)


@contextmanager
def halt_on_signal(stop_file: Path) -> Iterator[None]:
    """Create the stop file at each SIGUSR1 while the block runs; enter it in the main thread, in a running loop."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _halt_submissions, stop_file)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


def _halt_submissions(stop_file: Path) -> None:
    try:
        engage_kill_switch(stop_file, "SIGUSR1")
    except StoreError as error:
        signal_log.error("cannot halt", file=str(stop_file), error=str(error))
        return
    signal_log.warning("halted by a signal", file=str(stop_file), resume="foxcast resume")


app = typer.Typer(add_completion=False)


log = structlog.get_logger()


EXIT_REASON_CODES = {
    ExitReason.DONE: ExitCode.DONE,
    ExitReason.ASKED: ExitCode.DONE,
    ExitReason.STORE: ExitCode.STORE,
    ExitReason.UNAUTHORIZED: ExitCode.UNAUTHORIZED,
    ExitReason.UNAVAILABLE: ExitCode.UNAVAILABLE,
}


AppOpener = AbstractAsyncContextManager[FoxcastApp]


@app.command()
def run(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run every job once, print a summary and exit.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the expected cost without asking.")] = False,
    notify_socket: Annotated[str | None, typer.Option(envvar="NOTIFY_SOCKET", hidden=True)] = None,
) -> None:
    """Run the daemon: find questions, forecast, submit, resolve and score; --once for one pass."""
    config, registry = load_config_and_plugins(
        ctx, min_level=logging.WARNING if once else logging.NOTSET, built_in=BUILT_IN_CONFIG if once else None
    )
    if not config.venues:
        message = (
            "no venue is configured: name a file with --config, or add a [venues.NAME] table to config.toml; "
            "`foxcast demo` writes a file to start from, state/demo/real.toml, and `foxcast run --once` needs none"
        )
        raise ConfigError(message)
    if config.sources.document.is_built_in:
        typer.echo(f"foxcast: {replace_invisible(_built_in_notice(config))}", err=True)
    for broken in registry.broken:
        log.warning("plugin is broken", plugin=broken.plugin.name, reason=broken.reason)
    open_configured_app = partial(
        open_app,
        config,
        registry,
        clock=SystemClock(),
        pass_limit_s=math.inf if once else FORECAST_PASS_LIMIT_S,
        confirmed=yes,
    )
    limits = DaemonLimits(seed=config.seed, notify_socket=notify_socket)
    if once:
        # With tables and progress bars, which a daemon does not need.
        from bot.cli.single_pass import run_single_pass

        end, code = run_single_pass(open_configured_app(), ctx.ensure_object(CommandInvocation))
    else:
        end, code = asyncio.run(_run_daemon(open_configured_app, limits)), ExitCode.DONE
    if not end.is_clean:
        typer.echo(replace_invisible(f"foxcast: {end.reason.value}: {end.detail}"), err=True)
    raise typer.Exit(EXIT_REASON_CODES.get(end.reason, ExitCode.FAILED) or code)


def _built_in_notice(config: Config) -> str:
    forecasters = sorted({name for table in config.venues.values() for name in table.forecasters})
    return (
        f"no configuration file found; this pass uses the built-in one: venue {', '.join(config.venues)}, "
        f"forecaster {', '.join(forecasters)}, mode {config.mode}, results in {config.state}"
    )


async def _run_daemon(open_configured_app: Callable[[], AppOpener], limits: DaemonLimits) -> DaemonExit:
    """Run the daemon until it ends; where a part of a plugin can be opened at last, it starts again with that part."""
    while True:
        end, is_reopening = await _run_daemon_once(open_configured_app(), limits)
        if not is_reopening or not end.is_clean:
            return end


async def _run_daemon_once(app_opener: AppOpener, limits: DaemonLimits) -> tuple[DaemonExit, bool]:
    async with app_opener as opened:
        interrupted: list[signal.Signals] = []

        def stop(number: signal.Signals) -> None:
            interrupted.append(number)
            log_stop(number)

        with handle_signals(opened.stopping, stop), halt_on_signal(opened.config.state / STOP_FILE):
            record = DaemonRecorder(opened.ledger, opened.folder)
            log.info("running", folder=str(opened.folder), venues=[*opened.venues], stop="Ctrl-C or SIGTERM")
            jobs = [*opened.jobs(), *opened.price_watches()]
            await record.record_start(opened.clock.now())
            async with serve_web(opened, opened.config.serve.forecaster):
                end = await run_daemon(jobs, clock=opened.clock, limits=limits, record=record, stop=opened.stopping)
            await record.record_end(end, opened.clock.now())
            return end, opened.reopening.is_set() and not interrupted
