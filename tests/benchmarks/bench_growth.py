"""What growth costs: jobs of the daemon and commands of people on ledgers of ten years, with one question up.

Also whole runs: what each question costs in a run on few and on many. ``--huge`` adds a million, and a run on 10,000.
The daemon's own jobs should take the same time at every size, the rest grow no faster than the ledger.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from bot.core.clock import SystemClock
from bot.jobs.ledger_maintenance import EvidenceContext, maintain_evidence
from bot.jobs.resolution import CORRECTION_PERIOD
from bot.store.accounts import AccountKey
from bot.store.backups import create_backup
from bot.store.ledger import LEDGER_FILE, Ledger, open_ledger
from bot.store.submission_queries import read_paper_outcomes
from tests.benchmarks.figures import MeasureSize, environment, run, say
from tests.benchmarks.whole_programs import ProgramWork, machine_load, measure_foxcast, serve_models
from tests.grown_ledger import ACCOUNT, NOW, GrownLedger, grow_ledger

SIZES = (1, 100, 1_000, 10_000, 100_000)
QUICK_SIZES = (300,)
RUN_SIZES, QUICK_RUN_SIZES, HUGE_RUN_SIZE = (1, 100, 1_000), (1, 6), 10_000
HUGE_SIZE = 1_000_000
ROUNDS = 5
PROBE_S = 0.005
SWEPT = 500
COMMANDS = ("status", "doctor", "orders", "portfolio", "questions", "score", "costs")
# Pruning takes minutes: it is measured up to this size.
MAX_PRUNED = 10_000


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    sizes = QUICK_SIZES if size is MeasureSize.QUICK else SIZES
    curves: dict[str, list[str]] = {}
    for questions in (*sizes, HUGE_SIZE) if size is MeasureSize.HUGE else sizes:
        with tempfile.TemporaryDirectory() as folder:
            for what, figure in _measure(Path(folder), questions).items():
                curves.setdefault(what, []).append(f"{figure} with {questions:,}")
    _measure_runs(size)
    for what, figures in curves.items():
        say(f"growth, {what}", ", ".join(figures))


def _measure_runs(size: MeasureSize) -> None:
    """Run the program on new questions, each of five calls of a model that answers at once."""
    sizes = QUICK_RUN_SIZES if size is MeasureSize.QUICK else RUN_SIZES
    start_s, curve = 0.0, []
    with serve_models() as server:
        for questions in (*sizes, HUGE_RUN_SIZE) if size is MeasureSize.HUGE else sizes:
            load, used = machine_load(), measure_foxcast(server, ProgramWork(questions=questions)).used
            say(f"{questions:,} new questions, foxcast run --once", f"{used}, {load}")
            start_s = start_s or used.cpu_s
            if questions > 1:
                curve.append(f"{1000 * (used.cpu_s - start_s) / (questions - 1):.1f} ms with {questions:,}")
    say("growth, CPU of foxcast run --once for each question beyond the first one", ", ".join(curve))


def _measure(state: Path, questions: int) -> dict[str, str]:
    """Say all figures of a ledger of one size; return those of its jobs in wall time and of its commands in CPU."""
    path = state / "paper" / LEDGER_FILE
    path.parent.mkdir(mode=0o700)
    # In a process of its own: what it takes in memory would count as that of the commands.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as growing:
        grown = growing.submit(grow_ledger, path, questions).result()
    name = f"{questions:,} questions"
    say(f"{name}, the ledger", f"{path.stat().st_size / 1e6:.1f} MB")
    found = asyncio.run(_measure_jobs(grown, name))
    trading = state / "trading.toml"
    trading.write_text(f'plugins = []\n[venues.lantern]\naccount = "{ACCOUNT}"\nforecasters = ["plain"]\n')
    for command in COMMANDS:
        env = dict(environment(state, source="sample", chosen="sample"))
        if command == "portfolio":
            env = {name: value for name, value in env.items() if "VENUES" not in name}
            env["FOXCAST_CONFIG"] = str(trading)
        # Doctor finds no daemon, and says so with its exit code.
        used = run(command, env=env, codes=(0, 1))
        found[f"foxcast {command}"] = f"{used.cpu_s:.2f} s"
        say(f"{name}, foxcast {command}", str(used))
    for what in ("the first time", "nothing new to do"):
        used = run("run", "--once", env=environment(state, source="sample", chosen="latest"), codes=(0, 1))
        found[f"foxcast run --once, {what}"] = f"{used.cpu_s:.2f} s"
        say(f"{name}, foxcast run --once on the sample, {what}", str(used))
    began = perf_counter()
    backup = create_backup(path, path.parent / "backups", at=NOW)
    say(f"{name}, backup", f"{perf_counter() - began:.2f} s for {backup.size_bytes / 1e6:.1f} MB")
    if questions <= MAX_PRUNED:
        asyncio.run(_measure_pruning(grown, name))
    return found


async def _measure_jobs(grown: GrownLedger, name: str) -> dict[str, str]:
    began, found = perf_counter(), {}
    async with open_ledger(grown.path, now=NOW) as ledger:
        say(f"{name}, start", f"{perf_counter() - began:.2f} s")
        key, recent = AccountKey(venue="lantern", account=ACCOUNT, paper=True), NOW - CORRECTION_PERIOD
        jobs: dict[str, Callable[[], Awaitable[object]]] = {
            "what is due": lambda: ledger.schedule.count_due(NOW),
            "a lease of eight": lambda: _lease(ledger),
            "open orders": lambda: ledger.submissions.batches(states=[]),
            "what has to be scored": lambda: ledger.scores.to_score(100),
            "what venues are asked for outcomes": lambda: ledger.questions.awaiting_outcome("lantern", since=recent),
            "outcomes to settle on paper": lambda: ledger.submissions.readers.run(
                lambda database: read_paper_outcomes(database, "lantern")
            ),
            "payouts to record": lambda: ledger.profits.decided(key),
            "markets to close": lambda: ledger.profits.close_markets(key, now=NOW, redeems=False),
        }
        for what, measured in jobs.items():
            found[what] = f"{1000 * await _best(measured):.1f} ms"
            say(f"{name}, {what}", found[what])
        refs = await ledger.questions.open_forecast_questions("lantern", now=NOW, limit=SWEPT)
        swept = [await ledger.questions.get(ref) for ref in refs]
        took_s = await _best(lambda: ledger.questions.record(swept, seen_at=NOW))
        say(f"{name}, a sweep of {len(swept)} open ones", f"{1000 * took_s:.1f} ms")
    return found


async def _measure_pruning(grown: GrownLedger, name: str) -> None:
    async with open_ledger(grown.path, now=NOW) as ledger:
        job = EvidenceContext(path=grown.path, ledger=ledger, clock=SystemClock(), keep=timedelta(days=5 * 365))
        async with _watched_loop() as waits:
            began = perf_counter()
            await maintain_evidence(job)
            took_s = perf_counter() - began
    late = f"the loop late by {1000 * max(late for late, _ in waits):.0f} ms at most"
    # On a machine that others use too, the rest is time in which a thread of this program waited for a processor.
    late += f", without waiting for a processor {1000 * max(late - queued for late, queued in waits):.0f} ms"
    say(f"{name}, half of the evidence removed", f"{took_s:.2f} s, {late}")


async def _lease(ledger: Ledger) -> None:
    leases = await ledger.schedule.claim(now=NOW, owner="bench", lease=timedelta(minutes=5), limit=8)
    for one in leases:
        await ledger.schedule.postpone(one, until=NOW, why="measured")


async def _best(measured: Callable[[], Awaitable[object]]) -> float:
    """Return the shortest time of some rounds, in seconds: what else the machine does is no part of it."""
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        await measured()
        times.append(perf_counter() - began)
    return min(times)


@asynccontextmanager
async def _watched_loop() -> AsyncIterator[list[tuple[float, float]]]:
    """Yield how late a task was that only sleeps, each time with how long threads waited for a processor: seconds."""
    waits = [(0.0, 0.0)]

    async def probe() -> None:
        while True:
            queued, began = _queued_s(), perf_counter()
            await asyncio.sleep(PROBE_S)
            waits.append((perf_counter() - began - PROBE_S, _queued_s() - queued))

    watching = asyncio.create_task(probe())
    try:
        yield waits
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _queued_s() -> float:
    """Return how long all threads of this process have waited for a processor; 0 on systems that do not tell.

    Source: the second field of schedstat in https://docs.kernel.org/scheduler/sched-stats.html.
    """
    threads = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[1]) for thread in threads) / 1e9
