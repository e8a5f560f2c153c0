"""Child processes that are played inside the loop: they answer, end and are killed as real ones are."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from bot.simulator.network import CURRENT_PROCESS, NetworkEventLoop
from bot.simulator.programs import LineHandler, SimulatedProgram
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

T = TypeVar("T")
ECHO = ("/usr/bin/echoing", "--loud")


class EchoProgram:
    """Says each line again; ``runs`` is how often it was started, ``heard`` all that it received."""

    def __init__(self) -> None:
        self.runs, self.heard = 0, list[str]()

    def program(self) -> SimulatedProgram:
        return SimulatedProgram(
            matches_command=lambda line: line[0] == ECHO[0], start=self._start, startup_s=2.0, answer_s=0.5
        )

    def _start(self) -> LineHandler:
        self.runs += 1
        return self._echo_line

    def _echo_line(self, line: str) -> str:
        self.heard.append(line)
        if line == "fail":
            raise ValueError
        return line.upper()


def played(main: Callable[[NetworkEventLoop, VirtualClock], Awaitable[T]], *programs: SimulatedProgram) -> T:
    async def begin(clock: VirtualClock) -> T:
        assert isinstance(clock.loop, NetworkEventLoop)
        clock.loop.programs.extend(programs)
        try:
            return await main(clock.loop, clock)
        finally:
            for life in ("", "second"):
                clock.loop.disconnect_process(life)

    return run_in_virtual_time(begin, make=NetworkEventLoop)


async def start(*line: str) -> Process:
    return await asyncio.create_subprocess_exec(*(line or ECHO), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={})


async def ask(process: Process, line: str) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    await process.stdin.drain()
    return await process.stdout.readline()


def test_lines_are_answered_in_their_order_and_after_their_time() -> None:
    async def main(_: NetworkEventLoop, clock: VirtualClock) -> tuple[list[bytes], list[float]]:
        process, times, message = await start(), [], []
        for line in ("one", "two"):
            message.append(await ask(process, line))
            times.append(clock.monotonic())
        assert process.stdin is not None
        process.stdin.write(b"three\nfo")
        process.stdin.write(b"ur\n")
        assert process.stdout is not None
        message += [await process.stdout.readline(), await process.stdout.readline()]
        return message, times

    message, times = played(main, EchoProgram().program())
    assert message == [b"ONE\n", b"TWO\n", b"THREE\n", b"FOUR\n"]
    assert times == pytest.approx([2.5, 3.0])


def test_a_program_ends_with_its_input_once_all_is_answered() -> None:
    async def main(_: NetworkEventLoop, __: VirtualClock) -> tuple[bytes, int, int | None]:
        process = await start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"last\n")
        process.stdin.close()
        return await process.stdout.read(), await process.wait(), process.returncode

    assert played(main, EchoProgram().program()) == (b"LAST\n", 0, 0)


def test_what_is_killed_hears_no_more_and_its_output_ends() -> None:
    loud = EchoProgram()

    async def main(_: NetworkEventLoop, __: VirtualClock) -> tuple[bytes, int]:
        process = await start()
        await ask(process, "before")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"lost\n")
        process.kill()
        return await process.stdout.read(), await process.wait()

    assert played(main, loud.program()) == (b"", -signal.SIGKILL)
    assert loud.heard == ["before"]


def test_a_program_that_fails_ends() -> None:
    async def main(_: NetworkEventLoop, __: VirtualClock) -> tuple[bytes, int]:
        process = await start()
        return await ask(process, "fail"), await process.wait()

    assert played(main, EchoProgram().program()) == (b"", 1)


def test_it_ends_with_the_life_that_started_it_which_starts_no_other() -> None:
    loud = EchoProgram()

    async def main(loop: NetworkEventLoop, _: VirtualClock) -> tuple[int, bytes]:
        CURRENT_PROCESS.set("first")
        mine = await start()
        CURRENT_PROCESS.set("second")
        other = await start()
        loop.disconnect_process("first")
        ended = await mine.wait()
        CURRENT_PROCESS.set("first")
        with pytest.raises(OSError, match="no process may be started"):
            await start()
        return ended, await ask(other, "still here")

    assert played(main, loud.program()) == (-signal.SIGKILL, b"STILL HERE\n")
    assert loud.heard == ["still here"]


def test_no_other_program_is_ever_started() -> None:
    async def main(loop: NetworkEventLoop, _: VirtualClock) -> list[str]:
        with pytest.raises(FileNotFoundError, match="no such program is simulated"):
            await start(sys.executable, "-c", "raise SystemExit(3)")
        return loop.unknown_programs

    assert played(main, EchoProgram().program()) == [f"{sys.executable} -c raise SystemExit(3)"]


def test_a_program_looks_to_its_starter_as_a_real_one_does() -> None:
    """The same conversation with a child of this machine: the same bytes, and the same end."""
    code = "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper()); sys.stdout.flush()"

    async def talk(*line: str) -> tuple[list[bytes], bytes, int | None, bool]:
        process = await start(*line)
        assert process.stdin is not None
        assert process.stdout is not None
        message = [await ask(process, "one"), await ask(process, "two")]
        process.stdin.close()
        rest = await process.stdout.read()
        await process.wait()
        return message, rest, process.returncode, process.stdin.is_closing()

    async def main(_: NetworkEventLoop, __: VirtualClock) -> tuple[list[bytes], bytes, int | None, bool]:
        return await talk()

    assert played(main, EchoProgram().program()) == asyncio.run(talk(sys.executable, "-c", code))
