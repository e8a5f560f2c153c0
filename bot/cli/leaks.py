"""`foxcast leaks`: check everything that forecasts read for information from after the cutoff.

And prove the guards with planted leaks.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console

from bot.app.app import LAB_FOLDER
from bot.app.plugin_factory import PluginFactory, blocked_hosts
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.options import options_from_dataclass, parse_date
from bot.cli.output.console import (
    ColumnKind,
    TableCell,
    TableColumn,
    make_table,
    print_heading,
    print_json,
    stdout_console,
)
from bot.cli.output.formatting import format_number
from bot.cli.output.model_memory import memory_to_json, print_memory
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.evaluation.leak_audit import (
    AUDITOR_ROLE,
    AuditedDocument,
    AuditOpinion,
    LeakAudit,
    LeakAuditRun,
    ModelLeakAuditor,
)
from bot.evaluation.model_memory import MemoryReport, memory_on_record
from bot.evaluation.planted_leaks import TESTED_LAYERS, LayerProof, LeakPlanting
from bot.evaluation.seen_documents import DocumentKind as Document
from bot.evaluation.seen_documents import GuardLayer
from bot.forecasting.services import ModelGateway
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE, open_ledger, open_ledger_read_only, state_folder
from bot.store.serialization import format_timestamp

MAX_LEAKS_SHOWN = 20


NAME_CHARS_SHOWN = 60


JUDGED_DOCUMENTS = (Document.RESULT, Document.PAGE)


DOCUMENT_FATES: tuple[GuardLayer | None, ...] = (None, *GuardLayer)


def print_leak_audit(console: Console, audit: LeakAudit) -> None:
    """Print an audit for a person."""
    apart = f", and {audit.unguarded} left aside that may see everything" if audit.unguarded else ""
    console.print(f"forecasts: {audit.forecasts}{apart}; documents: {len(audit.documents)}")
    if audit.documents:
        counts, unjudged = audit.count_by_layer(), audit.count_unjudged()
        columns = (
            TableColumn("document"),
            *(TableColumn(_fate_title(fate), ColumnKind.NUMBER) for fate in DOCUMENT_FATES),
        )
        rows = [(kind.value, *(str(counts.get((kind, fate), 0)) for fate in DOCUMENT_FATES)) for kind in Document]
        console.print(make_table(columns, rows))
        told = (f"{count} of the {counts.get((kind, None), 0)} {kind}s" for kind, count in unjudged.items())
        if kept := ", ".join(told):
            console.print(f"kept without a verdict of the filter: {kept}")
        console.print(f"{audit.clamped_points} points of series left out")
    _print_opinions(console, audit)
    _print_leaks(console, audit.leaks)


def print_self_test(console: Console, proofs: Sequence[LayerProof]) -> None:
    """Print a self-test for a person."""
    columns = (
        TableColumn("planted leak", ColumnKind.TEXT),
        TableColumn("layer"),
        TableColumn("all on"),
        *(TableColumn(f"no {layer}") for layer in TESTED_LAYERS),
        TableColumn(""),
    )
    console.print(make_table(columns, [_proof_cells(proof) for proof in proofs]))
    caught = sum(not proof.came_through for proof in proofs)
    console.print(f"{caught} of {len(proofs)} planted leaks caught with all layers on")
    if all(proof.is_proven for proof in proofs):
        console.print("each was caught by its own layer, and came through when that one alone was off")
    else:
        console.print("a guard does not do its work: trust no backtest before this is mended")


def leak_audit_to_json(audit: LeakAudit) -> dict[str, Any]:
    """Return an audit as JSON values."""
    counts, confusion = audit.count_by_layer(), audit.confusion_matrix()
    return {
        "forecasts": audit.forecasts,
        "unguarded": audit.unguarded,
        "documents": len(audit.documents),
        "by_kind": {
            kind.value: {_fate_name(fate): counts.get((kind, fate), 0) for fate in DOCUMENT_FATES} for kind in Document
        },
        "kept_without_verdict": {kind.value: audit.count_unjudged().get(kind, 0) for kind in JUDGED_DOCUMENTS},
        "points_left_out": audit.clamped_points,
        "confusion": {
            opinion.value: {"kept": confusion[opinion, True], "dropped": confusion[opinion, False]}
            for opinion in AuditOpinion
        },
        "residual": audit.residual_leak_share(),
        "hindered": audit.interruption or None,
        "leaks": [_leak_to_json(one) for one in audit.leaks],
    }


def self_test_to_json(proofs: Sequence[LayerProof]) -> dict[str, Any]:
    """Return a self-test as JSON values."""
    return {
        "holds": all(proof.is_proven for proof in proofs),
        "leaks": [
            {
                "name": proof.leak.name,
                "layer": proof.leak.layer.value,
                "caught": not proof.came_through,
                "count": proof.own_count,
                "passes_without": [layer.value for layer in proof.passes_without],
                "holds": proof.is_proven,
            }
            for proof in proofs
        ],
    }


def _print_opinions(console: Console, audit: LeakAudit) -> None:
    if audit.interruption:
        console.print(f"the auditor gave no more opinions: {audit.interruption}")
    if (residual := audit.residual_leak_share()) is None:
        return
    confusion = audit.confusion_matrix()
    print_heading(console, "The auditor against the filter")
    columns = (
        TableColumn("auditor"),
        TableColumn("filter kept", ColumnKind.NUMBER),
        TableColumn("filter dropped", ColumnKind.NUMBER),
    )
    rows = [(opinion.value, str(confusion[opinion, True]), str(confusion[opinion, False])) for opinion in AuditOpinion]
    console.print(make_table(columns, rows))
    console.print(f"leaks among all that was kept, by the auditor: {format_number(100 * residual, 1)} %")


def _print_leaks(console: Console, leaks: Sequence[AuditedDocument]) -> None:
    if not leaks:
        console.print("nothing was found that should not have been read")
        return
    print_heading(console, "What should not have been read")
    columns = (
        TableColumn("question"),
        TableColumn("document"),
        TableColumn("name", ColumnKind.TITLE),
        TableColumn("why", ColumnKind.TEXT),
    )
    console.print(make_table(columns, [_leak_cells(one) for one in leaks[:MAX_LEAKS_SHOWN]]))
    if len(leaks) > MAX_LEAKS_SHOWN:
        console.print(f"and {len(leaks) - MAX_LEAKS_SHOWN} more; all of them: foxcast leaks --json")


def _leak_cells(one: AuditedDocument) -> tuple[TableCell, ...]:
    return (one.ref, one.document.kind.value, one.document.name[:NAME_CHARS_SHOWN], _leak_reason(one))


def _proof_cells(proof: LayerProof) -> tuple[TableCell, ...]:
    return (
        proof.leak.name,
        proof.leak.layer.value,
        "came through" if proof.came_through else f"caught {proof.own_count}",
        *("came through" if layer in proof.passes_without else "caught" for layer in TESTED_LAYERS),
        "as it should" if proof.is_proven else "WRONG",
    )


def _leak_to_json(one: AuditedDocument) -> dict[str, Any]:
    return {
        "forecast": one.scope,
        "question": one.ref,
        "trial": one.document.trial,
        "document": one.document.kind.value,
        "name": one.document.name,
        "dated": None if one.document.dated is None else format_timestamp(one.document.dated),
        "finding": None if one.finding is None else one.finding.value,
        "opinion": None if one.opinion is None else one.opinion.value,
        "why": _leak_reason(one),
    }


def _leak_reason(one: AuditedDocument) -> str:
    said = f"the auditor: {one.reason or 'tells of later'}" if one.opinion is AuditOpinion.LEAK else ""
    return "; ".join(part for part in (one.finding.value if one.finding else "", said) if part)


def _fate_name(fate: GuardLayer | None) -> str:
    return "kept" if fate is None else fate.value


def _fate_title(fate: GuardLayer | None) -> str:
    return "dropped unchecked" if fate is GuardLayer.UNCHECKED else _fate_name(fate)


app = typer.Typer(add_completion=False)


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaksOptions:
    """What is audited, and by whom."""

    since: Annotated[
        date | None,
        typer.Option(parser=parse_date, metavar="DATE", help="Only what was read since this day (UTC)."),
    ] = None
    backtests: Annotated[bool, typer.Option("--backtests", help="Check backtests instead of the ledger.")] = False
    rules_only: Annotated[
        bool, typer.Option("--rules-only", help="Use rules only, even if a model has the role auditor.")
    ] = False
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Test the guards with planted leaks, each guard on and off; calls no model."),
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@app.command()
@options_from_dataclass(LeaksOptions)
def leaks(ctx: typer.Context, options: LeaksOptions) -> None:
    """Check everything that forecasts read for information from after the cutoff."""
    if options.self_test:
        load_command_config(ctx)
        _run_self_test(as_json=options.as_json)
        return
    config, registry = load_config_and_plugins(ctx)
    audit, memory = asyncio.run(_run_audit(config, registry, options))
    if options.as_json:
        print_json({**leak_audit_to_json(audit), "memory": memory_to_json(memory)})
    else:
        print_leak_audit(stdout_console(), audit)
        print_memory(stdout_console(), memory)
    # A model's opinion is one; what a rule finds is a fault.
    if any(one.finding is not None for one in audit.documents):
        raise typer.Exit(ExitCode.LEAK)


def _run_self_test(*, as_json: bool) -> None:
    proofs = asyncio.run(_plant_leaks())
    if as_json:
        print_json(self_test_to_json(proofs))
    else:
        print_self_test(stdout_console(), proofs)
    if not all(proof.is_proven for proof in proofs):
        raise typer.Exit(ExitCode.LEAK)


async def _plant_leaks() -> list[LayerProof]:
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        async with open_ledger(Path(folder) / LEDGER_FILE, now=clock.now()) as ledger:
            return await LeakPlanting(ledger, clock).prove_layers()


async def _run_audit(config: Config, registry: Registry, options: LeaksOptions) -> tuple[LeakAudit, MemoryReport]:
    path = (config.state / LAB_FOLDER if options.backtests else state_folder(config)) / LEDGER_FILE
    if not path.exists():
        first = "foxcast backtest" if options.backtests else "foxcast run --once"
        message = f"there is no ledger at {path} yet; make one with: {first}"
        raise NotFoundError(message)
    since = None if options.since is None else datetime.combine(options.since, time(), UTC)
    asks = AUDITOR_ROLE in config.llm.roles and not options.rules_only
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(_open_auditor_models(config, registry)) if asks else None
        ledger = await stack.enter_async_context(open_ledger_read_only(path))
        audition = LeakAuditRun(
            ledger=ledger,
            answer_hosts=blocked_hosts(registry),
            blocked_hosts=config.research.blocked_hosts,
            results=config.research.results,
            auditor=None if models is None else ModelLeakAuditor(models),
            since=since,
        )
        return await audition.run(), await memory_on_record(ledger, config.llm, since=since)


@asynccontextmanager
async def _open_auditor_models(config: Config, registry: Registry) -> AsyncIterator[ModelGateway]:
    """Open the gateway for the auditor alone; what it is asked is kept beside backtests, as nothing of a forecast is.

    Raises InstanceLocked where a backtest with models runs.
    """
    role = config.llm.roles[AUDITOR_ROLE]
    wanted = {model.partition(":")[0] for model in (role.model, role.fallback) if model is not None}
    if missing := sorted(wanted - {*registry.models.names}):
        message = f"[llm.roles.{AUDITOR_ROLE}]: no enabled plugin offers the provider {', '.join(missing)}"
        raise ConfigError(message)
    limits = {name: table for name, table in config.llm.providers.items() if name in wanted}
    section = config.llm.model_copy(update={"roles": {AUDITOR_ROLE: role}, "providers": limits})
    alone, clock, folder = config.model_copy(update={"llm": section}), SystemClock(), config.state / LAB_FOLDER
    random = SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        client = RetryingHttpClient(clock=clock, random=random, proxies=config.http.proxies)
        http = await stack.enter_async_context(client)
        outfitter = PluginFactory(
            config=alone, registry=registry, clock=clock, random=random, http=http, folder=folder, stack=stack
        )
        yield await outfitter.open_model_gateway(ledger, _log_warning)


async def _log_warning(subject: str, text: str) -> None:
    log.warning(subject, text=text)
