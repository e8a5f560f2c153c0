"""One server behind a provider, as it may be asked now: not while it is down, and not before it said so.

Being full is not being down. A server that asks for patience is asked again no sooner, by anybody; one that fails in a
row is left alone for a while. Who has nobody else to ask waits for either to be over.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.config.model import ProviderSection
from bot.errors import Unavailable
from bot.llm.breaker import MOMENT_S, Breaker, Passage, Turn, Verdict
from bot.llm.errands import Alarm
from bot.llm.patience import Patience
from bot.ports import Clock, Random

if TYPE_CHECKING:
    import numpy as np

# Pauses for which no length is named are drawn from the upper half of a bound that doubles each time in a row.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
# One request an hour finds out, without harm, whether a limit of a day was lifted.
LONGEST_ASKED_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a line needs besides its provider."""

    clock: Clock
    random: Random
    alarm: Alarm


class Lane:
    """The breaker of one server, and its pauses."""

    def __init__(self, name: str, section: ProviderSection, *, world: World) -> None:
        """Begin with the breaker closed and no pause."""
        self.name = name
        self._section = section
        self._world = world
        self._breaker = Breaker(after=section.break_after, rest_s=section.break_s, clock=world.clock)
        self._moved = asyncio.Event()
        self._paused_until = 0.0
        self._paused_at = -1.0
        self._pauses = 0
        self._said = ""
        self._jitter: np.random.Generator | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server is not left alone."""
        return self._breaker.wait_s == 0.0

    @property
    def is_clear(self) -> bool:
        """Whether a request may be sent now."""
        return self.is_open and self._pause_s == 0.0

    @property
    def wait_s(self) -> float:
        """How long no request is sent, in seconds; how long a try takes is not known and not in it."""
        return max(self._pause_s, 0.0 if self._breaker.probing else self._breaker.wait_s)

    async def ready(self, patience: Patience) -> None:
        """Wait until a request may be sent.

        Raises Unavailable at once where another model could be asked instead of one that is left alone, and where it
        would take longer than there is time.
        """
        while not self.is_clear:
            if (not self.is_open and patience.elsewhere()) or self.wait_s >= patience.left_s:
                raise self._closed()
            if self._pause_s:
                await self._sleep_out()
            else:
                await self._moves()

    def enter(self) -> Passage | None:
        """Return leave to send one request, or None."""
        return self._breaker.enter() if self._pause_s == 0.0 else None

    def leave(self, passage: Passage, verdict: Verdict) -> None:
        """Take the verdict of a request that was sent; a person is told when the breaker opens."""
        turn = self._breaker.leave(passage, verdict)
        if verdict is Verdict.ALIVE:
            self._pauses = 0
        if turn is not Turn.SAME or passage.probe:
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()
        if turn is Turn.OPENED:
            text = (
                f"{self._section.break_after} requests in a row failed. It is left alone for {self._section.break_s:g} "
                "s and then tried again; meanwhile the fallbacks of roles answer, where they have another provider."
            )
            self._world.alarm.tell(f"breaker {self.name}", f"Provider {self.name} does not answer", text)

    def pause(self, error: Unavailable, *, sent_at: float) -> None:
        """Send nothing for as long as the server asks, or for a while that grows where it does not say how long."""
        now = self._world.clock.monotonic()
        self._said = str(error)
        asked_s = min(LONGEST_ASKED_S, error.retry_after_s or 0.0)
        # Requests that left together are refused together: that is one pause and not many.
        if sent_at > self._paused_at:
            self._paused_at = now
            self._pauses += 1
            asked_s = max(asked_s, self._grown_s())
        self._paused_until = max(self._paused_until, now + asked_s)

    @property
    def _pause_s(self) -> float:
        left_s = self._paused_until - self._world.clock.monotonic()
        return left_s if left_s > MOMENT_S else 0.0

    def _grown_s(self) -> float:
        if self._jitter is None:
            self._jitter = self._world.random.stream("llm", "pause", self.name)
        bound = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (min(self._pauses, 20) - 1))
        return float(self._jitter.uniform(bound / 2, bound))

    async def _sleep_out(self) -> None:
        until = self._paused_until
        await self._world.clock.sleep(self._pause_s)
        if self._paused_until == until:
            self._paused_until = 0.0

    async def _moves(self) -> None:
        """Wait until the breaker moves, or its rest is over; nobody knows how long a try takes."""
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._moved.wait())]
        if not self._breaker.probing:
            waits.append(asyncio.ensure_future(self._breaker.rest()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _closed(self) -> Unavailable:
        wait_s = self.wait_s or self._breaker.wait_s
        if self.is_open:
            message = f"{self.name} asked not to be asked again for another {wait_s:.0f} s: {self._said}"
        else:
            times = self._section.break_after
            message = f"{self.name} failed {times} times in a row and is left alone for {wait_s:.0f} s"
        return Unavailable(message, retry_after_s=wait_s)
