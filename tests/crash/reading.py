"""Reading what a life left on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def rows_of(path: Path, sql: str) -> list[Row]:
    """Return the rows by the names of their columns."""
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(sql)]
