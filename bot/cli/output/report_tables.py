"""Report tables on a terminal."""

from collections.abc import Sequence

from rich.console import Console

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.evaluation.report_tables import ReportTable
from bot.evaluation.score_report import ScoreInterval

# Longer tables are cut; JSON and Markdown have all rows.
MAX_ROWS_SHOWN = 60


def print_report_tables(console: Console, tables: Sequence[ReportTable]) -> None:
    """Print tables with their notes; an empty table prints its notes only."""
    for table in tables:
        print_heading(console, table.title)
        shown = table.rows[:MAX_ROWS_SHOWN]
        if shown:
            columns = [
                TableColumn(
                    column.title,
                    ColumnKind.NUMBER
                    if any(isinstance(row.get(column.key), int | float | ScoreInterval) for row in shown)
                    else ColumnKind.SHORT,
                )
                for column in table.columns
            ]
            console.print(
                make_table(columns, [[table.format_cell(row, column) for column in table.columns] for row in shown])
            )
        if len(table.rows) > len(shown):
            console.print(f"and {len(table.rows) - len(shown)} more rows; --json and --markdown have all of them")
        for note in table.notes:
            console.print(note)
