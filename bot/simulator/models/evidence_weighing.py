"""How a simulated model weighs what it read.

Readings of log-odds with an error that grows with age, pooled by precision, and forecasts of time series.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from statistics import NormalDist, fmean, median

from bot.core.light_dataclass import dataclass
from bot.simulator.models.prompt_reading import (
    WRITTEN_DATE,
    PromptQuestion,
    PromptSource,
    PromptTable,
    parse_probability,
)
from bot.simulator.world.news_language import find_claims, find_figures

# Below this (a t statistic) a value is taken to revert to its mean. Source: Dickey and Fuller 1979, 5 % without trend.
MEAN_REVERSION_T = -2.86


_STANDARD = NormalDist()


_OR_LESS = re.compile(r"^(-?[\d,.]+) or (?:less|lower|below)$")


_BETWEEN = re.compile(r"^(-?[\d,.]+) to (-?[\d,.]+)$")


_MORE = re.compile(r"^(?:more than|above) (-?[\d,.]+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesForecast:
    """The last value with its day, and how it moves: ``step`` is the daily deviation and ``drift`` the daily shift.

    With a ``pull`` above 0 a value moves towards ``centre`` by that share of the distance each day.
    """

    day: date
    value: float
    step: float
    drift: float = 0.0
    pull: float = 0.0
    centre: float = 0.0

    def distribution(self, until: date) -> NormalDist:
        """Return the law of the value on a day."""
        days = max(0.25, float((until - self.day).days))
        if self.pull <= 0.0:
            return NormalDist(self.value + self.drift * days, self.step * math.sqrt(days))
        kept = math.exp(-self.pull * days)
        spread = self.step * math.sqrt(-math.expm1(-2.0 * self.pull * days) / (2.0 * self.pull))
        return NormalDist(self.centre + (self.value - self.centre) * kept, spread)

    def above(self, level: float, until: date) -> float:
        """Return the probability of more than a level on a day."""
        return 1.0 - self.distribution(until).cdf(level)

    def reached(self, level: float, days: float) -> float:
        """Return the probability that a level is reached from below within so many days (Bachelier-Levy)."""
        distance = level - self.value
        if distance <= 0.0:
            return 1.0
        if days <= 0.0:
            return 0.0
        spread = self.step * math.sqrt(days)
        mirrored = _STANDARD.cdf((-distance - self.drift * days) / spread)
        weight = min(700.0, 2.0 * self.drift * distance / self.step**2)
        return min(1.0, _STANDARD.cdf((self.drift * days - distance) / spread) + math.exp(weight) * mirrored)

    def days_to(self, level: float, probability: float, max_days: float) -> float:
        """Return after how many days a level is reached with a probability, ``most`` where that takes longer."""
        if self.reached(level, max_days) <= probability:
            return max_days
        low, high = 0.0, max_days
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.reached(level, middle) > probability else (middle, high)
        return high

    def interval_probability(self, option: str, until: date) -> float | None:
        """Return the probability of an option that is a range of values; None for any other."""
        law = self.distribution(until)
        if found := _OR_LESS.match(option):
            return law.cdf(_parse_number(found[1]))
        if found := _MORE.match(option):
            return 1.0 - law.cdf(_parse_number(found[1]))
        if found := _BETWEEN.match(option):
            return law.cdf(_parse_number(found[2])) - law.cdf(_parse_number(found[1]))
        return None


def forecast_rows(rows: Sequence[tuple[date, float]]) -> SeriesForecast | None:
    """Return the expected course of a series; None where it is too short, or never moves."""
    moves = [
        (float((after[0] - before[0]).days), before[1], after[1] - before[1])
        for before, after in pairwise(rows)
        if after[0] > before[0]
    ]
    if len(moves) < 2:
        return None
    day, value = rows[-1]
    step = math.sqrt(fmean(move**2 / days for days, _, move in moves))
    if not (math.isfinite(step) and step > 0.0):
        return None
    if (drawn := _fit_mean_reversion(moves)) is not None:
        pull, centre, noise = drawn
        return SeriesForecast(day=day, value=value, step=noise, pull=pull, centre=centre)
    span = math.fsum(days for days, _, _ in moves)
    drift, doubt = (value - rows[0][1]) / span, step / math.sqrt(span)
    return SeriesForecast(day=day, value=value, step=step, drift=drift * drift**2 / (drift**2 + doubt**2))


def _fit_mean_reversion(moves: Sequence[tuple[float, float, float]]) -> tuple[float, float, float] | None:
    """Return pull, centre and daily noise where daily moves go against the distance to a centre, else None."""
    daily = [(at, move) for days, at, move in moves if days == 1.0]
    if len(daily) < 40:
        return None
    mean_at, mean_move = fmean(at for at, _ in daily), fmean(move for _, move in daily)
    spread = math.fsum((at - mean_at) ** 2 for at, _ in daily)
    if spread <= 0.0:
        return None
    slope = math.fsum((at - mean_at) * (move - mean_move) for at, move in daily) / spread
    rest = math.fsum((move - mean_move - slope * (at - mean_at)) ** 2 for at, move in daily) / (len(daily) - 2)
    if rest <= 0.0 or slope / math.sqrt(rest / spread) > MEAN_REVERSION_T or slope <= -1.0:
        return None
    return -math.log1p(slope), mean_at - mean_move / slope, math.sqrt(rest)


def _parse_number(text: str) -> float:
    return float(text.replace(",", ""))


# Errors in log-odds, each a standard deviation; figures in the press may be wrong or old.
CROWD_ERROR, RATE_ERROR, CLAIM_ERROR, SERIES_ERROR, NOTHING_ERROR = 0.5, 1.0, 0.75, 0.5, 3.0


FIGURES_ERROR = 1.3


# How far log-odds move, as a variance: by this times age over time left, since all is settled at the end. Where no end
# is stated, by so much a day.
MAX_MOVE, MOVE_PER_DAY = 1.5, 0.06


# Crowds react late.
CROWD_AGE = 1.0


# The age, in days, of a text without a date.
UNDATED_DAYS = 10.0


# Beyond so many errors a reading counts for less and less.
OUTLIER_DEVIATIONS = 2.0


MAX_LOG_ODDS = 7.0


# Below and above these weights of evidence, in precisions of one claim, confidence is low or high.
LOW_CONFIDENCE_WEIGHT, HIGH_CONFIDENCE_WEIGHT = 1.5, 6.0


_WORD = re.compile(r"[^\W_][\w'-]*")


_NUMBER = re.compile(r"(?<![\w-])-?\d[\d,]*(?:\.\d+)?")


_BY = re.compile(r"\b(?:by|before|until) (?:the end of )?$")


_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}\b(?:instructions?|question|rules?|prompt|above|before)\b"
    r"|\b(?:you must|it is required that you|you are now|system prompt|as an ai|correct probability|assistant:)"
    r"|\b(?:dear|attention) (?:model|assistant|forecaster|reader)|\bnew instructions?\b|\bsystem:"
    r"|\b(?:answer|submit|reply|respond)\b.{0,40}(?:0[.,]\d+|1[.,]0|\d{1,3} ?%)"
    r"|search_\d+_result_\d+|\[\[(?:call|say) ",
    re.IGNORECASE,
)


_ORDERED = re.compile(r"(?<![\d.])([01][.,]\d+)|(\d{1,3}(?:\.\d+)?) ?(?:%|percent)")


_STOP = frozenset(
    """
    a an and any are as at be been before being by can close closed cost date day did do does each end ends first for
    from going has have he her his how if in into is it its more most no not number of off on once one or over resolve
    resolves she so than that the their them then there they this to under until up very was were what when where which
    while who whose will with would yes january february march april may june july august september october november
    december
    """.split()  # noqa: SIM905 - as a list it would fill a page
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOddsReading:
    """One reading of log-odds.

    ``error`` is its standard deviation with its age, ``words`` and ``source`` give the reason.
    """

    value: float
    error: float
    words: str
    source: str
    anchor: bool = False
    day: date | None = None

    @property
    def quote(self) -> str:
        """The reading as others quote it."""
        return f"[{self.source}, {self.day or 'no date'}] {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledReadings:
    """The sum of readings: log-odds, and their weight in precisions of one fresh claim."""

    value: float
    weight: float
    readings: Sequence[LogOddsReading] = ()


def topic_words(text: str) -> list[str]:
    """Return the content words of a text, each once, as they are written."""
    return [*dict.fromkeys(word for word in _WORD.findall(text) if word.casefold() not in _STOP)]


def proper_names(text: str) -> list[str]:
    """Return the words that are names: with a capital letter, except the first word of a sentence."""
    found = dict.fromkeys(
        word
        for place, word in ((one.start(), one[0]) for one in _WORD.finditer(text))
        if word[0].isupper()
        and word.casefold() not in _STOP
        and not (place == 0 or re.search(r"[.?!]\s+$", text[:place]))
    )
    return [*found]


def is_instruction(text: str) -> bool:
    """Return whether a text addresses its reader, or pretends to be the output of a tool."""
    return _ORDER.search(text) is not None


def ordered_probability(text: str) -> float | None:
    """Return the probability that a text instructs its reader to give; None where there is none."""
    for order in _ORDER.finditer(text):
        found = _ORDERED.search(text[order.start() : order.end() + 80])
        if found is not None:
            value = float(found[1].replace(",", ".")) if found[1] else float(found[2]) / 100.0
            return min(1.0, value)
    return None


def relevance(task: PromptQuestion, text: str) -> float:
    """Return which share of the names in a question a text contains, or of its other words where there are no names.

    A text that names an option is about the question as well.
    """
    wanted = proper_names(task.title) or topic_words(task.title)
    lowered = text.casefold()
    if any(proper_names(f"The {option}") and option.casefold() in lowered for option in task.options):
        return 1.0
    return sum(word.casefold() in lowered for word in wanted) / len(wanted) if wanted else 0.0


def press_readings(
    task: PromptQuestion, sources: Sequence[PromptSource], *, option: str = ""
) -> Iterator[LogOddsReading]:
    """Yield the press's claims about the event, or about an option; a source with instructions is not believed."""
    counted_sentences: set[str] = set()
    for source in sources:
        if is_instruction(f"{source.title}\n{source.text}"):
            continue
        about = relevance(task, f"{source.title} {source.text}")
        for claim in find_claims(source.text):
            sentence = re.sub(r"^\[[^\]]*\] ?", "", claim.sentence).strip()
            fits = (
                _mentioned_option(sentence, task.options) == option if task.options else _has_same_terms(task, sentence)
            )
            if (about < 0.5 and not source.is_quoted) or not fits or sentence in counted_sentences:
                continue
            counted_sentences.add(sentence)
            error = error_at_age(CLAIM_ERROR, _age_days(task, source.day), _days_left(task))
            yield LogOddsReading(value=claim.strength, error=error, words=sentence, source=source.name, day=source.day)


def pool_readings(readings: Sequence[LogOddsReading]) -> PooledReadings:
    """Return the mean of readings by precision; those far from it count for less, in three rounds."""
    if not readings:
        return PooledReadings(value=0.0, weight=0.0)
    weights = [1.0 / one.error**2 for one in readings]
    value = 0.0
    for _ in range(3):
        value = math.fsum(w * one.value for w, one in zip(weights, readings, strict=True)) / math.fsum(weights)
        weights = [
            1.0 / one.error**2 / (1.0 + (max(0.0, abs(one.value - value) / one.error - OUTLIER_DEVIATIONS)) ** 2)
            for one in readings
        ]
    believed = math.fsum(weight for weight, one in zip(weights, readings, strict=True) if not one.anchor)
    return PooledReadings(value=value, weight=believed * CLAIM_ERROR**2, readings=readings)


def starting_readings(
    task: PromptQuestion, tables: Sequence[PromptTable], *, option: str = ""
) -> Iterator[LogOddsReading]:
    """Yield the prior of a belief: the crowd's price, a base rate, or next to nothing."""
    even = -math.log(len(task.options) - 1.0) if len(task.options) > 2 else 0.0
    yield LogOddsReading(
        value=even, error=NOTHING_ERROR, words="Nothing else is known.", source="even odds", anchor=True
    )
    price = parse_probability(task.crowd.get(option, ""))
    paid = [table.rows[-1][1] for table in tables if table.label == "prices" and not task.options]
    if price is None and paid and 0.0 <= paid[-1] <= 1.0:
        price = paid[-1]
    if price is not None:
        words, error = f"The crowd says {price:.0%}.", error_at_age(CROWD_ERROR, CROWD_AGE, _days_left(task))
        yield LogOddsReading(value=log_odds(price), error=error, words=words, source="the crowd", anchor=True)
    elif task.rate is not None and not option:
        words = f"Such questions came true in {task.rate:.1%} of cases."
        yield LogOddsReading(
            value=log_odds(task.rate), error=RATE_ERROR, words=words, source="the base rate", anchor=True
        )


def error_at_age(error: float, age: float, left: float | None) -> float:
    """Return the error of a reading of that age in days, with that many days left to the end where that is stated."""
    moved = MOVE_PER_DAY * age if left is None else MAX_MOVE * age / max(0.5, left)
    return math.sqrt(error**2 + moved)


def forecast_series(
    task: PromptQuestion, tables: Sequence[PromptTable], sources: Sequence[PromptSource]
) -> SeriesForecast | None:
    """Return the expected course of the measured value: by its series, else from the last figure in the press."""
    series = [table for table in tables if table.label != "prices"]
    if series:
        return forecast_rows(series[-1].rows)
    points = sorted(
        (source.day, figure.value)
        for source in sources
        if source.day and not is_instruction(source.text) and relevance(task, f"{source.title} {source.text}") >= 0.5
        for figure in find_figures(source.text)
    )
    if len(points) < 3:
        return None
    middle = median(value for _, value in points)
    median_distance = median(abs(value - middle) for _, value in points)
    kept = [(day, value) for day, value in points if abs(value - middle) <= 5.0 * median_distance]
    return forecast_rows(kept)


def threshold_level(task: PromptQuestion) -> float | None:
    """Return the level that a value must pass by the criteria, or by the title; None where no number is stated.

    Where one value must exceed another the level is zero.
    """
    for text in (task.criteria, task.title):
        found = _NUMBER.findall(WRITTEN_DATE.sub(" ", text))
        if found:
            return float(found[0].replace(",", ""))
    leads = re.search(r"\blead of\b|\bless that of\b", task.background)
    return 0.0 if leads else None


def log_odds(probability: float) -> float:
    """Return log-odds, no farther than FARTHEST."""
    low = 1.0 / (1.0 + math.exp(MAX_LOG_ODDS))
    held = min(1.0 - low, max(low, probability))
    return math.log(held / (1.0 - held))


def from_log_odds(log_odds: float) -> float:
    """Return a probability."""
    held = max(-40.0, min(40.0, log_odds))
    return 1.0 / (1.0 + math.exp(-held))


def normalized_probabilities(log_odds: Mapping[str, float]) -> Mapping[str, float]:
    """Return probabilities that sum to one from the log-odds of each option."""
    raw = {option: from_log_odds(value) for option, value in log_odds.items()}
    whole = math.fsum(raw.values())
    return {option: value / whole for option, value in raw.items()}


def _age_days(task: PromptQuestion, day: date | None) -> float:
    if task.cutoff is None or day is None:
        return UNDATED_DAYS
    return max(0.0, float((task.cutoff - day).days))


def _days_left(task: PromptQuestion) -> float | None:
    days = [day for day in task.targets.values() if day is not None]
    return float((max(days) - task.cutoff).days) if days and task.cutoff else None


def _has_same_terms(task: PromptQuestion, sentence: str) -> bool:
    """Return whether the days and levels in a claim are those of the question: similar questions have others."""
    for found in WRITTEN_DATE.finditer(sentence):
        if _BY.search(sentence[: found.start()]) and found[1] not in task.text:
            return False
    numbers = _NUMBER.findall(WRITTEN_DATE.sub(" ", sentence))
    return all(number in task.text for number in numbers)


def _mentioned_option(sentence: str, options: Sequence[str]) -> str | None:
    lowered = sentence.casefold()
    named = [option for option in sorted(options, key=len, reverse=True) if option.casefold() in lowered]
    # "The Reds" is also in "The Reds of the North": the longest match counts; two that differ decide nothing.
    return named[0] if named and all(other in named[0] for other in named[1:]) else None
