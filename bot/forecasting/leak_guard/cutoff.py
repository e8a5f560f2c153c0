"""Layers one and three: results dated after the cutoff are dropped for backdated questions.

Series end before the day of the cutoff. Live questions are not filtered by date.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from bot.core.research import Passage, TimeSeries
from bot.forecasting.services import ConfiguredSearchEngine

# The last moment of a day, from its first.
_ALL_DAY = timedelta(days=1) - timedelta(microseconds=1)


def is_after_cutoff(published_at: datetime | None, cutoff: datetime | None, *, backdated: bool) -> bool:
    """Say whether something was published at or after the cutoff; an unknown date is not late.

    The first moment of a day (UTC) represents the whole day: a date without a time is written that way, and the page
    may be from the evening. For a question that is not ``backdated`` nothing is late.
    """
    if not backdated or published_at is None or cutoff is None:
        return False
    # The interface requires aware moments; one without a zone must not stop a trial.
    dated = published_at if published_at.tzinfo else published_at.replace(tzinfo=UTC)
    if dated >= cutoff:
        return True
    # Nearness is checked first: moments at the ends of the calendar have no time in another zone.
    return cutoff - dated <= _ALL_DAY and dated.astimezone(UTC).time() == time.min


def engines_for_cutoff(engines: Sequence[ConfiguredSearchEngine], *, backdated: bool) -> list[ConfiguredSearchEngine]:
    """Return the engines that may be asked: for a backdated question only those that bound dates themselves."""
    return [engine for engine in engines if not backdated or engine.bounds_dates]


def search_bound(engine: ConfiguredSearchEngine, cutoff: datetime | None, *, backdated: bool) -> datetime | None:
    """Return the date bound for the engine, None for a live question and for an engine without date bounds.

    Engines count in days, so it is the beginning of the cutoff's day (UTC).
    """
    if not backdated or cutoff is None or not engine.bounds_dates:
        return None
    return datetime.combine(cutoff.astimezone(UTC).date(), time.min, UTC)


class ClampedSeries(NamedTuple):
    """The part of a series that may be used, and how many points were beyond the cutoff."""

    series: TimeSeries
    beyond: int


def clamp_series(series: TimeSeries, cutoff: datetime | None, until: date | None = None) -> ClampedSeries:
    """Drop the points on or after the day of the cutoff, and those after ``until``, which are not counted.

    Points are returned in order of their dates, each date once (the last value given for it).
    """
    end = None if cutoff is None else cutoff.astimezone(UTC).date()
    points = dict(sorted(zip(series.dates, series.values, strict=True), key=lambda point: point[0]))
    known = {day: value for day, value in points.items() if end is None or day < end}
    asked = {day: value for day, value in known.items() if until is None or day <= until}
    kept = TimeSeries(
        name=series.name,
        unit=series.unit,
        source=series.source,
        dates=tuple(asked),
        values=tuple(asked.values()),
    )
    return ClampedSeries(kept, len(points) - len(known))


def is_revised_late(passage: Passage, cutoff: datetime | None) -> bool:
    """Say whether the passage is from a version written at or after the cutoff."""
    if cutoff is None:
        return False
    revised = passage.revised_at if passage.revised_at.tzinfo else passage.revised_at.replace(tzinfo=UTC)
    return revised >= cutoff
