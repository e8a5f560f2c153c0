"""Signals and the deadly watchdog, on a real process with the real clock."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

PROGRAM = """
import asyncio, time
from datetime import timedelta
from bot.core.clock import SystemClock
from bot.daemon.service import handle_signals, run_daemon
from bot.daemon.runner import DaemonLimits
from bot.jobs.job import DaemonJob

async def short():
    say("busy")
    await clock.sleep(0.5)
    say("finished")
    return "ok"

async def long():
    say("busy")
    await clock.sleep(60)
    return "ok"

async def hung():
    say("busy")
    time.sleep(60)
    return "ok"

def say(word):
    print(word, flush=True)

async def record(vital):
    pass

async def main():
    stop = asyncio.Event()
    with handle_signals(stop):
        job = DaemonJob(name="job", summary="", interval=timedelta(hours=1), run=RUN)
        end = await run_daemon([job], clock=clock, limits=WATCH, record=record, stop=stop)
    say(end.reason.value)

clock = SystemClock()
asyncio.run(main())
"""
CALM = "DaemonLimits()"
STRICT = "DaemonLimits(heartbeat_s=0.05, check_every_s=0.05, wake_after_s=0.2, abort_after_s=0.5)"


@contextmanager
def daemon(run: str, watch: str = CALM) -> Iterator[subprocess.Popen[str]]:
    """A process whose job has just begun."""
    program = PROGRAM.replace("RUN", run).replace("WATCH", watch)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "busy\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_finish(number: signal.Signals) -> None:
    with daemon("short") as process:
        process.send_signal(number)
        said, _ = process.communicate(timeout=10)
    assert [line for line in said.splitlines() if "[info" not in line] == ["finished", "asked to stop"]
    assert process.returncode == 0


@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)])
def test_a_second_signal_ends_the_process_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with daemon("long") as process:
        process.send_signal(first)
        assert process.stdout is not None
        assert "a second signal stops at once" in process.stdout.readline()
        process.send_signal(second)
        process.communicate(timeout=2)
    assert process.returncode == -second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_process_whose_loop_hangs(number: signal.Signals) -> None:
    with daemon("hung") as process:
        # Two signals at the same time are one to the system, so the second must come later.
        for _ in range(50):
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
                break
    assert process.returncode == -number


def test_a_hung_loop_ends_the_process_with_its_stacks() -> None:
    with daemon("hung", STRICT) as process:
        _, stacks = process.communicate(timeout=10)
    assert process.returncode == 70
    assert "in hung" in stacks


def test_a_paused_process_goes_on_when_it_is_continued() -> None:
    with daemon("long", STRICT) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)
        process.send_signal(signal.SIGCONT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
