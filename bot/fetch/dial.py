"""Opening connections to checked addresses only: the one seam through which every connection of a fetcher passes.

The library asks for a connection to a host; what it gets is one to an address that was resolved once and checked here.
It starts TLS on it itself, with the original host, so certificates are checked against the name and not the address.
Import it late: httpcore takes a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import httpcore

from bot.errors import Rejected, Unavailable
from bot.fetch.addresses import inside
from bot.fetch.resolve import Resolver
from bot.fetch.target import is_numeric
from bot.fetch.wire import BoundedStream

if TYPE_CHECKING:
    from httpcore import SOCKET_OPTION

# A checked address and port in, where to connect to out; only a test connects elsewhere.
Route = Callable[[str, int], tuple[str, int]]
TRIED = 3


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses of the open internet only; raises Rejected for a host with any address inside."""

    def __init__(self, resolver: Resolver, route: Route, most_bytes: int) -> None:
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
        for address in (await self._checked(host, port))[:TRIED]:
            goal, goal_port = self._route(address, port)
            try:
                stream = await self._network.connect_tcp(goal, goal_port, timeout, None, socket_options)
                return BoundedStream(stream, self._most_bytes, host)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or Unavailable(f"{host}: the name has no address")

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of the host, all of them good: one bad among good ones is how rebinding looks."""
        addresses = [host] if is_numeric(host) else await self._resolver(host, port)
        for address in addresses:
            if (why := inside(address)) is not None:
                message = f"{host}: its address is inside ({why})"
                raise Rejected(message)
        return addresses
