"""The circuit breaker of one provider: after failures in a row it is left alone, then tried with one request.

A provider that is down is thus not asked hundreds of times, and a role's fallback answers without a wait.
"""

from dataclasses import dataclass
from enum import Enum, auto

from bot.ports import Clock

# Less than this is no wait. Without it a timer that comes early by a rounding error would be set again for ever on a
# simulated clock.
MOMENT_S = 1e-5


class Verdict(Enum):
    """What a request tells about its provider: it works, it does not, or nothing (who asked has given up)."""

    ALIVE = auto()
    FAILED = auto()
    NONE = auto()


class Turn(Enum):
    """What a verdict made of the breaker."""

    OPENED = auto()
    CLOSED = auto()
    SAME = auto()


@dataclass(frozen=True, slots=True)
class Passage:
    """Leave to send one request; ``probe`` where it is the one that tries whether the provider is back."""

    probe: bool = False


class Breaker:
    """Opens after ``after`` failures in a row for ``rest_s`` seconds, then lets one request through at a time."""

    def __init__(self, *, after: int, rest_s: float, clock: Clock) -> None:
        """Begin closed."""
        self._after = after
        self._rest_s = rest_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def probing(self) -> bool:
        """Whether a request is under way that tries whether the provider is back."""
        return self._probing

    @property
    def wait_s(self) -> float:
        """How long nothing is let through, in seconds, as far as is known; 0.0 where a request may go now."""
        if self._opened_at is None:
            return 0.0
        if self._probing:
            return self._rest_s
        left_s = self._opened_at + self._rest_s - self._clock.monotonic()
        return left_s if left_s > MOMENT_S else 0.0

    def open(self) -> None:
        """Let nothing through for a rest, however few failures there were."""
        self._opened_at = self._clock.monotonic()

    async def rest(self) -> None:
        """Sleep out the present rest, which is over then whatever a clock that went its own way says."""
        opened_at = self._opened_at
        await self._clock.sleep(self.wait_s)
        if opened_at is not None and self._opened_at == opened_at:
            self._opened_at = self._clock.monotonic() - self._rest_s

    def enter(self) -> Passage | None:
        """Return leave to send one request, or None."""
        if self._opened_at is None:
            return Passage()
        if self._probing or self.wait_s > 0:
            return None
        self._probing = True
        return Passage(probe=True)

    def leave(self, passage: Passage, verdict: Verdict) -> Turn:
        """Take the verdict of a request that was let through."""
        if passage.probe:
            self._probing = False
        match verdict:
            case Verdict.ALIVE:
                return self._alive()
            case Verdict.FAILED:
                return self._failed(passage)
            case Verdict.NONE:
                return Turn.SAME

    def _alive(self) -> Turn:
        was_open = self._opened_at is not None
        self._failures, self._opened_at = 0, None
        return Turn.CLOSED if was_open else Turn.SAME

    def _failed(self, passage: Passage) -> Turn:
        self._failures += 1
        if self._opened_at is None and self._failures >= self._after:
            self._opened_at = self._clock.monotonic()
            return Turn.OPENED
        if passage.probe:
            self._opened_at = self._clock.monotonic()
        return Turn.SAME
