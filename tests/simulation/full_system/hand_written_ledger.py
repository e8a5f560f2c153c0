"""Ledgers whose rows a test writes by hand, with only the tables and columns that a check reads."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any


def write_ledger(folder: Path, tables: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Path:
    """Make a ledger of these tables and rows, each row with the name of its table; return its path."""
    path = folder / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(tables)
        for table, row in rows:
            names = ", ".join(row)
            database.execute(f"insert into {table} ({names}) values ({', '.join('?' * len(row))})", [*row.values()])  # noqa: S608
        database.commit()
    return path
