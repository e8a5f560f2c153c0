"""``foxcast run``: the daemon, or one pass of every job with a summary at its end."""

import asyncio
import logging
import math
import signal
from contextlib import AbstractAsyncContextManager
from typing import Annotated, NoReturn

import structlog
import typer

from bot.app import PATIENCE_S, App, open_app
from bot.cli.agree import held_back
from bot.cli.call import Call
from bot.cli.exits import SIGNALS, ExitCode
from bot.cli.failed_trials import failures_code, failures_line
from bot.cli.output.console import progress, stdout
from bot.cli.output.plain import plain
from bot.cli.output.summary import print_summary
from bot.cli.pass_progress import PassProgress, writes_code, writes_told
from bot.cli.session import equipped
from bot.cli.summary import summary_of
from bot.cli.usr1 import halt_on_signal
from bot.cli.vitals import Recorder, Tally
from bot.clock import SystemClock
from bot.daemon.serve import obey_signals, serve
from bot.daemon.serve import once as one_pass
from bot.daemon.watch import DRAIN_S, Exit, ExitReason, Watch
from bot.errors import ConfigError
from bot.gate.brake import STOP_FILE
from bot.store.failures import RecentFailures, failures_since
from bot.store.sent import SentSince, sent_since

app = typer.Typer(add_completion=False)
log = structlog.get_logger()

CODES = {
    ExitReason.DONE: ExitCode.DONE,
    ExitReason.ASKED: ExitCode.DONE,
    ExitReason.STORE: ExitCode.STORE,
    ExitReason.UNAUTHORIZED: ExitCode.UNAUTHORIZED,
    ExitReason.UNAVAILABLE: ExitCode.UNAVAILABLE,
}

Opening = AbstractAsyncContextManager[App]


@app.command()
def run(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="One pass of every job, a summary, and exit.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what forecasts are expected to cost.")] = False,
    notify_socket: Annotated[str | None, typer.Option(envvar="NOTIFY_SOCKET", hidden=True)] = None,
) -> None:
    """Find questions, forecast, submit, resolve and score: for ever, or once."""
    config, registry = equipped(ctx, least=logging.WARNING if once else logging.NOTSET)
    if not config.venues:
        message = "no venue is configured: name a file with --config, or add a [venues.NAME] table to config.toml"
        raise ConfigError(message)
    for broken in registry.broken:
        log.warning("plugin is broken", plugin=broken.plugin.name, reason=broken.reason)
    opening = open_app(
        config, registry, clock=SystemClock(), patience_s=math.inf if once else PATIENCE_S, confirmed=yes
    )
    watch = Watch(seed=config.seed, notify_socket=notify_socket)
    if once:
        _one_pass(opening, ctx.ensure_object(Call))
    end = asyncio.run(_for_ever(opening, watch))
    _say_unclean(end)
    raise typer.Exit(CODES.get(end.reason, ExitCode.FAILED))


def _one_pass(opening: Opening, call: Call) -> NoReturn:
    stops: list[signal.Signals] = []
    end, failed, sent = asyncio.run(_once(opening, call, stops))
    for line in writes_told(sent):
        typer.echo(plain(f"foxcast: {line}"), err=True)
    if stops and end.reason in {ExitReason.ASKED, ExitReason.CUT}:
        told = f"; {end.detail}" if end.detail else ""
        typer.echo(plain(f"foxcast: interrupted{told}; what is left is done by the next run"), err=True)
        raise typer.Exit(SIGNALS[stops[0]])
    _say_unclean(end)
    if line := failures_line(failed):
        typer.echo(plain(f"foxcast: {line}"), err=True)
    code = CODES.get(end.reason, ExitCode.FAILED)
    raise typer.Exit(code or writes_code(sent) or failures_code(failed))


def _say_unclean(end: Exit) -> None:
    if not end.clean:
        typer.echo(plain(f"foxcast: {end.reason.value}: {end.detail}"), err=True)


async def _for_ever(opening: Opening, watch: Watch) -> Exit:
    async with opening as opened:
        with obey_signals(opened.stopping), halt_on_signal(opened.config.state / STOP_FILE):
            record = Recorder(opened.ledger, opened.folder)
            log.info("running", folder=str(opened.folder), venues=[*opened.venues], stop="Ctrl-C or SIGTERM")
            jobs = [*opened.jobs(), *opened.watches()]
            return await serve(jobs, clock=opened.clock, watch=watch, record=record, stop=opened.stopping)


async def _once(opening: Opening, call: Call, stops: list[signal.Signals]) -> tuple[Exit, RecentFailures, SentSince]:
    """Do one pass, tell of it, and return its end with what went wrong with its trials, and with what it sent.

    The signal that stopped it, if one did, is added to the list.
    """

    def stop(number: signal.Signals) -> None:
        stops.append(number)
        again = "Ctrl-C again" if number is signal.SIGINT else "a second signal"
        typer.echo(f"foxcast: stopping; what runs may finish within {DRAIN_S:g} s, {again} stops at once", err=True)

    async with opening as opened:
        tally, began = Tally(Recorder(opened.ledger, opened.folder)), opened.clock.now()
        this = PassProgress(opened, began)
        with obey_signals(opened.stopping, stop), progress() as bars:
            async with this.shown(bars):
                jobs = this.followed(opened.jobs())
                end = await one_pass(jobs, clock=opened.clock, record=tally, stop=opened.stopping)
        print_summary(stdout(), await summary_of(opened, tally.runs), call)
        if held := await held_back(opened):
            stdout().print(f"\n{held}")
        readers = opened.ledger.forecasts.readers
        return end, await failures_since(readers, began), await sent_since(readers, began)
