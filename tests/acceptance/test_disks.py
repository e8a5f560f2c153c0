"""The real daemon on a disk that fills up or fails, and on a ledger that was brought back from a backup."""

import json
import resource
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CONFIG, FoxcastInstallation, InProcessCommand, installed
from tests.unit.store.faulty_disks import small_disk

BUSY = (
    CONFIG
    + """
[daemon]
forecast_every_s = 0.2
submit_every_s = 0.2
min_free_mb = 0
"""
)
LEDGER = Path("state") / "paper" / "ledger.sqlite"
# Room for the ledger, its ballast of 8 MB, and a backup, which wants 64 MB to stay free.
DISK_MB = 120


@contextmanager
def daemon(foxcast: FoxcastInstallation) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the daemon, past its first pass; it must end by itself within the block."""
    # What measures the coverage of processes would need the disk too.
    environment = {name: value for name, value in foxcast.environment.items() if not name.startswith("COV")}
    process = subprocess.Popen(
        [COMMAND, "run"], cwd=foxcast.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _wait_for(process, foxcast, "backup")
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def _wait_for(process: "subprocess.Popen[bytes]", foxcast: FoxcastInstallation, job: str) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
        path = foxcast.folder / LEDGER
        if path.exists() and job in {name for (name,) in _rows(path, "select job from job_run")}:
            return
    pytest.fail(f"the job {job} did not run in 20 s; the daemon ended with {process.poll()}")


def _rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []  # the tables are still being made


def _fill(path: Path) -> None:
    for size in (1 << 20, 1 << 12, 1):
        with path.open("ab", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * size):
                pass


def _intents(foxcast: FoxcastInstallation) -> list[tuple[Any, ...]]:
    return _rows(foxcast.folder / LEDGER, "select id, state, changed_at from intent order by id")


@pytest.mark.timeout(90)
def test_a_full_disk_halts_the_daemon_with_a_last_word_and_a_new_start_goes_on(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, BUSY)
    with small_disk(tmp_path / "state", megabytes=DISK_MB):
        with daemon(foxcast) as process:
            sent = _intents(foxcast)
            _fill(tmp_path / "state" / "filler")
            _, output = process.communicate(timeout=20)
        assert process.returncode == 5
        assert b"the disk is full; free some space, then start again" in output
        assert b"Traceback" not in output
        status = run_command(foxcast, "status", "--json").json
        assert "the disk is full" in status["halt"]["why"]
        assert "halted: the last run ended" in run_command(foxcast, "status").out
        doctor = run_command(foxcast, "doctor")
        assert (doctor.code, "halted" in doctor.out) == (1, True)
        assert _intents(foxcast) == sent
        assert run_command(foxcast, "db", "check").code == 0
        (tmp_path / "state" / "filler").unlink()
        assert foxcast("run", "--once").code == 0
        assert run_command(foxcast, "status", "--json").json["halt"] is None


@pytest.mark.timeout(60)
def test_a_disk_that_refuses_to_write_ends_the_daemon_and_leaves_a_sound_ledger(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, BUSY)
    with daemon(foxcast) as process:
        # The operating system now refuses to write beyond the first page of any file: an I/O error to SQLite.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        _, output = process.communicate(timeout=20)
    assert process.returncode == 5
    assert b"Traceback" not in output
    assert run_command(foxcast, "db", "check").code == 0
    assert foxcast("run", "--once").code == 0


def test_a_restored_ledger_catches_up_and_doubles_nothing(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path, CONFIG.replace('rounds = "all"', ""))
    assert foxcast("run", "--once").code == 0
    backup = run_command(foxcast, "db", "backup", "--json").json["path"]
    foxcast = installed(tmp_path)
    assert foxcast("run", "--once").code == 0
    before = _written(foxcast)
    assert run_command(foxcast, "db", "restore", backup).code == 0
    assert run_command(foxcast, "status", "--json").json["restored"] == backup
    assert "restored: nothing is submitted until" in run_command(foxcast, "status").out
    assert "so nothing is submitted" in run_command(foxcast, "doctor").out
    assert foxcast("run", "--once").code == 0
    assert run_command(foxcast, "status", "--json").json["restored"] is None
    assert _written(foxcast) == before
    ledger = foxcast.folder / LEDGER
    assert _rows(ledger, "select ref from forecast where state = 'done' group by ref having count(*) > 1") == []
    assert {state for (state,) in _rows(ledger, "select state from intent")} == {"acked"}
    [(event,)] = _rows(ledger, "select text from event where kind = 'restored'")
    assert event.endswith("submissions continue")
    assert run_command(foxcast, "db", "check").code == 0


def _written(foxcast: FoxcastInstallation) -> dict[str, Counter[tuple[object, ...]]]:
    """Return the rows of each forecast set."""
    folder = foxcast.folder / "state" / "paper" / "forecastbench" / "forecast_sets"
    return {
        path.name: Counter(
            (row["source"], json.dumps(row["id"]), row["resolution_date"], row["forecast"])
            for row in json.loads(path.read_bytes())["forecasts"]
        )
        for path in folder.glob("*.json")
    }


def test_on_a_disk_that_is_nearly_full_nothing_new_begins_and_every_command_says_so(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path)
    with small_disk(tmp_path / "state", megabytes=DISK_MB):
        answer = run_command(foxcast, "run", "--once")
        assert answer.code == 3
        status = run_command(foxcast, "status", "--json").json
        details = {run["job"]: run["detail"] for run in status["runs"]}
        rule = "less than 500 MB; no question is searched, no forecast and no submission begins"
        for job in ("discover forecastbench", "forecast", "submit"):
            assert rule in details[job]
        # What settles, resolves and copies works as before.
        assert all(run["ok"] for run in status["runs"] if rule not in run["detail"])
        assert (status["counts"]["questions"], status["counts"]["forecasts"]) == (0, 0)
        assert rule in status["low_disk"]
        assert "disk: " in run_command(foxcast, "status").out
        found = {one["check"]: one for one in run_command(foxcast, "doctor", "--json").json}
        assert found["disk"]["verdict"] == "fail"
        # A person may decide otherwise.
        foxcast.config.write_text(foxcast.config.read_text() + "\n[daemon]\nmin_free_mb = 0\n")
        assert run_command(foxcast, "run", "--once").code == 0
        assert run_command(foxcast, "status", "--json").json["counts"]["forecasts"] > 0
