"""The floor of a forecast: the requests of its questions by bare clients, its rows by bare sqlite3. Prints JSON.

The standard input is JSON: ``url``, ``bodies`` (the requests of one question, as text), ``questions``, ``at_once``,
``ledger`` and ``evidence`` (databases that a run on so many questions has left), ``folder`` (an empty one). The figures
are milliseconds of CPU of this process a question, and the number of rows.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import process_time
from typing import Any

import aiohttp
import httpx

from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import RetryingHttpClient

MAX_BYTES = 2**20
HEADERS = {"Content-Type": "application/json"}
# One for each call, and one for the forecast.
COMMITS_OF_QUESTION = 6

Post = Callable[[str], Awaitable[bytes]]
TableRows = tuple[str, Sequence[tuple[Any, ...]]]


async def _ask(post: Post, bodies: Sequence[str], questions: int, at_once: int) -> float:
    """Return the milliseconds of CPU that the requests of one question take: a body made, sent, its answer read."""
    made = [json.loads(body) for body in bodies]

    async def work(left: Iterator[int]) -> None:
        for _ in left:
            for body in made:
                json.loads(await post(json.dumps(body)))

    await asyncio.gather(*(work(iter(range(1))) for _ in range(at_once)))  # opens the connections
    used, left = process_time(), iter(range(questions))
    await asyncio.gather(*(work(left) for _ in range(at_once)))
    return 1000 * (process_time() - used) / questions


async def measure_requests(given: dict[str, Any]) -> dict[str, float]:
    """Return the figures of bare httpx, bare aiohttp and our own client."""
    url, counts = given["url"], (given["bodies"], given["questions"], given["at_once"])

    async def by_httpx(body: str) -> bytes:
        return (await client.post(url, content=body, headers=HEADERS)).content

    async def by_aiohttp(body: str) -> bytes:
        async with session.post(url, data=body, headers=HEADERS) as reply:
            return await reply.read()

    async def by_ours(body: str) -> bytes:
        return await http.post(url, json.loads(body), max_bytes=MAX_BYTES)

    async with httpx.AsyncClient(trust_env=False, timeout=60.0) as client:
        found = {"httpx": await _ask(by_httpx, *counts)}
    async with aiohttp.ClientSession() as session:
        found["aiohttp"] = await _ask(by_aiohttp, *counts)
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        found["our client"] = await _ask(by_ours, *counts)
    return found


def measure_rows(given: dict[str, Any]) -> dict[str, float]:
    """Return the figure of the same rows, inserted into tables with the same indexes, each commit on the disk."""
    questions, commits = given["questions"], given["questions"] * COMMITS_OF_QUESTION
    rows, used = 0, 0.0
    for name in ("ledger", "evidence"):
        with closing(sqlite3.connect(given[name])) as made:
            schema, tables = read_tables(made)
        with closing(sqlite3.connect(Path(given["folder"]) / name, isolation_level=None)) as database:
            for setting in ("journal_mode = wal", "synchronous = full"):
                database.execute(f"pragma {setting}")
            for statement in schema:
                database.execute(statement)
            rows += sum(len(found) for _, found in tables)
            used += _insert_rows(database, tables, commits)
    return {"sqlite3": 1000 * used / questions, "rows": rows / questions}


def _insert_rows(database: sqlite3.Connection, tables: Sequence[TableRows], commits: int) -> float:
    """Insert rows in so many transactions of equal size; return the seconds of CPU."""
    used = process_time()
    for number in range(commits):
        database.execute("begin immediate")
        for statement, rows in tables:
            database.executemany(statement, rows[len(rows) * number // commits : len(rows) * (number + 1) // commits])
        database.execute("commit")
    return process_time() - used


def read_tables(made: sqlite3.Connection) -> tuple[list[str], list[TableRows]]:
    """Return what makes the tables and indexes of a database, and an insertion with the rows of each table."""
    listed = made.execute(
        "select type, name, sql from sqlite_master where sql is not null and type in ('table', 'index')"
        " and name not like 'sqlite_%' order by type desc"
    ).fetchall()
    schema = [sql for _, _, sql in listed]
    tables: list[TableRows] = []
    for name in (name for kind, name, _ in listed if kind == "table"):
        columns = made.execute("select name from pragma_table_info(?)", [name]).fetchall()
        rows = made.execute(f'select * from "{name}"').fetchall()  # noqa: S608 - the name is the database's own
        tables.append((f'insert into "{name}" values ({", ".join("?" * len(columns))})', rows))  # noqa: S608 - as above
    return schema, tables


def main() -> None:
    """Measure and print everything."""
    given = json.load(sys.stdin)
    sys.stdout.write(json.dumps({**asyncio.run(measure_requests(given)), **measure_rows(given)}))


if __name__ == "__main__":
    main()
