"""Tables of wikitext as lines of cells between bars; cells that span rows or columns are repeated in each.

Written for text whose links and templates are already plain: a single bar that is left in a cell ends its attributes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plugins.data.wikipedia.hidden_markup import is_hidden

# Wider or longer spans are mistakes, and would fill the memory.
MAX_SPAN = 200
# The maximum size of all tables of a text, with spans written out; the longest real ones have a tenth of it.
MAX_CELLS = 50_000
MAX_CHARS = 1_000_000
CUT_NOTICE = "(The tables are too long: the rest of them is omitted.)"
# Begins a line that is a row by itself: the arguments of a row template.
ROW_MARK = "\x01"

# No pattern backtracks, so each passes through a cell once, whatever its content.
_CELL_ATTRIBUTES = re.compile(
    r"\s*+(?:(?:nowrap|hidden|[a-zA-Z][a-zA-Z-]*+\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s|\"'][^\s|]*+))\s*+)*+\|(?!\|)"
)
_HEADER_SEPARATOR = re.compile(r"\|\||!!")
_ROWSPAN = re.compile(r"rowspan\s*+=\s*+[\"']?+\s*+(\d{1,4})", re.IGNORECASE)
_COLSPAN = re.compile(r"colspan\s*+=\s*+[\"']?+\s*+(\d{1,4})", re.IGNORECASE)


@dataclass(slots=True)
class _TableCell:
    pieces: list[str]
    rows: int = 1
    columns: int = 1
    hidden: bool = False

    @property
    def text(self) -> str:
        return "" if self.hidden else " ".join(piece for piece in self.pieces if piece)


@dataclass(slots=True)
class _SpaceLeft:
    """How much may still be written."""

    cells: int = MAX_CELLS
    characters: int = MAX_CHARS
    is_notice_given: bool = False

    @property
    def is_full(self) -> bool:
        return self.cells < 0 or self.characters < 0

    def try_take(self, text: str) -> bool:
        """Reserve the room for a cell; return False where there is none."""
        self.cells -= 1
        self.characters -= len(text) + len(" | ")
        return not self.is_full

    def cut_notice(self) -> list[str]:
        """Return the remark about omitted text, once."""
        if self.is_notice_given or not self.is_full:
            return []
        self.is_notice_given = True
        return [CUT_NOTICE]


def render_tables(text: str) -> str:
    """Return the text with its tables written out, inner ones first; the excess is cut with a remark."""
    room = _SpaceLeft()
    # The lines of the text, and of each table that is not closed yet.
    levels: list[list[str]] = [[]]
    for line in text.split("\n"):
        bare = line.lstrip(" \t:")
        if bare.startswith("{|"):
            levels.append([line])
        elif bare.startswith("|}") and len(levels) > 1:
            table = _render_table(levels.pop(), room)
            levels[-1] += [*table, *(room.cut_notice() if len(levels) == 1 else ()), *filter(None, [bare[2:]])]
        else:
            levels[-1].append(line)
    return "\n".join(line for level in levels for line in level)


def _render_table(table: Sequence[str], room: _SpaceLeft) -> list[str]:
    if room.is_full or is_hidden(table[0]):
        return []
    caption, rows = _parse_table((line for text in table[1:] for line in text.splitlines()), max_cells=room.cells)
    lines = [f"| {' | '.join(cells)} |" for cells in _spread_cells(rows, room) if any(cells)]
    return [*([caption] if caption and room.try_take(caption) else []), *lines]


def _parse_table(lines: Iterable[str], *, max_cells: int) -> tuple[str, list[list[_TableCell]]]:
    """Return the caption and the rows; cells beyond that number are ignored."""
    caption = ""
    count = 0
    rows: list[list[_TableCell]] = [[]]
    is_row_hidden = False
    for line in map(str.strip, lines):
        if count > max_cells:
            break
        if line.startswith("|+"):
            caption = _parse_cell(line[2:]).text
        elif line.startswith("|-"):
            rows.append([])
            is_row_hidden = is_hidden(line)
        elif is_row_hidden:
            continue
        elif line.startswith(("|", "!")):
            cells = [_parse_cell(part) for part in _split_cells(line, max_cells + 1)]
            rows[-1] += cells
            count += len(cells)
        elif line.startswith(ROW_MARK):
            rows += [[_TableCell([line])], []]
        elif line and rows[-1]:
            rows[-1][-1].pieces.append(line)
    return caption, [row for row in rows if row]


def _split_cells(line: str, max_cells: int) -> list[str]:
    return _HEADER_SEPARATOR.split(line[1:], maxsplit=max_cells) if line[0] == "!" else line[1:].split("||", max_cells)


def _parse_cell(part: str) -> _TableCell:
    found = _CELL_ATTRIBUTES.match(part) if "|" in part else None
    attributes = found[0] if found else ""
    return _TableCell(
        pieces=part[len(attributes) :].split(),
        rows=_cell_span(_ROWSPAN, attributes),
        columns=_cell_span(_COLSPAN, attributes),
        hidden=is_hidden(attributes.rstrip("|")),
    )


def _cell_span(pattern: re.Pattern[str], attributes: str) -> int:
    found = pattern.search(attributes)
    return min(max(int(found[1]), 1), MAX_SPAN) if found else 1


def _spread_cells(rows: list[list[_TableCell]], room: _SpaceLeft) -> list[list[str]]:
    """Return the text of every cell of the grid, as far as there is room.

    ``hanging`` holds, by column, the cell that spans downwards and how far.
    """
    written: list[list[str]] = []
    hanging: dict[int, tuple[str, int]] = {}
    for row in rows:
        cells: list[str] = []
        written.append(cells)
        for cell in row:
            if not (_fill_spanned_columns(cells, hanging, room) and _add_cell(cells, hanging, cell, room)):
                return written
        if not _fill_spanned_columns(cells, hanging, room):
            return written
    return written


def _add_cell(cells: list[str], hanging: dict[int, tuple[str, int]], cell: _TableCell, room: _SpaceLeft) -> bool:
    """Write a cell with its columns; a heading over several is written once."""
    text = cell.text
    for step in range(cell.columns):
        cell_text = "" if step else text
        if not room.try_take(cell_text):
            return False
        if cell.rows > 1:
            hanging[len(cells)] = (text, cell.rows - 1)
        cells.append(cell_text)
    return True


def _fill_spanned_columns(cells: list[str], hanging: dict[int, tuple[str, int]], room: _SpaceLeft) -> bool:
    """Fill the next columns that a cell of an earlier row spans."""
    while (column := len(cells)) in hanging:
        text, left = hanging.pop(column)
        if not room.try_take(text):
            return False
        cells.append(text)
        if left > 1:
            hanging[column] = (text, left - 1)
    return True
