"""Long quiet work with memory, files and tasks flat: simulated hours, or minutes of ``foxcast run`` itself.

The real daemon forecasts, submits on paper, resolves, scores and backs up the sample rounds with a pass of each job
every few seconds, so that an hour of it is weeks of work, while its dashboard is open and alerts go to a program.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import structlog

from tests.acceptance.command_server import COMMAND
from tests.crash.kill_scenario import CONFIG, clean_environment
from tests.simulation.full_system.plan import SimulationPlan
from tests.simulation.full_system.simulation import run_simulation

EVERY_S, START_S = 5.0, 20.0
# From the second quarter of the time to the last: what caches may still take, what a sample of a moment differs by, and
# how late the loop may be, which waits for a processor that it shares.
MORE_MB, MORE_FILES, MOST_LAG_S = 12.0, 8, 0.5
SOAK_SEED = 30_001
# With the dashboard open, and alerts to a program.
WEB = """
[web]
listen = "127.0.0.1:{port}"
[notifiers.command.settings]
run = ["/bin/cat"]
"""
PAGES = ("/", "/questions", "/forecasters", "/portfolio", "/costs", "/audit", "/jobs", "/metrics", "/healthz/live")
STREAMS = 3
_LAG = re.compile(r'event_loop_lag_seconds\{statistic="p99"\} (\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReading:
    """What a process holds at one moment."""

    memory_mb: float
    files: int
    threads: int
    lag_s: float


def soak_real(minutes: float, folder: Path) -> tuple[list[SoakReading], str]:
    """Run the daemon for so long; return readings, and why it ended before its time, "" if it did not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = CONFIG.replace('"baseline"]', '"baseline", "command"]', 1).format(source='"sample"', rounds='"all"')
    config += WEB.format(port=port)
    (folder / "config.toml").write_text(config, encoding="utf-8")
    command: list[str | Path] = [COMMAND, "--config", folder / "config.toml", "run"]
    environment = clean_environment()
    with (folder / "stderr.txt").open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment)
    readings: list[SoakReading] = []
    try:
        end = time.monotonic() + minutes * 60.0
        time.sleep(min(START_S, minutes * 15.0))
        with ExitStack() as streams:
            for _ in range(STREAMS):
                streams.enter_context(urllib.request.urlopen(f"http://127.0.0.1:{port}/events", timeout=30.0))
            while time.monotonic() < end and process.poll() is None:
                readings.append(_read_process(process.pid, port))
                time.sleep(EVERY_S)
        code = process.poll()
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(timeout=60.0)
    if code is not None or ended != 0:
        text = (folder / "stderr.txt").read_text(encoding="utf-8")[-500:]
        return readings, f"foxcast run ended with {code if code is not None else ended}: {text}"
    return readings, ""


def _read_process(process_id: int, port: int) -> SoakReading:
    place = Path("/proc") / str(process_id)
    status = (place / "status").read_text(encoding="ascii")
    memory, threads = re.search(r"VmRSS:\s+(\d+)", status), re.search(r"Threads:\s+(\d+)", status)
    texts = {}
    for page in PAGES:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=30.0) as answer:
            texts[page] = answer.read().decode()
    lag = _LAG.search(texts["/metrics"])
    return SoakReading(
        memory_mb=int(memory[1]) / 1024.0 if memory else 0.0,
        files=len([*(place / "fd").iterdir()]),
        threads=int(threads[1]) if threads else 0,
        lag_s=float(lag[1]) if lag else 0.0,
    )


def growth(readings: Sequence[SoakReading]) -> list[str]:
    """Return what is not flat between the second quarter and the last one."""
    quarter = len(readings) // 4
    if not quarter:
        return ["too few readings to compare"]
    before, after = readings[quarter : 2 * quarter], readings[-quarter:]
    found = []
    for name, bound in (("memory_mb", MORE_MB), ("files", MORE_FILES), ("threads", 2)):
        first, last = (median(getattr(one, name) for one in part) for part in (before, after))
        if last > first + bound:
            found.append(f"{name} grew from {first:.1f} to {last:.1f}")
    if (lag_s := median(one.lag_s for one in after)) > MOST_LAG_S:
        found.append(f"the loop is {lag_s:.2f} s late")
    return found


def soak_simulated(hours: int, folder: Path) -> list[str]:
    """Run calm simulated hours; return what is violated, or grows after the first day."""
    plan = SimulationPlan(seed=SOAK_SEED, days=hours / 24.0, lives=0, faulty=False, people=False)
    report = run_simulation(plan, folder)
    days = [mb for _, mb in sorted(report.memory_mb.items())]
    grown = (
        [f"memory grew from {days[1]:.1f} to {days[-1]:.1f} MB"]
        if days[-1] > days[min(1, len(days) - 1)] + MORE_MB
        else []
    )
    sys.stdout.write(f"memory in MB by day {[round(mb) for mb in days]}, most in use {report.peak}\n")
    return [*report.violations, *grown]


def main() -> int:
    """Soak as the command line asks; 1 if something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=72, help="simulated hours")
    parser.add_argument("--real", action="store_true", help="run the daemon itself instead")
    parser.add_argument("--minutes", type=float, default=60.0, help="of the real daemon")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foxcast-soak-") as folder:
        if not asked.real:
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
            logging.disable(logging.CRITICAL)
            found = soak_simulated(asked.hours, Path(folder))
            size = f"{asked.hours} hours"
        else:
            readings, why = soak_real(asked.minutes, Path(folder))
            found, size = [why] if why else growth(readings), f"{round(asked.minutes)} minutes"
            for name in ("memory_mb", "files", "threads", "lag_s"):
                values = [getattr(one, name) for one in readings] or [0.0]
                sys.stdout.write(f"{name}: {values[0]:.3g} first, {median(values):.3g} median, {values[-1]:.3g} last\n")
    sys.stdout.writelines(f"FOUND {one}\n" for one in found)
    sys.stdout.write(f"{size}, {len(found)} findings\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
