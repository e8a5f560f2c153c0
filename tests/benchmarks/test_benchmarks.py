"""The measurements work: each runs at its quick size, as CI would find out too late, and programs have byte code."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import NAMES
from tests.benchmarks.figures import ROOT
from tests.benchmarks.whole_programs import ProgramWork, measure_foxcast, serve_models

# Those that take longest, most of it by starting whole stages.
LONG = ("flight", "models", "trials", "backfill", "startup", "idle", "cluster", "growth", "web")
SHORT = tuple(name for name in NAMES if name not in LONG)

HERE = ROOT / "tests" / "benchmarks"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"])
def test_every_measurement_prints_figures_with_units_at_its_quick_size(names: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.benchmarks", "--quick", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) > 3 * len(names)
    figure = re.compile(r": .*\d+( |\.\d+ )(cores|s\b|ms|MB|kB|bytes|tokens|.*/s|%)")
    heading = "least and median"
    assert [line for line in lines if not figure.search(line) and not line.startswith(heading)] == []


def test_no_measurement_is_forgotten() -> None:
    assert {f"bench_{name}" for name in NAMES} == {path.stem for path in HERE.glob("bench_*.py")}


@pytest.mark.timeout(120)
def test_a_measured_program_has_its_byte_code_and_an_environment_that_forbids_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    with serve_models() as server:
        used = measure_foxcast(server, ProgramWork(questions=1)).used
    ended = time.time()
    written = {path: path.stat().st_mtime for path in tmp_path.rglob("*.pyc")}
    modules = {path.name.partition(".")[0] for path in written}
    assert modules >= {"foxcast", "openai_compatible", "workload_plugin"}
    assert [path.name for path, at in written.items() if at > ended - used.wall_s] == []
