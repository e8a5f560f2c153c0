"""The whole daemon in virtual time, with faults, kills and people: a little of what ``make simulate`` does at large."""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.scoreboard import build_scoreboard, markdown_table
from tests.simulation.full_system.mutants import MUTANTS
from tests.simulation.full_system.paper_live_comparison import (
    FirstDecisions,
    compare_decisions,
    decision_differences,
    first_decisions,
)
from tests.simulation.full_system.plan import SimulationPlan, draw_traits
from tests.simulation.full_system.report_log import report_line
from tests.simulation.full_system.simulate_command import run_simulate_command
from tests.simulation.full_system.simulation import run_simulation

# Seeds with two venues, with one where orders are signed, and with one whose positions are sold.
MARKETS, SIGNED, CLOSED = 7, 19, 5
# In which somebody else leaves orders that the venue lists hours later.
LISTED_LATE = 9
# In which a signer refuses most of a day's orders.
SIGNED_LITTLE = 9


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
def test_orders_that_a_signer_signs_break_no_invariant(tmp_path: Path) -> None:
    report = run_simulation(SimulationPlan(seed=SIGNED, days=0.4, lives=2), tmp_path)
    assert report.violations == []
    assert report.modes["polymarket"] == "live"
    assert report.effects["polymarket order"] > 0
    # The signer's own state is where the life left it, and its key is nowhere.
    [spent] = tmp_path.rglob("signer.json")
    assert float(json.loads(spent.read_text())["dollars"]) > 0.0


@pytest.mark.timeout(300)
def test_positions_that_are_closed_break_no_invariant(tmp_path: Path) -> None:
    report = run_simulation(
        SimulationPlan(seed=CLOSED, days=0.2, lives=2, closing=True, modes={"manifold": "live"}), tmp_path
    )
    assert report.violations == []
    assert report.effects["manifold sell"] > 0
    assert report.faults["position closed"] > 0


def test_one_seed_in_eight_at_least_writes_orders_that_are_signed() -> None:
    tempers = [draw_traits(SimulationPlan(seed=seed)) for seed in range(1, 65)]
    assert sum(traits.modes.get("polymarket") == "live" for traits in tempers) >= 8
    assert {traits.order_type for traits in tempers if traits.signs} == {"FAK", "FOK", "GTD"}


@pytest.mark.timeout(300)
def test_in_calm_weather_all_that_is_acknowledged_stands(tmp_path: Path) -> None:
    report = run_simulation(SimulationPlan(seed=MARKETS, days=0.2, lives=0, faulty=False, people=False), tmp_path)
    assert report.violations == []
    assert report.effects["manifold bet"] > 0
    assert not report.faults


@pytest.mark.timeout(300)
def test_what_the_venue_does_not_list_yet_is_not_missed(tmp_path: Path) -> None:
    plan = SimulationPlan(seed=LISTED_LATE, days=0.2, lives=2, closing=True, modes={"manifold": "live"})
    assert run_simulation(plan, tmp_path).violations == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, SIGNED_LITTLE])
def test_paper_and_live_agree_on_every_decision_up_to_the_wire(tmp_path: Path, seed: int) -> None:
    compared, differing = decision_differences(SimulationPlan(seed=seed, days=0.1), tmp_path)
    assert differing == []
    assert compared > 10


def decide(*rows: tuple[Any, ...]) -> FirstDecisions:
    """Return what decisions say: of which question, after how many minutes, and what is special about them."""
    begun, usual = (
        datetime(2026, 3, 1, tzinfo=UTC),
        {"action": None, "order_body": None, "predictions": None, "cost": 0.0},
    )
    return first_decisions(
        [
            usual
            | {
                "ref": ref,
                "at": (begun + timedelta(minutes=at)).isoformat(),
                "revision": 1,
                "verdict": "send",
                "why": "",
            }
            | dict(*special)
            for ref, at, *special in rows
        ],
        "armed",
    )


def test_one_venue_that_decides_anew_does_not_end_the_comparison_of_the_others() -> None:
    refused = ("polymarket:a", 3.1, {"verdict": "hold"})
    live = decide(("manifold:a", 2), ("polymarket:a", 2), refused, ("manifold:b", 3), ("polymarket:b", 3))
    paper = decide(("manifold:a", 2), ("manifold:b", 2), ("polymarket:a", 2), ("polymarket:b", 2))
    assert compare_decisions(live, paper) == (3, [])


@pytest.mark.parametrize("other", [[], [("manifold:b", 2.0, {"why": "armed; 5 on no"})]])
def test_a_decision_that_one_side_lacks_or_makes_otherwise_is_told(
    other: list[tuple[Any, ...]],
) -> None:
    live, paper = decide(("manifold:a", 2), *other, ("manifold:a", 60)), decide(("manifold:a", 2), ("manifold:b", 2))
    for compared, differing in (compare_decisions(live, paper), compare_decisions(paper, live)):
        assert compared == 1 + len(other)
        assert [one.split(" is decided")[0] for one in differing] == ["I13: manifold:b"]


def test_what_is_decided_after_a_side_decided_anew_is_not_compared() -> None:
    live, paper = decide(("manifold:a", 2), ("manifold:a", 60)), decide(("manifold:a", 2), ("manifold:b", 60))
    assert compare_decisions(live, paper) == (1, [])


def test_a_plan_that_waited_for_the_account_is_not_compared() -> None:
    live, paper = (
        decide(("polymarket:a", 2), ("polymarket:b", 3, {"why": "; 2 on no"})),
        decide(("polymarket:a", 2.1), ("polymarket:b", 2, {"why": "; 3 on no"})),
    )
    assert compare_decisions(live, paper) == (1, [])


@pytest.mark.timeout(300)
def test_the_same_seed_has_the_same_trace_whatever_the_order_of_sets() -> None:
    first, second = (_traces(order) for order in ("1", "2"))
    assert first == second
    assert len(set(first)) == 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mutant", "first", "days"),
    [
        ("no-audit", "103", "0.05"),
        pytest.param("any-version", "7", "3", marks=pytest.mark.slow),
        ("leases-run-out", "108", "0.05"),
        pytest.param("yes-is-no", "101", "3", marks=pytest.mark.slow),
        pytest.param("never-resolved", "101", "3", marks=pytest.mark.slow),
    ],
)
def test_a_planted_bug_is_found_and_the_seed_told(mutant: str, first: str, days: str) -> None:
    found = run_simulate_command("--first", first, "--seeds", "3", "--days", days, "--mutant", mutant, "--until-found")
    assert found.returncode == 1
    assert "VIOLATED" in found.stdout
    assert f"MUTANT={mutant}" in found.stdout


def test_what_is_kept_of_simulations_adds_up(tmp_path: Path) -> None:
    report = run_simulation(SimulationPlan(seed=11, days=0.05, lives=1), tmp_path)
    line = {"commit": "c0ffee", "command": "python", **json.loads(json.dumps(report_line(report, 1.0)))}
    mutant = {**line, "mutant": "no-audit", "violations": ["I7: nothing is written down"]}
    broken = {**line, "seed": 12, "violations": ["I1: twice", "I9: too late"]}
    known = [{"commits": ["c0ffee"], "seeds": [12], "days": 0.05, "says": ["too late"], "mended": "so"}]
    board = build_scoreboard([line, line, mutant, broken], known)
    assert (board["simulations"], board["seeds"], board["repeated"]) == (2, 2, {"runs": 1, "same": 1})
    assert board["days"] == pytest.approx(2 * report.days, abs=0.1)
    assert [one["says"] for one in board["violations"]["open"]] == ["I1: twice"]
    assert board["mutants"] == {**dict.fromkeys(MUTANTS), "no-audit": 11}
    elsewhere = {**broken, "commit": "f00d"}
    assert (
        len(build_scoreboard([elsewhere, {**elsewhere, "violations": [], "trace": "x"}], known)["violations"]["open"])
        == 2
    )
    missed = {**mutant, "commit": "f00d", "violations": []}
    assert build_scoreboard([line, mutant, missed], known)["mutants"]["no-audit"] is None
    assert "1 found and mended, 0 known, 1 not looked into" in markdown_table(board)
    assert board["memory"] == []
    form = {"metamorphic": "sides", "compared": 31, "seed": 1, "mutant": None, "commit": "c0ffee", "violations": ["x"]}
    forms = build_scoreboard([line, form, {**form, "mutant": "whole-mana", "violations": ["y"]}], known)
    assert (forms["acts compared"], [one["says"] for one in forms["violations"]["open"]]) == (31, ["x"])
    held = {"10": 310.0, "0": 100.0, "1": 110.0, "2": 200.0, "3": 210.0, "4": 220.0, "5": 230.0, "9": 300.0}
    soaked = build_scoreboard([{**line, "days": 200.0, "memory_mb": held}], known)
    assert "| Memory, seed 11 | 105, 205, 225, 305 MB in the quarters of 200 days (medians) |" in markdown_table(soaked)


def _traces(order: str) -> list[str]:
    """Return the traces of a seed whose orders are signed and of the next one, simulated by one process."""
    options = ("--first", str(SIGNED), "--seeds", "2", "--days", "0.12", "--lives", "3")
    done = run_simulate_command(*options, order=order)
    assert "0 violated" in done.stdout, done.stdout + done.stderr
    return re.findall(r", trace (\w+)", done.stdout)
