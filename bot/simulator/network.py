"""A network inside the event loop.

Servers, connections and child processes of a simulation are pairs of sockets in this process.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from bot.simulator.programs import SimulatedProcess, SimulatedProgram, are_streams_supported
from bot.store.connections import pending_writes
from bot.testing.event_loop import VirtualEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

# The owner of the connections that a task makes: a name that tasks pass on to those they start.
CURRENT_PROCESS: ContextVar[str] = ContextVar("life", default="")
# The first port number for unspecified ports, and the first process id.
_FIRST_PORT, _FIRST_PID = 20_000, 1_000_000


class _ListenAddress:
    """The parts of a listening socket that a server uses."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        """Return the listening address."""
        return self._name


class SimulatedServer:
    """The used parts of ``asyncio.Server``: its addresses, and its end. Open connections stay."""

    def __init__(self, network: "NetworkEventLoop", host: str, port: int) -> None:
        self._network = network
        self._name = (host, port)
        self.sockets = (_ListenAddress(host, port),)

    def close(self) -> None:
        """Accept no more connections."""
        self._network.servers.pop(self._name, None)

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._name in self._network.servers

    async def wait_closed(self) -> None:
        """Return: there is nothing to wait for."""


class NetworkEventLoop(VirtualEventLoop):
    """A virtual loop with a network of its own, so that nothing depends on the real speed of anything.

    Work for an executor runs at once, in its turn; the loop waits for writers of ledgers, which have threads of their
    own. ``programs`` are the programs that child processes may be. ``refused`` are the addresses of connection attempts
    without a server, ``unknown_programs`` the attempts to start another program: in a closed world, leaks.
    """

    def __init__(self) -> None:
        super().__init__(lambda: pending_writes(self) > 0, in_step=True)
        self._open: dict[str, list[asyncio.Transport]] = {}
        self._gone: set[str] = set()
        self._connected: dict[socket.socket, socket.socket] = {}
        self.servers: dict[tuple[str, int], ProtocolFactory] = {}
        self.refused_connections: list[tuple[str, int]] = []
        self._ports: Iterator[int] = count(_FIRST_PORT)
        self.programs: list[SimulatedProgram] = []
        self.unknown_programs: list[str] = []
        self._processes: dict[str, list[SimulatedProcess]] = {}
        self._pids: Iterator[int] = count(_FIRST_PID)

    def disconnect_process(self, life: str) -> None:
        """Cut every connection that was made in this life, and let it make no more, as when its process is killed.

        Its child processes end with it, whatever they are doing.
        """
        self._gone.add(life)
        for transport in self._open.pop(life, ()):
            transport.abort()
        for processes in self._processes.pop(life, ()):
            processes.kill()

    def wait_for_threads(self) -> None:
        """Wait, now and in real time, until writers of ledgers have done all their work."""
        self._jumping.wait_for_threads()

    def run_in_executor(self, _: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run it here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001 - the waiting task must get every error
            future.set_exception(error)
        return future

    async def create_server(  # type: ignore[override] # as much of it as servers of tests use
        self, protocol_factory: ProtocolFactory, host: str, port: int = 0, **_: object
    ) -> SimulatedServer:
        """Accept connections at that address; port 0 is a free one. Raises OSError where another server is."""
        chosen = port or next(number for number in self._ports if (host, number) not in self.servers)
        if (host, chosen) in self.servers:
            message = f"{host}:{chosen} is in use"
            raise OSError(message)
        self.servers[host, chosen] = protocol_factory
        return SimulatedServer(self, host, chosen)

    async def create_connection(  # type: ignore[override] # as above
        self,
        protocol_factory: ProtocolFactory,
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **options: Any,  # noqa: ANN401 - those of asyncio
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a server of this network; raises ConnectionRefusedError where there is none."""
        if sock is not None and sock not in self._connected:
            return await super().create_connection(protocol_factory, sock=sock, **options)
        life = CURRENT_PROCESS.get()
        if sock is not None:
            near = self._connected.pop(sock)
            sock.close()
        else:
            near = await self._connect(str(host), int(port or 0), has_tls=bool(options.get("ssl")))
        made = await super().create_connection(protocol_factory, sock=near)
        others = [transport for transport in self._open.get(life, ()) if not transport.is_closing()]
        self._open[life] = [*others, made[0]]
        return made

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:  # noqa: ANN401 - as asyncio has it
        """Connect as ``create_connection`` does, for clients that make their own sockets."""
        self._connected[sock] = await self._connect(address[0], address[1])

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:  # noqa: ANN401 - as asyncio has it
        """Return a numeric address unchanged; no other name is known here."""
        with suppress(socket.gaierror):
            numeric = socket.AI_NUMERICHOST | int(options.pop("flags", 0))
            return socket.getaddrinfo(host, port, flags=numeric, **options)
        self.refused_connections.append((str(host), int(port or 0)))
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is no address of this network")

    async def _connect(self, host: str, port: int, *, has_tls: bool = False) -> socket.socket:
        """Return the near end of a connection to a server."""
        life = CURRENT_PROCESS.get()
        if life in self._gone:
            message = f"{life} is over"
            raise ConnectionRefusedError(message)
        server = self.servers.get((host, port))
        if server is None or has_tls:
            self.refused_connections.append((host, port))
            message = f"no server listens at {host}:{port}"
            raise ConnectionRefusedError(message)
        near, far = socket.socketpair()
        near.setblocking(False)  # noqa: FBT003 - the parameter has no name
        far.setblocking(False)  # noqa: FBT003 - as above
        await self.connect_accepted_socket(server, far)
        return near

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
        """Run the simulated program with this command line; raises OSError where there is none."""
        life = CURRENT_PROCESS.get()
        processes = SimulatedProcess(self, self._find_program((program, *args)), next(self._pids))
        if life in self._gone or not are_streams_supported((stdin, stdout, stderr)):
            raise OSError(errno.EPERM, f"no process may be started for {life or 'nobody'}")
        protocol = protocol_factory()
        processes.connect(protocol, stdin=stdin, stdout=stdout)
        others = [one for one in self._processes.get(life, ()) if one.get_returncode() is None]
        self._processes[life] = [*others, processes]
        return processes, protocol

    def _find_program(self, line: Sequence[str]) -> SimulatedProgram:
        for program in self.programs:
            if program.matches_command(line):
                return program
        self.unknown_programs.append(" ".join(line))
        raise FileNotFoundError(errno.ENOENT, "no such program is simulated", line[0])
