"""A rate that a daemon and commands next to it keep together, judged by when requests arrive."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.clock import SeededRandom, SystemClock
from bot.net.rate_limit import RateLimiter
from bot.store.rate_usage import LOCK_HOLDER_NAME, SharedRateUsageFiles
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.unit.net.rate_usage_stores import URL, most_in_window, rate

MINUTE = rate(240, 60.0, name="manifold all", burst=20)


class Program:
    """Asks in bursts and rests between them; each request takes a while, and some end without an answer."""

    def __init__(
        self, clock: VirtualClock, chance: Random, shared: SharedRateUsageFiles, arrivals: list[float]
    ) -> None:
        self.clock, self.chance, self.arrivals = clock, chance, arrivals
        self.rates = RateLimiter([MINUTE], clock=clock, random=SeededRandom(1), shared=shared)

    async def run(self, bursts: int) -> None:
        for _ in range(bursts):
            await self.clock.sleep(self.chance.choice([0.0, 1.0, 30.0, 90.0]))
            await asyncio.gather(*(self.ask() for _ in range(self.chance.choice([1, 8, 40, 200]))))

    async def ask(self) -> None:
        async with self.rates.acquire("GET", URL, patience_s=600.0) as turn:
            took_s = self.chance.uniform(0.0, 3.0)
            self.arrivals.append(self.clock.monotonic() + self.chance.uniform(0.0, took_s))
            await self.clock.sleep(took_s)
            if self.chance.random() < 0.9:
                turn.record_response(200, {})


# Each example writes thousands of files.
@pytest.mark.timeout(180)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**9), commands=st.integers(1, 3))
def test_in_every_sliding_minute_daemon_and_commands_together_ask_no_more_than_the_rate(
    seed: int, commands: int
) -> None:
    arrivals: list[float] = []

    async def main(clock: VirtualClock) -> None:
        with TemporaryDirectory() as folder:
            names = [LOCK_HOLDER_NAME, *(f"command {number}" for number in range(commands))]
            programs = [
                Program(clock, Random(f"{seed} {name}"), SharedRateUsageFiles(folder=Path(folder), name=name), arrivals)
                for name in names
            ]
            await asyncio.gather(*(program.run(4) for program in programs))

    run_in_virtual_time(main)
    assert most_in_window(arrivals, 60.0) <= 240


@pytest.mark.parametrize(("killed", "free_s"), [(False, 61.0), (True, 120.0)])
def test_what_a_program_that_ended_had_used_counts_until_its_window_is_over(
    tmp_path: Path, *, killed: bool, free_s: float
) -> None:
    one = rate(1, 60.0)
    left: list[float] = []

    async def ask(clock: VirtualClock, name: str) -> None:
        rates = RateLimiter(
            [one], clock=clock, random=SeededRandom(1), shared=SharedRateUsageFiles(folder=tmp_path, name=name)
        )
        async with rates.acquire("GET", URL, patience_s=600.0):
            left.append(clock.monotonic())
            if killed:
                (tmp_path / "lantern" / f"{name}.json").replace(tmp_path / "lantern" / "dead.json")

    async def main(clock: VirtualClock) -> None:
        await ask(clock, "first")
        if killed:
            (tmp_path / "lantern" / "first.json").unlink()
        await ask(clock, "second")

    run_in_virtual_time(main)
    # Of one that was killed nobody knows when it was answered: after a minute at the latest, and one counts from there.
    assert left == [0.0, pytest.approx(free_s, abs=1.0)]


def test_a_lock_that_another_program_holds_is_waited_for(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from bot.store.rate_usage import SharedRateUsageFiles\n"
        "with SharedRateUsageFiles(folder=Path(sys.argv[1])).try_lock('lantern') as free:\n"
        "    print(free, flush=True); time.sleep(1.0)"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        shared = SharedRateUsageFiles(folder=tmp_path)
        with shared.try_lock("lantern") as free:
            assert free is False

        async def ask() -> bool:
            rates = RateLimiter([rate()], clock=SystemClock(), random=SeededRandom(1), shared=shared)
            async with rates.acquire("GET", URL, patience_s=60.0):
                return other.poll() is None

        asyncio.run(ask())
        assert other.wait() == 0
    assert [file.name for file in (tmp_path / "lantern").glob("*.json")] == [f"{shared.name}.json"]
