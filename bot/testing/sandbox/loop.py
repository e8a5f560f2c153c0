"""The loop of the sandbox: virtual time over real sockets, and nowhere to go but this machine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from bot.clock import SystemClock
from bot.store.writer import under_way
from bot.testing.loop import VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# In real seconds: libraries that a slow machine imports for the first time take longer than anything else.
PATIENCE_S = 120.0
# What is sent to this machine has arrived by then; more would be waited thousands of times.
GRACE_S = 5e-5
# The most often that anybody is told of what happens.
_TOLD_EVERY_S = 0.5
_HERE = frozenset({"127.0.0.1", "localhost", "::1"})


class SandboxLoop(VirtualLoop):
    """A virtual loop that jumps when nothing is on its way, and connects to this machine alone.

    What is given to an executor runs at once, in its turn, so that time does not pass meanwhile. ``watcher`` is called
    while things happen, twice a second of real time at most.
    """

    def __init__(self) -> None:
        super().__init__(lambda: under_way(self) > 0, in_step=True, patience_s=PATIENCE_S, grace_s=GRACE_S)
        self.watcher: Callable[[], None] = lambda: None
        self._real = SystemClock()
        self._told_s = self._real.monotonic()
        self.on_turn(self._tell)

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

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,  # noqa: ANN401 - as asyncio has it
        port: Any = None,  # noqa: ANN401 - as asyncio has it
        **options: Any,  # noqa: ANN401 - those of asyncio
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a server of this machine; raises ConnectionRefusedError for any other."""
        if host is not None and host not in _HERE:
            message = f"the demo speaks with nobody outside this machine, and was asked to reach {host}:{port}"
            raise ConnectionRefusedError(message)
        return await super().create_connection(protocol_factory, host, port, **options)

    def _tell(self, _: int) -> None:
        now_s = self._real.monotonic()
        if now_s - self._told_s >= _TOLD_EVERY_S:
            self._told_s = now_s
            self.watcher()
