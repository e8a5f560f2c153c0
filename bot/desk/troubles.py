"""Trouble in words: as it may be kept for ever, and in the log once a day, where an expired key is a line, not many."""

from dataclasses import dataclass, field
from datetime import date, datetime

import structlog

from bot.desk.take import named
from bot.desk.untrusted import plain
from bot.errors import FoxcastError

log = structlog.get_logger(__name__)

# Who and why are few; whatever makes them many must not fill the memory.
_REMEMBERED = 1000
# The answer of a server may be part of an error.
TEXT_CHARS = 500


def in_words(error: BaseException) -> str:
    """Return an error in a line of bounded length that may be written down: ours with its text, others without.

    What a library says may hold what it knew, a key in an address for instance; such an error tells its type and the
    line that raised it alone.
    """
    if not isinstance(error, FoxcastError):
        return named(error)
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {plain(text, TEXT_CHARS)}" if text else name


@dataclass(slots=True)
class Troubles:
    """What was told today: the event, who is in trouble, and of which kind the trouble is."""

    _day: date | None = None
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    def tell(self, event: str, *, who: str, why: FoxcastError, now: datetime) -> None:
        """Log a warning, unless it was logged today; two troubles are the same where their errors are of one class."""
        if self._day != now.date():
            self._day = now.date()
            self._told.clear()
        key = (event, who, type(why).__name__)
        if key in self._told or len(self._told) >= _REMEMBERED:
            return
        self._told.add(key)
        log.warning(event, who=who, why=in_words(why))
