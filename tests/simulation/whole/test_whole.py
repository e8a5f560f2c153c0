"""The whole daemon in virtual time, with faults, kills and people: a little of what ``make simulate`` does at large."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.scoreboard import board_of, table_of
from tests.simulation.whole.keep import line_of
from tests.simulation.whole.plan import Plan
from tests.simulation.whole.sim import run
from tests.simulation.whole.twins import disagreements

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (sys.executable, "-m", "tests.simulation.whole")
# Seeds with both venues, and with the simulated world, its press and its model.
MARKETS, WORLDLY = 4, 13


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
@pytest.mark.parametrize("seed", [1, MARKETS])
def test_days_with_faults_kills_and_people_break_no_invariant(seed: int, tmp_path: Path) -> None:
    report = run(Plan(seed=seed, days=1.0), tmp_path)
    assert report.violations == []
    assert report.effects
    assert report.faults
    assert len(report.lives) > 1


@pytest.mark.timeout(300)
def test_with_a_world_a_press_and_a_model_that_obeys_pages_no_invariant_breaks(tmp_path: Path) -> None:
    report = run(Plan(seed=WORLDLY, days=0.3, lives=2), tmp_path)
    assert report.violations == []
    assert report.worldly
    assert report.effects["metaculus forecast"] > 0


@pytest.mark.timeout(300)
def test_in_calm_weather_all_that_is_acknowledged_stands(tmp_path: Path) -> None:
    report = run(Plan(seed=MARKETS, days=0.2, lives=0, faulty=False, people=False), tmp_path)
    assert report.violations == []
    assert report.effects["manifold bet"] > 0
    assert not report.faults


@pytest.mark.timeout(300)
def test_paper_and_live_agree_on_every_decision_up_to_the_wire(tmp_path: Path) -> None:
    compared, differing = disagreements(Plan(seed=1, days=0.1), tmp_path)
    assert differing == []
    assert compared > 5


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


def test_what_is_kept_of_simulations_adds_up(tmp_path: Path) -> None:
    report = run(Plan(seed=11, days=0.05, lives=1), tmp_path)
    line = {"commit": "c0ffee", "command": "python", **json.loads(json.dumps(line_of(report, 1.0)))}
    mutant = {**line, "mutant": "no-audit", "violations": ["I7: nothing is written down"]}
    broken = {**line, "seed": 12, "violations": ["I1: twice", "I9: too late"]}
    known = [{"seeds": [12], "says": ["too late"], "mended": "so"}]
    board = board_of([line, line, mutant, broken], known)
    assert (board["simulations"], board["seeds"], board["repeated"]) == (2, 2, {"runs": 1, "same": 1})
    assert board["days"] == pytest.approx(2 * report.days, abs=0.1)
    assert [one["says"] for one in board["violations"]["open"]] == ["I1: twice"]
    assert board["mutants"] == {"no-audit": 11}
    assert "1 found and mended, 0 known, 1 not looked into" in table_of(board)


def _trace(*, seed: str, order: str) -> str:
    said = _simulated("--seed", seed, "--days", "0.12", "--lives", "3", order=order)
    [trace] = [line for line in said.stdout.splitlines() if line.startswith("  trace: ")]
    return trace


def _simulated(*options: str, order: str = "0") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONHASHSEED": order}
    return subprocess.run(
        [*PROGRAM, *options], cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=280
    )
