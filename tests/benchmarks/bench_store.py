"""How fast the ledger takes durable rows: many producers, one writer, real commits."""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database

from bot.core.beliefs import ModelUsage
from bot.core.ids import sha256_hex
from bot.core.language_models import CostAttribution
from bot.store.backups import create_backup
from bot.store.connections import WriterThread
from bot.store.cost_totals import CostGrouping
from bot.store.database import open_writer
from bot.store.integrity_checks import run_quick_check
from bot.store.ledger import Ledger, open_ledger
from bot.store.model_calls import CallReservation, CallSettlement
from bot.store.reader_pool import ReaderPool
from bot.store.trials import RecordingKey
from tests.benchmarks.figures import MeasureSize, percentiles, say

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORECASTER = "plain"
PRODUCERS = 50
ROW = '{"filler":"' + "x" * 286 + '"}'
ADD = "insert into note (body) values (?)"


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with closing(open_writer(path)) as database:
            database.execute("create table note (id integer primary key, body text) strict")
        asyncio.run(_measure(path, size.pick(40_000, 500)))
        _measure_file(path)
        asyncio.run(_measure_calls(Path(folder) / "ledger" / "ledger.sqlite", size.pick(10_000, 100)))


async def _measure(path: Path, rows: int) -> None:
    async with WriterThread(path) as writer, ReaderPool(path) as readers:
        waits: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(*(_produce(writer, rows // PRODUCERS, waits) for _ in range(PRODUCERS)))
        took = time.perf_counter() - started
        say("durable rows, 50 producers", f"{rows / took:,.0f} rows/s, commit {percentiles(waits)}")
        alone: list[float] = []
        await _produce(writer, rows // 40, alone)
        say("durable rows, 1 producer", f"{len(alone) / sum(alone):,.0f} rows/s, commit {percentiles(alone)}")
        many = 100
        started = time.perf_counter()
        for _ in range(20):
            await writer.run(_adding_many(many))
        say("durable rows, 100 at once", f"{20 * many / (time.perf_counter() - started):,.0f} rows/s")
        started = time.perf_counter()
        await asyncio.gather(*(readers.run(_look) for _ in range(5000)))
        say("reads by key", f"{5000 / (time.perf_counter() - started):,.0f} reads/s")


async def _measure_calls(path: Path, count: int) -> None:
    async with open_ledger(path, now=NOON) as ledger:
        waits: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(*(_call(ledger, f"f{n}", count // PRODUCERS, waits) for n in range(PRODUCERS)))
        took = time.perf_counter() - started
        # A call is reserved, settled with its answer and kept as an exchange: three durable rows, two documents.
        say("reserve + settle + exchange, 50 producers", f"{3 * len(waits) / took:,.0f} rows/s, {percentiles(waits)}")
        started = time.perf_counter()
        found = [await ledger.recordings.read_trial(f"f{n}", 1) for n in range(PRODUCERS)]
        took = time.perf_counter() - started
        say("exchanges read back, a trial at once", f"{sum(map(len, found)) / took:,.0f} exchanges/s")
        for what, work in (
            ("spent today", ledger.calls.spent(since=NOON)),
            ("typical cost", ledger.calls.typical_cost(FORECASTER)),
            ("costs by model", ledger.calls.costs(CostGrouping.MODEL)),
        ):
            started = time.perf_counter()
            await work
            say(f"{what}, {len(waits):,} calls", f"{(time.perf_counter() - started) * 1000:.1f} ms")


async def _call(ledger: Ledger, scope: str, count: int, waits: list[float]) -> None:
    charge = CostAttribution(scope=scope, ref="lantern:question", venue="lantern", forecaster=FORECASTER, trial=1)
    usage = ModelUsage(calls=1, tokens_in=6000, tokens_cached=5000, tokens_out=300, cost_usd=0.002)
    for number in range(count):
        name = f"{scope}-{number}"
        # As long as a typical answer with its reasoning, and as hard to compress as hex is.
        answer = json.dumps([sha256_hex(f"{name}{part}".encode()) for part in range(30)])
        reservation = CallReservation(
            id=name,
            at=NOON,
            charge=charge,
            role="forecaster",
            provider="house",
            model="small",
            request=name,
            worst_usd=0.01,
        )
        started = time.perf_counter()
        await ledger.calls.reserve(reservation)
        await ledger.calls.settle(name, CallSettlement(usage=usage, attempts=1, latency_s=2.0, answer=answer))
        await ledger.recordings.add(scope, 1, RecordingKey("model", name), f'{{"answer":{answer}}}', at=NOON)
        waits.append(time.perf_counter() - started)


def _measure_file(path: Path) -> None:
    size = path.stat().st_size / 1e6
    started = time.perf_counter()
    run_quick_check(path)
    say("quick check", f"{time.perf_counter() - started:.3f} s for {size:.0f} MB")
    started = time.perf_counter()
    create_backup(path, path.parent / "backups", at=datetime(2026, 1, 1, tzinfo=UTC))
    say("backup with all checks", f"{time.perf_counter() - started:.3f} s for {size:.0f} MB")


async def _produce(writer: WriterThread, count: int, waits: list[float]) -> None:
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
