"""Checks that paper and live agree on every decision (I13): one world simulated twice, once in each mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.plan import SimulationPlan
from tests.simulation.full_system.simulation import run_simulation

VENUES = ("manifold", "metaculus", "polymarket")
# A real account there takes longer to read than a book on paper: one side may be a question further than the other.
SLOWER = "polymarket:"
_DECIDED = """
select f.ref, f.revision, d.verdict, d.why, i.action, i.order_body, i.predictions, i.cost
from decision d join forecast f on f.id = d.forecast left join intent i on i.id = d.intent order by d.id
"""
# With these words a reason begins that lets something go.
_SIDES = {"live": "armed", "paper": "paper"}


def decision_differences(plan: SimulationPlan, root: Path) -> tuple[int, list[str]]:
    """Return how many decisions were compared, and where the two sides differ; ``root`` is an empty folder."""
    sides = {side: _lived(plan, root / side, side) for side in _SIDES}
    live, paper = (_first(rows, _SIDES[side]) for side, rows in sides.items())
    found = [
        f"I13: {ref} is decided {live.get(ref)} live and {paper.get(ref)} on paper"
        for ref in sorted(live.keys() | paper.keys())
        if live.get(ref) != paper.get(ref) and not (ref.startswith(SLOWER) and None in {live.get(ref), paper.get(ref)})
    ]
    return len(live.keys() & paper.keys()), found


def _lived(plan: SimulationPlan, root: Path, side: str) -> list[Row]:
    root.mkdir()
    rows: list[Row] = []
    calm = replace(plan, lives=0, faulty=False, people=False, drawn=False, modes=dict.fromkeys(VENUES, side))
    report = run_simulation(calm, root, judged=lambda ledger: rows.extend(read_rows(ledger, _DECIDED)))
    assert report.violations == []
    return rows


def _first(rows: list[Row], begins: str) -> Mapping[str, tuple[object, ...]]:
    """Return what was decided before anything was decided anew, by question."""
    found: dict[str, tuple[object, ...]] = {}
    for row in rows:
        if row["revision"] > 1 or row["ref"] in found:
            break
        why = row["why"].removeprefix(begins)
        # What its fills took in the end is no part of a decision.
        cost = None if row["ref"].startswith(SLOWER) else row["cost"]
        found[row["ref"]] = (row["verdict"], why, row["action"], _order(row), row["predictions"], cost)
    return found


def _order(row: Row) -> object:
    """Return an order without when its book was read: an account that is real takes longer to read."""
    if row["order_body"] is None:
        return None
    order = json.loads(row["order_body"])
    order["terms"].pop("book", None)
    return json.dumps(order, sort_keys=True)
