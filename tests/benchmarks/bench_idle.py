"""What a large schedule costs: scans for what is due, unchanged questions seen again, and the daemon doing nothing."""

import asyncio
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from bot.core.clock import SystemClock
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.store.ledger import Ledger, open_ledger
from bot.store.schedule import DueEntry
from tests.benchmarks.figures import COMMAND, MeasureSize, environment, percentiles, say, write_byte_code

CHUNK = 500
FORECASTER = "baseline"
DUE_IN = timedelta(days=30)
CLOSES_IN = timedelta(days=60)
LAST_JOB = "select 1 from job_run where job = 'backup'"


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    count = size.pick(100_000, 1_000)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        path = state / "paper" / "ledger.sqlite"
        asyncio.run(_fill_and_scan(path, count, scans=size.pick(500, 20)))
        _idle(state, count, seconds=size.pick(60, 1))


async def _fill_and_scan(path: Path, count: int, *, scans: int) -> None:
    now = SystemClock().now()
    questions = [_question(number, now) for number in range(count)]
    async with open_ledger(path, now=now) as ledger:
        await _record(ledger, "new", questions, now)
        before = _written(path)
        await _record(ledger, "unchanged", questions, now)
        say("written for unchanged questions", f"{_written(path) - before} bytes")
        for start in range(0, count, CHUNK):
            await ledger.schedule.plan([_due(question, now) for question in questions[start : start + CHUNK]])
        await _scan(ledger, "nothing due", now, scans)
        await _scan(ledger, "all due", now + DUE_IN, scans)
        await ledger.schedule.free_leases(owner_not=None, now=now)


async def _record(ledger: Ledger, what: str, questions: Sequence[Question], now: datetime) -> None:
    started = time.perf_counter()
    for start in range(0, len(questions), CHUNK):
        await ledger.questions.record(questions[start : start + CHUNK], seen_at=now)
    took_s = time.perf_counter() - started
    say(f"record {len(questions):,} {what} questions", f"{took_s:.1f} s, {len(questions) / took_s:,.0f} questions/s")


async def _scan(ledger: Ledger, what: str, now: datetime, scans: int) -> None:
    waits: list[float] = []
    for _ in range(scans):
        started = time.perf_counter()
        await ledger.schedule.claim(now=now, owner="benchmark", lease=timedelta(hours=1), limit=64)
        waits.append(time.perf_counter() - started)
    say(f"due-scan, {what}", percentiles(waits))


def _idle(state: Path, count: int, *, seconds: float) -> None:
    env = environment(state, source="sample", chosen="latest")
    log = state / "daemon.log"
    write_byte_code()
    with log.open("w") as stderr, _running([str(COMMAND), "run"], env=dict(env), stderr=stderr) as process:
        _await_first_pass(state / "paper" / "ledger.sqlite", process)
        daemon = psutil.Process(process.pid)
        before = daemon.cpu_times()
        time.sleep(seconds)
        after = daemon.cpu_times()
        used_s = max(0.0, after.user + after.system - before.user - before.system)
        memory_mb = daemon.memory_info().rss / 2**20
    figure = f"CPU {100 * used_s / seconds:.2f} % of a core over {seconds:.0f} s, {memory_mb:.0f} MB resident"
    say(f"idle daemon, {count:,} questions on its schedule", figure)


@contextmanager
def _running(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, **how)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _await_first_pass(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon has run every job once; raises RuntimeError if it ends before."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as ledger:
        while ledger.execute(LAST_JOB).fetchone() is None:
            if process.poll() is not None:
                message = f"the daemon ended with {process.returncode}"
                raise RuntimeError(message)
            time.sleep(0.2)


def _question(number: int, now: datetime) -> Question:
    return Question(
        ref=QuestionRef("lantern", f"question-{number:06}"),
        title=f"Will number {number} come true?",
        shape=BinaryShape(),
        targets=(Target(resolves_at=now + CLOSES_IN),),
        background=f"Question {number} of many. " * 8,
        source="almanac",
        family="market",
        closes_at=now + CLOSES_IN + timedelta(seconds=number),
        crowd=CrowdForecast(prediction=BinaryPrediction(0.25), at=now),
    )


def _due(question: Question, now: datetime) -> DueEntry:
    return DueEntry(
        ref=question.ref, forecaster=FORECASTER, due_at=now + DUE_IN, why="benchmark", closes_at=question.closes_at
    )


def _written(path: Path) -> int:
    """Return how far the file and its write-ahead log have grown."""
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
