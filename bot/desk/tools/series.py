"""Time series as they were known at the cutoff: their values, what a simple model makes of them, and both in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from enum import StrEnum

from bot.desk.leaks.caught import Caught
from bot.desk.leaks.clamp import Clamped, clamp
from bot.desk.notebook import Note
from bot.desk.parts import Gauge
from bot.desk.take import Take, within
from bot.desk.tools.scene import Scene
from bot.desk.tools.series_models import Estimate, estimates
from bot.desk.tools.tool import Cannot, Outcome, described, reason, text_of
from bot.domain.prompt import Tool
from bot.domain.question import Question
from bot.domain.research import Series, SeriesModel
from bot.domain.step import Json
from bot.errors import FoxcastError, StoreError
from bot.store.codec import Form

SERIES_S = 30.0
RECENT = 60
OLDER = 60
SERIES: Form[Series] = Form("series", Series)


class Reading(StrEnum):
    """What is told of a series."""

    HISTORY = "series_history"
    MODEL = "series_model"
    COMBO = "series_combo"


_SAYS = {
    Reading.HISTORY: "The values of a time series up to the cutoff.",
    Reading.MODEL: "The probability, by a simple model of the series, that its value rises above the last known one, "
    "for each date of the question.",
    Reading.COMBO: "The values of a time series up to the cutoff, and the probability, by a simple model of it, that "
    "its value rises above the last known one, for each date of the question.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTool:
    """Reads a series from one of the gauges, in one of the ways of reading."""

    reading: Reading
    scene: Scene
    gauges: Mapping[str, Gauge]

    @property
    def tool(self) -> Tool:
        return described(
            str(self.reading),
            f"{_SAYS[self.reading]} Without arguments: the series that the question is about.",
            {
                "source": {"type": "string", "enum": list(self.gauges), "description": "where the series is from"},
                "name": text_of("the name of the series there", 300),
                "until": text_of("the last day wanted, YYYY-MM-DD; never beyond the cutoff", 10),
            },
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        until = _day(arguments.get("until"))
        gauge, name = self._series_meant(arguments)
        clamped = await known_series(gauge, name, self.scene, take)
        caught = Caught(clamped=clamped.beyond)
        shown = clamp(clamped.series, None, until).series
        if not shown.values:
            message = f"{gauge.spec.name} knows no value of that series up to that day."
            raise Cannot(message, caught=caught)
        parts, data = [caught.says("points").capitalize()], summary_of(clamped.series)
        if self.reading is not Reading.MODEL:
            parts.append(self.scene.quoted(table_of(shown), f"series from {gauge.spec.name}", 20_000))
        if self.reading is not Reading.HISTORY:
            text, data["probabilities"] = self._model(clamped.series, gauge)
            parts.append(text)
        return Outcome(text="\n".join(filter(None, parts)), data=data, note=Note(caught=caught))

    def _series_meant(self, arguments: Mapping[str, Json]) -> tuple[Gauge, str]:
        source, name = arguments.get("source"), arguments.get("name")
        if source is None:
            meant = [gauge for gauge in self.gauges.values() if self.scene.question.source in gauge.spec.serves]
            gauge = meant[0] if meant else next(iter(self.gauges.values()))
        else:
            gauge = self.gauges[str(source)]
        if name is not None:
            return gauge, str(name)
        names = names_of(gauge, self.scene.question)
        if not names:
            message = f"{gauge.spec.name} has no series for this question; name one."
            raise Cannot(message)
        return gauge, names[0]

    def _model(self, series: Series, gauge: Gauge) -> tuple[str, Json]:
        targets = self.scene.question.targets
        days = {target.key: target.resolves_at.astimezone(UTC).date() for target in targets if target.resolves_at}
        if len(days) < len(targets):
            message = "The model cannot say anything: a date of the question is not known."
            raise Cannot(message)
        today = self.scene.bound.astimezone(UTC).date()
        try:
            made = estimates(series, list(days.values()), model=gauge.spec.model, today=today)
        except ValueError as error:
            message = f"The model cannot say anything: {error}."
            raise Cannot(message) from error
        lines = [
            f"{day.isoformat()}: {estimate.probability:.3f} ({_parts_of(estimate, gauge.spec.model)})"
            for day, estimate in zip(days.values(), made, strict=True)
        ]
        head = f"Probability of a value above the last known one ({_number(series.values[-1])} on {series.dates[-1]}):"
        probabilities: Json = {key: estimate.probability for key, estimate in zip(days, made, strict=True)}
        return "\n".join((head, *lines)), probabilities


async def known_series(gauge: Gauge, name: str, scene: Scene, take: Take) -> Clamped:
    """Return a series as known at the cutoff, points beyond it dropped; raises Cannot."""

    async def make() -> object:
        return SERIES.plain(await gauge.source.series(name, before=scene.bound))

    asked = {"source": gauge.spec.name, "name": name, "before": scene.bound.isoformat()}
    try:
        told = await take.through("series", asked, lambda: within(SERIES_S, gauge.spec.name, make()))
    except StoreError:
        raise
    except FoxcastError as error:
        message = f"{gauge.spec.name} gave no series of that name: {reason(error)}."
        raise Cannot(message) from error
    return clamp(SERIES.value(told.plain), scene.guards.cutoff)


def names_of(gauge: Gauge, question: Question) -> Sequence[str]:
    """Return the names of the question's series, none where the source fails to say."""
    try:
        return [str(name) for name in gauge.source.names(question)]
    except Exception:  # noqa: BLE001 - foreign code that must not stop a trial; without a name it is not used
        return []


def table_of(series: Series) -> str:
    """Return a series as text: what it is, the last points in full, and older ones thinned out evenly."""
    count = len(series.dates)
    older = range(0, max(0, count - RECENT), max(1, -(-(count - RECENT) // OLDER)))
    places = [*older, *range(max(0, count - RECENT), count)]
    unit = f", in {series.unit}" if series.unit else ""
    head = f"{series.name} ({series.source}{unit}): {count} points from {series.dates[0]} to {series.dates[-1]}"
    if len(places) < count:
        head += f"; the last {RECENT} in full, of those before one in {older.step}"
    rows = (f"{series.dates[place]},{_number(series.values[place])}" for place in places)
    return "\n".join((head, "date,value", *rows))


def summary_of(series: Series) -> dict[str, Json]:
    """Return what code needs to know of a series."""
    return {
        "name": series.name,
        "source": series.source,
        "unit": series.unit,
        "points": len(series.dates),
        "last": [series.dates[-1].isoformat(), series.values[-1]] if series.dates else None,
    }


def _parts_of(estimate: Estimate, model: SeriesModel) -> str:
    """Return the estimates from which a probability comes; of prices the season is none of them that counts."""
    if not model.shows_season:
        return f"line {estimate.trend:.3f}"
    parts = {"season": estimate.season, "line": estimate.trend, "line and earlier years": estimate.mixed}
    return ", ".join(f"{name} {value:.3f}" for name, value in parts.items())


def _number(value: float) -> str:
    return f"{value:.10g}"


def _day(text: Json) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(str(text))
    except ValueError as error:
        message = "until is not a day of the form YYYY-MM-DD."
        raise Cannot(message) from error
