"""The measurements work: each of them runs at its quick size, as CI would find out too late."""

import re
import subprocess
import sys

import pytest

from tests.benchmarks.__main__ import NAMES
from tests.benchmarks.figures import ROOT

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
