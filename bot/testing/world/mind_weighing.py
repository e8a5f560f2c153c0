"""How a simulated forecaster weighs what it read: noisy readings of log-odds, the older the less sure, pooled.

A claim of the press, a crowd's price and what a series lets expect are each a reading of the same log-odds with an
error; what is read moves on with the days. Their mean, weighted by precision and held against outliers, is the belief.
All numbers here are this reader's habits of mind, not the world's.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from bot.testing.world.language import figures, heard
from bot.testing.world.mind_reading import WRITTEN_DATE, Source, Table, Task, share
from bot.testing.world.mind_series import Outlook, outlook_of

# Errors in log-odds, each a standard deviation; figures that the press tells may be wrong or old.
CROWD_ERROR, RATE_ERROR, CLAIM_ERROR, SERIES_ERROR, NOTHING_ERROR = 0.5, 1.0, 0.75, 0.5, 3.0
FIGURES_ERROR = 1.3
# How far log-odds move, as a variance: by this times age over time left, since all is settled at the end. Where no end
# is told, by so much a day.
MOVES, MOVES_A_DAY = 1.5, 0.06
# Crowds hear of things late.
CROWD_AGE = 1.0
# The age, in days, of what carries no date.
UNDATED_DAYS = 10.0
# Beyond so many errors a reading counts for less and less.
OUTLYING = 2.0
FARTHEST = 7.0
# Under and above these weights of evidence, in precisions of one claim, somebody is unsure or sure.
UNSURE, SURE = 1.5, 6.0

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
class Reading:
    """One reading of log-odds; ``error`` is its standard deviation with its age, ``words`` and ``source`` say why."""

    value: float
    error: float
    words: str
    source: str
    anchor: bool = False
    day: date | None = None

    @property
    def quote(self) -> str:
        """It as it is quoted to others."""
        return f"[{self.source}, {self.day or 'no date'}] {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """What readings amount to: log-odds, and their weight in precisions of one fresh claim."""

    value: float
    weight: float
    readings: Sequence[Reading] = ()


def words_of(text: str) -> list[str]:
    """Return the words of a text that say what it is about, each once, as they are written."""
    return [*dict.fromkeys(word for word in _WORD.findall(text) if word.casefold() not in _STOP)]


def names_of(text: str) -> list[str]:
    """Return the words that are names: with a capital letter, but for the first word of a sentence."""
    found = dict.fromkeys(
        word
        for place, word in ((one.start(), one[0]) for one in _WORD.finditer(text))
        if word[0].isupper()
        and word.casefold() not in _STOP
        and not (place == 0 or re.search(r"[.?!]\s+$", text[:place]))
    )
    return [*found]


def is_order(text: str) -> bool:
    """Return whether a text speaks to its reader, or pretends to be what a tool says."""
    return _ORDER.search(text) is not None


def ordered(text: str) -> float | None:
    """Return the probability that a text orders its reader to give; None where it orders none."""
    for order in _ORDER.finditer(text):
        found = _ORDERED.search(text[order.start() : order.end() + 80])
        if found is not None:
            value = float(found[1].replace(",", ".")) if found[1] else float(found[2]) / 100.0
            return min(1.0, value)
    return None


def bearing(task: Task, text: str) -> float:
    """Return which share of the names in a question a text holds, or of its other words where it names nobody.

    A text that names an option bears on the question as well.
    """
    wanted = names_of(task.title) or words_of(task.title)
    lowered = text.casefold()
    if any(names_of(f"The {option}") and option.casefold() in lowered for option in task.options):
        return 1.0
    return sum(word.casefold() in lowered for word in wanted) / len(wanted) if wanted else 0.0


def readings_of(task: Task, sources: Sequence[Source], *, option: str = "") -> Iterator[Reading]:
    """Yield what the press claims of the event, or of an option; a source that gives orders is not believed."""
    told: set[str] = set()
    for source in sources:
        if is_order(f"{source.title}\n{source.text}"):
            continue
        about = bearing(task, f"{source.title} {source.text}")
        for claim in heard(source.text):
            sentence = re.sub(r"^\[[^\]]*\] ?", "", claim.sentence).strip()
            fits = _option_in(sentence, task.options) == option if task.options else _same_terms(task, sentence)
            if (about < 0.5 and not source.vouched) or not fits or sentence in told:
                continue
            told.add(sentence)
            error = aged(CLAIM_ERROR, _age(task, source.day), _days_left(task))
            yield Reading(value=claim.strength, error=error, words=sentence, source=source.name, day=source.day)


def pooled(readings: Sequence[Reading]) -> Pooled:
    """Return the mean of readings by precision; those far from it count for less, in three rounds."""
    if not readings:
        return Pooled(value=0.0, weight=0.0)
    weights = [1.0 / one.error**2 for one in readings]
    value = 0.0
    for _ in range(3):
        value = math.fsum(w * one.value for w, one in zip(weights, readings, strict=True)) / math.fsum(weights)
        weights = [
            1.0 / one.error**2 / (1.0 + (max(0.0, abs(one.value - value) / one.error - OUTLYING)) ** 2)
            for one in readings
        ]
    believed = math.fsum(weight for weight, one in zip(weights, readings, strict=True) if not one.anchor)
    return Pooled(value=value, weight=believed * CLAIM_ERROR**2, readings=readings)


def anchors(task: Task, tables: Sequence[Table], *, option: str = "") -> Iterator[Reading]:
    """Yield where a belief starts: the crowd's price, a base rate, or next to nothing."""
    even = -math.log(len(task.options) - 1.0) if len(task.options) > 2 else 0.0
    yield Reading(value=even, error=NOTHING_ERROR, words="Nothing else is known.", source="even odds", anchor=True)
    price = share(task.crowd.get(option, ""))
    paid = [table.rows[-1][1] for table in tables if table.label == "prices" and not task.options]
    if price is None and paid and 0.0 <= paid[-1] <= 1.0:
        price = paid[-1]
    if price is not None:
        said, error = f"The crowd says {price:.0%}.", aged(CROWD_ERROR, CROWD_AGE, _days_left(task))
        yield Reading(value=logit(price), error=error, words=said, source="the crowd", anchor=True)
    elif task.rate is not None and not option:
        said = f"Such questions came true in {task.rate:.1%} of cases."
        yield Reading(value=logit(task.rate), error=RATE_ERROR, words=said, source="the base rate", anchor=True)


def aged(error: float, age: float, left: float | None) -> float:
    """Return the error of a reading that is so many days old, with so many days left to the end where that is told."""
    moved = MOVES_A_DAY * age if left is None else MOVES * age / max(0.5, left)
    return math.sqrt(error**2 + moved)


def outlook(task: Task, tables: Sequence[Table], sources: Sequence[Source]) -> Outlook | None:
    """Return where the measured value goes from here: by its series, else from the last figure in the press."""
    series = [table for table in tables if table.label != "prices"]
    if series:
        return outlook_of(series[-1].rows)
    told = sorted(
        (source.day, figure.value)
        for source in sources
        if source.day and not is_order(source.text) and bearing(task, f"{source.title} {source.text}") >= 0.5
        for figure in figures(source.text)
    )
    if len(told) < 3:
        return None
    middle = median(value for _, value in told)
    usual = median(abs(value - middle) for _, value in told)
    kept = [(day, value) for day, value in told if abs(value - middle) <= 5.0 * usual]
    return outlook_of(kept)


def level_of(task: Task) -> float | None:
    """Return the level that a value must pass by the criteria, or by the title; None where no number is told.

    Where one is to lead another the level is zero.
    """
    for text in (task.criteria, task.title):
        found = _NUMBER.findall(WRITTEN_DATE.sub(" ", text))
        if found:
            return float(found[0].replace(",", ""))
    leads = re.search(r"\blead of\b|\bless that of\b", task.background)
    return 0.0 if leads else None


def logit(probability: float) -> float:
    """Return log-odds, no farther than FARTHEST."""
    low = 1.0 / (1.0 + math.exp(FARTHEST))
    held = min(1.0 - low, max(low, probability))
    return math.log(held / (1.0 - held))


def expit(log_odds: float) -> float:
    """Return a probability."""
    held = max(-40.0, min(40.0, log_odds))
    return 1.0 / (1.0 + math.exp(-held))


def shares_of(log_odds: Mapping[str, float]) -> Mapping[str, float]:
    """Return probabilities that sum to one from the log-odds of each option."""
    raw = {option: expit(value) for option, value in log_odds.items()}
    whole = math.fsum(raw.values())
    return {option: value / whole for option, value in raw.items()}


def _age(task: Task, day: date | None) -> float:
    if task.cutoff is None or day is None:
        return UNDATED_DAYS
    return max(0.0, float((task.cutoff - day).days))


def _days_left(task: Task) -> float | None:
    days = [day for day in task.targets.values() if day is not None]
    return float((max(days) - task.cutoff).days) if days and task.cutoff else None


def _same_terms(task: Task, sentence: str) -> bool:
    """Return whether the days and levels in a claim are those of the question: its neighbours have others."""
    for found in WRITTEN_DATE.finditer(sentence):
        if _BY.search(sentence[: found.start()]) and found[1] not in task.text:
            return False
    numbers = _NUMBER.findall(WRITTEN_DATE.sub(" ", sentence))
    return all(number in task.text for number in numbers)


def _option_in(sentence: str, options: Sequence[str]) -> str | None:
    lowered = sentence.casefold()
    named = [option for option in sorted(options, key=len, reverse=True) if option.casefold() in lowered]
    # "The Reds" is also in "The Reds of the North": the longest counts; two that differ say nothing of either.
    return named[0] if named and all(other in named[0] for other in named[1:]) else None
