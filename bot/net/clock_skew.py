"""How far this machine's clock differs from those of other servers, by the Date headers of their answers."""

from collections import deque
from email.utils import parsedate_to_datetime

from bot.core.interfaces import Clock

# So many answers are compared, that one server's wrong clock decides nothing.
COMPARED_ANSWERS = 3


class ClockSkew:
    """Keeps what the last answers say, against the monotonic clock: a wall clock that is set shows at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._skews_s: deque[float] = deque(maxlen=COMPARED_ANSWERS)

    @property
    def ahead_s(self) -> float | None:
        """By how many seconds the wall clock is ahead, by the middle of the last answers; None where none came yet."""
        if not self._skews_s:
            return None
        return sorted(self._skews_s)[len(self._skews_s) // 2] + self._wall_offset_s()

    def compare(self, date: str, age: str) -> None:
        """Take an answer's Date, unless it came out of a cache (RFC 9110, section 6.6.1) or makes no sense."""
        try:
            theirs = parsedate_to_datetime(date)
        except ValueError:
            return
        if theirs.tzinfo is not None and age in {"", "0"}:
            # HTTP tells whole seconds: the Date is cut, so in the mean it is half of one behind.
            ahead_s = (self._clock.now() - theirs).total_seconds() - 0.5
            self._skews_s.append(ahead_s - self._wall_offset_s())

    def _wall_offset_s(self) -> float:
        """Return the wall clock less the monotonic one, in seconds: it changes only where somebody sets the clock."""
        return self._clock.now().timestamp() - self._clock.monotonic()
