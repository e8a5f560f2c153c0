"""Layer one: what is dated at or after the cutoff is not used, whatever the engine was asked for."""

from collections.abc import Sequence
from datetime import UTC, datetime

from bot.desk.parts import Engine
from bot.specs import Can


def is_late(published_at: datetime | None, cutoff: datetime | None) -> bool:
    """Say whether something was published at or after the cutoff; without a date nobody knows, which is not late."""
    if published_at is None or cutoff is None:
        return False
    # The port asks for aware moments; one that is not must not stop a trial.
    dated = published_at if published_at.tzinfo else published_at.replace(tzinfo=UTC)
    return dated >= cutoff


def fit_engines(engines: Sequence[Engine], *, backdated: bool) -> list[Engine]:
    """Return the engines that may be asked: for a backdated question those alone that bound dates themselves."""
    return [engine for engine in engines if not backdated or Can.SEARCH_BEFORE_DATE in engine.abilities]


def bound_for(engine: Engine, cutoff: datetime | None) -> datetime | None:
    """Return the bound that the engine is asked to keep, None for one that could not."""
    return cutoff if Can.SEARCH_BEFORE_DATE in engine.abilities else None
