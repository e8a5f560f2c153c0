"""FRED: economic series of the Federal Reserve Bank of St. Louis, as they were on the day before; needs a key.

For a real-time period of one day, the service answers from its archive of vintages (ALFRED): no later revision and
nothing published later. Its days are those of US Central time, so the vintage of a day ends at 05:00 or 06:00 UTC of
the next one. A series of which the archive kept no vintages is answered with status 400, like an unknown one. Sources:
the service's documentation of ``fred/series`` and ``fred/series/observations``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from bot.api import (
    AuthenticationError,
    DataSource,
    DataSpec,
    NotFoundError,
    PluginContext,
    PluginSettings,
    Question,
    RequestRejectedError,
    SeriesModel,
    SourcePolicy,
    TimeSeries,
    hookimpl,
)
from plugins.data._series_replies import (
    ADDRESS_PATTERN,
    FiniteNumber,
    last_finished_day,
    ordered_series,
    parse_reply,
    question_path,
    raise_not_found,
    request_url,
)

SOURCE = "fred"
# Thirty years of days are 1.2 MB.
MAX_BYTES = 16_000_000
# A series that has always existed: if even this is refused, the key is wrong.
PROBE_SERIES = "GNPCA"
ADVICE = (
    "The value of a later date is held against the last one that was known. Ask first which observation counts on "
    "that date: a series that is not published anew by then keeps its value, and what stays the same has not "
    "increased. Rates that a committee sets mostly stay as they are between its meetings. Rates and prices of markets "
    "are close to a coin toss over a week. Totals and price levels that grow mostly keep growing. For all others the "
    "anchor is how often the series rose over spans of this length."
)


class FredSettings(PluginSettings):
    """The key, and how far to look back."""

    key: SecretStr
    """The API key, free for an account at https://fredaccount.stlouisfed.org/apikeys."""

    base_url: str = Field(default="https://api.stlouisfed.org", pattern=ADDRESS_PATTERN)
    """Address of the service."""

    years: int = Field(default=10, ge=1, le=100)
    """Years of observations that are read."""


class _SeriesInfo(BaseModel):
    units: str


class _SeriesInfoReply(BaseModel):
    seriess: list[_SeriesInfo] = Field(min_length=1)


class _Observation(BaseModel):
    date: date
    value: FiniteNumber | Literal["."]


class _Observations(BaseModel):
    observations: list[_Observation]


class FredSeries:
    """Implements DataSource."""

    def __init__(self, settings: FredSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        match question_path(question, "fred.stlouisfed.org"):
            case ["series", name]:
                return (name,)
        return (question.source_id,) if question.source == SOURCE and question.source_id else ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the series as published until the day before; missing values are skipped."""
        end = last_finished_day(before)
        vintage = {"series_id": name, "realtime_start": end.isoformat(), "realtime_end": end.isoformat()}
        try:
            about = parse_reply(_SeriesInfoReply, await self._get("fred/series", vintage), SOURCE)
            found = parse_reply(
                _Observations, await self._get("fred/series/observations", vintage | self._span(end)), SOURCE
            )
        except NotFoundError:
            raise_not_found(SOURCE, f"there is no series {name}")
        except RequestRejectedError:
            await self._require_key()
            raise_not_found(SOURCE, f"there is no series {name}, or its archive has nothing of it as of {end}")
        points = {seen.date: seen.value for seen in found.observations if seen.date <= end and seen.value != "."}
        return ordered_series(points, name=name, unit=about.seriess[0].units, source=SOURCE)

    def _span(self, end: date) -> dict[str, str]:
        # The first of the month exists in every year, the last day of February does not.
        start = end.replace(year=max(1, end.year - self._settings.years), day=1)
        return {"observation_start": start.isoformat(), "observation_end": end.isoformat()}

    async def _require_key(self) -> None:
        """Raise AuthenticationError if the service refuses the key: it answers 400 to that as well."""
        try:
            await self._get("fred/series", {"series_id": PROBE_SERIES})
        except RequestRejectedError:
            message = f"{SOURCE} refuses the key; check the setting key of [data.fred]"
            raise AuthenticationError(message) from None

    async def _get(self, path: str, asked: dict[str, str]) -> bytes:
        whole = {**asked, "file_type": "json", "api_key": self._settings.key.get_secret_value()}
        return await self._http.get(request_url(self._settings.base_url, path, whole), max_bytes=MAX_BYTES)


@asynccontextmanager
async def open_fred(settings: FredSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield FredSeries(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[FredSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Economic series of the St. Louis Fed as published until the day before; needs a key",
            settings=FredSettings,
            open=open_fred,
            question_sources=frozenset({"fred"}),
            policy=SourcePolicy(first="series_combo", searches=1, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=30, unit="points", trust=0.5, trend_share=0.5, shows_season=True),
        )
    ]
