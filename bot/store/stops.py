"""Stops: what halts a venue, or all of them, until something ends it. Works within the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlite_utils import Database

from bot.store.codec import clean, moment, stamp

EVERYWHERE = ""

_ADD = """
insert into stop (venue, at, why, by, ends, credentials) select :venue, :at, :why, :by, :ends, :credentials
where not exists (select 1 from stop where venue = :venue and ends = :ends and resumed_at is null
                  and (why = :why or ends <> 'person'))
"""
_STANDING = "select venue, at, why, by, ends, credentials from stop where resumed_at is null order by id"
_RESUME = """
update stop set resumed_at = :at, resumed_by = :by where resumed_at is null and (:venue is null or venue = :venue)
  and (:made_by is null or at <= :made_by)
"""


_END = "update stop set resumed_at = :at, resumed_by = '' where resumed_at is null and venue = :venue and ends = :ends"
_TO_PERSON = """
update stop set ends = 'person', why = :why where resumed_at is null and venue = :venue and ends = 'settled'
"""
# When a person last let a venue go on, or everything; what ended by itself is none of that.
RESUMED_BY_A_PERSON = """
(select coalesce(max(resumed_at), '') from stop
 where venue in ('', :venue) and (ends = 'person' or resumed_by <> '') and resumed_at <= :now)
"""


class StopEnd(StrEnum):
    """What ends a stop, besides a person who resumes: nothing, settled doubts, or credentials that are good again."""

    PERSON = "person"
    SETTLED = "settled"
    RENEWED = "renewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stop: at a venue, or ``EVERYWHERE``; ``by`` is a person, or "" where the program stopped itself.

    ``credentials`` is a digest of those that were refused, where that is why.
    """

    venue: str
    at: datetime
    why: str
    by: str = ""
    ends: StopEnd = StopEnd.PERSON
    credentials: str = ""

    def holds(self, venue: str) -> bool:
        """Say whether the venue is stopped by it."""
        return self.venue in {EVERYWHERE, venue}

    @property
    def remedy(self) -> str:
        """What ends it, as words that follow what it says."""
        resume = f"foxcast resume {self.venue}".rstrip()
        match self.ends:
            case StopEnd.SETTLED:
                return f"it resumes by itself; at once with: {resume}"
            case StopEnd.RENEWED:
                return f"renew them and start again, or ask the venue once more with: {resume}"
        return f"to go on: {resume}"

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        where = self.venue or "everything"
        return f"{where} was stopped{who} at {self.at:%Y-%m-%d %H:%M} UTC: {self.why}"


def add(database: Database, stop: Stop) -> bool:
    """Stop; the same stop that stands already is not repeated. Return whether it is new."""
    values = {
        "venue": stop.venue,
        "at": stamp(stop.at),
        "why": clean(stop.why),
        "by": clean(stop.by),
        "ends": stop.ends.value,
        "credentials": stop.credentials,
    }
    return database.execute(_ADD, values).rowcount > 0


def standing(database: Database) -> list[Stop]:
    """Read the stops that nobody has resumed, oldest first."""
    return [
        Stop(venue=venue, at=moment(at), why=why, by=by, ends=StopEnd(ends), credentials=credentials)
        for venue, at, why, by, ends, credentials in database.execute(_STANDING)
    ]


def end(database: Database, venue: str, ends: StopEnd, *, at: datetime) -> bool:
    """End the stops of a venue that end in that way; return whether there were any."""
    return database.execute(_END, {"venue": venue, "ends": ends.value, "at": stamp(at)}).rowcount > 0


def leave_to_person(database: Database, venue: str, why: str) -> bool:
    """Have a person end the stop of a venue that waits for doubts to settle; return whether there was one."""
    return database.execute(_TO_PERSON, {"venue": venue, "why": clean(why)}).rowcount > 0


def resume(database: Database, venue: str | None, *, by: str, at: datetime, made_by: datetime | None = None) -> int:
    """Resume a venue, with None everything, with ``EVERYWHERE`` what holds all; return how many stops ended.

    With ``made_by`` stops that are newer stand.
    """
    values = {"venue": venue, "by": clean(by), "at": stamp(at), "made_by": stamp(made_by)}
    return database.execute(_RESUME, values).rowcount
