"""Series in files: kept once for each moment, read without their source, and never for another moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.questions import Question
from bot.core.research import TimeSeries
from bot.forecasting.series_archive import ArchivedDataSource, SeriesArchive, keep_series

ROUND = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class RevisedSource:
    """A source that revises all of its values with each request."""

    requests: list[datetime] = field(default_factory=list)

    def series_names(self, question: Question) -> Sequence[str]:
        return ("GDP/1",)

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        if name != "GDP/1":
            raise NotFoundError(name)
        self.requests.append(before)
        values = (1.0 * len(self.requests), 2.5)
        return TimeSeries(
            name=name, unit="%", source="office", dates=(date(2026, 1, 1), date(2026, 2, 1)), values=values
        )


async def test_a_kept_series_stays_as_it_was_and_its_source_is_not_asked_again(tmp_path: Path) -> None:
    source, archive = RevisedSource(), SeriesArchive(tmp_path, "office")
    assert await keep_series(source, archive, "GDP/1", ROUND)
    assert not await keep_series(source, archive, "GDP/1", ROUND)
    kept = ArchivedDataSource(source, archive)
    first = await kept.series("GDP/1", before=ROUND)
    assert first == await kept.series("GDP/1", before=ROUND)
    assert (first.values, source.requests) == ((1.0, 2.5), [ROUND])
    # As of another moment the source is asked: what was kept may know more, or less.
    later = await kept.series("GDP/1", before=ROUND + timedelta(hours=1))
    assert (later.values, len(source.requests)) == ((2.0, 2.5), 2)


async def test_an_unknown_series_is_not_kept_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    source, archive = RevisedSource(), SeriesArchive(tmp_path, "office")
    assert not await keep_series(source, archive, "unknown", ROUND)
    assert archive.read("unknown", ROUND) is None
    await keep_series(source, archive, "GDP/1", ROUND)
    archive.path("GDP/1", ROUND).write_text("{", encoding="utf-8")
    with pytest.raises(MalformedDataError, match="delete it and run foxcast data snapshot again"):
        await ArchivedDataSource(source, archive).series("GDP/1", before=ROUND)
