"""The system clock and reproducible random streams.

This is the only module that asks the operating system for the time.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class SystemClock:
    """Wall and monotonic time of this machine."""

    # The functions themselves, since they are asked a hundred times a question: the wall time in UTC, and the time in
    # seconds of a clock that is never set back.
    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        await asyncio.sleep(seconds)


async def yield_to_event_loop() -> None:
    """Let other tasks run and accept a cancellation, in work that may compute for minutes without waiting."""
    await asyncio.sleep(0)


class SeededRandom:
    """Random streams, each derived from one seed and its labels, so that the order of use does not matter.

    No label may contain U+001F, which stands between them.
    """

    def __init__(self, seed: int) -> None:
        """Keep the seed; generators are created on demand."""
        self.seed = seed

    def stream(self, *labels: str) -> "np.random.Generator":
        """Return the generator for the labels."""
        import numpy as np  # noqa: PLC0415 - most commands draw no random number

        return np.random.default_rng(int.from_bytes(self._digest(labels)[:16], "big"))

    def draw_seed(self, *labels: str) -> int:
        """Return one number of 31 bits for the labels, without numpy."""
        return int.from_bytes(self._digest(labels)[16:20], "big") >> 1

    def _digest(self, labels: Sequence[str]) -> bytes:
        return hashlib.sha256("\x1f".join((str(self.seed), *labels)).encode()).digest()
