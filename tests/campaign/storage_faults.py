"""Lets the n-th statement that the ledger's writer executes fail, in a simulated half day, and checks everything.

The error is that of a disk that cannot be written, or of a full one. At an odd number nothing else happens. At an even
one a commit has its effect all the same, and any other statement ends its transaction, as SQLite documents for such
errors (https://www.sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction").
"""

from __future__ import annotations

import argparse
import logging
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import structlog

from tests.simulation.full_system.plan import SimulationPlan
from tests.simulation.full_system.simulation import run_simulation

WRITER_THREAD = "ledger-writer"
CODES = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_FSYNC)
TEXTS = ("disk I/O error", "database or disk is full", "disk I/O error")
DAYS, LIVES, SEEDS = 0.3, 1, 24


@dataclass(slots=True, kw_only=True)
class StorageFault:
    """Counts the statements of the writing threads; number ``at`` fails, with one of the two consequences."""

    at: int
    is_late: bool
    code: int
    text: str
    seen: int = 0
    statement: str = ""

    def error(self) -> sqlite3.OperationalError:
        """Return the error that the statement raises."""
        error = sqlite3.OperationalError(self.text)
        error.sqlite_errorcode = self.code
        return error


@contextmanager
def storage_fault(fault: StorageFault) -> Iterator[None]:
    """Let connections that writing threads open fail at that statement."""

    class FaultyConnection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            fault.seen += 1
            if fault.seen != fault.at:
                return super().execute(sql, *values)
            fault.statement = " ".join(sql.split())[:60]
            if fault.is_late and fault.statement == "commit":
                super().execute(sql, *values)
            elif fault.is_late and self.in_transaction:
                super().execute("rollback")
            raise fault.error()

    connect: Any = sqlite3.connect

    def connect_faulty(*values: Any, **named: Any) -> sqlite3.Connection:
        if threading.current_thread().name == WRITER_THREAD:
            named["factory"] = FaultyConnection
        connection: sqlite3.Connection = connect(*values, **named)
        return connection

    with patch.object(sqlite3, "connect", connect_faulty):
        yield


def check_fault(number: int, folder: Path) -> tuple[StorageFault, list[str]]:
    """Run the simulation in which statement ``number`` fails; return what failed, and what was violated."""
    kind = number // 2 % len(CODES)
    fault = StorageFault(at=number, is_late=number % 2 == 0, code=CODES[kind], text=TEXTS[kind])
    plan = SimulationPlan(seed=1 + number % SEEDS, days=DAYS, lives=LIVES, has_storage_fault=True)
    with storage_fault(fault):
        report = run_simulation(replace(plan, people=number % 3 == 0), folder)
    return fault, report.violations


def main() -> int:
    """Run the faults that the command line asks for; 1 after a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the number of the first statement")
    parser.add_argument("--faults", type=int, default=1, help="how many, one after the other")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    counts, violated = Counter[str](), 0
    for number in range(asked.first, asked.first + asked.faults):
        with tempfile.TemporaryDirectory(prefix="foxcast-storage-") as folder:
            fault, violations = check_fault(number, Path(folder))
        counts["reached" if fault.statement else "not reached"] += 1
        violated += bool(violations)
        for one in violations:
            sys.stdout.write(f"  VIOLATED statement {number} ({fault.statement}): {one}\n")
        sys.stdout.flush()
    parts = [f"{asked.faults} faults", *(f"{count} {name}" for name, count in counts.items()), f"{violated} violated"]
    sys.stdout.write(", ".join(parts) + "\n")
    return int(violated > 0)


if __name__ == "__main__":
    sys.exit(main())
