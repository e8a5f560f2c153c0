"""Yahoo Finance: daily closes of stocks, indices and currencies from the chart of the public site; no key.

The close counts, not the close adjusted for dividends: the benchmark resolves on ``Close`` (without ``auto_adjust``)
and takes splits into account. The chart divides the past by every split up to today, so splits after the moment are
asked for and undone: a backtest sees the prices that were on the screen. A session counts once it is over in the time
zone of its exchange, and dated before the day (in UTC) of the moment. The interface is not documented by its owner.
Sources: the replies that client libraries describe; the resolver of ForecastBench for which price resolves and for the
missing close of the latest session.
"""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

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
    Workplace,
    hookimpl,
)
from plugins.data._reading import (
    ADDRESS,
    ONE_DAY,
    Number,
    Seconds,
    address,
    broken,
    in_order,
    midnight,
    parsed,
    unknown,
    url_parts,
)

SOURCE = "yahoo"
SERVES = "yfinance"
# Fifty years of sessions are 3 MB.
MAX_BYTES = 16_000_000
# Prices come in single precision: 329.4 as 329.3999938965.
DIGITS = 7
ADVICE = (
    "Whether a share closes higher is close to a coin toss: near 0.5 over a week, and a little above it over months, "
    "since markets drift upwards. The trend of the last weeks tells next to nothing of the next ones, and news that "
    "is public is in the price already. Leave the range from 0.4 to 0.6 only for what fixes the price, such as an "
    "agreed takeover, or for spans of many months."
)


class YahooSettings(Settings):
    """How far to look back, and as whom."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    base_url: str = Field(default="https://query1.finance.yahoo.com", pattern=ADDRESS)
    """Where the service is."""

    years: int = Field(default=10, ge=1, le=100)
    """How many years of closes to read."""

    user_agent: str = Field(default="Mozilla/5.0 (X11; Linux x86_64) foxcast", min_length=1, max_length=200)
    """As what to ask: the site turns programs away that do not look like a browser."""


class _Period(BaseModel):
    end: Seconds


class _Periods(BaseModel):
    regular: _Period


class _Meta(BaseModel):
    # The reply writes its keys in camel case.
    currency: str | None = None
    zone: str = Field(alias="exchangeTimezoneName")
    quote_at: Seconds | None = Field(default=None, alias="regularMarketTime")
    quote: Number | None = Field(default=None, alias="regularMarketPrice")
    period: _Periods | None = Field(default=None, alias="currentTradingPeriod")


class _Split(BaseModel):
    date: Seconds
    numerator: Number = Field(gt=0)
    denominator: Number = Field(gt=0)


class _Events(BaseModel):
    splits: dict[str, _Split] = Field(default_factory=dict)


class _Quote(BaseModel):
    close: list[Number | None] = Field(default_factory=list)


class _Indicators(BaseModel):
    quote: list[_Quote] = Field(min_length=1)


class _Result(BaseModel):
    meta: _Meta
    timestamp: list[Seconds] = Field(default_factory=list)
    events: _Events = Field(default_factory=_Events)
    indicators: _Indicators


class _Chart(BaseModel):
    result: list[_Result] | None
    error: dict[str, Any] | None = None


class _Reply(BaseModel):
    chart: _Chart


@dataclass(frozen=True, slots=True)
class _Exchange:
    """When sessions are over, in the exchange's own time; ``closes`` is None where the reply does not say."""

    zone: tzinfo
    closes: time | None

    def day(self, seconds: int) -> date:
        return datetime.fromtimestamp(seconds, UTC).astimezone(self.zone).date()

    def is_over(self, day: date, end: datetime) -> bool:
        here = end.astimezone(self.zone)
        return day < here.date() or (day == here.date() and self.closes is not None and self.closes <= here.time())


class Yahoo:
    """Implements the port DataSource."""

    def __init__(self, settings: YahooSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http
        self._clock = workplace.clock

    def names(self, question: Question) -> Sequence[str]:
        match url_parts(question, "finance.yahoo.com"):
            case ["quote", ticker, *_]:
                return (ticker,)
        known = question.facts.get("id") if question.source == SERVES else None
        return (known,) if known else ()

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the closes of the sessions that were over, as they stood before any later split."""
        end = midnight(before)
        found = await self._chart(name, end - timedelta(days=366 * self._settings.years), end)
        if found is None:
            unknown(SOURCE, f"there is no chart of {name}")
        factor = await self._later_splits(name, end)
        closes = {day: float(f"{value * factor:.{DIGITS}g}") for day, value in _closes(found, end).items()}
        return in_order(closes, name=name, unit=f"{found.meta.currency or 'points'}, close", source=SOURCE)

    async def _later_splits(self, ticker: str, end: datetime) -> float:
        """Return what a close from before the moment is to be multiplied by."""
        now = self._clock.now()
        if now - end < ONE_DAY:
            return 1.0
        try:
            # In the east a session begins on the day before, in UTC, and its split is dated by that.
            found = await self._chart(ticker, end - ONE_DAY, now)
        except Rejected:  # nothing was traded since
            return 1.0
        if found is None:
            return 1.0
        exchange = _exchange(found.meta)
        later = (split for split in found.events.splits.values() if exchange.day(split.date) >= end.date())
        return math.prod(split.numerator / split.denominator for split in later)

    async def _chart(self, ticker: str, start: datetime, end: datetime) -> _Result | None:
        asked = {
            "period1": str(int(start.timestamp())),
            "period2": str(int(end.timestamp())),
            "interval": "1d",
            "events": "split",
        }
        url = address(self._settings.base_url, f"v8/finance/chart/{quote(ticker, safe='')}", asked)
        try:
            body = await self._http.get(url, max_bytes=MAX_BYTES, headers={"User-Agent": self._settings.user_agent})
        except NotFound:
            return None
        chart = parsed(_Reply, body, SOURCE).chart
        return chart.result[0] if chart.result else None


def _closes(found: _Result, end: datetime) -> dict[date, float]:
    exchange = _exchange(found.meta)
    prices = found.indicators.quote[0].close
    if len(prices) != len(found.timestamp):
        broken(SOURCE, f"{len(found.timestamp)} sessions for {len(prices)} closes")
    closes = {}
    for seconds, price in zip(found.timestamp, prices, strict=True):
        day = exchange.day(seconds)
        known = _quoted(found.meta, exchange, day, end) if price is None else price
        if known is not None and day < end.date() and exchange.is_over(day, end):
            closes[day] = known
    return closes


def _quoted(meta: _Meta, exchange: _Exchange, day: date, end: datetime) -> float | None:
    """Return the close of a session that the chart left out, if the latest quote is from that session.

    Since September 2026 the chart's latest session comes without its close (yfinance, issue 2925).
    """
    if meta.quote_at is None or meta.quote_at >= end.timestamp() or exchange.day(meta.quote_at) != day:
        return None
    return meta.quote


def _exchange(meta: _Meta) -> _Exchange:
    try:
        zone = ZoneInfo(meta.zone)
    except (KeyError, ValueError, OSError):
        broken(SOURCE, f"there is no time zone {meta.zone!r}")
    if meta.period is None:
        return _Exchange(zone, None)
    return _Exchange(zone, datetime.fromtimestamp(meta.period.regular.end, UTC).astimezone(zone).time())


@asynccontextmanager
async def open_yahoo(settings: YahooSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield Yahoo(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[YahooSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Daily closes of stocks, indices and currencies",
            abilities=frozenset({Can.SERIES}),
            settings=YahooSettings,
            open=open_yahoo,
            serves=frozenset({SERVES}),
            policy=SourcePolicy(first="series_combo", searches=1, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=60, unit="points", trust=0.1, trend_share=0.5),
        )
    ]
