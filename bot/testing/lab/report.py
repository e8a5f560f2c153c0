"""What the laboratory found as plain values; all but what names seconds is the same for the same seed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bot.testing.lab.bench import PRICE_IN, PRICE_OUT
from bot.testing.lab.experiment import Findings, Plan
from bot.testing.lab.tables import Row

NOTES = (
    "Everything here is a simulation: the world, its press and crowd, and the models, which are a rule.",
    "The machinery around them is the real one: desk, guards, gateway, ledger, aggregation, calibration, audit.",
    "So signs and recoveries say that the parts do what they are for; sizes say nothing about real models.",
    "Differences are paired over the same questions, with 95 % intervals by bootstrap over groups of questions.",
    "'Off' is the mean squared distance to the world's own probability; of what knows outcomes it says nothing.",
    "A call that several trials of a question share is counted once, for the first of them.",
)
OF_PARTS = ("Variants have one trial each and are held against the first trial of the reference.",)


def report_of(plan: Plan, found: Findings, *, seconds: float) -> dict[str, Any]:
    """Return everything under stable keys."""
    return {
        "simulation": True,
        "seed": plan.seed,
        "questions": found.rows[0].n,
        "parts": [*plan.parts],
        "forecasters": [*plan.forecasters],
        "prices_usd_per_million_tokens": {"in": PRICE_IN, "out": PRICE_OUT},
        "rows": [_row(row) for row in found.rows],
        "recoveries": [
            {
                "name": one.name,
                "planted": one.planted,
                "found": one.found,
                "verdict": "recovered" if one.recovered else "NOT recovered",
                "figures": dict(one.figures),
            }
            for one in found.recoveries
        ],
        "notes": [*NOTES, *(OF_PARTS if plan.parts else ())],
        "speed": {
            "seconds": round(seconds, 1),
            "trials": found.trials,
            "processes": plan.processes,
            "trial_seconds": round(found.trial_seconds / max(1, found.trials), 4),
        },
    }


def written(report: Mapping[str, Any], path: Path) -> None:
    """Write it as JSON."""
    path.write_text(f"{json.dumps(report, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def without_times(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a report without what the speed of the machine decides."""
    match value:
        case dict():
            return {key: without_times(one) for key, one in value.items() if not _is_time(key)}
        case list():
            return [without_times(one) for one in value]
        case _:
            return value


def _row(row: Row) -> dict[str, Any]:
    return dict(_parts(row))


def _parts(row: Row) -> Iterator[tuple[str, Any]]:
    plain = asdict(row)
    use = plain.pop("use")
    yield from plain.items()
    if use is not None:
        yield "use", {**use, "seconds": round(use["seconds"], 2), "cost_usd": round(use["cost_usd"], 4)}


def _is_time(key: str) -> bool:
    return key in {"seconds", "trial_seconds", "processes"}
