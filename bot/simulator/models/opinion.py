"""What a simulated model believes about a question, computed from its conversation."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from statistics import NormalDist, fmean

from bot.core.light_dataclass import dataclass
from bot.simulator.models.evidence_weighing import (
    FIGURES_ERROR,
    HIGH_CONFIDENCE_WEIGHT,
    LOW_CONFIDENCE_WEIGHT,
    SERIES_ERROR,
    LogOddsReading,
    PooledReadings,
    SeriesForecast,
    forecast_series,
    from_log_odds,
    log_odds,
    normalized_probabilities,
    pool_readings,
    press_readings,
    starting_readings,
    threshold_level,
)
from bot.simulator.models.prompt_reading import (
    ChatMessage,
    PromptQuestion,
    PromptSource,
    PromptTable,
    first_iso_date,
    last_written_date,
    previous_moves,
    read_question,
    read_sources,
    read_tables,
)

MODEL_ERROR = 0.8
# Ranges in questions reach so many deviations to each side.
_REACH = 3.0
_QUARTILE_SPREAD = 2.563  # from the tenth to the ninetieth percentile of a normal law, in deviations
_MODEL_ROW = re.compile(r"^(\d{4}-\d{2}-\d{2}): ([01]\.\d+) \((?:season|line) ", re.MULTILINE)
_PASSAGE = re.compile(r"\bas soon as\b|\bfirst\b|\breach|\btouch|\bhit\b|day on which", re.IGNORECASE)
_BY_SERIES = re.compile(r"By the series so far it is (\d{1,3}(?:\.\d+)?)%")
_BELOW = re.compile(r"\b(?:below|under|less than|fewer than|lower than|falls? to)\b", re.IGNORECASE)
# Than on a day, not than a number, and not the end of a term.
_SINCE = re.compile(
    r"\b(?<!later )(?<!earlier )(?:than|since|compared (?:with|to)) (?:on |its value on )?"
    r"(?=\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d{2}|\{)",
    re.IGNORECASE,
)
_CONFIDENCES = ("low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class OpinionBias:
    """The bias of a belief: ``factor`` times the log-odds, then ``shift`` (a normal deviate times the noise)."""

    factor: float = 1.0
    shift: float = 0.0

    def log_odds(self, value: float) -> float:
        """Return log-odds with this bias."""
        return self.factor * value + self.shift


@dataclass(frozen=True, kw_only=True)
class SimulatedOpinion:
    """A belief from a conversation; computed on demand. ``forced`` is a probability from an obeyed instruction."""

    task: PromptQuestion
    sources: Sequence[PromptSource]
    tables: Sequence[PromptTable]
    tool_text: str = ""
    bias: OpinionBias = OpinionBias()
    forced: float | None = None
    _cache: dict[str, PooledReadings] = field(default_factory=dict, init=False, repr=False, compare=False)

    def probability_of(self, target: str = "") -> float:
        """Return the probability of yes on the day of a target."""
        if self.forced is not None:
            return self.forced
        return from_log_odds(self.bias.log_odds(self.pooled(target).value))

    def option_probabilities(self) -> Mapping[str, float]:
        """Return the probability of each option."""
        options = self.task.options
        if self.forced is not None and options:
            rest = (1.0 - self.forced) / max(1, len(options) - 1)
            return {option: self.forced if option == options[0] else rest for option in options}
        held = {option: log_odds(share) for option, share in self._plain_shares().items()}
        lean = {option: self.bias.shift * (1.0 if place % 2 else -1.0) for place, option in enumerate(options)}
        return normalized_probabilities(
            {option: self.bias.factor * value + lean[option] for option, value in held.items()}
        )

    def quantile(self, level: float, target: str = "") -> str | float:
        """Return the value, or the ISO date, below which the answer lies with a probability."""
        if _is_dated(self.task):
            return self._day_at(level, target)
        law = self._number_law(target)
        value = law.mean + law.stdev * (0.5 * self.bias.shift + NormalDist().inv_cdf(level) / self.bias.factor)
        return float(f"{_bound_to_range(self.task, value):.8g}")

    def pooled(self, target: str = "", option: str = "") -> PooledReadings:
        """Return the readings on yes, or on an option, and their sum."""
        key = f"{target}\x1f{option}"
        if key not in self._cache:
            self._cache[key] = pool_readings([*self._list_readings(target, option)])
        return self._cache[key]

    def claims(self) -> Iterator[tuple[LogOddsReading, bool]]:
        """Yield the readings, with whether each speaks for yes (for the likeliest option) more than the prior did."""
        first = next(iter(self.task.targets))
        shares = self._plain_shares() if self.task.options else {}
        option = max(shares, key=lambda one: shares[one]) if shares else ""
        found = self.pooled(first, option).readings
        start = pool_readings([one for one in found if one.anchor]).value
        for one in found:
            if not one.anchor:
                yield one, one.value > start

    @property
    def anchor(self) -> str:
        """The prior of the belief, in words."""
        found = [one.words for one in self.pooled(next(iter(self.task.targets)), self._some_option).readings]
        return found[1] if len(found) > 1 and found[1].startswith(("The crowd", "Such")) else found[0]

    @property
    def confidence(self) -> str:
        """Low, medium or high, by the weight of the readings."""
        weight = self.pooled(next(iter(self.task.targets)), self._some_option).weight
        return _CONFIDENCES[(weight >= LOW_CONFIDENCE_WEIGHT) + (weight >= HIGH_CONFIDENCE_WEIGHT)]

    @property
    def _some_option(self) -> str:
        return self.task.options[0] if self.task.options else ""

    @cached_property
    def _forecast_outlook(self) -> SeriesForecast | None:
        return forecast_series(self.task, self.tables, self.sources)

    def _list_readings(self, target: str, option: str) -> Iterator[LogOddsReading]:
        yield from starting_readings(self.task, self.tables, option=option)
        yield from self._series_readings(target, option)
        yield from press_readings(self.task, self.sources, option=option)

    def _series_readings(self, target: str, option: str) -> Iterator[LogOddsReading]:
        """Yield the forecasts from the series, and from a model of it."""
        until = self.task.targets.get(target)
        for row in _MODEL_ROW.finditer(self.tool_text):
            if until is not None and first_iso_date(row[1]) == until:
                words = f"A simple model says {row[2]} for {row[1]}."
                yield _probability_reading(float(row[2]), MODEL_ERROR, words, "series_model", seen=self)
        found = None if until is None else self._from_series(until, option)
        measured = any(table.label != "prices" for table in self.tables)
        if found is not None and measured:
            yield _probability_reading(
                found, SERIES_ERROR, f"By the series so far it is {found:.1%}.", "series_history", seen=self
            )
        elif (quoted := self._quoted_series()) is not None and not option:
            yield _probability_reading(
                quoted, SERIES_ERROR, f"By the series so far it is {quoted:.1%}.", "series_history", seen=self
            )
        elif found is not None:
            words = f"By figures in the press so far it is {found:.0%}."
            yield _probability_reading(found, FIGURES_ERROR, words, "figures in the press", seen=self)

    def _quoted_series(self) -> float | None:
        """Return the forecast from the series that others quote, for a question about one day."""
        quotes = [_BY_SERIES.search(one.text) for one in self.sources if one.is_quoted]
        values = [float(one[1]) / 100.0 for one in quotes if one]
        return values[-1] if values and len(self.task.targets) == 1 else None

    def _from_series(self, until: date, option: str) -> float | None:
        seen = self._forecast_outlook
        if seen is None:
            return None
        if option:
            return seen.interval_probability(option, until)
        level = self._target_level(relative=len(self.task.targets) > 1)
        if level is None:
            return None
        if _PASSAGE.search(self.task.criteria) and not _is_dated(self.task):
            return seen.reached(level, float((until - seen.day).days))
        above = seen.above(level, until)
        return 1.0 - above if _BELOW.search(self.task.title) else above

    def _target_level(self, *, relative: bool) -> float | None:
        since = _SINCE.search(self.task.title)
        if not (relative or since):
            return threshold_level(self.task)
        # Higher than before: on a stated day, or on the last known one.
        rows = self.tables[-1].rows if self.tables else ()
        day = last_written_date(self.task.title[since.end() :]) if since else None
        known = [value for at, value in rows if day is None or at <= day]
        return known[-1] if known else None

    def _plain_shares(self) -> Mapping[str, float]:
        target = next(iter(self.task.targets))
        return normalized_probabilities({option: self.pooled(target, option).value for option in self.task.options})

    def _number_law(self, target: str) -> NormalDist:
        """Return the expected number: the crowd's guess and the outlook, as far as they are known."""
        laws = [law for law in (_crowd_law(self.task), self._series_law(target)) if law is not None]
        if not laws:
            return _range_law(self.task)
        spread = math.sqrt(fmean(law.variance for law in laws))
        weights = [1.0 / max(law.variance, 1e-18) for law in laws]
        mean = math.fsum(w * law.mean for w, law in zip(weights, laws, strict=True)) / math.fsum(weights)
        return NormalDist(mean, max(spread, 1e-12))

    def _series_law(self, target: str) -> NormalDist | None:
        until = self.task.targets.get(target)
        if self._forecast_outlook is None or until is None:
            return None
        return self._forecast_outlook.distribution(until)

    def _day_at(self, level: float, target: str) -> str:
        """Return the day by which it has happened with a probability: the last one, or beyond it, where never."""
        begin = self.task.cutoff or first_iso_date(self.task.low) or date(1970, 1, 1)
        end = first_iso_date(self.task.high) or begin + timedelta(days=365)
        span = max(1.0, float((end - begin).days))
        passed = threshold_level(self.task)
        seen = self._forecast_outlook
        if self.forced is None and passed is not None and (day := self._first_at(passed)) is not None:
            return day.isoformat()
        if self.forced is None and seen is not None and passed is not None:
            days = seen.days_to(passed, level, span)
        else:
            # Only the odds that it happens at all are known: as likely on one day as on the next.
            days = span * min(1.0, level / max(0.02, self.probability_of(target)))
        late = timedelta(days=30.0 * level) if self.task.open_high and days >= span else timedelta()
        at = datetime(begin.year, begin.month, begin.day, tzinfo=UTC) + timedelta(days=days) + late
        return at.date().isoformat()

    def _first_at(self, level: float) -> date | None:
        """Return the first day on which the series was at a level, None where it was not."""
        rows = [row for table in self.tables if table.label != "prices" for row in table.rows]
        return next((day for day, value in rows if value >= level), None)


def form_opinion(messages: Sequence[ChatMessage], bent: OpinionBias, forced: float | None = None) -> SimulatedOpinion:
    """Return the belief from a conversation."""
    return SimulatedOpinion(
        task=read_question(messages),
        sources=read_sources(messages),
        tables=read_tables(messages),
        tool_text="\n".join(step.result for step in previous_moves(messages)),
        bias=bent,
        forced=forced,
    )


def _probability_reading(
    probability: float, error: float, words: str, source: str, *, seen: SimulatedOpinion
) -> LogOddsReading:
    # Series end in shocks that they do not show; nothing is nearly certain from them.
    held = max(-4.0, min(4.0, log_odds(probability)))
    return LogOddsReading(value=held, error=error, words=words, source=source, day=seen.task.cutoff)


def _is_dated(task: PromptQuestion) -> bool:
    return task.unit == "date" or first_iso_date(task.low) is not None


def _crowd_law(task: PromptQuestion) -> NormalDist | None:
    try:
        quantiles = {level: float(value) for level, value in task.crowd.items() if level.startswith("p")}
        spread = (quantiles["p90"] - quantiles["p10"]) / _QUARTILE_SPREAD
        return NormalDist(quantiles["p50"], spread) if spread > 0.0 else None
    except (KeyError, ValueError):
        return None


def _range_law(task: PromptQuestion) -> NormalDist:
    try:
        low, high = float(task.low), float(task.high)
    except ValueError:
        return NormalDist(0.0, 1.0)
    return NormalDist((low + high) / 2.0, max(1e-12, (high - low) / (2.0 * _REACH)))


def _bound_to_range(task: PromptQuestion, value: float) -> float:
    """Keep a value within a range whose end is closed."""
    try:
        low, high = float(task.low), float(task.high)
    except ValueError:
        return value
    reach = high - low
    return min(high + (reach if task.open_high else 0.0), max(low - reach, value))
