"""Names to addresses, by the system's resolver, without letting a name server that never answers hold up anything."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

from bot.errors import Unavailable

# A host and a port in, numeric addresses out; raises Unavailable for a name that has none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemResolver:
    """Asks the operating system, which takes no deadline.

    Each look-up has a thread of its own that ends with the program: the executor of the loop, and the program at its
    exit, would wait for all of them. At most ``slots`` look-ups run at a time, including those nobody waits for.
    """

    def __init__(self, slots: int = 8) -> None:
        self._slots = asyncio.Semaphore(slots)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def done(addresses: Sequence[str], error: Unavailable | None) -> None:
            self._slots.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        def look_up() -> None:
            found = _look_up(host, port)
            try:
                loop.call_soon_threadsafe(done, *found)
            except RuntimeError:
                return  # the loop has ended, so nobody waits

        threading.Thread(target=look_up, name="foxcast-resolve", daemon=True).start()
        return await answer


def _look_up(host: str, port: int) -> tuple[Sequence[str], Unavailable | None]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return (), Unavailable(f"{host}: the name has no address")
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found)), None
