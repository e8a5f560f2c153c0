"""Simulated child processes inside an event loop: a program reads lines and answers each with a line."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from signal import SIGKILL, SIGTERM
from typing import Any

from bot.core.light_dataclass import dataclass

# A run of a program: it answers one line after the other, both without line ends.
LineHandler = Callable[[str], str]
_IN, _OUT, _ERR = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedProgram:
    """``matches_command`` recognises a command line, ``start`` begins a run of it.

    The first answer takes ``startup_s``, for what the program loads, later ones ``answer_s``.
    """

    matches_command: Callable[[Sequence[str]], bool]
    start: Callable[[], LineHandler]
    startup_s: float = 1.0
    answer_s: float = 0.02


class SimulatedProcess(asyncio.SubprocessTransport):
    """One run of a program, as its starter sees a process. An error of the program ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, program: SimulatedProgram, number: int) -> None:
        super().__init__()
        self._loop, self._program, self._number = loop, program, number
        self._protocol: asyncio.SubprocessProtocol | None = None
        self._handle_line = program.start()
        self._pipes: dict[int, _ProcessInput | _ProcessOutput] = {}
        self._waiters: list[asyncio.Future[int]] = []
        self._returncode: int | None = None
        self._unread = b""
        self._free_s = loop.time() + program.startup_s
        self._closes = False

    def connect(self, protocol: asyncio.SubprocessProtocol, *, stdin: int | None, stdout: int | None) -> None:
        """Connect the process to its starter."""
        self._protocol = protocol
        if stdin == PIPE:
            self._pipes[_IN] = _ProcessInput(self)
        if stdout == PIPE:
            self._pipes[_OUT] = _ProcessOutput()
        protocol.connection_made(self)

    # What a process is asked

    def get_pid(self) -> int:
        return self._number

    def get_returncode(self) -> int | None:
        return self._returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._pipes.get(fd)

    def kill(self) -> None:
        self._end(-SIGKILL)

    def terminate(self) -> None:
        self._end(-SIGTERM)

    def send_signal(self, signal: int) -> None:
        self._end(-signal)

    def close(self) -> None:
        self._end(-SIGKILL)

    def is_closing(self) -> bool:
        return self._returncode is not None

    async def _wait(self) -> int:
        """Wait for the end, like ``asyncio.subprocess.Process.wait``."""
        if self._returncode is not None:
            return self._returncode
        waiter: asyncio.Future[int] = self._loop.create_future()
        self._waiters.append(waiter)
        return await waiter

    # What goes through its pipes

    def receive(self, data: bytes) -> None:
        """Receive input; each whole line is answered in its turn."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._free_s = max(self._free_s, self._loop.time()) + self._program.answer_s
            self._loop.call_at(self._free_s, self._answer, line)

    def end_of_input(self) -> None:
        """Accept no more input, and end once all received lines are answered."""
        if not self._closes:
            self._closes = True
            self._loop.call_at(max(self._free_s, self._loop.time()), self._end, 0)

    def _answer(self, line: bytes) -> None:
        if self._returncode is not None:
            return
        try:
            reply = self._handle_line(line.decode())
        except Exception:  # noqa: BLE001 - a program that fails ends, and its output with it
            self._end(1)
            return
        if _OUT in self._pipes and self._protocol is not None:
            self._protocol.pipe_data_received(_OUT, reply.encode() + b"\n")

    def _end(self, code: int) -> None:
        if self._returncode is not None:
            return
        self._returncode = code
        self._loop.call_soon(self._ended)

    def _ended(self) -> None:
        protocol, self._protocol = self._protocol, None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(self._returncode or 0)
        if protocol is None:
            return
        for number in self._pipes:
            protocol.pipe_connection_lost(number, None)
        protocol.process_exited()
        protocol.connection_lost(None)


class _ProcessInput(asyncio.WriteTransport):
    """The end of a pipe that its starter writes to."""

    def __init__(self, processes: SimulatedProcess) -> None:
        super().__init__()
        self._processes = processes
        self._closed = False

    def write(self, data: Any) -> None:  # noqa: ANN401 - whatever is made of bytes
        if not self._closed:
            self._processes.receive(bytes(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._processes.end_of_input()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closed or self._processes.is_closing()

    def get_write_buffer_size(self) -> int:
        return 0


class _ProcessOutput(asyncio.ReadTransport):
    """The end of a pipe that its starter reads from: answers are as short as lines, so nothing is held back."""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


def are_streams_supported(streams: Sequence[int | None]) -> bool:
    """Return whether input, output and errors are redirected as a simulated program needs."""
    return all(one in {PIPE, DEVNULL} for one in streams[:_ERR]) and streams[_ERR] == DEVNULL
