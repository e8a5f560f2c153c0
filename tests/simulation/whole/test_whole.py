"""The whole daemon in virtual time, with faults, kills and people: a little of what ``make simulate`` does at large."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.simulation.whole.plan import Plan
from tests.simulation.whole.sim import run

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (sys.executable, "-m", "tests.simulation.whole")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What goes wrong is on purpose; to write it all down would take as long as the simulation."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    structlog.configure(**before)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1, 3))
def test_hours_with_faults_kills_and_people_breaks_no_invariant(seed: int, tmp_path: Path) -> None:
    report = run(Plan(seed=seed, days=0.3, lives=4), tmp_path)
    assert report.violations == []
    assert report.effects
    assert report.faults
    assert len(report.lives) > 1


@pytest.mark.timeout(300)
def test_in_calm_weather_all_that_is_acknowledged_stands(tmp_path: Path) -> None:
    report = run(Plan(seed=1, days=0.2, lives=0, faulty=False, people=False), tmp_path)
    assert report.violations == []
    assert report.effects["manifold bet"] > 0
    assert not report.faults


@pytest.mark.timeout(300)
def test_the_same_seed_has_the_same_trace_whatever_the_order_of_sets() -> None:
    said = {_trace(seed="11", order=order) for order in ("1", "2")}
    assert len(said) == 1
    assert said != {_trace(seed="12", order="1")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", ["no-audit"])
def test_a_planted_bug_is_found_and_the_seed_told(mutant: str) -> None:
    found = _simulated("--first", "101", "--seeds", "3", "--days", "0.4", "--mutant", mutant, "--until-found")
    assert found.returncode == 1
    assert "VIOLATED" in found.stdout
    assert f"MUTANT={mutant}" in found.stdout


def _trace(*, seed: str, order: str) -> str:
    said = _simulated("--seed", seed, "--days", "0.12", "--lives", "3", order=order)
    [trace] = [line for line in said.stdout.splitlines() if line.startswith("  trace: ")]
    return trace


def _simulated(*options: str, order: str = "0") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONHASHSEED": order}
    return subprocess.run(
        [*PROGRAM, *options], cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=280
    )
