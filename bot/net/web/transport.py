"""Connections to checked addresses only, whose bytes are counted before any library looks at them.

Import it late: httpcore takes a tenth of a second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpcore

from bot.errors import ContractError

if TYPE_CHECKING:
    import ssl
    from typing import Any
from collections.abc import Callable, Iterable, Sequence

from bot.errors import Rejected, Unavailable
from bot.net.web.addresses import HostResolver, is_numeric_host, private_address_reason

if TYPE_CHECKING:
    from httpcore import SOCKET_OPTION

# Each read gives way to the loop: no more than this is parsed in between.
_READ_BYTES = 16_384


# Early hints are one or two; nothing bounds them in the protocol.
_MAX_HINTS = 8


_RESPONSE_HEAD = re.compile(rb"\n\r?\nHTTP/\d\.\d (\d)")


_HEAD_OVERLAP = 12


class BoundedStream(httpcore.AsyncNetworkStream):
    """Passes on at most ``most_bytes``, and at most a few answers before the answer; then raises ContractError."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, most_bytes: int, shown: str) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._shown = shown
        # As if a blank line stood before the first head.
        self._tail = b"\n\n"
        self._hints = 0
        self._headed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's signature
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._left -= len(data)
        if self._left < 0:
            message = f"{self._shown}: more than {self._most_bytes} bytes came over the wire"
            raise ContractError(message)
        if not self._headed:
            self._count_hints(data)
        return data

    def _count_hints(self, data: bytes) -> None:
        seen = self._tail + data
        for head in _RESPONSE_HEAD.finditer(seen):
            if head[1] != b"1":
                self._headed = True
                break
            self._hints += 1
        if self._hints > _MAX_HINTS:
            message = f"{self._shown}: more than {_MAX_HINTS} answers before the answer"
            raise ContractError(message)
        self._tail = seen[-_HEAD_OVERLAP:]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return BoundedStream(secured, self._most_bytes, self._shown)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the library's signature
        return self._stream.get_extra_info(info)


# A checked address and port in, where to connect to out; only a test connects elsewhere.
ConnectRoute = Callable[[str, int], tuple[str, int]]


MAX_TRIED_ADDRESSES = 3


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses of the open internet only; raises Rejected for a host with any address inside."""

    def __init__(self, resolver: HostResolver, route: ConnectRoute, most_bytes: int) -> None:
        """Bound each connection to ``most_bytes`` of answer, heads and framing included."""
        self._resolver = resolver
        self._most_bytes = most_bytes
        self._route = route
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in (await self._resolve_public_addresses(host, port))[:MAX_TRIED_ADDRESSES]:
            goal, goal_port = self._route(address, port)
            try:
                stream = await self._network.connect_tcp(goal, goal_port, timeout, None, socket_options)
                return BoundedStream(stream, self._most_bytes, host)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or Unavailable(f"{host}: the name has no address")

    async def _resolve_public_addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of the host, all of them good: one bad among good ones is how rebinding looks."""
        addresses = [host] if is_numeric_host(host) else await self._resolver(host, port)
        for address in addresses:
            if (why := private_address_reason(address)) is not None:
                message = f"{host}: its address is inside ({why})"
                raise Rejected(message)
        return addresses
