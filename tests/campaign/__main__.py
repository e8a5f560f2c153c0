"""``python -m tests.campaign``: the long programme, part by part, going on where it stopped. See ``make campaign``."""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.campaign.campaign_parts import PARTS, CampaignPart, StepResult
from tests.campaign_log import ROOT, run_origin

MODULE = "tests.campaign"
PROGRESS = ROOT / "state" / "campaign.json"
Progress = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run steps until the time is over or all is done; print the table; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--part", action="append", choices=[*PARTS], help="only these parts")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no step begins after so many")
    parser.add_argument("--steps", type=int, default=sys.maxsize, help="so many steps of each part at most")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="the file that holds what was done")
    parser.add_argument("--table", action="store_true", help="only print the table of what was done")
    asked = parser.parse_args(arguments)
    progress, deadline = read_progress(asked.progress), time.monotonic() + asked.minutes * 60.0
    found = 0
    if not asked.table:
        chosen = [PARTS[name] for name in asked.part or PARTS]
        for part in turns(chosen, progress, steps=asked.steps):
            if time.monotonic() >= deadline:
                break
            found += run_step(part, progress, asked.progress)
    sys.stdout.write(markdown_table(progress))
    return int(found > 0)


def turns(parts: Sequence[CampaignPart], progress: Progress, *, steps: int) -> Iterator[CampaignPart]:
    """Yield parts that are not done, each in its turn."""
    for _ in range(steps):
        left = [part for part in parts if done_of(part, progress) < part.full]
        if not left:
            return
        yield from left


def run_step(part: CampaignPart, progress: Progress, path: Path) -> int:
    """Run the next step of a part and keep what it did; return how much it found."""
    before, began = children_hours(), time.monotonic()
    step = part.run_step(done_of(part, progress))
    add_step(progress, part, step, hours=children_hours() - before)
    write_progress(path, progress)
    shown = f"{part.name}: {done_of(part, progress):,} of {part.full:,} {part.unit}, {len(step.findings)} found"
    sys.stdout.write(f"{shown}, {time.monotonic() - began:.0f} s\n")
    sys.stdout.writelines(f"  FOUND {one}\n" for one in step.findings)
    sys.stdout.flush()
    return len(step.findings)


def children_hours() -> float:
    """Return the processor hours of all steps so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / 3_600.0


def done_of(part: CampaignPart, progress: Progress) -> int:
    """Return how many units of a part were done."""
    return int(progress.get(part.name, {}).get("done", 0))


def add_step(progress: Progress, part: CampaignPart, step: StepResult, *, hours: float) -> None:
    """Add what a step did; a step that did nothing still counts as one unit, so that the next one is another."""
    kept = progress.setdefault(part.name, {"done": 0, "hours": 0.0, "counts": {}, "findings": [], "commits": []})
    kept["done"] += max(step.done, 1)
    kept["hours"] += hours
    kept["counts"] = dict(Counter(kept["counts"]) + Counter(step.counts))
    commit = run_origin(MODULE)["commit"]
    kept["findings"] += [f"{commit}: {one}" for one in step.findings]
    kept["commits"] = sorted({*kept["commits"], commit})
    kept["last"] = step.command


def read_progress(path: Path) -> Progress:
    """Return what was done before; nothing where there is no file."""
    if not path.exists():
        return {}
    found: Progress = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_progress(path: Path, progress: Progress) -> None:
    """Replace the file at once, so that a kill leaves the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(progress, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def markdown_table(progress: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what was done of each part, how long that took, and how long all of it takes."""
    lines = [
        "| part | what | full size | done | processor hours | for all of it | found | further counts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for part in PARTS.values():
        kept = progress.get(part.name, {})
        done, hours = int(kept.get("done", 0)), float(kept.get("hours", 0.0))
        whole = f"{hours / done * part.full:.1f}" if done and hours else f"about {part.hours:g}"
        counts = ", ".join(f"{name} {count:,}" for name, count in kept.get("counts", {}).items()) or "-"
        share = f"{done:,} ({min(done / part.full, 1.0):.1%})"
        row = (part.name, part.what, f"{part.full:,} {part.unit}", share, f"{hours:.2f}", whole)
        lines.append(f"| {' | '.join(row)} | {len(kept.get('findings', []))} | {counts} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
