"""Outcomes that models may remember from training: a line under a backtest, and a section of the leak audit."""

from typing import Any

from rich.console import Console

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.evaluation.model_memory import MemoryReport, ModelMemory

UNKNOWN = "not known"


def memory_line(report: MemoryReport) -> str:
    """Return in one line how many outcomes the models may remember; "" if no model was asked."""
    if not report.models:
        return ""
    dated = [one for one in report.models if one.cutoff is not None]
    parts = []
    if report.remembered:
        models = "; ".join(f"{one.model}, {_cutoff_text(one)}: {one.remembered}" for one in dated if one.remembered)
        parts.append(
            f"{report.remembered} of {report.asked} outcomes were known before the knowledge cutoff of a model "
            f"({models}), which may remember them"
        )
    elif dated:
        models = "; ".join(f"{one.model}, {_cutoff_text(one)}" for one in dated)
        parts.append(f"none of {report.asked} outcomes was known before the knowledge cutoff of a model ({models})")
    if report.unknown:
        parts.append(_cutoff_remedy(report))
    return f"memory: {'; '.join(parts)}"


def print_memory_line(console: Console, report: MemoryReport) -> None:
    """Print the line under a backtest."""
    if line := memory_line(report):
        console.print(line, markup=False)


def print_memory(console: Console, report: MemoryReport) -> None:
    """Print the section of an audit; nothing if no model was asked."""
    if not report.models:
        return
    print_heading(console, "What models may remember")
    columns = (
        TableColumn("model"),
        TableColumn("knowledge cutoff"),
        TableColumn("forecasts", ColumnKind.NUMBER),
        TableColumn("outcome known by then", ColumnKind.NUMBER),
    )
    rows = [(one.model, _cutoff_text(one), str(one.asked), _known_text(one)) for one in report.models]
    console.print(make_table(columns, rows))
    console.print(
        f"{report.remembered} of {report.asked} forecasts are of outcomes that a model may remember. The ledger of a "
        "backtest has no outcomes: there, forecasts as of a day before the cutoff are counted"
    )
    if report.unknown:
        console.print(_cutoff_remedy(report), markup=False)


def memory_to_json(report: MemoryReport) -> dict[str, Any]:
    """Return what models may remember as JSON values."""
    return {
        "asked": report.asked,
        "may_be_remembered": report.remembered,
        "unclear": report.unclear,
        "questions": list(report.questions),
        "models": {
            one.model: {
                "knowledge_cutoff": None if one.cutoff is None else one.cutoff.isoformat(),
                "asked": one.asked,
                "may_be_remembered": None if one.cutoff is None else one.remembered,
            }
            for one in report.models
        },
    }


def _cutoff_remedy(report: MemoryReport) -> str:
    names = ", ".join(report.unknown)
    return f'the knowledge cutoff of {names} is not known: set knowledge_cutoff in [llm.models."{report.unknown[0]}"]'


def _cutoff_text(one: ModelMemory) -> str:
    return UNKNOWN if one.cutoff is None else one.cutoff.isoformat()


def _known_text(one: ModelMemory) -> str:
    return UNKNOWN if one.cutoff is None else str(one.remembered)
