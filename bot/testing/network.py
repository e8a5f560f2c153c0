"""A network inside the event loop: servers and connections are pairs of sockets of this process, and no others exist.

Whatever asks its loop for connections - HTTP libraries, WebSocket libraries, servers - works on it unchanged, with all
its bytes. A pair delivers at once, so a virtual loop never jumps over data that is on its way, and the same run is the
same run again; a connection over TCP, even on this machine, may be delivered a moment later.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from bot.testing.loop import VirtualLoop

Factory = Callable[[], asyncio.BaseProtocol]

# Where numbers of ports begin that nobody chose.
_FIRST_PORT = 20_000


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
    """A virtual loop with a network of its own.

    ``refused`` are the addresses that somebody tried to reach where no server is: in a closed world, a leak.
    """

    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        super().__init__(busy)
        self.servers: dict[tuple[str, int], Factory] = {}
        self.refused: list[tuple[str, int]] = []
        self._ports: Iterator[int] = count(_FIRST_PORT)

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
        name = (str(host), int(port or 0))
        server = self.servers.get(name)
        if server is None or options.get("ssl"):
            self.refused.append(name)
            message = f"nobody listens at {name[0]}:{name[1]}"
            raise ConnectionRefusedError(message)
        near, far = socket.socketpair()
        near.setblocking(False)  # noqa: FBT003 - the parameter has no name
        far.setblocking(False)  # noqa: FBT003 - as above
        await self.connect_accepted_socket(server, far)
        return await super().create_connection(protocol_factory, sock=near)
