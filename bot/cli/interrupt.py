"""Ctrl-C during long computations on the event loop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the block at once.

    ``asyncio.run`` would only cancel the task, which shows at its next wait; a task that computes has none for minutes.
    It leaves SIGINT alone where somebody else handles it. Must be entered in the main thread.
    """
    before = signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
