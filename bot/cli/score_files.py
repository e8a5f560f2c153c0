"""Forecast files against the outcomes of their rounds: all together, and each by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.output.console import Column, Kind, heading, stdout, table
from bot.cli.output.deliver import STDOUT, deliver
from bot.cli.output.figures import number
from bot.cli.output.report import print_report
from bot.clock import SeededRandom
from bot.config.model import Config
from bot.lab.report import Report, report_of
from bot.lab.sheets import ScoredSheet, pooling_notes, score_sheets
from bot.registry import Registry
from bot.venues import archive_of

COLUMNS = (
    Column("file", Kind.TEXT),
    Column("round"),
    Column("scored", Kind.NUMBER),
    Column("missing", Kind.NUMBER),
    Column("market", Kind.NUMBER),
    Column("dataset", Kind.NUMBER),
    Column("mean of indices", Kind.NUMBER),
)


@dataclass(frozen=True, slots=True)
class FilesAsked:
    """Which files are scored against which rounds, and where the JSON goes."""

    rounds: Path
    files: Sequence[Path]
    venue: str | None
    json: Path | None


def score_files(config: Config, registry: Registry, asked: FilesAsked) -> None:
    """Score the files and tell; raises ContractError and NotFound for files and rounds that cannot be used."""
    venue, archive = archive_of(config, registry, asked.venue, asked.rounds)
    sheets = score_sheets(archive, asked.files)
    random = SeededRandom(config.seed)
    total = report_of(
        [row for sheet in sheets for row in sheet.rows],
        rng=random.stream("report"),
        notes=[*pooling_notes(sheets), *(note for sheet in sheets for note in sheet.notes())],
    )
    reports = [report_of(sheet.rows, rng=random.stream("report"), notes=sheet.notes()) for sheet in sheets]
    if asked.json is not None:
        by_file = {
            str(path): {"round": sheet.sheet.round, "missing": sheet.missing, **report.to_json()}
            for path, sheet, report in zip(asked.files, sheets, reports, strict=True)
        }
        deliver({"venue": venue, **total.to_json(), "by_file": by_file}, asked.json)
    if asked.json != STDOUT:
        _tell(sheets, reports, total)


def _tell(sheets: Sequence[ScoredSheet], reports: Sequence[Report], total: Report) -> None:
    console = stdout()
    if len(sheets) > 1:
        heading(console, "Brier Index by file")
        console.print(table(COLUMNS, [_row(*pair) for pair in zip(sheets, reports, strict=True)]))
    names = sheets[0].sheet.name if len(sheets) == 1 else f"all {len(sheets)} files"
    print_report(console, total, title=f"Scores of {names}")


def _row(sheet: ScoredSheet, report: Report) -> tuple[str, ...]:
    block = report.block
    return (
        sheet.sheet.name,
        sheet.sheet.round,
        str(len(sheet.rows)),
        f"{sheet.missing:.1%}",
        number(block.market.brier_index),
        number(block.dataset.brier_index),
        number(block.overall.mean_of_indices),
    )
