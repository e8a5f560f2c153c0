"""Leaks on paper: what became of all that was read, the auditor against the filter, and what should not be there."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from bot.cli.output.console import Cell, Column, Kind, heading, table
from bot.cli.output.figures import number
from bot.lab.leaks import Audit, Audited, Opinion
from bot.lab.planted import LAYERS, Proof
from bot.lab.trail import Kind as Document
from bot.lab.trail import Layer
from bot.store.codec import stamp

LISTED = 20
SHOWN = 60
JUDGED = (Document.RESULT, Document.PAGE)
FATES: tuple[Layer | None, ...] = (None, *Layer)


def print_audit(console: Console, audit: Audit) -> None:
    """Print an audit for a person."""
    apart = f", and {audit.unguarded} left aside that may see everything" if audit.unguarded else ""
    console.print(f"forecasts: {audit.forecasts}{apart}; documents: {len(audit.documents)}")
    if audit.documents:
        counts, unjudged = audit.by_layer(), audit.unjudged()
        columns = (Column("document"), *(Column(_left_out(fate), Kind.NUMBER) for fate in FATES))
        rows = [(kind.value, *(str(counts.get((kind, fate), 0)) for fate in FATES)) for kind in Document]
        console.print(table(columns, rows))
        told = (f"{count} of the {counts.get((kind, None), 0)} {kind}s" for kind, count in unjudged.items())
        if kept := ", ".join(told):
            console.print(f"kept without a verdict of the filter: {kept}")
        console.print(f"{audit.clamped} points of series left out")
    _print_opinions(console, audit)
    _print_leaks(console, audit.leaks)


def print_proofs(console: Console, proofs: Sequence[Proof]) -> None:
    """Print a self-test for a person."""
    columns = (
        Column("planted leak", Kind.TEXT),
        Column("layer"),
        Column("all on"),
        *(Column(f"no {layer}") for layer in LAYERS),
        Column(""),
    )
    console.print(table(columns, [_proof_cells(proof) for proof in proofs]))
    caught = sum(not proof.came_through for proof in proofs)
    console.print(f"{caught} of {len(proofs)} planted leaks caught with all layers on")
    if all(proof.holds for proof in proofs):
        console.print("each was caught by its own layer, and came through when that one alone was off")
    else:
        console.print("a guard does not do its work: trust no backtest before this is mended")


def audit_as_plain(audit: Audit) -> dict[str, Any]:
    """Return an audit as JSON values."""
    counts, confusion = audit.by_layer(), audit.confusion()
    return {
        "forecasts": audit.forecasts,
        "unguarded": audit.unguarded,
        "documents": len(audit.documents),
        "by_kind": {kind.value: {_fate(fate): counts.get((kind, fate), 0) for fate in FATES} for kind in Document},
        "kept_without_verdict": {kind.value: audit.unjudged().get(kind, 0) for kind in JUDGED},
        "points_left_out": audit.clamped,
        "confusion": {
            opinion.value: {"kept": confusion[opinion, True], "dropped": confusion[opinion, False]}
            for opinion in Opinion
        },
        "residual": audit.residual(),
        "hindered": audit.hindered or None,
        "leaks": [_plain(one) for one in audit.leaks],
    }


def proofs_as_plain(proofs: Sequence[Proof]) -> dict[str, Any]:
    """Return a self-test as JSON values."""
    return {
        "holds": all(proof.holds for proof in proofs),
        "leaks": [
            {
                "name": proof.leak.name,
                "layer": proof.leak.layer.value,
                "caught": not proof.came_through,
                "count": proof.count,
                "passes_without": [layer.value for layer in proof.passes_without],
                "holds": proof.holds,
            }
            for proof in proofs
        ],
    }


def _print_opinions(console: Console, audit: Audit) -> None:
    if audit.hindered:
        console.print(f"the auditor gave no more opinions: {audit.hindered}")
    if (residual := audit.residual()) is None:
        return
    confusion = audit.confusion()
    heading(console, "The auditor against the filter")
    columns = (Column("auditor"), Column("filter kept", Kind.NUMBER), Column("filter dropped", Kind.NUMBER))
    rows = [(opinion.value, str(confusion[opinion, True]), str(confusion[opinion, False])) for opinion in Opinion]
    console.print(table(columns, rows))
    console.print(f"leaks among all that was kept, by the auditor: {number(100 * residual, 1)} %")


def _print_leaks(console: Console, leaks: Sequence[Audited]) -> None:
    if not leaks:
        console.print("nothing was found that should not have been read")
        return
    heading(console, "What should not have been read")
    columns = (Column("question"), Column("document"), Column("name", Kind.TITLE), Column("why", Kind.TEXT))
    console.print(table(columns, [_leak_cells(one) for one in leaks[:LISTED]]))
    if len(leaks) > LISTED:
        console.print(f"and {len(leaks) - LISTED} more; all of them: foxcast leaks --json")


def _leak_cells(one: Audited) -> tuple[Cell, ...]:
    return (one.ref, one.met.kind.value, one.met.name[:SHOWN], _why(one))


def _proof_cells(proof: Proof) -> tuple[Cell, ...]:
    return (
        proof.leak.name,
        proof.leak.layer.value,
        "came through" if proof.came_through else f"caught {proof.count}",
        *("came through" if layer in proof.passes_without else "caught" for layer in LAYERS),
        "as it should" if proof.holds else "WRONG",
    )


def _plain(one: Audited) -> dict[str, Any]:
    return {
        "forecast": one.scope,
        "question": one.ref,
        "trial": one.met.trial,
        "document": one.met.kind.value,
        "name": one.met.name,
        "dated": None if one.met.dated is None else stamp(one.met.dated),
        "finding": None if one.finding is None else one.finding.value,
        "opinion": None if one.opinion is None else one.opinion.value,
        "why": _why(one),
    }


def _why(one: Audited) -> str:
    said = f"the auditor: {one.reason or 'tells of later'}" if one.opinion is Opinion.LEAK else ""
    return "; ".join(part for part in (one.finding.value if one.finding else "", said) if part)


def _fate(fate: Layer | None) -> str:
    return "kept" if fate is None else fate.value


def _left_out(fate: Layer | None) -> str:
    return "dropped unchecked" if fate is Layer.UNCHECKED else _fate(fate)
