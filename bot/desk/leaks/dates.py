"""Layer one: what is dated at or after the cutoff is not used, whatever the engine was asked for."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

from bot.desk.parts import Engine
from bot.specs import Can

# The last moment of a day, from its first.
_ALL_DAY = timedelta(days=1) - timedelta(microseconds=1)


def is_late(published_at: datetime | None, cutoff: datetime | None, *, backdated: bool = False) -> bool:
    """Say whether something was published at or after the cutoff; without a date nobody knows, which is not late.

    For a ``backdated`` question the first moment of a day (UTC) stands for all of it: it is how a date without a time
    is written, and the page may be of the evening.
    """
    if published_at is None or cutoff is None:
        return False
    # The port asks for aware moments; one that is not must not stop a trial.
    dated = published_at if published_at.tzinfo else published_at.replace(tzinfo=UTC)
    if dated >= cutoff:
        return True
    # How near comes first: moments at the ends of the calendar have no time in another zone.
    return backdated and cutoff - dated <= _ALL_DAY and dated.astimezone(UTC).time() == time.min


def fit_engines(engines: Sequence[Engine], *, backdated: bool) -> list[Engine]:
    """Return the engines that may be asked: for a backdated question those alone that bound dates themselves."""
    return [engine for engine in engines if not backdated or Can.SEARCH_BEFORE_DATE in engine.abilities]


def bound_for(engine: Engine, cutoff: datetime | None, *, backdated: bool = False) -> datetime | None:
    """Return the bound that the engine is asked to keep, None for one that could not.

    Engines count in days: for a ``backdated`` question it is the beginning of the cutoff's day (UTC).
    """
    if cutoff is None or Can.SEARCH_BEFORE_DATE not in engine.abilities:
        return None
    return datetime.combine(cutoff.astimezone(UTC).date(), time.min, UTC) if backdated else cutoff
