"""A network inside the event loop: servers and connections are pairs of sockets of this process, and no others exist.

Whatever asks its loop for connections - HTTP libraries, WebSocket libraries, servers - works on it unchanged, with all
its bytes. A pair delivers at once, so a virtual loop never jumps over data that is on its way, and the same run is the
same run again; a connection over TCP, even on this machine, may be delivered a moment later.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from bot.store.writer import under_way
from bot.testing.loop import VirtualLoop
from bot.testing.programs import Playing, Program, playable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Factory = Callable[[], asyncio.BaseProtocol]

# Whose connections are made: a name that tasks hand on to those they start.
LIFE: ContextVar[str] = ContextVar("life", default="")
# Where numbers of ports begin that nobody chose, and those of processes.
_FIRST_PORT, _FIRST_PID = 20_000, 1_000_000


class _Address:
    """As much of a listening socket as a server is asked for."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        """Return where connections are taken."""
        return self._name


class Listening:
    """As much of ``asyncio.Server`` as is used: where it listens, and the end of it. Open connections stay."""

    def __init__(self, network: "NetworkLoop", host: str, port: int) -> None:
        self._network = network
        self._name = (host, port)
        self.sockets = (_Address(host, port),)

    def close(self) -> None:
        """Take no more connections."""
        self._network.servers.pop(self._name, None)

    def is_serving(self) -> bool:
        """Return whether connections are taken."""
        return self._name in self._network.servers

    async def wait_closed(self) -> None:
        """Return: there is nothing to wait for."""


class NetworkLoop(VirtualLoop):
    """A virtual loop with a network of its own, on which nothing depends on the real speed of anything.

    What is given to an executor runs at once, in its turn; writers of ledgers, which have threads of their own, are
    waited for. ``programs`` are those that child processes may be. ``refused`` are the addresses that somebody tried to
    reach where no server is, ``unplayed`` the programs that somebody tried to start and that are none of these: in a
    closed world, leaks.
    """

    def __init__(self) -> None:
        super().__init__(lambda: under_way(self) > 0, in_step=True)
        self._open: dict[str, list[asyncio.Transport]] = {}
        self._gone: set[str] = set()
        self.servers: dict[tuple[str, int], Factory] = {}
        self.refused: list[tuple[str, int]] = []
        self._ports: Iterator[int] = count(_FIRST_PORT)
        self.programs: list[Program] = []
        self.unplayed: list[str] = []
        self._playing: dict[str, list[Playing]] = {}
        self._pids: Iterator[int] = count(_FIRST_PID)

    def unplug(self, life: str) -> None:
        """Cut every connection that was made in this life, and let it make no more, as when its process is killed.

        Its child processes end with it, whatever they were at.
        """
        self._gone.add(life)
        for transport in self._open.pop(life, ()):
            transport.abort()
        for playing in self._playing.pop(life, ()):
            playing.kill()

    def settle_threads(self) -> None:
        """Wait, now and in real time, until writers of ledgers have done all they were asked for."""
        self._jumping.let_threads_end()

    def run_in_executor(self, _: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run it here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of everything
            future.set_exception(error)
        return future

    async def create_server(  # type: ignore[override] # as much of it as servers of tests use
        self, protocol_factory: Factory, host: str, port: int = 0, **_: object
    ) -> Listening:
        """Take connections at that address; port 0 is one that is free. Raises OSError where another server is."""
        chosen = port or next(number for number in self._ports if (host, number) not in self.servers)
        if (host, chosen) in self.servers:
            message = f"{host}:{chosen} is in use"
            raise OSError(message)
        self.servers[host, chosen] = protocol_factory
        return Listening(self, host, chosen)

    async def create_connection(  # type: ignore[override] # as above
        self,
        protocol_factory: Factory,
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **options: Any,  # noqa: ANN401 - those of asyncio
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a server of this network; raises ConnectionRefusedError where there is none."""
        if sock is not None:
            return await super().create_connection(protocol_factory, sock=sock, **options)
        name, life = (str(host), int(port or 0)), LIFE.get()
        if life in self._gone:
            message = f"{life} is over"
            raise ConnectionRefusedError(message)
        server = self.servers.get(name)
        if server is None or options.get("ssl"):
            self.refused.append(name)
            message = f"nobody listens at {name[0]}:{name[1]}"
            raise ConnectionRefusedError(message)
        near, far = socket.socketpair()
        near.setblocking(False)  # noqa: FBT003 - the parameter has no name
        far.setblocking(False)  # noqa: FBT003 - as above
        await self.connect_accepted_socket(server, far)
        made = await super().create_connection(protocol_factory, sock=near)
        others = [transport for transport in self._open.get(life, ()) if not transport.is_closing()]
        self._open[life] = [*others, made[0]]
        return made

    async def subprocess_exec(  # type: ignore[override] # as above
        self,
        protocol_factory: Callable[[], asyncio.SubprocessProtocol],
        program: str,
        *args: str,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        **_: object,
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        """Play the program that has this command line; raises OSError where there is none."""
        life = LIFE.get()
        playing = Playing(self, self._program((program, *args)), next(self._pids))
        if life in self._gone or not playable((stdin, stdout, stderr)):
            raise OSError(errno.EPERM, f"no process is started in {life or 'nobody'}'s name")
        protocol = protocol_factory()
        playing.begin(protocol, stdin=stdin, stdout=stdout)
        others = [one for one in self._playing.get(life, ()) if one.get_returncode() is None]
        self._playing[life] = [*others, playing]
        return playing, protocol

    def _program(self, line: Sequence[str]) -> Program:
        for program in self.programs:
            if program.plays(line):
                return program
        self.unplayed.append(" ".join(line))
        raise FileNotFoundError(errno.ENOENT, "no such program is played", line[0])
