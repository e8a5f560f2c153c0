"""``foxcast leaks``: what forecasts read, checked again after the fact; and planted leaks, to prove the guards."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated

import structlog
import typer

from bot.app import LAB_FOLDER, LEDGER_FILE, folder_of
from bot.cli.exits import ExitCode
from bot.cli.options import day, spread
from bot.cli.output.console import emit, stdout
from bot.cli.output.leaks import audit_as_plain, print_audit, print_proofs, proofs_as_plain
from bot.cli.output.memory import memory_as_plain, print_memory
from bot.cli.session import configured, equipped
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.desk.parts import Models
from bot.errors import ConfigError, NotFound
from bot.http import HttpReader
from bot.lab.leaks import ROLE, Audit, Audition, ModelAuditor
from bot.lab.model_memory import MemoryReport, memory_on_record
from bot.lab.planted import Planting, Proof
from bot.outfit import Outfitter, hosts_of
from bot.registry import Registry
from bot.store.ledger import open_ledger, read_ledger
from bot.store.lock import instance_lock

app = typer.Typer(add_completion=False)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is audited, and by whom."""

    since: Annotated[
        date | None, typer.Option(parser=day, metavar="DATE", help="Only what was read on this day (UTC) or later.")
    ] = None
    backtests: Annotated[bool, typer.Option("--backtests", help="Audit backtests instead of the ledger.")] = False
    rules_only: Annotated[
        bool, typer.Option("--rules-only", help="Ask no model, though one plays the role auditor.")
    ] = False
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Plant leaks instead, with each guard on and off: nothing is asked.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@app.command()
@spread(Options)
def leaks(ctx: typer.Context, options: Options) -> None:
    """Check everything that forecasts read for knowledge of the future."""
    if options.self_test:
        configured(ctx)
        _prove(as_json=options.as_json)
        return
    config, registry = equipped(ctx)
    audit, memory = asyncio.run(_audited(config, registry, options))
    if options.as_json:
        emit({**audit_as_plain(audit), "memory": memory_as_plain(memory)})
    else:
        print_audit(stdout(), audit)
        print_memory(stdout(), memory)
    # A model's opinion is one; what a rule finds is a fault.
    if any(one.finding is not None for one in audit.documents):
        raise typer.Exit(ExitCode.LEAK)


def _prove(*, as_json: bool) -> None:
    proofs = asyncio.run(_proofs())
    if as_json:
        emit(proofs_as_plain(proofs))
    else:
        print_proofs(stdout(), proofs)
    if not all(proof.holds for proof in proofs):
        raise typer.Exit(ExitCode.LEAK)


async def _proofs() -> list[Proof]:
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        async with open_ledger(Path(folder) / LEDGER_FILE, now=clock.now()) as ledger:
            return await Planting(ledger, clock).prove()


async def _audited(config: Config, registry: Registry, options: Options) -> tuple[Audit, MemoryReport]:
    path = (config.state / LAB_FOLDER if options.backtests else folder_of(config)) / LEDGER_FILE
    if not path.exists():
        first = "foxcast backtest" if options.backtests else "foxcast run --once"
        message = f"there is no ledger at {path} yet; make one with: {first}"
        raise NotFound(message)
    since = None if options.since is None else datetime.combine(options.since, time(), UTC)
    asks = ROLE in config.llm.roles and not options.rules_only
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(_models(config, registry)) if asks else None
        ledger = await stack.enter_async_context(read_ledger(path))
        audition = Audition(
            ledger=ledger,
            hosts=hosts_of(registry),
            never=config.desk.blocked_hosts,
            results=config.desk.results,
            auditor=None if models is None else ModelAuditor(models),
            since=since,
        )
        return await audition.run(), await memory_on_record(ledger, config.llm, since=since)


@asynccontextmanager
async def _models(config: Config, registry: Registry) -> AsyncIterator[Models]:
    """Open the gateway for the auditor alone; what it is asked is kept beside backtests, as nothing of a forecast is.

    Raises InstanceLocked where a backtest with models runs.
    """
    role = config.llm.roles[ROLE]
    wanted = {model.partition(":")[0] for model in (role.model, role.fallback) if model is not None}
    if missing := sorted(wanted - {*registry.models.names}):
        message = f"[llm.roles.{ROLE}]: no enabled plugin offers the provider {', '.join(missing)}"
        raise ConfigError(message)
    limits = {name: table for name, table in config.llm.providers.items() if name in wanted}
    section = config.llm.model_copy(update={"roles": {ROLE: role}, "providers": limits})
    alone, clock, folder = config.model_copy(update={"llm": section}), SystemClock(), config.state / LAB_FOLDER
    random = SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        http = await stack.enter_async_context(HttpReader(clock=clock, random=random))
        outfitter = Outfitter(
            config=alone, registry=registry, clock=clock, random=random, http=http, folder=folder, stack=stack
        )
        yield await outfitter.gateway(ledger, _told)


async def _told(subject: str, text: str) -> None:
    log.warning(subject, text=text)
