"""What became of submissions since some moment, and what still waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlite_utils import Database

from bot.store.codec import stamp
from bot.store.runs import Runs

_UNANSWERED = """
select venue, count(*) from intent
where mode <> 'paper' and state in ('sending', 'unknown', 'in doubt') group by venue
"""
_REFUSED = """
select venue, count(*), max(detail) from intent
where mode <> 'paper' and state = 'refused' and changed_at >= ? group by venue
"""
_WAITING = "select count(*) from intent where state in ('planned', 'ready', 'sending', 'absent')"
_DONE = "select count(*) from attempt where started_at >= ? and state <> 'sending'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSince:
    """Submissions since a moment: how many were ``tried`` and how many wait, on paper too.

    By venue, live ones alone: how many are ``unanswered`` now, and how many were ``refused`` with the last reason.
    """

    tried: int = 0
    waiting: int = 0
    unanswered: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)


async def sent_since(readers: Runs, since: datetime) -> SentSince:
    """Return what became of submissions since the moment."""
    return await readers.run(lambda database: _sent(database, stamp(since)))


def _sent(database: Database, since: str) -> SentSince:
    ((tried,),) = database.execute(_DONE, [since]).fetchall()
    ((waiting,),) = database.execute(_WAITING).fetchall()
    return SentSince(
        tried=tried,
        waiting=waiting,
        unanswered=dict(database.execute(_UNANSWERED).fetchall()),
        refused={venue: (count, why) for venue, count, why in database.execute(_REFUSED, [since])},
    )
