"""Where answers go: stdout, as plain text where no terminal reads it; progress goes to stderr, to a terminal alone."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from bot.cli.output.plain import escaped, plain

# Lines for a pipe are not broken: one row is one line for grep and cut.
UNBROKEN = 1000
LINES = 40
WIDEST = 70

Cell = str | Text


class Kind(StrEnum):
    """What becomes of a column where room is scarce: whole for short values, cut for titles, folded for the rest."""

    SHORT = "short"
    NUMBER = "number"
    TITLE = "title"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers stand on the right."""

    title: str
    kind: Kind = Kind.SHORT


class PlainConsole(Console):
    """Prints text as ``plain`` shows it, wherever in a table it stands; only its own styles reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the parts of what is printed, those that are text made plain."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def stdout() -> Console:
    """Return the console for answers: what it prints is text, never markup."""
    width = shutil.get_terminal_size((UNBROKEN, LINES)).columns
    return PlainConsole(width=width, markup=False, highlight=False, emoji=False)


def emit(value: object) -> None:
    """Print a value as JSON; raises ValueError for a number that JSON does not have."""
    sys.stdout.write(f"{as_json(value)}\n")


def as_json(value: object) -> str:
    """Return a value as JSON text for people and programs."""
    return escaped(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, title: str = "") -> Table:
    """Return a table; without a terminal it has no lines."""
    piped = not sys.stdout.isatty()
    grid = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=None if piped else box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=not piped,
        header_style="bold",
    )
    for column in columns:
        whole = piped or column.kind in {Kind.SHORT, Kind.NUMBER}
        grid.add_column(
            column.title,
            justify="right" if column.kind is Kind.NUMBER else "left",
            no_wrap=whole,
            overflow="fold" if column.kind is Kind.TEXT else "ellipsis",
        )
    for row in rows:
        grid.add_row(*(_cell(cell, column) for cell, column in zip(row, columns, strict=True)))
    return grid


def _cell(cell: Cell, column: Column) -> Text:
    shown = cell if isinstance(cell, Text) else Text(cell)
    if column.kind is Kind.TITLE:
        shown.truncate(WIDEST, overflow="ellipsis")
        shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def indented(console: Console, words: str, *, by: int = 3, style: str = "") -> None:
    """Print text that stays to the right of a margin when it is broken into lines."""
    console.print(Padding(Text(words, style=style), (0, 0, 0, by), expand=False))


def heading(console: Console, words: str) -> None:
    """Print a line that begins a part of the answer."""
    console.print()
    console.print(Text(words, style="bold"))


@contextmanager
def progress() -> Iterator[Progress]:
    """Show bars on stderr while the block runs, if a terminal reads it; nothing of them stays."""
    console = PlainConsole(stderr=True, markup=False, highlight=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars
