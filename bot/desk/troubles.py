"""Trouble with what the desk works with, in the log once a day: an expired key would cost a line for each search."""

from dataclasses import dataclass, field
from datetime import date, datetime

import structlog

from bot.errors import FoxcastError

log = structlog.get_logger(__name__)

# Who and why are few; whatever makes them many must not fill the memory.
_REMEMBERED = 1000


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
        log.warning(event, who=who, why=f"{type(why).__name__}: {why}")
