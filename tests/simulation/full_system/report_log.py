"""The line that the scoreboard gets of each simulation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.simulation.full_system.daemon_lives import life_end

if TYPE_CHECKING:
    from tests.simulation.full_system.simulation import SimulationReport


def report_line(report: SimulationReport, took_s: float) -> dict[str, Any]:
    """Return what is kept of a simulation; ``took_s`` is its processor time."""
    return {
        "seed": report.plan.seed,
        "mutant": report.plan.mutant,
        "asked_days": report.plan.days,
        "calm": not report.plan.faulty,
        "days": round(report.days, 4),
        "modes": report.modes,
        "worldly": report.worldly,
        "ends": Counter(life_end(one) for one in report.lives),
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
