"""How long a person waits for an answer: whole processes, from the start of the interpreter to its end."""

import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.figures import MeasureSize, environment, run, say


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(Path(folder) / "state", source="sample", chosen="all")
        say("first foxcast run --once on the bundled rounds", str(run("run", "--once", env=env)))
        for arguments in (["--help"], ["status"], ["run", "--once"]):
            uses = [run(*arguments, env=env) for _ in range(size.pick(15, 1))]
            median = statistics.median(use.wall_s for use in uses)
            slowest = max(use.wall_s for use in uses)
            peak = max(use.peak_mb for use in uses)
            figure = f"median {median:.2f} s, slowest {slowest:.2f} s of {len(uses)}, peak {peak:.0f} MB"
            say(f"foxcast {' '.join(arguments)}, nothing new to do", figure)
