"""Tables of wikitext as lines of cells between bars, with cells that span rows or columns repeated where they stand.

Written for text whose links and templates are already plain: a single bar that is left in a cell ends its attributes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plugins.data.wikipedia.hidden import is_hidden

# Wider or longer spans are mistakes, and would fill the memory.
MAX_SPAN = 200
# What all tables of a text may come to, spans written out; the longest real ones have a tenth of it.
MAX_CELLS = 50_000
MAX_CHARS = 1_000_000
CUT = "(The tables are too long: the rest of them is left out.)"
# Begins a line that is a row by itself: what a row template was given.
ROW = "\x01"

# None gives back what it took, so each goes through a cell once, whatever is in it.
_ATTRIBUTES = re.compile(
    r"\s*+(?:(?:nowrap|hidden|[a-zA-Z][a-zA-Z-]*+\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s|\"'][^\s|]*+))\s*+)*+\|(?!\|)"
)
_HEADS = re.compile(r"\|\||!!")
_ROWSPAN = re.compile(r"rowspan\s*+=\s*+[\"']?+\s*+(\d{1,4})", re.IGNORECASE)
_COLSPAN = re.compile(r"colspan\s*+=\s*+[\"']?+\s*+(\d{1,4})", re.IGNORECASE)


@dataclass(slots=True)
class _Cell:
    pieces: list[str]
    rows: int = 1
    columns: int = 1
    hidden: bool = False

    @property
    def text(self) -> str:
        return "" if self.hidden else " ".join(piece for piece in self.pieces if piece)


@dataclass(slots=True)
class _Room:
    """How much may still be written."""

    cells: int = MAX_CELLS
    characters: int = MAX_CHARS
    said: bool = False

    @property
    def is_full(self) -> bool:
        return self.cells < 0 or self.characters < 0

    def take(self, text: str) -> bool:
        """Take the room for a cell; false where there is none."""
        self.cells -= 1
        self.characters -= len(text) + len(" | ")
        return not self.is_full

    def remark(self) -> list[str]:
        """Return what to say of what was cut, once."""
        if self.said or not self.is_full:
            return []
        self.said = True
        return [CUT]


def with_tables(text: str) -> str:
    """Return the text with its tables written out, inner ones first; what is too much of them is cut with a remark."""
    room = _Room()
    # The lines of the text, and of each table that is not closed yet.
    levels: list[list[str]] = [[]]
    for line in text.split("\n"):
        bare = line.lstrip(" \t:")
        if bare.startswith("{|"):
            levels.append([line])
        elif bare.startswith("|}") and len(levels) > 1:
            table = _written(levels.pop(), room)
            levels[-1] += [*table, *(room.remark() if len(levels) == 1 else ()), *filter(None, [bare[2:]])]
        else:
            levels[-1].append(line)
    return "\n".join(line for level in levels for line in level)


def _written(table: Sequence[str], room: _Room) -> list[str]:
    if room.is_full or is_hidden(table[0]):
        return []
    caption, rows = _read((line for text in table[1:] for line in text.splitlines()), most=room.cells)
    lines = [f"| {' | '.join(cells)} |" for cells in _spread(rows, room) if any(cells)]
    return [*([caption] if caption and room.take(caption) else []), *lines]


def _read(lines: Iterable[str], *, most: int) -> tuple[str, list[list[_Cell]]]:
    """Return the caption and the rows; what is beyond that many cells is not looked at."""
    caption = ""
    count = 0
    rows: list[list[_Cell]] = [[]]
    is_row_hidden = False
    for line in map(str.strip, lines):
        if count > most:
            break
        if line.startswith("|+"):
            caption = _cell(line[2:]).text
        elif line.startswith("|-"):
            rows.append([])
            is_row_hidden = is_hidden(line)
        elif is_row_hidden:
            continue
        elif line.startswith(("|", "!")):
            cells = [_cell(part) for part in _parts(line, most + 1)]
            rows[-1] += cells
            count += len(cells)
        elif line.startswith(ROW):
            rows += [[_Cell([line])], []]
        elif line and rows[-1]:
            rows[-1][-1].pieces.append(line)
    return caption, [row for row in rows if row]


def _parts(line: str, most: int) -> list[str]:
    return _HEADS.split(line[1:], maxsplit=most) if line[0] == "!" else line[1:].split("||", most)


def _cell(part: str) -> _Cell:
    found = _ATTRIBUTES.match(part) if "|" in part else None
    attributes = found[0] if found else ""
    return _Cell(
        pieces=part[len(attributes) :].split(),
        rows=_span(_ROWSPAN, attributes),
        columns=_span(_COLSPAN, attributes),
        hidden=is_hidden(attributes.rstrip("|")),
    )


def _span(pattern: re.Pattern[str], attributes: str) -> int:
    found = pattern.search(attributes)
    return min(max(int(found[1]), 1), MAX_SPAN) if found else 1


def _spread(rows: list[list[_Cell]], room: _Room) -> list[list[str]]:
    """Return the text of every cell of the grid, as far as there is room.

    ``hanging`` holds, by column, what reaches down and how far.
    """
    written: list[list[str]] = []
    hanging: dict[int, tuple[str, int]] = {}
    for row in rows:
        cells: list[str] = []
        written.append(cells)
        for cell in row:
            if not (_hang(cells, hanging, room) and _add(cells, hanging, cell, room)):
                return written
        if not _hang(cells, hanging, room):
            return written
    return written


def _add(cells: list[str], hanging: dict[int, tuple[str, int]], cell: _Cell, room: _Room) -> bool:
    """Write a cell with its columns; a heading over several is said once."""
    text = cell.text
    for step in range(cell.columns):
        said = "" if step else text
        if not room.take(said):
            return False
        if cell.rows > 1:
            hanging[len(cells)] = (text, cell.rows - 1)
        cells.append(said)
    return True


def _hang(cells: list[str], hanging: dict[int, tuple[str, int]], room: _Room) -> bool:
    """Fill the next columns that a cell of an earlier row reaches down into."""
    while (column := len(cells)) in hanging:
        text, left = hanging.pop(column)
        if not room.take(text):
            return False
        cells.append(text)
        if left > 1:
            hanging[column] = (text, left - 1)
    return True
