"""Tables of a report, as data: the same tables become JSON, Markdown and text on a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field

from bot.core.light_dataclass import dataclass
from bot.evaluation.score_report import ScoreInterval

ReportCell = str | int | float | ScoreInterval | None


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column: its key in JSON, its heading, and the digits of its numbers."""

    key: str
    title: str
    digits: int = 2


def named_columns(*names: str) -> tuple[ReportColumn, ...]:
    """Return columns whose headings are their keys."""
    return tuple(ReportColumn(name, name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table with a stable key; each row maps the keys of columns to cells, and None or a missing key is no value."""

    key: str
    title: str
    columns: Sequence[ReportColumn]
    rows: Sequence[Mapping[str, ReportCell]]
    notes: Sequence[str] = field(default_factory=tuple)

    def to_json(self) -> dict[str, object]:
        """Return plain values; an interval is an object with ``estimate``, ``low`` and ``high``, null where unknown."""
        rows = [
            {
                column.key: asdict(cell) if isinstance(cell, ScoreInterval) else cell
                for column in self.columns
                if (cell := row.get(column.key)) is not None
            }
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "notes": [*self.notes]}

    def format_cell(self, row: Mapping[str, ReportCell], column: ReportColumn) -> str:
        """Return the text of a cell; "-" where there is no value."""
        match row.get(column.key):
            case None:
                return "-"
            case float() as number:
                return f"{number:.{column.digits}f}"
            case ScoreInterval(estimate=estimate, low=low, high=high):
                digits = column.digits
                if low is None or high is None:
                    return f"{estimate:.{digits}f}"
                return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
            case cell:
                return f"{cell:,}" if isinstance(cell, int) else cell

    def to_markdown(self) -> str:
        """Return a heading, the table and its notes as Markdown."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            lines.append(f"| {' | '.join(column.title for column in self.columns)} |")
            lines.append(f"|{'|'.join(self._alignment(column) for column in self.columns)}|")
            for row in self.rows:
                cells = [self.format_cell(row, column).replace("|", "\\|") for column in self.columns]
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
        for note in self.notes:
            lines += [note, ""]
        return "\n".join(lines)

    def _alignment(self, column: ReportColumn) -> str:
        is_number = any(isinstance(row.get(column.key), int | float | ScoreInterval) for row in self.rows)
        return "---:" if is_number else "---"
