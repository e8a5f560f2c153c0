"""Checks that paper and live agree on every decision (I13): one world simulated twice, once in each mode."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from bot.execution.submission_planning import MAX_PLAN_AGE
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.plan import SimulationPlan
from tests.simulation.full_system.simulation import run_simulation

VENUES = ("manifold", "metaculus", "polymarket")
# A real account there takes longer to read: one side may be a question further than the other.
SLOWER = "polymarket"
# So long may a pass take in which one side decides what the other decided before.
PASS = timedelta(minutes=5)
_DECIDED = """
select d.at, f.ref, f.revision, d.verdict, d.why, i.action, i.order_body, i.predictions, i.cost
from decision d join forecast f on f.id = d.forecast left join intent i on i.id = d.intent order by d.id
"""
# With these words a reason begins that lets something go.
_SIDES = {"live": "armed", "paper": "paper"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDecisions:
    """What one side decided of each question, and when, before its venue decided anything anew; and when that was.

    Then the sides part: an order moves the live market, and a signer refuses what its day does not allow.
    """

    decided: Mapping[str, tuple[object, ...]]
    at: Mapping[str, datetime]
    ended: Mapping[str, datetime]

    def may_lack(self, ref: str, decided_at: datetime) -> bool:
        """Say whether it may have no decision that the other side made then."""
        venue = _venue(ref)
        return venue == SLOWER or (venue in self.ended and decided_at > self.ended[venue] - PASS)


def decision_differences(plan: SimulationPlan, root: Path) -> tuple[int, list[str]]:
    """Return how many decisions were compared, and where the two sides differ; ``root`` is an empty folder."""
    live, paper = (first_decisions(_lived(plan, root / side, side), begins) for side, begins in _SIDES.items())
    return compare_decisions(live, paper)


def compare_decisions(live: FirstDecisions, paper: FirstDecisions) -> tuple[int, list[str]]:
    """Return how many decisions were compared, and where the two sides differ."""
    both = live.decided.keys() & paper.decided.keys()
    # A plan that waited for a real account is made again, on prices of then.
    compared = {ref for ref in both if _venue(ref) != SLOWER or abs(live.at[ref] - paper.at[ref]) <= MAX_PLAN_AGE}
    differing = {ref for ref in compared if live.decided[ref] != paper.decided[ref]}
    for side, other in ((live, paper), (paper, live)):
        differing |= {ref for ref in other.decided.keys() - both if not side.may_lack(ref, other.at[ref])}
    return len(compared), [
        f"I13: {ref} is decided {live.decided.get(ref)} live and {paper.decided.get(ref)} on paper"
        for ref in sorted(differing)
    ]


def _lived(plan: SimulationPlan, root: Path, side: str) -> list[Row]:
    root.mkdir()
    rows: list[Row] = []
    calm = replace(plan, lives=0, faulty=False, people=False, drawn=False, modes=dict.fromkeys(VENUES, side))
    report = run_simulation(calm, root, judged=lambda ledger: rows.extend(read_rows(ledger, _DECIDED)))
    assert report.violations == []
    return rows


def first_decisions(rows: Sequence[Row], begins: str) -> FirstDecisions:
    """Return what rows of decisions, in their order, say of each question; ``begins`` is how a reason begins."""
    decided: dict[str, tuple[object, ...]] = {}
    at: dict[str, datetime] = {}
    ended: dict[str, datetime] = {}
    for row in rows:
        ref, venue, when = row["ref"], _venue(row["ref"]), datetime.fromisoformat(row["at"])
        if row["revision"] > 1 or ref in decided:
            ended.setdefault(venue, when)
        elif venue not in ended:
            why = row["why"].removeprefix(begins)
            # What its fills took in the end is no part of a decision.
            cost = None if venue == SLOWER else row["cost"]
            decided[ref], at[ref] = (row["verdict"], why, row["action"], _order(row), row["predictions"], cost), when
    return FirstDecisions(decided=decided, at=at, ended=ended)


def _venue(ref: str) -> str:
    return ref.partition(":")[0]


def _order(row: Row) -> object:
    """Return an order without when its book was read: an account that is real takes longer to read."""
    if row["order_body"] is None:
        return None
    order = json.loads(row["order_body"])
    order["terms"].pop("book", None)
    return json.dumps(order, sort_keys=True)
