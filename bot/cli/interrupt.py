"""SIGTERM while a command runs, which asyncio leaves to the system."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Terminated(Exception):
    """Somebody sent SIGTERM, and the work was cut off in order."""


def run_until_told(work: Coroutine[Any, Any, T]) -> T:
    """Run as ``asyncio.run`` does, and let SIGTERM end it as Ctrl-C does: what is open is closed.

    Raises Terminated then; a second SIGTERM ends the process at once. Must be called in the main thread.
    """
    return asyncio.run(_ended_by_signal(work))


async def _ended_by_signal(work: Coroutine[Any, Any, T]) -> T:
    loop, task, told = asyncio.get_running_loop(), asyncio.ensure_future(work), asyncio.Event()

    def end() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        told.set()
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        return await task
    except asyncio.CancelledError:
        if told.is_set():
            raise Terminated from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
