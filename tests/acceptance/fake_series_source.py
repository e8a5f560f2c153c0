"""A plugin for the acceptance tests: a data source with a series for lamps, unless a file says that it is down."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from pathlib import Path

from bot.api import (
    DataSource,
    DataSpec,
    PluginContext,
    PluginSettings,
    Question,
    ServiceUnavailableError,
    TimeSeries,
    hookimpl,
)


class FakeOffice:
    """Implements DataSource."""

    def series_names(self, question: Question) -> Sequence[str]:
        return ("LAMPS",) if "lamp" in question.title else ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        if Path("down").exists():  # noqa: ASYNC240 - a file that a test makes
            message = "the office is closed"
            raise ServiceUnavailableError(message)
        return TimeSeries(name=name, unit="lamps", source="office", dates=(date(2026, 1, 1),), values=(7.0,))


@asynccontextmanager
async def open_office(settings: PluginSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    yield FakeOffice()


@hookimpl
def foxcast_data_sources() -> list[DataSpec[PluginSettings]]:
    return [DataSpec(name="office", summary="Counts lamps", settings=PluginSettings, open=open_office)]
