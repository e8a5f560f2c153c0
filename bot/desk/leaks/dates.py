"""Layer one: what is dated at or after the cutoff is not used, whatever the engine was asked for.

This is for questions of an earlier day. A live question is asked now: nothing that is published by now tells its
outcome too early, and what is dated some minutes after the cutoff is the news of the day. So live nothing is left out
by its date, and engines are not asked for a bound.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

from bot.desk.parts import Engine
from bot.specs import Can

# The last moment of a day, from its first.
_ALL_DAY = timedelta(days=1) - timedelta(microseconds=1)


def is_late(published_at: datetime | None, cutoff: datetime | None, *, backdated: bool) -> bool:
    """Say whether something was published at or after the cutoff; without a date nobody knows, which is not late.

    The first moment of a day (UTC) stands for all of it: it is how a date without a time is written, and the page may
    be of the evening. For a question that is not ``backdated`` nothing is late.
    """
    if not backdated or published_at is None or cutoff is None:
        return False
    # The port asks for aware moments; one that is not must not stop a trial.
    dated = published_at if published_at.tzinfo else published_at.replace(tzinfo=UTC)
    if dated >= cutoff:
        return True
    # How near comes first: moments at the ends of the calendar have no time in another zone.
    return cutoff - dated <= _ALL_DAY and dated.astimezone(UTC).time() == time.min


def fit_engines(engines: Sequence[Engine], *, backdated: bool) -> list[Engine]:
    """Return the engines that may be asked: for a backdated question those alone that bound dates themselves."""
    return [engine for engine in engines if not backdated or Can.SEARCH_BEFORE_DATE in engine.abilities]


def bound_for(engine: Engine, cutoff: datetime | None, *, backdated: bool) -> datetime | None:
    """Return the bound that the engine is asked to keep, None for a live question and for one that could not.

    Engines count in days, so it is the beginning of the cutoff's day (UTC).
    """
    if not backdated or cutoff is None or Can.SEARCH_BEFORE_DATE not in engine.abilities:
        return None
    return datetime.combine(cutoff.astimezone(UTC).date(), time.min, UTC)
