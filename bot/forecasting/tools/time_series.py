"""Time series and market prices as they were known at the cutoff.

Their values, and what a simple model says of each date of the question (BLF, arXiv 2604.18576v3, appendix I).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date
from enum import StrEnum

from bot.core.beliefs import ShownSource
from bot.core.errors import FoxcastError, StoreError
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.redaction import redact_known_secrets
from bot.core.research import SeriesModel, TimeSeries
from bot.core.values import Json
from bot.forecasting.failures import run_with_timeout
from bot.forecasting.leak_guard.cutoff import ClampedSeries, clamp_series
from bot.forecasting.services import ConfiguredDataSource
from bot.forecasting.tools.base import ToolContext, define_tool, describe_failure, text_schema
from bot.forecasting.trial_memory import FilterCounts, ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.store.serialization import JsonSerializer


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEstimate:
    """The probability that a series is above its reference value on a day, and the estimates behind it.

    ``season`` counts past values around that day of the year, ``trend`` extends a line, ``mixed`` joins the line with
    the same day in earlier years.
    """

    probability: float
    season: float
    trend: float
    mixed: float


def estimate_exceedance(
    series: TimeSeries, days: Sequence[date], *, model: SeriesModel, today: date
) -> list[SeriesEstimate]:
    """Return one estimate for each day, against the last value before ``today``, the day of the forecast.

    Raises ValueError for a series without a value before today, or with an infinite one.
    """
    import numpy as np  # noqa: PLC0415 - a start of the program needs no numpy

    from bot.stats import time_series  # noqa: PLC0415 - as above

    past = time_series.daily_series([day.isoformat() for day in series.dates], list(series.values)).before(
        np.datetime64(today, "D")
    )
    if not past.values.size:
        message = "the series has no value before the day of the forecast"
        raise ValueError(message)
    line = time_series.TrendModel(
        window=model.window, unit=model.unit, trust=model.trust, trend_share=model.trend_share
    )
    reference = float(past.values[-1])
    made = []
    for day in days:
        on = np.datetime64(day, "D")
        season = time_series.seasonal_exceedance(past, reference, on).probability
        trend = time_series.trend_exceedance(past, reference, on, line).probability
        mixed = time_series.hybrid_exceedance(past, reference, on, line).probability
        probability = season if model.seasonal else mixed
        made.append(SeriesEstimate(probability=probability, season=season, trend=trend, mixed=mixed))
    return made


SERIES_TIMEOUT_S = 30.0


RECENT_POINTS = 60


OLDER_POINTS = 60


SERIES_SERIALIZER: JsonSerializer[TimeSeries] = JsonSerializer("series", TimeSeries)


class SeriesReading(StrEnum):
    """The parameters of a request for a series."""

    HISTORY = "series_history"
    MODEL = "series_model"
    COMBO = "series_combo"


_DESCRIPTIONS = {
    SeriesReading.HISTORY: "The values of a time series up to the cutoff.",
    SeriesReading.MODEL: "The probability, by a simple model of the series, that its value rises above the last known "
    "one, for each date of the question.",
    SeriesReading.COMBO: "The values of a time series up to the cutoff, and the probability, by a simple model of it, "
    "that its value rises above the last known one, for each date of the question.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeriesTool:
    """Reads a series from one of the sources, in one of the ways of reading."""

    reading: SeriesReading
    context: ToolContext
    data_sources: Mapping[str, ConfiguredDataSource]

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            str(self.reading),
            f"{_DESCRIPTIONS[self.reading]} Without arguments: the series that the question is about.",
            {
                "source": {
                    "type": "string",
                    "enum": list(self.data_sources),
                    "description": "where the series is from",
                },
                "name": text_schema("the name of the series there", 300),
                "until": text_schema("the last day wanted, YYYY-MM-DD; never beyond the cutoff", 10),
            },
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        until = _parse_day(arguments.get("until"))
        source, name = self._requested_series(arguments)
        clamped = await fetch_series(source, name, self.context, trace)
        caught = FilterCounts(clamped=clamped.beyond)
        shown = clamp_series(clamped.series, None, until).series
        if not shown.values:
            message = f"{source.spec.name} knows no value of that series up to that day."
            raise ToolCallError(message, caught=caught)
        parts, data = [caught.describe("points").capitalize()], summarize_series(clamped.series)
        label, plain = f"series from {source.spec.name}", list(parts)
        if self.reading is not SeriesReading.MODEL:
            parts.append(self.context.fence(format_series(shown), label, 20_000))
            plain.append(self.context.clean(format_series(shown), 20_000))
        if self.reading is not SeriesReading.HISTORY:
            text, data["probabilities"] = self._describe_model(clamped.series, source)
            parts.append(text)
            plain.append(text)
        return ToolOutcome(
            text="\n".join(filter(None, parts)),
            data=data,
            sources=(ShownSource(name=label, text="\n".join(filter(None, plain))),),
            note=ToolCallNote(caught=caught),
        )

    def _requested_series(self, arguments: Mapping[str, Json]) -> tuple[ConfiguredDataSource, str]:
        source, name = arguments.get("source"), arguments.get("name")
        if source is None:
            meant = [
                data_source
                for data_source in self.data_sources.values()
                if self.context.question.source in data_source.spec.question_sources
            ]
            data_source = meant[0] if meant else next(iter(self.data_sources.values()))
        else:
            data_source = self.data_sources[str(source)]
        if name is not None:
            return data_source, redact_known_secrets(str(name))
        names = find_series_names(data_source, self.context.question)
        if not names:
            message = f"{data_source.spec.name} has no series for this question; name one."
            raise ToolCallError(message)
        return data_source, names[0]

    def _describe_model(self, series: TimeSeries, source: ConfiguredDataSource) -> tuple[str, Json]:
        targets = self.context.question.targets
        days = {target.key: target.resolves_at.astimezone(UTC).date() for target in targets if target.resolves_at}
        if len(days) < len(targets):
            message = "The model cannot say anything: a date of the question is not known."
            raise ToolCallError(message)
        today = self.context.data_before.astimezone(UTC).date()
        try:
            made = estimate_exceedance(series, list(days.values()), model=source.spec.model, today=today)
        except ValueError as error:
            message = f"The model cannot say anything: {error}."
            raise ToolCallError(message) from error
        lines = [
            f"{day.isoformat()}: {estimate.probability:.3f} ({_describe_estimates(estimate, source.spec.model)})"
            for day, estimate in zip(days.values(), made, strict=True)
        ]
        last = f"{_format_number(series.values[-1])} on {series.dates[-1]}"
        head = f"Probability of a value above the last known one ({last}):"
        probabilities: Json = {key: estimate.probability for key, estimate in zip(days, made, strict=True)}
        return "\n".join((head, *lines)), probabilities


async def fetch_series(
    source: ConfiguredDataSource, name: str, context: ToolContext, trace: ToolCallTrace
) -> ClampedSeries:
    """Return a series as known at the cutoff, later points dropped; raises ToolCallError."""

    async def make() -> object:
        return SERIES_SERIALIZER.plain(await source.source.series(name, before=context.data_before))

    asked = {"source": source.spec.name, "name": name, "before": context.data_before.isoformat()}
    try:
        reply = await trace.replay_or_run(
            "series", asked, lambda: run_with_timeout(SERIES_TIMEOUT_S, source.spec.name, make())
        )
    except StoreError:
        raise
    except FoxcastError as error:
        message = f"{source.spec.name} gave no series of that name: {describe_failure(error)}."
        raise ToolCallError(message) from error
    return clamp_series(SERIES_SERIALIZER.value(reply.value), context.guards.cutoff)


def find_series_names(source: ConfiguredDataSource, question: Question) -> Sequence[str]:
    """Return the names of the question's series, none if the source fails to say."""
    try:
        return [str(name) for name in source.source.series_names(question)]
    except Exception:  # noqa: BLE001 - foreign code that must not stop a trial; without a name it is not used
        return []


def format_series(series: TimeSeries) -> str:
    """Return a series as text: its description, the last points in full, and older ones thinned out evenly."""
    count = len(series.dates)
    older = range(0, max(0, count - RECENT_POINTS), max(1, -(-(count - RECENT_POINTS) // OLDER_POINTS)))
    places = [*older, *range(max(0, count - RECENT_POINTS), count)]
    unit = f", in {series.unit}" if series.unit else ""
    head = f"{series.name} ({series.source}{unit}): {count} points from {series.dates[0]} to {series.dates[-1]}"
    if len(places) < count:
        head += f"; the last {RECENT_POINTS} in full, of those before one in {older.step}"
    rows = (f"{series.dates[place]},{_format_number(series.values[place])}" for place in places)
    return "\n".join((head, "date,value", *rows))


def summarize_series(series: TimeSeries) -> dict[str, Json]:
    """Return the facts about a series that code needs."""
    return {
        "name": series.name,
        "source": series.source,
        "unit": series.unit,
        "points": len(series.dates),
        "last": [series.dates[-1].isoformat(), series.values[-1]] if series.dates else None,
    }


def _describe_estimates(estimate: SeriesEstimate, model: SeriesModel) -> str:
    """Return the estimates behind a probability; for prices the season does not count."""
    if not model.shows_season:
        return f"line {estimate.trend:.3f}"
    parts = {"season": estimate.season, "line": estimate.trend, "line and earlier years": estimate.mixed}
    return ", ".join(f"{name} {value:.3f}" for name, value in parts.items())


def _format_number(value: float) -> str:
    return f"{value:.10g}"


def _parse_day(text: Json) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(str(text))
    except ValueError as error:
        message = "until is not a day of the form YYYY-MM-DD."
        raise ToolCallError(message) from error


MARKET_HISTORY = "market_history"


@dataclass(frozen=True, slots=True)
class MarketHistoryTool:
    """Reads the prices of the question from the source that serves its venue or source."""

    context: ToolContext
    data_source: ConfiguredDataSource

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            MARKET_HISTORY, "The past prices of the market that the question is about, up to the cutoff."
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        names = find_series_names(self.data_source, self.context.question)
        if not names:
            message = "There are no prices of this question."
            raise ToolCallError(message)
        clamped = await fetch_series(self.data_source, names[0], self.context, trace)
        caught = FilterCounts(clamped=clamped.beyond)
        if not clamped.series.values:
            message = "No price is known from before the cutoff."
            raise ToolCallError(message, caught=caught)
        parts = (
            caught.describe("prices").capitalize(),
            self.context.fence(format_series(clamped.series), "prices", 20_000),
        )
        source = ShownSource(name="prices", text=self.context.clean(format_series(clamped.series), 20_000))
        return ToolOutcome(
            text="\n".join(filter(None, parts)),
            data=summarize_series(clamped.series),
            sources=(source,),
            note=ToolCallNote(caught=caught),
        )


def find_price_source(
    question: Question, data_sources: Mapping[str, ConfiguredDataSource]
) -> ConfiguredDataSource | None:
    """Return the source of prices for the question, by its venue or its source."""
    served = {question.ref.venue, question.source}
    return next((source for source in data_sources.values() if served & source.spec.question_sources), None)
