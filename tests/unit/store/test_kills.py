"""The writer under SIGKILL: a real process, a real file, a kill while commits and checkpoints run."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from bot.store.database import open_writer
from bot.store.integrity_checks import run_full_check

ROOT = Path(__file__).resolve().parents[3]
KILLS = 20
PRODUCERS = 20

# Imports once, then forks a writer for each line it reads: a kill then costs milliseconds and not a start of Python.
NURSERY = """
import asyncio, os, sys
from pathlib import Path
from bot.store.connections import WriterThread

def write(producer, number):
    def run(database):
        # Two rows and a counter: a torn transaction would tell on itself.
        for half in (0, 1):
            database.conn.execute("insert into note values (?, ?, ?)", [producer, number, half])
        database.conn.execute("update total set writes = writes + 1")
    return run

async def produce(writer, producer, number):
    while True:
        number += 1
        await writer.run(write(producer, number))
        os.write(1, f"{producer} {number}\\n".encode())

async def main(path, first):
    async with WriterThread(path) as writer, asyncio.TaskGroup() as group:
        await writer.run(lambda database: database.conn.execute("pragma wal_autocheckpoint = 50").fetchall())
        for producer in range(PRODUCERS):
            group.create_task(produce(writer, producer, first))

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        asyncio.run(main(Path(sys.argv[1]), int(line)))
    os.write(1, f"born {child}\\n".encode())
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
""".replace("PRODUCERS", str(PRODUCERS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(open_writer(path)) as database:
        database.execute("create table note (producer integer, number integer, half integer) strict")
        database.execute("create table total (writes integer) strict")
        database.execute("insert into total values (0)")
    return path


@pytest.fixture
def nursery(path: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(path)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def acknowledged_until_killed(told: IO[str], heard: IO[str], first: int, *, after: int) -> set[tuple[int, int]]:
    """Start a writer, kill it after that many acknowledged writes, and return all it acknowledged."""
    told.write(f"{first}\n")
    told.flush()
    child, writes = 0, set[tuple[int, int]]()
    for line in heard:
        match line.split():
            case ["born", pid]:
                child = int(pid)
            case ["dead"]:
                return writes
            case [producer, number]:
                writes.add((int(producer), int(number)))
        if child and len(writes) >= after:
            os.kill(child, signal.SIGKILL)
            child = 0
    message = "the nursery died"
    raise AssertionError(message)


def stored(path: Path) -> tuple[dict[tuple[int, int], int], int]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select producer, number, count(*) from note group by 1, 2")
        halves = {(producer, number): count for producer, number, count in rows}
        (writes,) = connection.execute("select writes from total").fetchone()
    return halves, writes


def test_no_acknowledged_write_is_lost_and_none_is_torn(path: Path, nursery: "subprocess.Popen[str]") -> None:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    acknowledged: set[tuple[int, int]] = set()
    for kill in range(KILLS):
        # From the very first write to some hundred, so that kills fall before, in and after checkpoints.
        acknowledged |= acknowledged_until_killed(nursery.stdin, nursery.stdout, kill * 10**6, after=kill * 37 % 400)
        halves, writes = stored(path)
        assert acknowledged <= halves.keys()
        assert set(halves.values()) <= {2}
        assert writes == len(halves)
        # At most one write of each producer can be durable and not yet acknowledged, in each life.
        assert len(halves) - len(acknowledged) <= PRODUCERS * (kill + 1)
    assert run_full_check(path, ()).sound
