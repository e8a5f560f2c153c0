"""Stops: what halts a venue, or all of them, until a person resumes it. Works within the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.store.codec import clean, moment, stamp

EVERYWHERE = ""

_ADD = """
insert into stop (venue, at, why, by) select :venue, :at, :why, :by
where not exists (select 1 from stop where venue = :venue and why = :why and resumed_at is null)
"""
_STANDING = "select venue, at, why, by from stop where resumed_at is null order by id"
_RESUME = """
update stop set resumed_at = :at, resumed_by = :by where resumed_at is null and (:venue is null or venue = :venue)
  and (:made_by is null or at <= :made_by)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stop: at a venue, or ``EVERYWHERE``; ``by`` is a person, or "" where the program stopped itself."""

    venue: str
    at: datetime
    why: str
    by: str = ""

    def holds(self, venue: str) -> bool:
        """Say whether the venue is stopped by it."""
        return self.venue in {EVERYWHERE, venue}

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        where = self.venue or "everything"
        return f"{where} was stopped{who} at {self.at:%Y-%m-%d %H:%M} UTC: {self.why}"


def add(database: Database, stop: Stop) -> bool:
    """Stop; the same stop that stands already is not repeated. Return whether it is new."""
    values = {"venue": stop.venue, "at": stamp(stop.at), "why": clean(stop.why), "by": clean(stop.by)}
    return database.execute(_ADD, values).rowcount > 0


def standing(database: Database) -> list[Stop]:
    """Read the stops that nobody has resumed, oldest first."""
    rows = database.execute(_STANDING)
    return [Stop(venue=venue, at=moment(at), why=why, by=by) for venue, at, why, by in rows]


def resume(database: Database, venue: str | None, *, by: str, at: datetime, made_by: datetime | None = None) -> int:
    """Resume a venue, with None everything, with ``EVERYWHERE`` what holds all; return how many stops ended.

    With ``made_by`` stops that are newer stand.
    """
    values = {"venue": venue, "by": clean(by), "at": stamp(at), "made_by": stamp(made_by)}
    return database.execute(_RESUME, values).rowcount
