"""One state folder under ``foxcast run``.

Killed again and again until its work is done, and checked after each kill.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlite_utils import Database

from bot.store.database import open_reader
from bot.store.evidence import EVIDENCE_MIGRATIONS, evidence_path
from bot.store.evidence_checks import check_evidence
from bot.store.integrity_checks import INVARIANTS, run_full_check
from bot.store.schema import MIGRATIONS
from tests.acceptance.command_server import run_foxcast

CONFIG = """
mode = "paper"
state = "state"
plugins = ["forecastbench", "baseline"]

[log]
level = "warning"

[daemon]
discover_every_s = 2
forecast_every_s = 1
submit_every_s = 1
reconcile_every_s = 1
resolve_every_s = 2
score_every_s = 1
backup_every_s = 5

[venues.forecastbench]
forecasters = ["baseline"]

[venues.forecastbench.settings]
source = {source}
rounds = {rounds}
"""

DONE_FORECASTS = """
select f.id, f.ref, f.forecaster, group_concat(p.target || '=' || p.probability, ';')
from forecast f join prediction p on p.forecast = f.id where f.state = 'done' group by f.id
"""
TWICE = (
    "select ref, forecaster, count(*) from forecast where state = 'done' group by ref, forecaster having count(*) > 1"
)
INTENTS = "select id, state from intent"
UNFINISHED = """
select (select count(*) from schedule where due_at is not null)
     + (select count(*) from intent where state <> 'acked')
     + (select count(*) from forecast where state = 'running' or decided_at is null)
     + (select count(*) from prediction p join current_resolution r on r.ref = p.ref and r.target = p.target
        where p.scored_against is null)
     + (select count(*) from question q
        where not exists (select 1 from forecast f where f.ref = q.ref and f.state = 'done'))
     + (select count(*) = 0 from question)
"""
EXPECTED_ROWS = "select count(*) from target t join question q on q.version = t.version where q.batch = ?"
BATCHES = "select distinct batch from question"


class InvariantViolation(AssertionError):
    """Something was lost, doubled or damaged."""


@dataclass(slots=True)
class KillScenario:
    """A state folder and what was seen of it so far."""

    folder: Path
    seen: dict[str, str] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path, *, source: str, rounds: str) -> KillScenario:
        """Write the configuration of a new story; ``rounds`` is TOML."""
        folder.mkdir(parents=True)
        text = CONFIG.format(source=json.dumps(source), rounds=rounds)
        (folder / "config.toml").write_text(text, encoding="utf-8")
        return cls(folder)

    @property
    def ledger(self) -> Path:
        """The ledger of the story; it may not exist yet."""
        return self.folder / "state" / "paper" / "ledger.sqlite"

    def live(self, seconds: float) -> None:
        """Run the daemon for that long and kill it with SIGKILL; raises Violation if it ended by itself."""
        with suppress(subprocess.TimeoutExpired):
            done = self._run("run", timeout=seconds)
            message = f"the daemon ended by itself with {done.returncode}: {done.stderr[-2000:]}"
            raise InvariantViolation(message)

    def run_once(self) -> None:
        """Let one pass of everything run to its end; raises Violation if it fails."""
        done = self._run("run", "--once", timeout=300.0)
        if done.returncode != 0:
            message = f"foxcast run --once ended with {done.returncode}: {done.stderr[-2000:]}"
            raise InvariantViolation(message)

    def _run(self, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
        words = ("--config", str(self.folder / "config.toml"), *arguments)
        return run_foxcast(words, folder=self.folder, environment=clean_environment(), timeout=timeout)

    def judge(self) -> bool:
        """Check the ledger as it lies on disk; return whether all work is done. Raises Violation."""
        if not self.ledger.exists() or self.is_half_made():
            return False
        for health in (run_full_check(self.ledger, INVARIANTS), check_evidence(self.ledger)):
            if not health.sound:
                raise InvariantViolation(str(health.problems))
        with closing(sqlite3.connect(self.ledger)) as database:
            if not database.execute("select 1 from sqlite_master where name = 'forecast'").fetchone():
                return False
            self._no_forecast_lost(database)
            self._nothing_unsent(database)
            if twice := database.execute(TWICE).fetchall():
                message = f"forecast twice: {twice[:3]}"
                raise InvariantViolation(message)
            unfinished = database.execute(UNFINISHED).fetchone()[0]
        return bool(unfinished == 0)

    def is_half_made(self) -> bool:
        """Say whether the process was killed before its ledger had all its tables."""
        made = {self.ledger: MIGRATIONS, evidence_path(self.ledger): EVIDENCE_MIGRATIONS}
        for path, migrations in made.items():
            if not path.exists():
                return True
            with closing(open_reader(path)) as database:
                if len(migrations.applied(database)) < len(migrations.pending(Database(memory=True))):
                    return True
        return False

    def judge_files(self) -> int:
        """Check the forecast sets of the finished story; return their rows. Raises Violation."""
        rows = 0
        with closing(sqlite3.connect(self.ledger)) as database:
            for (batch,) in database.execute(BATCHES).fetchall():
                expected = database.execute(EXPECTED_ROWS, [batch]).fetchone()[0]
                [path] = (self.ledger.parent / "forecastbench" / "forecast_sets").glob(f"{batch}.*.json")
                found = _rows(path)
                if len(found) != expected or len(set(found)) != expected:
                    message = f"{path.name} has {len(set(found))} different rows of {expected}"
                    raise InvariantViolation(message)
                rows += expected
        return rows

    def _no_forecast_lost(self, database: sqlite3.Connection) -> None:
        now = {row[0]: repr(row[1:]) for row in database.execute(DONE_FORECASTS)}
        require_unchanged(self.seen, now, "forecast")
        self.seen = now

    def _nothing_unsent(self, database: sqlite3.Connection) -> None:
        states = dict(database.execute(INTENTS).fetchall())
        require_unchanged(dict.fromkeys(self.acked, "acked"), states, "intent")
        self.acked = {intent for intent, state in states.items() if state == "acked"}


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of Foxcast."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FOXCAST_")}


def require_unchanged(before: Mapping[str, str], now: Mapping[str, str], what: str) -> None:
    for name, value in before.items():
        if now.get(name) != value:
            message = f"{what} {name} was {value} and is now {now.get(name, 'lost')}"
            raise InvariantViolation(message)


def _rows(path: Path) -> list[tuple[str, str, str | None]]:
    forecasts = json.loads(path.read_bytes())["forecasts"]
    return [(row["source"], row["id"], row["resolution_date"]) for row in forecasts]
