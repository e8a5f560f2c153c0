"""The parts of the long programme: what one step of each runs, and how its result is read.

Each step is a command of its own that can be run again by hand, so that a part goes on wherever it stopped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIMULATION = "tests.simulation.full_system"
# Kills of a step: stories are finished, so it makes some more. Failpoints of a step, and inputs.
KILLS_A_STEP, PAIRS_A_STEP, INPUTS_A_STEP, FAULTS_A_STEP = 20, 64, 50_000, 10
# A step that takes longer than this hangs.
STEP_LIMIT_S = 4 * 3_600.0
MOST_FINDINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one step did: so many units, counts by their names, and what it found."""

    done: int
    command: str
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPart:
    """A part of the programme: its whole size in units, and the processor hours that this takes.

    ``command`` makes the arguments of the step that begins at a unit. ``read`` returns how many units a step did and
    counts from what it printed; ``small`` is a size for a first look.
    """

    name: str
    what: str
    unit: str
    full: int
    hours: float
    command: Callable[[int], Sequence[str]]
    read: Callable[[str], tuple[int, Mapping[str, int]]]

    def run_step(self, first: int) -> StepResult:
        """Run the step that begins at a unit, and return what came of it."""
        arguments = self.command(first)
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=STEP_LIMIT_S,
        )
        command = " ".join(["python", "-m", *arguments])
        units, counts = self.read(done.stdout)
        findings = [line.strip() for line in done.stdout.splitlines() if "VIOLATED" in line or "FOUND" in line]
        if done.returncode != 0 and not findings:
            findings = [f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"]
        return StepResult(
            done=units,
            command=command,
            counts=counts,
            findings=[f"{one[:600]} ({command})" for one in findings[:MOST_FINDINGS]],
        )


def _seeds(first_seed: int, days: int) -> Callable[[int], Sequence[str]]:
    return lambda done: (
        SIMULATION,
        *("--first", str(first_seed + done), "--seeds", "1", "--days", str(days), "--keep", f"campaign-{days}"),
    )


def _read_seeds(text: str) -> tuple[int, Mapping[str, int]]:
    found = re.findall(r"([\d.]+) days, (\d+) lives, (\d+) requests, (\d+) effects, (\d+) faults", text)
    counts = {
        name: round(sum(float(row[place]) for row in found))
        for place, name in enumerate(("days", "lives", "requests", "effects", "faults"))
    }
    return 1, counts


def _read_forms(text: str) -> tuple[int, Mapping[str, int]]:
    return 1, {"acts compared": sum(map(int, re.findall(r": (\d+) acts compared", text)))}


def _read_kills(text: str) -> tuple[int, Mapping[str, int]]:
    found = re.search(r"(\d+) kills", text)
    forecasts = re.search(r"(\d+) forecasts", text)
    kills = int(found[1]) if found else 1
    return kills, {"forecasts checked": int(forecasts[1]) if forecasts else 0}


def _kill_command(done: int) -> Sequence[str]:
    # Two scenarios in turn: the daemon at its work, and the daemon while it pays models.
    is_paid = done // KILLS_A_STEP % 2 == 1
    module = "tests.crash.paid_calls_campaign" if is_paid else "tests.crash.daemon_campaign"
    sample = ("--questions", "6") if is_paid else ("--source", "sample", "--rounds", '"all"')
    return (module, "--kills", str(KILLS_A_STEP), "--seed", str(1_000 + done), *sample)


def _counted(unit: str) -> Callable[[str], tuple[int, Mapping[str, int]]]:
    """Return what reads the last line of a step, which begins with ``12 units, 3 of this, 4 of that``."""

    def read(text: str) -> tuple[int, Mapping[str, int]]:
        lines = [line for line in text.splitlines() if re.match(rf"\d+ {unit}\b", line)]
        if not lines:
            return 0, {}
        parts = [one.split(" ", 1) for one in lines[-1].split(", ")]
        counts = {name: int(count) for count, name in parts if count.isdigit()}
        return counts.pop(unit, 0), counts

    return read


PARTS: dict[str, CampaignPart] = {
    part.name: part
    for part in (
        CampaignPart(
            name="seeds",
            what="the whole daemon in virtual time, 30 days of each seed",
            unit="seeds",
            full=2_000,
            hours=35.0,
            command=_seeds(10_001, 30),
            read=_read_seeds,
        ),
        CampaignPart(
            name="years",
            what="the same, 365 days of each seed",
            unit="seeds",
            full=20,
            hours=5.0,
            command=_seeds(20_001, 365),
            read=_read_seeds,
        ),
        CampaignPart(
            name="forms",
            what="scripted worlds in eight other forms, whose results must map onto one another",
            unit="seeds",
            full=200,
            hours=1.5,
            command=lambda done: (SIMULATION, "--metamorphic", "--seed", str(1 + done), "--keep", "campaign-forms"),
            read=_read_forms,
        ),
        CampaignPart(
            name="kills",
            what="kills of foxcast run at random instants, at its work and while it pays models",
            unit="kills",
            full=20_000,
            hours=14.0,
            command=_kill_command,
            read=_read_kills,
        ),
        CampaignPart(
            name="pairs",
            what="kills of the outbox at each pair of failpoints, for each venue and on paper",
            unit="pairs",
            full=28_800,
            hours=4.0,
            command=lambda done: (
                "tests.campaign.failpoint_pairs",
                *("--first", str(done), "--pairs", str(PAIRS_A_STEP)),
            ),
            read=_counted("pairs"),
        ),
        CampaignPart(
            name="storage",
            what="the n-th statement of the ledger fails, before or after its effect",
            unit="faults",
            full=5_000,
            hours=4.0,
            command=lambda done: (
                "tests.campaign.storage_faults",
                *("--first", str(done + 1), "--faults", str(FAULTS_A_STEP)),
            ),
            read=_counted("faults"),
        ),
        CampaignPart(
            name="inputs",
            what="mutated samples into every parser of what comes from outside",
            unit="inputs",
            full=5_000_000,
            hours=0.7,
            command=lambda done: ("tests.campaign.fuzzing", "--first", str(done), "--inputs", str(INPUTS_A_STEP)),
            read=_counted("inputs"),
        ),
        CampaignPart(
            name="soak",
            what="hours of simulated work with memory, files and tasks flat",
            unit="hours",
            full=72,
            hours=0.1,
            command=lambda _: ("tests.campaign.soak", "--hours", "72"),
            read=_counted("hours"),
        ),
        CampaignPart(
            name="real",
            what="minutes of foxcast run itself with memory, files and loop lag flat",
            unit="minutes",
            full=60,
            hours=0.2,
            command=lambda _: ("tests.campaign.soak", "--real", "--minutes", "60"),
            read=_counted("minutes"),
        ),
    )
}
