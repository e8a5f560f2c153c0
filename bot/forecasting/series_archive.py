"""Series kept in files as their sources reported them for a moment, so that a backtest is repeated without a network.

A source may change what it says of an earlier day: it revises values, or ends. A file holds one answer for one series
and one moment, and is used for exactly that moment; for any other one the source is asked. Layout:
``SOURCE/DIGEST/MOMENT.json``, where DIGEST is of the name of the series.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.ids import sha256_hex
from bot.core.interfaces import DataSource
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.research import TimeSeries
from bot.store.serialization import JsonSerializer

SERIES_SERIALIZER: JsonSerializer[TimeSeries] = JsonSerializer("series", TimeSeries)


@dataclass(frozen=True, slots=True)
class SeriesArchive:
    """The files of one data source."""

    folder: Path
    source: str

    def path(self, name: str, before: datetime) -> Path:
        """Return the file of a series as of a moment, whether it exists or not."""
        moment = f"{before.astimezone(UTC):%Y-%m-%dT%H%M%SZ}.json"
        return self.folder / self.source / sha256_hex(name.encode())[:16] / moment

    def read(self, name: str, before: datetime) -> TimeSeries | None:
        """Return the series as of a moment, None where it is not kept; raises MalformedDataError for a bad file."""
        path = self.path(name, before)
        try:
            series = SERIES_SERIALIZER.decode(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, MalformedDataError) as error:
            message = f"{path} cannot be read ({error}); delete it and run foxcast data snapshot again"
            raise MalformedDataError(message) from error
        return series if series.name == name else None

    def write(self, name: str, before: datetime, series: TimeSeries) -> None:
        """Keep a series as of a moment; raises StoreError."""
        path = self.path(name, before)
        partial = path.with_suffix(".partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(SERIES_SERIALIZER.encode(series), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            message = f"{path} cannot be written: {error}"
            raise StoreError(message) from error


@dataclass(frozen=True, slots=True)
class ArchivedDataSource:
    """Implements DataSource: what is kept comes from files, the rest from the source."""

    source: DataSource
    archive: SeriesArchive

    def series_names(self, question: Question) -> Sequence[str]:
        """Return the names that the source knows for the question."""
        return self.source.series_names(question)

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the series as of a moment."""
        kept = self.archive.read(name, before)
        return await self.source.series(name, before=before) if kept is None else kept


async def keep_series(source: DataSource, archive: SeriesArchive, name: str, before: datetime) -> bool:
    """Keep what a source says of a series as of a moment; return False where that is kept, or there is no such series.

    Raises as ``DataSource.series``, and StoreError.
    """
    if archive.read(name, before) is not None:
        return False
    try:
        series = await source.series(name, before=before)
    except NotFoundError:
        return False
    archive.write(name, before, series)
    return True
