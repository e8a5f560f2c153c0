"""What all measurements share: their size, how a figure is printed, and whole processes with what they used."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "forecastbench"
COMMAND = Path(sys.executable).with_name("foxcast")
VENUE = "forecastbench"
# macOS counts bytes, others kilobytes.
_PER_MB = 2**20 if sys.platform == "darwin" else 2**10
# Runs a command and prints its seconds of wall and of CPU, its peak of memory and its exit code.
_LAUNCHER = """
import os, sys, time
began = time.perf_counter()
null = os.open(os.devnull, os.O_RDWR)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
_, status, used = os.wait4(pid, 0)
print([time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status)])
"""


class MeasureSize(StrEnum):
    """How much is measured: enough for a figure, just enough to see that the measurement works, or all that fits."""

    FULL = "full"
    QUICK = "quick"
    HUGE = "huge"

    def pick(self, full: int, quick: int) -> int:
        """Return the count that belongs to this size."""
        return quick if self is MeasureSize.QUICK else full


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What one process used from its start to its end."""

    wall_s: float
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s, CPU {self.cpu_s:.2f} s, peak {self.peak_mb:.0f} MB"


def say(what: str, figure: str) -> None:
    """Write one figure as one line."""
    sys.stdout.write(f"{what}: {figure}\n")
    sys.stdout.flush()


def peak_mb() -> float:
    """Return the most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _PER_MB


def percentiles(seconds: Sequence[float]) -> str:
    """Return the median and the 99th percentile of some times, in milliseconds."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def rounds(size: MeasureSize) -> str:
    """Return the folder of the published rounds where it is at hand and wanted, else the bundled sample."""
    return str(PUBLISHED) if size is not MeasureSize.QUICK and PUBLISHED.is_dir() else "sample"


def program_environment() -> dict[str, str]:
    """Return the variables of a program that is measured: it runs from byte code, as it does for a user."""
    dropped = ("FOXCAST_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def environment(state: Path, *, source: str, chosen: str) -> Mapping[str, str]:
    """Return an environment in which the committed configuration works on a state folder and some rounds of its own."""
    settings = f"FOXCAST_VENUES__{VENUE.upper()}__SETTINGS__"
    return program_environment() | {
        "FOXCAST_CONFIG": str(ROOT / "config.toml"),
        "FOXCAST_STATE": str(state),
        f"{settings}SOURCE": source,
        f"{settings}ROUNDS": chosen,
    }


@cache
def write_byte_code() -> None:
    """Compile our own source, and start the command once for what it imports: no measured one should do that."""
    sources = (ROOT / "foxcast.py", ROOT / "bot", ROOT / "plugins")
    with TemporaryDirectory() as folder:
        env = environment(Path(folder) / "state", source="sample", chosen="latest")
        subprocess.run([sys.executable, "-m", "compileall", "-q", *sources], env=env, check=True)
        run_process([COMMAND, "run", "--once"], env=env)


def run(*arguments: str, env: Mapping[str, str], codes: Collection[int] = (0,)) -> ProcessUsage:
    """Run the real command to its end; raises RuntimeError with what it said for another exit code."""
    write_byte_code()
    return run_process([COMMAND, *arguments], env=env, codes=codes)


def run_process(
    command: Sequence[str | Path], *, env: Mapping[str, str], codes: Collection[int] = (0,)
) -> ProcessUsage:
    """Run a process to its end; raises RuntimeError with what it said for another exit code.

    Linux counts what a process holds as it starts a command to the peak of the command, so a small one starts it.
    """
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, command)]
    done = subprocess.run(launcher, env=env, capture_output=True, text=True, check=True)
    wall_s, cpu_s, peak, code = json.loads(done.stdout)
    if code not in codes:
        message = f"{' '.join(map(str, command))} ended with {code}: {done.stderr}"
        raise RuntimeError(message)
    return ProcessUsage(wall_s=wall_s, cpu_s=cpu_s, peak_mb=peak / _PER_MB)
