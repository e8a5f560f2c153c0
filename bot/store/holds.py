"""Forecasts that are held for a while: put before the gate again, where what held them may be over.

Works within the caller's transaction.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from sqlite_utils import Database

from bot.store.codec import stamp

T = TypeVar("T")

_AGAIN = """
update decision set until = :at
where verdict = 'hold' and until > :at and (:by is null or until <= :by)
  and id = (select max(d.id) from decision d where d.forecast = decision.forecast)
  and (:venue is null
       or forecast in (select f.id from forecast f join question q on q.ref = f.ref where q.venue = :venue))
"""


def ask_again(database: Database, *, at: datetime, venue: str | None = None, by: datetime | None = None) -> int:
    """Put what is held until later before the gate now: all of it, or that of a venue, or what would be put by then.

    What is held for good stays. Returns how many forecasts that are.
    """
    values = {"at": stamp(at), "venue": venue, "by": stamp(by)}
    return database.execute(_AGAIN, values).rowcount


def freeing(
    work: Callable[[Database], T], *, at: datetime, by: datetime, venue: str | None = None
) -> Callable[[Database], T]:
    """Return work that also puts before the gate at once what would come before it by a moment, as above."""

    def both(database: Database) -> T:
        done = work(database)
        ask_again(database, at=at, venue=venue, by=by)
        return done

    return both
