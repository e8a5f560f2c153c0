"""What the laboratory found on paper: a table of forecasters with differences, what was recovered, and notes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.figures import NOTHING, number, usd

COLUMNS = (
    Column(""),
    Column("Brier", Kind.NUMBER),
    Column("against"),
    Column("difference [95 %]"),
    Column("off", Kind.NUMBER),
    Column("difference [95 %]"),
    Column("calls", Kind.NUMBER),
    Column("tokens", Kind.NUMBER),
    Column("USD", Kind.NUMBER),
    Column("steps", Kind.NUMBER),
    Column("s", Kind.NUMBER),
)
DIGITS = 4


def print_lab(console: Console, report: Mapping[str, Any]) -> None:
    """Print a report for a person."""
    heading(console, f"Simulation: {report['questions']} questions of the world of seed {report['seed']}")
    console.print(table(COLUMNS, [_cells(row) for row in report["rows"]]))
    for row in report["rows"]:
        if row["note"]:
            console.print(f"{row['name']}: {row['note']}")
    if report["recoveries"]:
        heading(console, "What was planted, and what was found")
        for one in report["recoveries"]:
            console.print(f"{one['verdict']}: {one['name']}\n   planted: {one['planted']}\n   found: {one['found']}")
    heading(console, "Notes")
    for note in _notes(report):
        console.print(note)


def _cells(row: Mapping[str, Any]) -> Sequence[str]:
    use = row.get("use") or {}
    tokens = use.get("tokens_in", 0) + use.get("tokens_out", 0)
    return (
        row["name"],
        number(row["brier"], DIGITS),
        row["against"] or NOTHING,
        _span(row["difference"]),
        number(row["off"], DIGITS),
        _span(row["off_difference"]),
        *(
            (f"{use['calls']:,}", f"{tokens:,}", usd(use["cost_usd"]), f"{use['steps']:,}", number(use["seconds"], 1))
            if use
            else (NOTHING,) * 5
        ),
    )


def _span(span: Mapping[str, float] | None) -> str:
    if span is None:
        return NOTHING
    return f"{span['estimate']:+.{DIGITS}f} [{span['low']:+.{DIGITS}f}, {span['high']:+.{DIGITS}f}]"


def _notes(report: Mapping[str, Any]) -> Iterator[str]:
    yield from report["notes"]
    prices, speed = report["prices_usd_per_million_tokens"], report["speed"]
    yield f"USD are at {prices['in']:g} per million tokens in and {prices['out']:g} out, a price for comparison."
    yield (
        f"{speed['trials']:,} trials in {speed['seconds']:.0f} s on {speed['processes']} processes, "
        f"{speed['trial_seconds']:.3f} s each"
    )
