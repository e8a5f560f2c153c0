"""A whole backfill and a whole backtest by the real command: time, processor time and memory."""

import sqlite3
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path

from tests.benchmarks.figures import PUBLISHED, MeasureSize, environment, rounds, run, say

RUNS = "select job, started_at, ended_at from job_run order by id"
FORECASTS = "select count(*), count(distinct batch) from forecast join question using (ref) where state = 'done'"


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    source = rounds(size)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        env = environment(state, source=source, chosen="all")
        first, again = run("run", "--once", env=env), run("run", "--once", env=env)
        path = state / "paper" / "ledger.sqlite"
        with closing(sqlite3.connect(path)) as ledger:
            forecasts, batches = ledger.execute(FORECASTS).fetchone()
            jobs = ledger.execute(RUNS).fetchall()
        say(f"backfill of {batches} rounds, {forecasts:,} forecasts", str(first))
        say("of it", ", ".join(f"{job} {_took(*span):.1f} s" for job, *span in jobs[: len(jobs) // 2]))
        say("the same again, nothing new to do", str(again))
        say("ledger", f"{path.stat().st_size / 1e6:.0f} MB, {path.stat().st_size / forecasts / 1e3:.1f} kB a forecast")
        report = str(Path(folder) / "report.json")
        tested = run("backtest", "--forecaster", "baseline", "--rounds", source, "--json", report, env=env)
        say("backtest of all rounds" + (" (published)" if source == str(PUBLISHED) else " (sample)"), str(tested))


def _took(started_at: str, ended_at: str) -> float:
    return (datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)).total_seconds()
