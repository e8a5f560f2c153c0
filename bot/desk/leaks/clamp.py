"""Layer three: data ends before the day of the cutoff, even if its source goes on."""

from datetime import UTC, date, datetime
from typing import NamedTuple

from bot.domain.research import Passage, Series


class Clamped(NamedTuple):
    """The part of a series that may be used, and how many points were beyond the cutoff."""

    series: Series
    beyond: int


def clamp(series: Series, cutoff: datetime | None, until: date | None = None) -> Clamped:
    """Drop the points on or after the day of the cutoff, and those after ``until``, which are not counted.

    Points come out in order of their dates, each date once (the last value given for it).
    """
    end = None if cutoff is None else cutoff.astimezone(UTC).date()
    points = dict(sorted(zip(series.dates, series.values, strict=True), key=lambda point: point[0]))
    known = {day: value for day, value in points.items() if end is None or day < end}
    asked = {day: value for day, value in known.items() if until is None or day <= until}
    kept = Series(
        name=series.name,
        unit=series.unit,
        source=series.source,
        dates=tuple(asked),
        values=tuple(asked.values()),
    )
    return Clamped(kept, len(points) - len(known))


def is_revised_late(passage: Passage, cutoff: datetime | None) -> bool:
    """Say whether the passage is of a state that was written at or after the cutoff."""
    if cutoff is None:
        return False
    revised = passage.revised_at if passage.revised_at.tzinfo else passage.revised_at.replace(tzinfo=UTC)
    return revised >= cutoff
