"""One server behind a provider, as it may be asked now: not while it is down, and not before it said so.

Being full is not being down. A server that asks for patience is asked again no sooner, by anybody; one that fails in a
row is left alone for a while. Who has nobody else to ask waits for either to be over.

Two things are not waited for, because waiting does not mend them: a server that cannot be reached, and an account
without money or quota. All requests to it then fail at once, with the cause, until it is time to try again.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.config.llm_schema import ProviderSection
from bot.errors import FoxcastError, QuotaExhausted, ServerUnreachable, Unavailable
from bot.llm.breaker import MOMENT_S, Breaker, Passage, Turn, Verdict
from bot.llm.errands import Alarm
from bot.llm.faults import is_unreached
from bot.llm.patience import Patience
from bot.ports import Clock, Random

if TYPE_CHECKING:
    import numpy as np

# Pauses for which no length is named are drawn from the upper half of a bound that doubles each time in a row.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
# One request an hour finds out, without harm, whether a limit of a day was lifted.
LONGEST_ASKED_S = 3600.0
# An account without money is asked again after this: a person may have topped it up, and to ask costs nothing.
EMPTY_S = 900.0


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
        # The last failure, and whether it was that nothing could be reached.
        self._cause = ""
        self._unreached = False
        # The account is empty: why, and until when nothing is sent.
        self._empty = ""
        self._empty_until = 0.0
        self._jitter: np.random.Generator | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server is not left alone."""
        return self._breaker.wait_s == 0.0 and not self._is_empty

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
        would take longer than there is time; ServerUnreachable and QuotaExhausted at once while these are the cause.
        """
        while not self.is_clear:
            if (hopeless := self._hopeless) is not None:
                raise hopeless
            if (not self.is_open and patience.elsewhere()) or self.wait_s >= patience.left_s:
                raise self._closed()
            if self._pause_s:
                await self._sleep_out()
            else:
                await self._rests()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than there is a point in waiting for this server."""
        slept = asyncio.ensure_future(self._world.clock.sleep(seconds))
        try:
            while not slept.done() and self._hopeless is None:
                await self._moves(slept)
        finally:
            slept.cancel()

    def enter(self) -> Passage | None:
        """Return leave to send one request, or None."""
        return self._breaker.enter() if self._pause_s == 0.0 else None

    def leave(self, passage: Passage, verdict: Verdict, error: FoxcastError | None = None) -> None:
        """Take the verdict of a request that was sent, with its error; a person is told when the breaker opens."""
        turn = self._breaker.leave(passage, verdict)
        if verdict is Verdict.ALIVE:
            self._pauses, self._unreached = 0, False
        elif verdict is Verdict.FAILED:
            self._cause = "no answer in time" if error is None else str(error)
            self._unreached = error is not None and is_unreached(error)
        if turn is not Turn.SAME or passage.probe:
            self._wake()
        if turn is Turn.OPENED:
            self._tell(f"{self._section.break_after} requests in a row failed: {self._cause}")

    def shut(self, error: FoxcastError) -> None:
        """Leave the server alone from now on, because it cannot be reached; all that wait for it fail at once."""
        if self.is_open:
            self._cause, self._unreached = str(error), True
            self._breaker.open()
            self._wake()
            self._tell(self._cause)

    def exhaust(self, error: QuotaExhausted) -> QuotaExhausted:
        """Send nothing for a while, because the account is empty; return the error for all that would have been sent.

        A person is told.
        """
        was_empty = self._is_empty
        minutes = round(EMPTY_S / 60)
        self._empty = (
            f"{error}; until its account has money or quota nothing is sent to {self.name}, which is tried again in "
            f"{minutes} minutes"
        )
        self._empty_until = self._world.clock.monotonic() + EMPTY_S
        if not was_empty:
            self._wake()
            self._world.alarm.tell(f"quota {self.name}", f"No money or quota left at {self.name}", f"{self._empty}.")
        return QuotaExhausted(self._empty)

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
    def _is_empty(self) -> bool:
        return self._empty_until - self._world.clock.monotonic() > MOMENT_S

    @property
    def _hopeless(self) -> FoxcastError | None:
        """Why no request will be sent soon, where waiting does not help; while one tries the server, it may."""
        if self._is_empty:
            return QuotaExhausted(self._empty)
        if self._unreached and self._breaker.wait_s and not self._breaker.probing:
            return ServerUnreachable(self._cause)
        return None

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
        await self.sleep(self._pause_s)
        if self._paused_until == until and self._hopeless is None:
            self._paused_until = 0.0

    async def _rests(self) -> None:
        """Wait until the breaker moves, or its rest is over; nobody knows how long a try takes."""
        rest = None if self._breaker.probing else asyncio.ensure_future(self._breaker.rest())
        try:
            await self._moves(rest)
        finally:
            if rest is not None:
                rest.cancel()

    async def _moves(self, other: "asyncio.Future[None] | None" = None) -> None:
        """Wait until the breaker moves, or the other thing has happened."""
        moved = asyncio.ensure_future(self._moved.wait())
        waits: list[asyncio.Future[Any]] = [moved] if other is None else [moved, other]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _tell(self, what: str) -> None:
        text = (
            f"{what}. It is left alone for {self._section.break_s:g} s and then tried again; meanwhile "
            "the fallbacks of roles answer, where they have another provider."
        )
        self._world.alarm.tell(f"breaker {self.name}", f"Provider {self.name} does not answer", text)

    def _closed(self) -> Unavailable:
        wait_s = self.wait_s or self._breaker.wait_s
        if self.is_open:
            message = f"{self.name} asked not to be asked again for another {wait_s:.0f} s: {self._said}"
        elif self._unreached:
            return ServerUnreachable(self._cause)
        else:
            times = self._section.break_after
            message = f"{self.name} failed {times} times in a row and is left alone for {wait_s:.0f} s: {self._cause}"
        return Unavailable(message, retry_after_s=wait_s)
