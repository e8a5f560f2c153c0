"""DBnomics: series of many statistical offices under one address; no key.

The service keeps only the latest version of a series and accepts no dates. So it returns everything, and periods that
were not over before the moment are dropped here: an observation counts once its whole period (day, month, quarter ...)
has passed. The time of publication is not known, so a backtest may see a value some days before it was public. Source:
the service's description of ``/v22/series``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, Field

from bot.api import (
    DataSource,
    DataSpec,
    NotFoundError,
    PluginContext,
    PluginSettings,
    Question,
    SeriesModel,
    SourcePolicy,
    TimeSeries,
    hookimpl,
)
from plugins.data._series_replies import (
    ADDRESS_PATTERN,
    ONE_DAY,
    FiniteNumber,
    last_finished_day,
    ordered_series,
    parse_reply,
    question_path,
    raise_malformed,
    raise_not_found,
    request_url,
)

SOURCE = "dbnomics"
# Eighty years of days are 2 MB.
MAX_BYTES = 16_000_000
# How long a period of each frequency lasts: days, or months of the calendar.
DAYS_PER_PERIOD = {"daily": 1, "weekly": 7, "bi-weekly": 14}
MONTHS_PER_PERIOD = {"monthly": 1, "bi-monthly": 2, "quarterly": 3, "bi-annual": 6, "annual": 12}
ADVICE = (
    "These are mostly temperatures of single days. The season decides: count in how many earlier years the days "
    "around that date were warmer than the value that is asked about. A weather forecast adds something for the next "
    "ten days and nothing beyond."
)


class DbnomicsSettings(PluginSettings):
    """The address of the service."""

    base_url: str = Field(default="https://api.db.nomics.world/v22", pattern=ADDRESS_PATTERN)
    """Address of the service, with the version."""


class _SeriesDocument(BaseModel):
    frequency: str = Field(default="", alias="@frequency")
    series_name: str = ""
    unit: str = ""
    period_start_day: list[date]
    value: list[FiniteNumber | Literal["NA"] | None]


class _SeriesList(BaseModel):
    docs: list[_SeriesDocument]


class _Reply(BaseModel):
    series: _SeriesList


class DbnomicsSeries:
    """Implements DataSource; a series is named provider/dataset/series."""

    def __init__(self, settings: DbnomicsSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        match question_path(question, "db.nomics.world"):
            case [provider, dataset, series]:
                return (f"{provider}/{dataset}/{series}",)
        if question.source != SOURCE:
            return ()
        # The benchmark writes its ids with underscores instead, which a code may contain too: only the first two count.
        parts = question.source_id.split("_", 2)
        return ("/".join(parts),) if len(parts) == 3 and all(parts) else ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the values of periods that were over before the moment, each dated by its first day."""
        parts = name.split("/")
        if len(parts) != 3 or {"", ".", ".."} & set(parts):
            raise_not_found(SOURCE, f"{name!r} is not of the form provider/dataset/series")
        path = "series/" + "/".join(quote(part, safe="") for part in parts)
        url = request_url(self._settings.base_url, path, {"observations": "1", "metadata": "0"})
        try:
            reply = parse_reply(_Reply, await self._http.get(url, max_bytes=MAX_BYTES), SOURCE)
        except NotFoundError:
            raise_not_found(SOURCE, f"there is no series {name}")
        if not reply.series.docs:
            raise_not_found(SOURCE, f"there is no series {name}")
        return ordered_series(
            _finished_points(reply.series.docs[0], last_finished_day(before)),
            name=name,
            unit=reply.series.docs[0].unit or reply.series.docs[0].series_name or "not given",
            source=SOURCE,
        )


def _finished_points(doc: _SeriesDocument, end: date) -> dict[date, float]:
    if len(doc.period_start_day) != len(doc.value):
        raise_malformed(SOURCE, f"{len(doc.period_start_day)} periods for {len(doc.value)} values")
    if doc.frequency not in DAYS_PER_PERIOD | MONTHS_PER_PERIOD:
        raise_malformed(SOURCE, f"the frequency {doc.frequency!r} is not a known one")
    return {
        day: value
        for day, value in zip(doc.period_start_day, doc.value, strict=True)
        if day <= end and isinstance(value, float) and _next_period(day, doc.frequency) - ONE_DAY <= end
    }


def _next_period(start: date, frequency: str) -> date:
    """Return the first day after the period that begins with that day."""
    if frequency in DAYS_PER_PERIOD:
        return start + timedelta(days=DAYS_PER_PERIOD[frequency])
    years, month = divmod(start.month - 1 + MONTHS_PER_PERIOD[frequency], 12)
    # Where that month has no such day, the period ends a little later, never earlier.
    return date(start.year + years, month + 1, 1) + timedelta(days=start.day - 1)


@asynccontextmanager
async def open_dbnomics(settings: DbnomicsSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield DbnomicsSeries(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[DbnomicsSettings]]:
    """Offer the one source of this plugin; its model's estimate is better than that of a language model."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Series of many statistical offices, the temperatures of French stations among them",
            settings=DbnomicsSettings,
            first_config=True,
            open=open_dbnomics,
            question_sources=frozenset({"dbnomics"}),
            # Source: BLF paper, section C.6 and table 6.
            policy=SourcePolicy(first="series_model", bypass=True, searches=0, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=365, unit="days", trust=0.4, trend_share=0.3, seasonal=True, shows_season=True),
        )
    ]
