"""DBnomics: series of many statistical offices under one address; no key.

The service keeps the latest state of a series and takes no dates, so everything comes and what was not over before the
moment is dropped here: an observation counts once its whole period (day, month, quarter ...) has passed. When it was
published is not known, so a backtest may see a value some days before the world did.
Source: the service's description of ``/v22/series``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from bot.api import (
    Can,
    DataSource,
    DataSpec,
    NotFound,
    Question,
    Series,
    SeriesModel,
    Settings,
    SourcePolicy,
    Workplace,
    hookimpl,
)
from plugins.data._reading import (
    ADDRESS,
    ONE_DAY,
    Number,
    address,
    broken,
    in_order,
    last_whole_day,
    parsed,
    unknown,
    url_parts,
)

SOURCE = "dbnomics"
# Eighty years of days are 2 MB.
MAX_BYTES = 16_000_000
# How long a period of each frequency lasts: days, or months of the calendar.
DAYS = {"daily": 1, "weekly": 7, "bi-weekly": 14}
MONTHS = {"monthly": 1, "bi-monthly": 2, "quarterly": 3, "bi-annual": 6, "annual": 12}
ADVICE = (
    "These are mostly temperatures of single days. The season decides: count in how many earlier years the days "
    "around that date were warmer than the value that is asked about. A weather forecast adds something for the next "
    "ten days and nothing beyond."
)


class DbnomicsSettings(Settings):
    """Where the service is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    base_url: str = Field(default="https://api.db.nomics.world/v22", pattern=ADDRESS)
    """Where the service is, with the version."""


class _Doc(BaseModel):
    frequency: str = Field(default="", alias="@frequency")
    series_name: str = ""
    unit: str = ""
    period_start_day: list[date]
    value: list[Number | Literal["NA"] | None]


class _Found(BaseModel):
    docs: list[_Doc]


class _Reply(BaseModel):
    series: _Found


class Dbnomics:
    """Implements the port DataSource; a series is named provider/dataset/series."""

    def __init__(self, settings: DbnomicsSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http

    def names(self, question: Question) -> Sequence[str]:
        match url_parts(question, "db.nomics.world"):
            case [provider, dataset, series]:
                return (f"{provider}/{dataset}/{series}",)
        if question.source != SOURCE:
            return ()
        # The benchmark writes its ids with underscores instead, which a code may hold too: only the first two count.
        parts = question.facts.get("id", "").split("_", 2)
        return ("/".join(parts),) if len(parts) == 3 and all(parts) else ()

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return what periods that were over before the moment brought, each dated by its first day."""
        parts = name.split("/")
        if len(parts) != 3 or {"", ".", ".."} & set(parts):
            unknown(SOURCE, f"{name!r} is not of the form provider/dataset/series")
        path = "series/" + "/".join(quote(part, safe="") for part in parts)
        url = address(self._settings.base_url, path, {"observations": "1", "metadata": "0"})
        try:
            reply = parsed(_Reply, await self._http.get(url, max_bytes=MAX_BYTES), SOURCE)
        except NotFound:
            unknown(SOURCE, f"there is no series {name}")
        if not reply.series.docs:
            unknown(SOURCE, f"there is no series {name}")
        return in_order(
            _points(reply.series.docs[0], last_whole_day(before)),
            name=name,
            unit=reply.series.docs[0].unit or reply.series.docs[0].series_name or "not given",
            source=SOURCE,
        )


def _points(doc: _Doc, end: date) -> dict[date, float]:
    if len(doc.period_start_day) != len(doc.value):
        broken(SOURCE, f"{len(doc.period_start_day)} periods for {len(doc.value)} values")
    if doc.frequency not in DAYS | MONTHS:
        broken(SOURCE, f"the frequency {doc.frequency!r} is not a known one")
    return {
        day: value
        for day, value in zip(doc.period_start_day, doc.value, strict=True)
        if day <= end and isinstance(value, float) and _next_period(day, doc.frequency) - ONE_DAY <= end
    }


def _next_period(start: date, frequency: str) -> date:
    """Return the first day after the period that begins with that day."""
    if frequency in DAYS:
        return start + timedelta(days=DAYS[frequency])
    years, month = divmod(start.month - 1 + MONTHS[frequency], 12)
    # Where that month has no such day, the period ends a little later, never earlier.
    return date(start.year + years, month + 1, 1) + timedelta(days=start.day - 1)


@asynccontextmanager
async def open_dbnomics(settings: DbnomicsSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield Dbnomics(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[DbnomicsSettings]]:
    """Offer the one source of this plugin; what its model estimates beats what a language model makes of it."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Series of many statistical offices, the temperatures of French stations among them",
            abilities=frozenset({Can.SERIES}),
            settings=DbnomicsSettings,
            open=open_dbnomics,
            serves=frozenset({"dbnomics"}),
            # Source: BLF paper, section C.6 and table 6.
            policy=SourcePolicy(first="series_model", bypass=True, searches=0, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=365, unit="days", trust=0.4, trend_share=0.3, seasonal=True, shows_season=True),
        )
    ]
