"""Tables of wikitext as lines of cells between bars, with cells that span rows or columns repeated where they stand.

Written for text whose links and templates are already plain: a single bar that is left in a cell ends its attributes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Nested deeper than this, a table stays as it is.
MAX_DEPTH = 4
# Wider or longer spans are mistakes, and would fill the memory.
MAX_SPAN = 200
# Begins a line that is a row by itself: what a row template was given.
ROW = "\x01"

_INNERMOST = re.compile(r"^[ \t:]*\{\|(?:(?!^[ \t:]*\{\|).)*?^[ \t]*\|\}", re.DOTALL | re.MULTILINE)
_ATTRIBUTES = re.compile(r"\s*(?:nowrap\s*|[a-zA-Z-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s|]+)\s*)+\|(?!\|)|\s*\|(?!\|)")
_ROWSPAN = re.compile(r"rowspan\s*=\s*[\"']?\s*(\d{1,4})", re.IGNORECASE)
_COLSPAN = re.compile(r"colspan\s*=\s*[\"']?\s*(\d{1,4})", re.IGNORECASE)


@dataclass(slots=True)
class _Cell:
    text: str
    rows: int = 1
    columns: int = 1


def with_tables(text: str) -> str:
    """Return the text with its tables written out, inner ones first."""
    for _ in range(MAX_DEPTH):
        text, count = _INNERMOST.subn(lambda found: _written(found[0]), text)
        if not count:
            break
    return text


def _written(table: str) -> str:
    caption, rows = _read(table.splitlines()[1:-1])
    lines = [f"| {' | '.join(cells)} |" for cells in _spread(rows) if any(cells)]
    return "\n".join([*([caption] if caption else []), *lines])


def _read(lines: Iterable[str]) -> tuple[str, list[list[_Cell]]]:
    caption = ""
    rows: list[list[_Cell]] = [[]]
    for line in map(str.strip, lines):
        if line.startswith("|+"):
            caption = _cell(line[2:]).text
        elif line.startswith("|-"):
            rows.append([])
        elif line.startswith(("|", "!")):
            rows[-1] += [_cell(part) for part in _parts(line)]
        elif line.startswith(ROW):
            rows += [[_Cell(line)], []]
        elif line and rows[-1]:
            rows[-1][-1].text = f"{rows[-1][-1].text} {line}".strip()
    return caption, [row for row in rows if row]


def _parts(line: str) -> list[str]:
    return re.split(r"\|\||!!", line[1:]) if line[0] == "!" else line[1:].split("||")


def _cell(part: str) -> _Cell:
    found = _ATTRIBUTES.match(part)
    attributes = found[0] if found else ""
    return _Cell(
        text=" ".join(part[len(attributes) :].split()),
        rows=_span(_ROWSPAN, attributes),
        columns=_span(_COLSPAN, attributes),
    )


def _span(pattern: re.Pattern[str], attributes: str) -> int:
    found = pattern.search(attributes)
    return min(max(int(found[1]), 1), MAX_SPAN) if found else 1


def _spread(rows: list[list[_Cell]]) -> list[list[str]]:
    """Return the text of every cell of the grid; ``hanging`` holds, by column, what reaches down and how far."""
    written: list[list[str]] = []
    hanging: dict[int, tuple[str, int]] = {}
    for row in rows:
        cells: list[str] = []
        for cell in row:
            _hang(cells, hanging)
            if cell.rows > 1:
                hanging |= {len(cells) + step: (cell.text, cell.rows - 1) for step in range(cell.columns)}
            # A heading over several columns is said once.
            cells += [cell.text, *([""] * (cell.columns - 1))]
        _hang(cells, hanging)
        written.append(cells)
    return written


def _hang(cells: list[str], hanging: dict[int, tuple[str, int]]) -> None:
    """Fill the next columns that a cell of an earlier row reaches down into."""
    while (column := len(cells)) in hanging:
        text, left = hanging.pop(column)
        cells.append(text)
        if left > 1:
            hanging[column] = (text, left - 1)
