"""Tables, headings and JSON on stdout, plain without a terminal; progress bars on stderr, on a terminal only."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from bot.cli.output.safe_output import escape_json_text
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import scoring_rules_for
from bot.core.plain_text import replace_invisible
from bot.core.predictions import QuestionShape

if TYPE_CHECKING:
    from rich.progress import Progress

# Lines for a pipe are not broken unless COLUMNS sets a width: one row is one line for grep and cut.
UNLIMITED_WIDTH = 20_000
DEFAULT_HEIGHT = 40
MAX_TITLE_WIDTH = 70
# A column that may be cut or folded gets at least this width; if a table is still too wide, rows become blocks.
MIN_FLEXIBLE_WIDTH = 12

TableCell = str | Text


class ColumnKind(StrEnum):
    """How a column is shown on a narrow terminal: short values and numbers whole, titles cut, texts folded."""

    SHORT = "short"
    NUMBER = "number"
    TITLE = "title"
    TEXT = "text"


UNBROKEN_KINDS = frozenset({ColumnKind.SHORT, ColumnKind.NUMBER})


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table; numbers are right-aligned."""

    title: str
    kind: ColumnKind = ColumnKind.SHORT


class SafeConsole(Console):
    """Replaces invisible characters in all text, also in tables; only its own styles reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments to print, with invisible characters replaced in text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(replace_invisible(segment.text), segment.style)


def stdout_console() -> Console:
    """Return the console for results: what it prints is text, never markup."""
    # For a dumb terminal the library ignores a width without a height.
    size = _terminal_size()
    return SafeConsole(width=size.columns, height=size.lines, markup=False, highlight=False, emoji=False)


def _terminal_size() -> os.terminal_size:
    return shutil.get_terminal_size((UNLIMITED_WIDTH, DEFAULT_HEIGHT))


def print_json(value: object) -> None:
    """Print a value as JSON; raises ValueError for a number that JSON cannot represent."""
    sys.stdout.write(f"{to_json_text(value)}\n")


def to_json_text(value: object) -> str:
    """Return a value as JSON text for people and programs."""
    return escape_json_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def make_table(
    columns: Sequence[TableColumn], rows: Iterable[Sequence[TableCell]], *, title: str = ""
) -> "ResponsiveTable":
    """Return a table; if stdout is not a terminal, it has no lines."""
    return ResponsiveTable(columns=columns, rows=[*rows], title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsiveTable:
    """A table, or on a narrow terminal a block for each row; only titles are cut."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[TableCell]]
    title: str = ""

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the table or the blocks."""
        if self._min_width() <= options.max_width:
            yield self._make_grid()
        else:
            yield from self._make_blocks()

    def _min_width(self) -> int:
        """Return the minimum width of a line: its cells and two characters of padding for each."""
        shown = [[column.title, *(str(row[place]) for row in self.rows)] for place, column in enumerate(self.columns)]
        widths = (max(cell_len(line) for text in texts for line in text.split("\n")) for texts in shown)
        return 2 * len(self.columns) + sum(
            width if column.kind in UNBROKEN_KINDS else max(min(width, MIN_FLEXIBLE_WIDTH), cell_len(column.title))
            for column, width in zip(self.columns, widths, strict=True)
        )

    def _make_grid(self) -> Table:
        piped = not sys.stdout.isatty()
        unbroken = piped and _terminal_size().columns == UNLIMITED_WIDTH
        grid = Table(
            title=self.title or None,
            title_justify="left",
            title_style="bold",
            box=None if piped else box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=not piped,
            header_style="bold",
        )
        for column in self.columns:
            grid.add_column(
                column.title,
                justify="right" if column.kind is ColumnKind.NUMBER else "left",
                no_wrap=unbroken or column.kind in UNBROKEN_KINDS,
                overflow="fold" if column.kind is ColumnKind.TEXT else "ellipsis",
            )
        for row in self.rows:
            grid.add_row(*(_column_text(cell, column) for cell, column in zip(row, self.columns, strict=True)))
        return grid

    def _make_blocks(self) -> Iterator[RenderableType]:
        """Yield a block for each row: its first cell, and the others below, long texts in lines of their own."""
        if self.title:
            yield Text(self.title, style="bold")
        for first, *others in self.rows:
            yield Text(str(first), style="bold", overflow="fold")
            for is_short, parts in groupby(
                zip(self.columns[1:], others, strict=True), key=lambda pair: pair[0].kind in UNBROKEN_KINDS
            ):
                cells = [_labelled_cell(column, cell) for column, cell in parts if str(cell).strip()]
                for text in [Text(", ").join(cells)] if is_short and cells else cells:
                    text.overflow = "fold"
                    yield Padding(text, (0, 0, 0, 2), expand=False)


def _labelled_cell(column: TableColumn, cell: TableCell) -> Text:
    return Text.assemble(f"{column.title}: " if column.title else "", cell)


def _column_text(cell: TableCell, column: TableColumn) -> Text:
    shown = cell if isinstance(cell, Text) else Text(cell)
    if column.kind is ColumnKind.TITLE:
        shown.truncate(MAX_TITLE_WIDTH, overflow="ellipsis")
        shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def print_indented(console: Console, text: str, *, by: int = 3, style: str = "") -> None:
    """Print indented text; broken lines keep the indentation."""
    for line in text.splitlines():
        console.print(Padding(Text(line, style=style), (0, 0, 0, by), expand=False) if line.strip() else "")


def print_heading(console: Console, text: str) -> None:
    """Print the heading of a section, after an empty line."""
    console.print()
    console.print(Text(text, style="bold"))


@contextmanager
def progress_bars() -> "Iterator[Progress]":
    """Show progress bars on stderr while the block runs, on a terminal only; they are removed at the end."""
    # It takes 10 ms to load, and most commands have no bars.
    from rich import progress

    console = SafeConsole(stderr=True, markup=False, highlight=False)
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars


def score_columns(shape: QuestionShape) -> tuple[TableColumn, ...]:
    """Return a column for each scoring rule of the kind of question."""
    return tuple(TableColumn(rule.title, ColumnKind.NUMBER) for rule in scoring_rules_for(shape.kind))
