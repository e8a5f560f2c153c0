"""Stores what simulations and campaigns found, a line of JSON each, for the scoreboard."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "state" / "simulations"
CAMPAIGNS = FOLDER / "campaigns.jsonl"


def run_origin(module: str) -> Mapping[str, str]:
    """Return of which commit this is, marked where files differ from it, and the command that runs ``module``."""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
        commit = done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {"commit": commit, "command": shlex.join(["python", "-m", module, *sys.argv[1:]])}


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")


def record_campaign(
    module: str, counts: Mapping[str, int], violations: Sequence[str] = (), *, to: Path = CAMPAIGNS
) -> None:
    """Keep what a campaign against real processes or real parsers did, ``counts`` by what was done to them."""
    append_line(to, {**run_origin(module), "campaign": module, "counts": counts, "violations": [*violations]})
