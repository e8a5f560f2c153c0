"""``foxcast backtest`` on several processes: the same report, and nothing is paid twice whoever dies."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import FoxcastInstallation, installed

pytest.importorskip("distributed", reason="the extra cluster is not installed")

PLUGIN = Path(__file__).with_name("timed_model_plugin.py")
KEY_TEXT = "timed-key-93157"
CONFIG = f"""
plugins = ["blf", "timed_model_plugin"]
plugin_files = ["{PLUGIN}"]

[models.timed.settings]
latency_s = LATENCY

[llm.roles.main]
model = "timed:one"

[forecasters.blf]
trials = 2

[daemon]
concurrency = 2
"""
# Workers take some seconds to start, longer where other tests share the machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BACKTEST = ("backtest", "--forecasters", "blf,computing", "--rounds", "own", "--yes", "--json")


def prepare(folder: Path, latency_s: float, questions: int = 8) -> FoxcastInstallation:
    foxcast = installed(folder, "").with_environment(FOXCAST_MODELS__TIMED__SETTINGS__API_KEY=KEY_TEXT)
    foxcast.config.write_text(CONFIG.replace("LATENCY", str(latency_s)))
    rows = [
        f"Was {number} seen?,2026-01-0{number % 2 + 1},2026-01-09,{number % 3 == 0:d}" for number in range(questions)
    ]
    (folder / "own.csv").write_text("\n".join(["title,asked_at,resolved_at,outcome", *rows]))
    done = foxcast("lab", "questions", "import", "own.csv", "--out", "own")
    assert done.code == 0, done.err
    return foxcast


def requests(foxcast: FoxcastInstallation) -> list[str]:
    """Return what the model was asked, in the order of the digests."""
    return sorted(line.split()[1] for line in (foxcast.folder / "asked.txt").read_text().splitlines())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> FoxcastInstallation:
    """An installation after a backtest in one process."""
    foxcast = prepare(tmp_path_factory.mktemp("alone"), 0.0)
    done = foxcast(*BACKTEST, "report.json")
    assert done.code == 0, done.err
    return foxcast


def report(foxcast: FoxcastInstallation) -> bytes:
    return (foxcast.folder / "report.json").read_bytes()


def test_two_workers_make_the_same_report_bit_for_bit(alone: FoxcastInstallation, tmp_path: Path) -> None:
    foxcast = prepare(tmp_path, 0.0)
    done = foxcast(*BACKTEST, "report.json", "--workers", "2", timeout=120)
    assert done.code == 0, done.err
    assert report(foxcast) == report(alone)
    assert json.loads(report(alone))["costs"]["calls"] == 32
    assert requests(foxcast) == requests(alone)
    assert done.err == ""


async def wait_until(is_met: Callable[[], bool], process: asyncio.subprocess.Process | None = None) -> None:
    """Look twenty times a second, as long as the process runs."""
    while not is_met():
        assert process is None or process.returncode is None
        await asyncio.sleep(0.05)


def is_over(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def run_and_kill(foxcast: FoxcastInstallation, *, the_first_machine: bool) -> int:
    """Kill a worker, or the command itself with its workers, in the middle; return the exit code of the command."""
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, *BACKTEST, "report.json", "--workers", "2"), cwd=foxcast.folder, env=foxcast.environment
    )
    asked = foxcast.folder / "asked.txt"
    try:
        async with asyncio.timeout(100):
            await wait_until(lambda: asked.exists() and len(asked.read_text().splitlines()) >= 12, process)
            family = psutil.Process(process.pid).children(recursive=True)
            (one, *_) = [child for child in family if "dask worker" in " ".join(child.cmdline())]
            victim = process if the_first_machine else one
            victim.send_signal(signal.SIGKILL)
            code = await process.wait()
            if the_first_machine:
                # Workers end with the machine that started them.
                await wait_until(lambda: all(map(is_over, family)))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return code


async def test_a_worker_that_is_killed_costs_nothing_that_was_paid_for(
    alone: FoxcastInstallation, tmp_path: Path
) -> None:
    foxcast = prepare(tmp_path, 0.5)
    assert await run_and_kill(foxcast, the_first_machine=False) == 0
    assert requests(foxcast) == requests(alone)
    assert report(foxcast) == report(alone)


async def test_a_run_continues_after_the_first_machine_was_killed(alone: FoxcastInstallation, tmp_path: Path) -> None:
    foxcast = prepare(tmp_path, 0.5)
    assert await run_and_kill(foxcast, the_first_machine=True) == -signal.SIGKILL
    before = len(requests(foxcast))
    done = foxcast(*BACKTEST, "report.json", "--workers", "2", timeout=120)
    assert done.code == 0, done.err
    # What was in flight when it was killed is asked again: at most two trials of two questions on each worker.
    twice = Counter(requests(foxcast)) - Counter(requests(alone))
    assert twice.total() <= 8 <= before
    first, second = json.loads(report(foxcast)), json.loads(report(alone))
    assert first["market"] == second["market"]
    assert first["by_forecaster"] == second["by_forecaster"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--workers", "2", "--cluster", "tcp://127.0.0.1:1"), 2, ("leave out one of the two",)),
        (("--cluster", "nowhere"), 3, ("no Dask scheduler answers at nowhere", "dask scheduler")),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_in_one_line(
    alone: FoxcastInstallation,
    *,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    refused = alone(*BACKTEST, "-", *arguments)
    assert refused.is_refusal(code, *words), refused
