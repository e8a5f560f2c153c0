"""`foxcast leaks`: check everything that forecasts read for information from after the cutoff.

With --self-test it tests the guards with planted leaks.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console

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
from bot.cli.output.model_memory import memory_to_json, print_memory
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.light_dataclass import dataclass
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
from bot.evaluation.seen_documents import DocumentKind, GuardLayer
from bot.evaluation.value_text import format_number
from bot.forecasting.services import ModelGateway
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.database import instance_lock
from bot.store.ledger import LAB_FOLDER, LEDGER_FILE, open_ledger, open_ledger_read_only, state_folder
from bot.store.serialization import format_timestamp

MAX_LEAKS_SHOWN = 20


NAME_CHARS_SHOWN = 60


JUDGED_DOCUMENTS = (DocumentKind.RESULT, DocumentKind.PAGE)


DOCUMENT_LAYERS: tuple[GuardLayer | None, ...] = (None, *GuardLayer)


def print_leak_audit(console: Console, audit: LeakAudit) -> None:
    """Print an audit for a person."""
    skipped = f" ({audit.unguarded} clairvoyant ones skipped)" if audit.unguarded else ""
    console.print(f"forecasts: {audit.forecasts}{skipped}; documents: {len(audit.documents)}")
    if audit.documents:
        counts, unjudged = audit.count_by_layer(), audit.count_unjudged()
        columns = (
            TableColumn("document"),
            *(TableColumn(_layer_title(layer), ColumnKind.NUMBER) for layer in DOCUMENT_LAYERS),
        )
        rows = [
            (kind.value, *(str(counts.get((kind, layer), 0)) for layer in DOCUMENT_LAYERS)) for kind in DocumentKind
        ]
        console.print(make_table(columns, rows))
        texts = (f"{count} of the {counts.get((kind, None), 0)} {kind}s" for kind, count in unjudged.items())
        if kept := ", ".join(texts):
            console.print(f"kept without a verdict of the filter: {kept}")
        console.print(f"{audit.clamped_points} data points after the cutoff left out")
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
        console.print("each was caught by its own layer, and got through when only that layer was off")
    else:
        console.print("a guard does not work: do not trust backtests before this is fixed")


def leak_audit_to_json(audit: LeakAudit) -> dict[str, Any]:
    """Return an audit as JSON values."""
    counts, confusion = audit.count_by_layer(), audit.confusion_matrix()
    return {
        "forecasts": audit.forecasts,
        "unguarded": audit.unguarded,
        "documents": len(audit.documents),
        "by_kind": {
            kind.value: {_layer_name(layer): counts.get((kind, layer), 0) for layer in DOCUMENT_LAYERS}
            for kind in DocumentKind
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
        console.print(f"the auditor stopped: {audit.interruption}")
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
    console.print(f"leaks among the kept documents, according to the auditor: {format_number(100 * residual, 1)} %")


def _print_leaks(console: Console, leaks: Sequence[AuditedDocument]) -> None:
    if not leaks:
        console.print("no leaks found")
        return
    print_heading(console, "Leaks")
    columns = (
        TableColumn("question"),
        TableColumn("document"),
        TableColumn("name", ColumnKind.TITLE),
        TableColumn("why", ColumnKind.TEXT),
    )
    console.print(make_table(columns, [_leak_cells(one) for one in leaks[:MAX_LEAKS_SHOWN]]))
    if len(leaks) > MAX_LEAKS_SHOWN:
        console.print(f"and {len(leaks) - MAX_LEAKS_SHOWN} more; see all with: foxcast leaks --json")


def _leak_cells(one: AuditedDocument) -> tuple[TableCell, ...]:
    return (one.ref, one.document.kind.value, one.document.name[:NAME_CHARS_SHOWN], _leak_reason(one))


def _proof_cells(proof: LayerProof) -> tuple[TableCell, ...]:
    return (
        proof.leak.name,
        proof.leak.layer.value,
        "got through" if proof.came_through else f"caught {proof.own_count}",
        *("got through" if layer in proof.passes_without else "caught" for layer in TESTED_LAYERS),
        "as expected" if proof.is_proven else "WRONG",
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
    opinion = f"the auditor: {one.reason or 'later information'}" if one.opinion is AuditOpinion.LEAK else ""
    return "; ".join(part for part in (one.finding.value if one.finding else "", opinion) if part)


def _layer_name(layer: GuardLayer | None) -> str:
    return "kept" if layer is None else layer.value


def _layer_title(layer: GuardLayer | None) -> str:
    return "dropped unchecked" if layer is GuardLayer.UNCHECKED else _layer_name(layer)


app = typer.Typer(add_completion=False)


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaksOptions:
    """What is checked, and how."""

    since: Annotated[
        date | None,
        typer.Option(parser=parse_date, metavar="DATE", help="Only documents read since this day (UTC)."),
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
    # The opinion of a model is only an opinion; a finding of a rule is a fault.
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
        message = f"there is no ledger at {path} yet; create one with: {first}"
        raise NotFoundError(message)
    since = None if options.since is None else datetime.combine(options.since, time(), UTC)
    with_model = AUDITOR_ROLE in config.llm.roles and not options.rules_only
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(_open_auditor_models(config, registry)) if with_model else None
        ledger = await stack.enter_async_context(open_ledger_read_only(path))
        audit_run = LeakAuditRun(
            ledger=ledger,
            answer_hosts=blocked_hosts(registry),
            blocked_hosts=config.research.blocked_hosts,
            results=config.research.results,
            auditor=None if models is None else ModelLeakAuditor(models),
            since=since,
        )
        return await audit_run.run(), await memory_on_record(ledger, config.llm, since=since)


@asynccontextmanager
async def _open_auditor_models(config: Config, registry: Registry) -> AsyncIterator[ModelGateway]:
    """Open the model gateway for the auditor; its calls are recorded in the backtest ledger, not with the forecasts.

    Raises StateFolderLockedError while a backtest with models runs.
    """
    role = config.llm.roles[AUDITOR_ROLE]
    providers = {model.partition(":")[0] for model in (role.model, role.fallback) if model is not None}
    if missing := sorted(providers - {*registry.models.names}):
        message = f"[llm.roles.{AUDITOR_ROLE}]: no enabled plugin offers the provider {', '.join(missing)}"
        raise ConfigError(message)
    limits = {name: table for name, table in config.llm.providers.items() if name in providers}
    section = config.llm.model_copy(update={"roles": {AUDITOR_ROLE: role}, "providers": limits})
    auditor_config, clock, folder = config.model_copy(update={"llm": section}), SystemClock(), config.state / LAB_FOLDER
    random = SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        client = RetryingHttpClient(clock=clock, random=random, proxies=config.http.proxies)
        http = await stack.enter_async_context(client)
        plugins = PluginFactory(
            config=auditor_config, registry=registry, clock=clock, random=random, http=http, folder=folder, stack=stack
        )
        yield await plugins.open_model_gateway(ledger, _log_warning)


async def _log_warning(subject: str, text: str) -> None:
    log.warning(subject, text=text)
