"""What workers bring to a backtest: questions in a minute with a model that takes 2 s, and with work for the CPU.

Also what a question costs in a backtest of 100 and of 1,000 questions, with a model that answers at once.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.benchmarks.figures import MeasureSize, program_environment, say, write_byte_code

COMMAND = Path(sys.executable).with_name("foxcast")
PLUGIN = Path(__file__).parents[1] / "acceptance" / "timed_model_plugin.py"
CONFIG = f"""
plugins = ["blf", "timed_model_plugin"]
plugin_files = ["{PLUGIN}"]
[models.timed.settings]
latency_s = LATENCY
[llm.roles.main]
model = "timed:one"
[forecasters.blf]
trials = 1
[forecasters.computing.settings]
cpu_s = 0.25
[daemon]
concurrency = 8
[llm.providers.timed]
concurrency = 1000
"""
EXECUTORS = {"in one process": (), **{f"with {n} workers": ("--workers", str(n)) for n in (1, 2, 4)}}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with a configuration and so many questions."""

    path: Path
    questions: int

    def prepare(self, latency_s: float) -> None:
        (self.path / "config.toml").write_text(CONFIG.replace("LATENCY", str(latency_s)))
        rows = [f"Was {number} seen?,2026-01-01,2026-01-09,{number % 3 == 0:d}" for number in range(self.questions)]
        (self.path / "own.csv").write_text("\n".join(["title,asked_at,resolved_at,outcome", *rows]))
        self.run("lab", "questions", "import", "own.csv", "--out", "own")

    def run(self, *arguments: str) -> float:
        """Run a command and return the seconds that it took."""
        began = perf_counter()
        environment = {**program_environment(), "FOXCAST_CONFIG": "config.toml", "FOXCAST_LOG__LEVEL": "error"}
        subprocess.run([COMMAND, *arguments], cwd=self.path, env=environment, check=True, stdout=subprocess.DEVNULL)
        return perf_counter() - began

    def times(self, name: str) -> list[float]:
        """Return when answers were given, in seconds."""
        return [float(line.split()[0]) for line in (self.path / name).read_text().splitlines()]


def _measure_throughput(forecaster: str, log: str, questions: int, latency_s: float) -> None:
    for executor, options in EXECUTORS.items():
        with TemporaryDirectory() as place:
            folder = Folder(Path(place), questions)
            folder.prepare(latency_s)
            took = folder.run("backtest", "--forecaster", forecaster, "--rounds", "own", "--yes", *options)
            # Without the beginning, when workers import, and the end, when they run out of questions.
            noted = sorted(folder.times(log))
            first, last = noted[len(noted) // 4], noted[3 * len(noted) // 4]
            per_minute = 60 * (3 * len(noted) // 4 - len(noted) // 4) / (last - first)
            say("cluster", f"{forecaster} {executor}: {per_minute:.0f} answers a minute ({took:.0f} s with the start)")


def _measure_growth(sizes: tuple[int, ...]) -> None:
    for questions in sizes:
        with TemporaryDirectory() as place:
            folder = Folder(Path(place), questions)
            folder.prepare(0.0)
            out = ("--json", "report.json")
            took = folder.run("backtest", "--forecaster", "blf", "--rounds", "own", "--yes", *out)
            calls = json.loads((Path(place) / "report.json").read_text())["costs"]["calls"]
            say("cluster", f"{questions:,} questions, {calls:,} calls: {1000 * took / questions:.0f} ms a question")


def main(size: MeasureSize) -> None:
    """Measure throughput by workers, and growth by questions."""
    quick = size is MeasureSize.QUICK
    write_byte_code()
    _measure_throughput("blf", "asked.txt", 8 if quick else 200, 0.2 if quick else 2.0)
    _measure_throughput("computing", "computed.txt", 8 if quick else 64, 0.0)
    _measure_growth((20,) if quick else (100, 1_000))
