"""Yahoo Finance: daily closes of stocks, indices and currencies from the chart of the public site; no key.

The close counts, not the close adjusted for dividends: the benchmark resolves on ``Close`` (without ``auto_adjust``)
and takes splits into account. The chart divides past prices by every split up to today, so splits after the moment are
requested and undone: a backtest sees the prices that were shown then. A session counts once it is over in the time zone
of its exchange, and dated before the day (in UTC) of the moment. The interface is not documented by its owner. Sources:
the replies that client libraries describe; the resolver of ForecastBench for the price that resolves and for the
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

from pydantic import BaseModel, Field

from bot.api import (
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
    ONE_DAY,
    FiniteNumber,
    UnixSeconds,
    ordered_series,
    parse_reply,
    question_path,
    raise_malformed,
    raise_not_found,
    request_url,
    start_of_day,
)

SOURCE = "yahoo"
QUESTION_SOURCE = "yfinance"
# Fifty years of sessions are 3 MB.
MAX_BYTES = 16_000_000
# Prices come in single precision: 329.4 as 329.3999938965.
SIGNIFICANT_DIGITS = 7
ADVICE = (
    "Whether a share closes higher is close to a coin toss: near 0.5 over a week, and a little above it over months, "
    "since markets drift upwards. The trend of the last weeks tells next to nothing of the next ones, and news that "
    "is public is in the price already. Leave the range from 0.4 to 0.6 only for what fixes the price, such as an "
    "agreed takeover, or for spans of many months."
)


class YahooSettings(PluginSettings):
    """How far to look back, and with which user agent."""

    base_url: str = Field(default="https://query1.finance.yahoo.com", pattern=ADDRESS_PATTERN)
    """Address of the service."""

    years: int = Field(default=10, ge=1, le=100)
    """Years of closing prices that are read."""

    user_agent: str = Field(default="Mozilla/5.0 (X11; Linux x86_64) foxcast", min_length=1, max_length=200)
    """The browser that requests name; the site refuses programs that name none."""


class _TradingPeriod(BaseModel):
    end: UnixSeconds


class _TradingPeriods(BaseModel):
    regular: _TradingPeriod


class _ChartMeta(BaseModel):
    # The reply writes its keys in camel case.
    currency: str | None = None
    zone: str = Field(alias="exchangeTimezoneName")
    quote_at: UnixSeconds | None = Field(default=None, alias="regularMarketTime")
    quote: FiniteNumber | None = Field(default=None, alias="regularMarketPrice")
    period: _TradingPeriods | None = Field(default=None, alias="currentTradingPeriod")


class _StockSplit(BaseModel):
    date: UnixSeconds
    numerator: FiniteNumber = Field(gt=0)
    denominator: FiniteNumber = Field(gt=0)


class _ChartEvents(BaseModel):
    splits: dict[str, _StockSplit] = Field(default_factory=dict)


class _QuoteColumns(BaseModel):
    close: list[FiniteNumber | None] = Field(default_factory=list)


class _Indicators(BaseModel):
    quote: list[_QuoteColumns] = Field(min_length=1)


class _ChartResult(BaseModel):
    meta: _ChartMeta
    timestamp: list[UnixSeconds] = Field(default_factory=list)
    events: _ChartEvents = Field(default_factory=_ChartEvents)
    indicators: _Indicators


class _Chart(BaseModel):
    result: list[_ChartResult] | None
    error: dict[str, Any] | None = None


class _ChartReply(BaseModel):
    chart: _Chart


@dataclass(frozen=True, slots=True)
class _ExchangeHours:
    """When sessions end, in the exchange's own time; ``closing_time`` is None where the reply does not say."""

    zone: tzinfo
    closing_time: time | None

    def local_day(self, seconds: int) -> date:
        return datetime.fromtimestamp(seconds, UTC).astimezone(self.zone).date()

    def is_session_over(self, day: date, end: datetime) -> bool:
        here = end.astimezone(self.zone)
        return day < here.date() or (
            day == here.date() and self.closing_time is not None and self.closing_time <= here.time()
        )


class YahooFinance:
    """Implements DataSource."""

    def __init__(self, settings: YahooSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http
        self._clock = context.clock

    def series_names(self, question: Question) -> Sequence[str]:
        match question_path(question, "finance.yahoo.com"):
            case ["quote", ticker, *_]:
                return (ticker,)
        return (question.source_id,) if question.source == QUESTION_SOURCE and question.source_id else ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the closes of finished sessions, as they were before any later split."""
        end = start_of_day(before)
        found = await self._chart(name, end - timedelta(days=366 * self._settings.years), end)
        if found is None:
            raise_not_found(SOURCE, f"there is no chart of {name}")
        factor = await self._later_split_factor(name, end)
        closes = {
            day: float(f"{value * factor:.{SIGNIFICANT_DIGITS}g}")
            for day, value in _finished_closes(found, end).items()
        }
        return ordered_series(closes, name=name, unit=f"{found.meta.currency or 'points'}, close", source=SOURCE)

    async def _later_split_factor(self, ticker: str, end: datetime) -> float:
        """Return the factor for a close from before the moment."""
        now = self._clock.now()
        if now - end < ONE_DAY:
            return 1.0
        try:
            # In the east a session begins on the day before, in UTC, and its split has that date.
            found = await self._chart(ticker, end - ONE_DAY, now)
        except RequestRejectedError:  # nothing was traded since
            return 1.0
        if found is None:
            return 1.0
        exchange = _exchange_hours(found.meta)
        later = (split for split in found.events.splits.values() if exchange.local_day(split.date) >= end.date())
        return math.prod(split.numerator / split.denominator for split in later)

    async def _chart(self, ticker: str, start: datetime, end: datetime) -> _ChartResult | None:
        asked = {
            "period1": str(int(start.timestamp())),
            "period2": str(int(end.timestamp())),
            "interval": "1d",
            "events": "split",
        }
        url = request_url(self._settings.base_url, f"v8/finance/chart/{quote(ticker, safe='')}", asked)
        try:
            body = await self._http.get(url, max_bytes=MAX_BYTES, headers={"User-Agent": self._settings.user_agent})
        except NotFoundError:
            return None
        chart = parse_reply(_ChartReply, body, SOURCE).chart
        return chart.result[0] if chart.result else None


def _finished_closes(found: _ChartResult, end: datetime) -> dict[date, float]:
    exchange = _exchange_hours(found.meta)
    prices = found.indicators.quote[0].close
    if len(prices) != len(found.timestamp):
        raise_malformed(SOURCE, f"{len(found.timestamp)} sessions for {len(prices)} closes")
    closes = {}
    for seconds, price in zip(found.timestamp, prices, strict=True):
        day = exchange.local_day(seconds)
        known = _latest_close(found.meta, exchange, day, end) if price is None else price
        if known is not None and day < end.date() and exchange.is_session_over(day, end):
            closes[day] = known
    return closes


def _latest_close(meta: _ChartMeta, exchange: _ExchangeHours, day: date, end: datetime) -> float | None:
    """Return the close of a session that is missing in the chart, if the latest quote is from that session.

    Since September 2026 the chart's latest session has no close (yfinance, issue 2925).
    """
    if meta.quote_at is None or meta.quote_at >= end.timestamp() or exchange.local_day(meta.quote_at) != day:
        return None
    return meta.quote


def _exchange_hours(meta: _ChartMeta) -> _ExchangeHours:
    try:
        zone = ZoneInfo(meta.zone)
    except (KeyError, ValueError, OSError):
        raise_malformed(SOURCE, f"there is no time zone {meta.zone!r}")
    if meta.period is None:
        return _ExchangeHours(zone, None)
    return _ExchangeHours(zone, datetime.fromtimestamp(meta.period.regular.end, UTC).astimezone(zone).time())


@asynccontextmanager
async def open_yahoo(settings: YahooSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield YahooFinance(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[YahooSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Daily closes of stocks, indices and currencies",
            settings=YahooSettings,
            first_config=True,
            open=open_yahoo,
            question_sources=frozenset({QUESTION_SOURCE}),
            policy=SourcePolicy(first="series_combo", searches=1, advice=ADVICE),
            # Source: BLF paper, appendix I, with the constants of its published code.
            model=SeriesModel(window=60, unit="points", trust=0.1, trend_share=0.5),
        )
    ]
