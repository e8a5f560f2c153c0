"""The pages and metrics of a ledger of ten years: time of the first and of later answers, load of watchers, memory."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from bot.store.ledger import LEDGER_FILE
from tests.benchmarks.figures import COMMAND, MeasureSize, environment, percentiles, say, write_byte_code
from tests.grown_ledger import STEPS, grow_ledger

CONFIG = """
plugins = []

[venues.lantern]
forecasters = ["plain"]
"""
PAGES = (
    *("/", "/questions", "/questions?state=open&sort=closes", "/questions?q=no+such+words"),
    *("/question?ref=lantern:q5", "/forecasters", "/portfolio", "/costs", "/audit", "/jobs", "/metrics"),
)
WATCHERS = 8
ADDRESS = "the dashboard is at "


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    count = size.pick(100_000, 1_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state" / "paper").mkdir(mode=0o700, parents=True)
        grow_ledger(folder / "state" / "paper" / LEDGER_FILE, count)
        say("ledger of the pages", f"{count:,} questions, {count * STEPS:,} steps, {_size_mb(folder):.0f} MB")
        (folder / "config.toml").write_text(CONFIG)
        with _serving(folder) as (address, process):
            _measure_pages(address, repeats=size.pick(30, 3))
            asyncio.run(_measure_load(address, process, rounds=size.pick(60, 3)))


def _measure_pages(address: str, *, repeats: int) -> None:
    with httpx.Client(base_url=address, timeout=60.0) as client:
        for path in PAGES:
            first_s, *later = [_timed(client, path) for _ in range(repeats + 1)]
            say(f"page {path}", f"first {1000 * first_s:.1f} ms, then {percentiles(later)}")


def _timed(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - started


async def _measure_load(address: str, process: psutil.Process, *, rounds: int) -> None:
    """Let some watchers ask for the first page and the metrics as fast as they can."""
    before, cpu_before = process.memory_info().rss, sum(process.cpu_times()[:2])
    waits: list[float] = []
    started = time.perf_counter()
    async with httpx.AsyncClient(base_url=address, timeout=60.0) as client:
        await asyncio.gather(*(_watch(client, rounds, waits) for _ in range(WATCHERS)))
    took_s, used_s = time.perf_counter() - started, sum(process.cpu_times()[:2]) - cpu_before
    say(f"{WATCHERS} watchers of / and /metrics", f"{len(waits) / took_s:.0f} answers/s, {percentiles(waits)}")
    say("processor for an answer", f"{1000 * used_s / len(waits):.1f} ms")
    after = process.memory_info().rss
    say("memory of the server", f"{after / 2**20:.0f} MB, {(after - before) / 2**20:+.1f} MB in {len(waits)} answers")


async def _watch(client: httpx.AsyncClient, rounds: int, waits: list[float]) -> None:
    for _ in range(rounds):
        for path in ("/", "/metrics"):
            started = time.perf_counter()
            (await client.get(path)).raise_for_status()
            waits.append(time.perf_counter() - started)


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the dashboard from its own process."""
    env = {**environment(folder / "state", source="sample", chosen="latest"), "FOXCAST_CONFIG": "config.toml"}
    write_byte_code()
    command: Sequence[str] = [str(COMMAND), "web", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield line.partition(ADDRESS)[2].split()[0].rstrip("/"), psutil.Process(process.pid)
        finally:
            process.terminate()


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*.sqlite")) / 1e6
