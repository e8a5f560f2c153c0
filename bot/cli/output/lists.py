"""What all lists can do: search, sort, and print as CSV; fields are named as in the JSON of the list."""

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from bot.cli.output.safe_output import escape_json_text
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible, suggest_names

Item = TypeVar("Item")
# A spreadsheet takes a cell that begins so for a formula. Source: OWASP, CSV Injection.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list."""

    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only rows whose title or a name contains the text, in any case.")
    ] = None
    sort: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Sort by a field of --json; -FIELD: the largest first.")
    ] = None
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False

    def arrange(self, items: Sequence[Item], fields: Callable[[Item], Mapping[str, Any]]) -> list[Item]:
        """Return the items sorted as asked, those without a value last; raises ConfigError."""
        if self.sort is None or not items:
            return [*items]
        rows, name = [(item, fields(item)) for item in items], self.sort.removeprefix("-")
        if name not in rows[0][1]:
            message = f"--sort {name}: there is no such field; {suggest_names(name, rows[0][1])}"
            raise ConfigError(message)
        present = [pair for pair in rows if pair[1][name] is not None]
        present.sort(key=lambda pair: _sort_key(pair[1][name]), reverse=self.sort.startswith("-"))
        return [item for item, _ in present + [pair for pair in rows if pair[1][name] is None]]


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with a line of field names; tables and lists inside a cell are JSON."""
    if not rows:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*rows[0]])
    writer.writerows([_csv_cell(value) for value in row.values()] for row in rows)


def _csv_cell(value: object) -> object:
    if isinstance(value, list | dict):
        return escape_json_text(json.dumps(value, ensure_ascii=False, default=str))
    if isinstance(value, str):
        text = replace_invisible(value)
        return f"'{text}" if text.startswith(_FORMULA_SIGNS) else text
    return value


def _sort_key(value: object) -> tuple[int, Any]:
    """Return a key under which numbers come before texts, and tables and lists are compared as text."""
    if isinstance(value, bool | int | float):
        return 0, value
    return 1, value.casefold() if isinstance(value, str) else json.dumps(value, default=str)
