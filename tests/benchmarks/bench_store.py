"""How fast the ledger takes durable rows: many producers, one writer, real commits.

Run with ``python -m tests.benchmarks.bench_store`` from the root of the repository.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from sqlite_utils import Database

from bot.store.backup import back_up
from bot.store.checks import quick_check
from bot.store.database import open_writer
from bot.store.readers import Readers
from bot.store.writer import Writer

PRODUCERS = 50
ROWS = 40_000
ROW = '{"filler":"' + "x" * 286 + '"}'
ADD = "insert into note (body) values (?)"


def main() -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with closing(open_writer(path)) as database:
            database.execute("create table note (id integer primary key, body text) strict")
        asyncio.run(_measure(path))
        _measure_file(path)


async def _measure(path: Path) -> None:
    async with Writer(path) as writer, Readers(path) as readers:
        waits: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(*(_produce(writer, ROWS // PRODUCERS, waits) for _ in range(PRODUCERS)))
        took = time.perf_counter() - started
        p50, p99 = np.percentile(waits, [50, 99]) * 1000
        _say("durable rows, 50 producers", f"{ROWS / took:,.0f} rows/s, commit p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        alone: list[float] = []
        await _produce(writer, 1000, alone)
        p50, p99 = np.percentile(alone, [50, 99]) * 1000
        _say("durable rows, 1 producer", f"{1000 / sum(alone):,.0f} rows/s, commit p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        many = 100
        started = time.perf_counter()
        for _ in range(20):
            await writer.run(_adding_many(many))
        _say("durable rows, 100 at once", f"{20 * many / (time.perf_counter() - started):,.0f} rows/s")
        started = time.perf_counter()
        await asyncio.gather(*(readers.run(_look) for _ in range(5000)))
        _say("reads by key", f"{5000 / (time.perf_counter() - started):,.0f} reads/s")


def _measure_file(path: Path) -> None:
    size = path.stat().st_size / 1e6
    started = time.perf_counter()
    quick_check(path)
    _say("quick check", f"{time.perf_counter() - started:.3f} s for {size:.0f} MB")
    started = time.perf_counter()
    back_up(path, path.parent / "backups", at=datetime(2026, 1, 1, tzinfo=UTC))
    _say("backup with all checks", f"{time.perf_counter() - started:.3f} s for {size:.0f} MB")


async def _produce(writer: Writer, count: int, waits: list[float]) -> None:
    for _ in range(count):
        started = time.perf_counter()
        await writer.run(_add)
        waits.append(time.perf_counter() - started)


def _add(database: Database) -> None:
    database.conn.execute(ADD, [ROW])


def _adding_many(count: int) -> Callable[[Database], None]:
    rows = [(ROW,)] * count

    def add(database: Database) -> None:
        database.conn.executemany(ADD, rows)

    return add


def _look(database: Database) -> str:
    return str(database.conn.execute("select body from note where id = 7").fetchone()[0])


def _say(what: str, figure: str) -> None:
    sys.stdout.write(f"{what}: {figure}\n")


if __name__ == "__main__":
    main()
