"""What is kept of each simulation, a line of JSON each, for the scoreboard."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.whole.sim import Report

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "state" / "simulations"


def origin() -> Mapping[str, str]:
    """Return of which commit this is, marked where files differ from it, and the command."""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
        commit = done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {"commit": commit, "command": shlex.join(["python", "-m", "tests.simulation.whole", *sys.argv[1:]])}


def write(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")


def line_of(report: Report, took_s: float) -> dict[str, Any]:
    """Return what is kept of a simulation; ``took_s`` is its processor time."""
    return {
        "seed": report.plan.seed,
        "mutant": report.plan.mutant,
        "asked_days": report.plan.days,
        "calm": not report.plan.faulty,
        "days": round(report.days, 4),
        "modes": report.modes,
        "worldly": report.worldly,
        "ends": Counter(_end(one) for one in report.lives),
        "requests": report.requests,
        "turns": report.turns,
        "effects": report.effects,
        "faults": report.faults,
        "violations": report.violations,
        "trace": report.trace,
        "memory_mb": {str(day): round(mb, 1) for day, mb in report.memory_mb.items()},
        "peak": report.peak,
        "cpu_s": round(took_s, 2),
    }


def _end(life: str) -> str:
    """Return in a word how a life ended."""
    if life.startswith(("asked", "looked")):
        return "stopped" if life.startswith("asked") else "looked back"
    return "killed" if life == "killed" else "disk full" if "disk" in life or "store" in life else life[:60]
