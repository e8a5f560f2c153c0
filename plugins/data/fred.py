"""FRED: economic series of the Federal Reserve Bank of St. Louis, as they stood on the day before; needs a key.

Asked with a real-time period of one day, the service answers from its archive of vintages (ALFRED): no later revision
and nothing published later. Its days are those of US Central time, so the vintage of a day ends at 05:00 or 06:00 UTC
of the next one. A series of which the archive kept no vintages is answered with status 400, like an unknown one.
Sources: the service's documentation of ``fred/series`` and ``fred/series/observations``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bot.api import (
    Can,
    DataSource,
    DataSpec,
    NotFound,
    Question,
    Rejected,
    Series,
    SeriesModel,
    Settings,
    SourcePolicy,
    Unauthorized,
    Workplace,
    hookimpl,
)
from plugins.data._reading import ADDRESS, Number, address, in_order, last_whole_day, parsed, unknown, url_parts

SOURCE = "fred"
# Thirty years of days are 1.2 MB.
MAX_BYTES = 16_000_000
# One that has always been there: if even this is refused, the key is.
PROBE = "GNPCA"
ADVICE = (
    "The value of a later date is held against the last one that was known. Ask first which observation counts on "
    "that date: a series that is not published anew by then keeps its value, and what stays the same has not "
    "increased. Rates that a committee sets mostly stay as they are between its meetings. Rates and prices of markets "
    "are close to a coin toss over a week. Totals and price levels that grow mostly go on growing. For all others the "
    "anchor is how often the series rose over spans of this length."
)


class FredSettings(Settings):
    """The key, and how far to look back."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    key: SecretStr
    """The API key, free of charge for an account at https://fredaccount.stlouisfed.org/apikeys."""

    base_url: str = Field(default="https://api.stlouisfed.org", pattern=ADDRESS)
    """Where the service is."""

    years: int = Field(default=10, ge=1, le=100)
    """How many years of observations to read."""


class _About(BaseModel):
    units: str


class _Known(BaseModel):
    seriess: list[_About] = Field(min_length=1)


class _Observation(BaseModel):
    date: date
    value: Number | Literal["."]


class _Observations(BaseModel):
    observations: list[_Observation]


class Fred:
    """Implements the port DataSource."""

    def __init__(self, settings: FredSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http

    def names(self, question: Question) -> Sequence[str]:
        match url_parts(question, "fred.stlouisfed.org"):
            case ["series", name]:
                return (name,)
        known = question.facts.get("id") if question.source == SOURCE else None
        return (known,) if known else ()

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the series as published until the day before; missing values are left out."""
        end = last_whole_day(before)
        vintage = {"series_id": name, "realtime_start": end.isoformat(), "realtime_end": end.isoformat()}
        try:
            about = parsed(_Known, await self._get("fred/series", vintage), SOURCE)
            found = parsed(
                _Observations, await self._get("fred/series/observations", vintage | self._span(end)), SOURCE
            )
        except NotFound:
            unknown(SOURCE, f"there is no series {name}")
        except Rejected:
            await self._require_key()
            unknown(SOURCE, f"there is no series {name}, or its archive holds nothing of it as of {end}")
        points = {seen.date: seen.value for seen in found.observations if seen.date <= end and seen.value != "."}
        return in_order(points, name=name, unit=about.seriess[0].units, source=SOURCE)

    def _span(self, end: date) -> dict[str, str]:
        # The first of the month exists in every year, the last day of February does not.
        start = end.replace(year=max(1, end.year - self._settings.years), day=1)
        return {"observation_start": start.isoformat(), "observation_end": end.isoformat()}

    async def _require_key(self) -> None:
        """Raise Unauthorized if the service refuses the key: it answers 400 to that as well."""
        try:
            await self._get("fred/series", {"series_id": PROBE})
        except Rejected:
            message = f"{SOURCE} refuses the key; check the setting key of [data.fred]"
            raise Unauthorized(message) from None

    async def _get(self, path: str, asked: dict[str, str]) -> bytes:
        whole = {**asked, "file_type": "json", "api_key": self._settings.key.get_secret_value()}
        return await self._http.get(address(self._settings.base_url, path, whole), max_bytes=MAX_BYTES)


@asynccontextmanager
async def open_fred(settings: FredSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield Fred(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[FredSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Economic series of the St. Louis Fed as published until the day before; needs a key",
            abilities=frozenset({Can.SERIES, Can.VINTAGES}),
            settings=FredSettings,
            open=open_fred,
            serves=frozenset({"fred"}),
            policy=SourcePolicy(first="series_combo", searches=1, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=30, unit="points", trust=0.5, trend_share=0.5, shows_season=True),
        )
    ]
