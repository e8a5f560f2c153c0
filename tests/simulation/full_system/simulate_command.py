"""Runs the command of ``make simulate`` in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (sys.executable, "-m", "tests.simulation.full_system")


def run_simulate_command(*options: str, order: str = "0") -> "subprocess.CompletedProcess[str]":
    """Run it to its end; ``order`` is the seed of hashes, and so the order of sets."""
    environment = {**os.environ, "PYTHONHASHSEED": order}
    return subprocess.run(
        [*PROGRAM, *options], cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=280
    )
