"""Question templates: a kind of question with its random walk and its texts, and the questions made of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.calendar import WorldCalendar
from bot.simulator.world.events import (
    ContestEvent,
    IntervalEvent,
    PassageEvent,
    ThresholdEvent,
    ValueEvent,
    passage_probability,
)
from bot.simulator.world.questions import AnswerKind, AnswerScale, QuestionEnding, SimulatedQuestion, UnderlyingEvent
from bot.simulator.world.random_walks import NormalLaw, RandomWalk
from bot.simulator.world.text_generation import capitalize_first, write_pattern

if TYPE_CHECKING:
    import numpy as np

# Days for which walks are known: a year, and the days beyond it that benchmarks ask about.
WALK_DAYS = 760.0
# The width of a range, in deviations of what was known at the beginning.
_REACH = 3.2
# How often another walk is tried where one has been too high before.
_ATTEMPTS = 40


class EventKind(StrEnum):
    """The kind of event."""

    ABOVE = "above"
    REACHED = "reached"
    BANDS = "bands"
    FIELD = "field"
    LEVEL = "level"


@dataclass(frozen=True, kw_only=True)
class WalkParameters:
    """How something moves: it starts between two values, with ``sigma`` per square root of a day.

    ``pull`` moves it back to its starting value; ``geometric`` motions are of the logarithm, with sigma relative.
    """

    starts: tuple[float, float]
    sigma: float
    pull: float = 0.0
    drift: float = 0.0
    geometric: bool = False

    def walk(self, name: str, chance: SeededRandom) -> RandomWalk:
        """Return the walk of that name."""
        low, high = self.starts
        start = float(chance.stream("start", name).uniform(low, high))
        start = math.log(start) if self.geometric else start
        drift = self.pull * start if self.pull else self.drift
        return RandomWalk(
            name=name, chance=chance, days=WALK_DAYS, start=start, sigma=self.sigma, drift=drift, pull=self.pull
        )


@dataclass(frozen=True, kw_only=True)
class PublishedSeries:
    """A published series: a walk with ``base`` subtracted, rounded to ``digits``."""

    name: str
    title: str
    unit: str
    digits: int
    walk: RandomWalk
    geometric: bool = False
    base: float = 0.0

    def value(self, day: float) -> float:
        """Return the published value of the day."""
        return round(self.shown(self.walk.at(day)), self.digits)

    def shown(self, value: float) -> float:
        """Return a value of the walk in the unit of the series."""
        return math.exp(value) if self.geometric else value - self.base


@dataclass(frozen=True, kw_only=True)
class QuestionTemplate:
    """A kind of question. Texts are written by the grammar, with the words of the cast and ``{level}``, ``{date}``.

    ``event_phrase`` is the event, or the measured quantity; ``options`` are of a choice (bands from below, or
    competitors), made of numbers where there are none. ``mark`` is the name of the level where only the distance to it
    counts. ``measure`` is the title of the series that shows the motion, "" where nothing is published. ``shock`` is
    the addition on the last day, in deviations of the motion. ``heading`` is the title of several such questions
    together: with ``{level}`` in ``label`` at several levels, with ``{date}`` on several days.
    """

    form: AnswerKind
    kind: EventKind
    walk: WalkParameters
    title: str
    background: str
    criteria: str
    event_phrase: str
    options: tuple[str, ...] = ()
    measure: str = ""
    unit: str = ""
    digits: int = 1
    mark: float | None = None
    shock: float = 0.0
    heading: str = ""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class QuestionSlot:
    """The venue and time of a question; ``until`` is the last day that counts."""

    key: str
    theme: str
    venue_kind: str
    opens: float
    closes: float
    until: float
    calendar: WorldCalendar
    chance: SeededRandom = field(repr=False)
    words: Mapping[str, str] = field(repr=False)
    fate: QuestionEnding = QuestionEnding.RESOLVED

    def stream(self, *labels: str) -> "np.random.Generator":
        """Return the random stream of this question for the labels."""
        return self.chance.stream(self.key, *labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDraft:
    """Questions, and their series."""

    questions: Sequence[SimulatedQuestion]
    series: Sequence[PublishedSeries]


def draft_questions(plot: QuestionTemplate, slot: QuestionSlot) -> QuestionDraft:
    """Return the questions of the plot: one, or a group where the plot has a heading."""
    if plot.kind is EventKind.FIELD:
        return QuestionDraft(questions=(_contest_question(plot, slot),), series=())
    walk = plot.walk.walk(f"{slot.theme} {slot.key}", slot.chance)
    match plot.kind:
        case EventKind.LEVEL:
            return _draft_single(
                plot, slot, walk, ValueEvent(walk=walk, until=slot.until, geometric=plot.walk.geometric)
            )
        case EventKind.BANDS:
            return _draft_single(plot, slot, walk, _interval_event(plot, slot, walk))
        case EventKind.ABOVE:
            event: ThresholdEvent | PassageEvent = _threshold_event(plot, slot, walk)
        case EventKind.REACHED:
            event = _passage_event(plot, slot)
    return _draft_group(plot, slot, event) if plot.heading else _draft_single(plot, slot, event.walk, event)


def published_series(
    plot: QuestionTemplate, slot: QuestionSlot, walk: RandomWalk, *, base: float = 0.0
) -> PublishedSeries:
    """Return the series that shows a walk."""
    return PublishedSeries(
        name=series_name(slot),
        title=write_pattern(plot.measure, slot.stream("measure"), slot.words),
        unit=plot.unit,
        digits=plot.digits,
        walk=walk,
        geometric=plot.walk.geometric,
        base=base,
    )


def series_name(slot: QuestionSlot) -> str:
    """Return the name under which a series is published; texts use it."""
    return f"SIM-{slot.theme[:4].upper()}-{slot.key.upper()}"


@dataclass(frozen=True, slots=True)
class QuestionTexts:
    """The texts of a question."""

    title: str
    background: str
    criteria: str


def write_texts(plot: QuestionTemplate, slot: QuestionSlot, more: Mapping[str, str]) -> QuestionTexts:
    """Return title, background and criteria, written; the same slot always gives the same texts."""
    words = {**slot.words, "date": _date_text(slot), "unit": plot.unit, **more}
    title, background, criteria = (
        capitalize_first(write_pattern(pattern, slot.stream(part), words))
        for part, pattern in (("title", plot.title), ("background", plot.background), ("criteria", plot.criteria))
    )
    if plot.measure:
        published = capitalize_first(write_pattern(plot.measure, slot.stream("measure"), slot.words))
        background = f"{background} {published} is published daily as series {series_name(slot)}."
    return QuestionTexts(title, background, criteria)


def format_number(value: float, digits: int) -> str:
    """Return a number as texts show it."""
    return f"{value:,.{digits}f}"


def _draft_single(
    plot: QuestionTemplate, slot: QuestionSlot, walk: RandomWalk, event: UnderlyingEvent
) -> QuestionDraft:
    base = _series_base(plot, event)
    words = {"level": _level_text(plot, event), "date": _date_text(slot)}
    name = write_pattern(plot.event_phrase, slot.stream("happening"), {**slot.words, **words})
    simulated = _make_question(
        plot,
        slot,
        event,
        write_texts(plot, slot, words),
        event_phrases={one: _interval_phrase(plot, one) for one in event.names}
        if isinstance(event, IntervalEvent)
        else {"": name},
        scale=_answer_scale(plot, slot, event),
        series=series_name(slot) if plot.measure else "",
    )
    return QuestionDraft(
        questions=(simulated,), series=(published_series(plot, slot, walk, base=base),) if plot.measure else ()
    )


def _make_question(
    plot: QuestionTemplate,
    slot: QuestionSlot,
    event: UnderlyingEvent,
    written: QuestionTexts,
    **more: Any,  # noqa: ANN401 - fields of SimulatedQuestion
) -> SimulatedQuestion:
    return SimulatedQuestion(
        key=slot.key,
        theme=slot.theme,
        venue_kind=slot.venue_kind,
        answer_kind=plot.form,
        event=event,
        title=written.title,
        background=written.background,
        criteria=written.criteria,
        opens=slot.opens,
        closes=slot.closes,
        resolves=slot.until + 1.0,
        ending=slot.fate,
        tags=(slot.theme,),
        **more,
    )


def _draft_group(plot: QuestionTemplate, slot: QuestionSlot, event: ThresholdEvent | PassageEvent) -> QuestionDraft:
    """Return three questions on one motion: at three levels, or by three days."""
    questions, law = [], event.walk.distribution(slot.opens, slot.until)
    for place, letter in enumerate("abc"):
        part = replace(slot, key=f"{slot.key}{letter}")
        if "{level}" in plot.label:
            moved = replace(event, level=_round_level(plot, event.level + (place - 1) * 0.6 * law.deviation))
        else:
            end = slot.opens + max(1.0, round((slot.until - slot.opens) * (0.5 + 0.25 * place)))
            moved = replace(event, until=min(end, slot.until))
            part = replace(part, until=moved.until, closes=min(slot.closes, moved.until))
        questions.append(_group_member(plot, slot, part, moved))
    return QuestionDraft(
        questions=questions, series=(published_series(plot, slot, event.walk, base=_series_base(plot, event)),)
    )


def _group_member(
    plot: QuestionTemplate, whole: QuestionSlot, part: QuestionSlot, event: ThresholdEvent | PassageEvent
) -> SimulatedQuestion:
    # The members of a group have the same wording: one slot writes them all.
    words = {"level": _level_text(plot, event), "date": _date_text(part), "unit": plot.unit}
    return _make_question(
        plot,
        part,
        event,
        write_texts(plot, whole, words),
        event_phrases={"": write_pattern(plot.event_phrase, whole.stream("happening"), {**whole.words, **words})},
        series=series_name(whole) if plot.measure else "",
        group=whole.key,
        group_title=capitalize_first(
            write_pattern(plot.heading, whole.stream("heading"), {**whole.words, **words, "date": _date_text(whole)})
        ),
        label=plot.label.format_map(words),
    )


def _contest_question(plot: QuestionTemplate, slot: QuestionSlot) -> SimulatedQuestion:
    names = [write_pattern(option, slot.stream("option"), slot.words) for option in plot.options]
    walks = {one: plot.walk.walk(f"{slot.theme} {slot.key} {one}", slot.chance) for one in names}
    deviation = next(iter(walks.values())).distribution(slot.opens, slot.until).deviation
    words_by_option = {one: {**slot.words, "option": one} for one in names}
    return _make_question(
        plot,
        slot,
        ContestEvent(walks=walks, until=slot.until, shock=plot.shock * deviation),
        write_texts(plot, slot, {"level": ""}),
        event_phrases={
            one: write_pattern(plot.event_phrase, slot.stream("happening"), words)
            for one, words in words_by_option.items()
        },
    )


def _threshold_event(plot: QuestionTemplate, slot: QuestionSlot, walk: RandomWalk) -> ThresholdEvent:
    law = walk.distribution(slot.opens, slot.until)
    shock = plot.shock * law.deviation
    lead = float(slot.stream("level").normal(0.0, 0.8))
    level = law.mean + lead * law.with_noise(shock).deviation
    return ThresholdEvent(walk=walk, until=slot.until, level=_round_level(plot, level), shock=shock)


def _passage_event(plot: QuestionTemplate, slot: QuestionSlot) -> PassageEvent:
    """Return a walk with a level that it has not reached before, and may reach.

    The choice of the walk and the level uses only values before the opening, so the law of what follows is unchanged.
    """
    wanted = float(slot.stream("level").uniform(0.12, 0.85))
    for attempt in range(_ATTEMPTS):
        walk = plot.walk.walk(f"{slot.theme} {slot.key} {attempt}", slot.chance)
        found = _reachable_level(plot, slot, walk, wanted)
        if found.probability(slot.opens) > 0.5 * wanted:
            break
    return found


def _reachable_level(plot: QuestionTemplate, slot: QuestionSlot, walk: RandomWalk, wanted: float) -> PassageEvent:
    """Return a level that is reached with about the requested probability, or with less if it was reached before."""
    here, law = walk.at(slot.opens), walk.distribution(slot.opens, slot.until)
    low, high = 0.0, abs(law.mean - here) + 4.0 * law.deviation
    for _ in range(30):
        middle = (low + high) / 2.0
        likely = passage_probability(walk, middle, slot.until - slot.opens) > wanted
        low, high = (middle, high) if likely else (low, middle)
    step = 0.15 * law.deviation
    level = max(here + high, walk.start + step)
    while True:
        found = PassageEvent(walk=walk, until=slot.until, level=_round_level(plot, level, lift=0.5))
        if found.reached_on > slot.opens:
            return found
        level += step


def _interval_event(plot: QuestionTemplate, slot: QuestionSlot, walk: RandomWalk) -> IntervalEvent:
    law = walk.distribution(slot.opens, slot.until)
    wide = law.with_noise(plot.shock * law.deviation).deviation
    if plot.options:
        side = float(slot.stream("level").normal(0.0, 0.4))
        limits = [law.mean + (side + at) * wide for at in (-0.4, 0.4)]
        names = [write_pattern(option, slot.stream("option"), slot.words) for option in plot.options]
    else:
        limits = sorted({_round_level(plot, law.mean + at * wide) for at in (-0.9, 0.0, 0.9)})
        shown = [format_number(math.exp(one) if plot.walk.geometric else one, plot.digits) for one in limits]
        middles = [f"{low} to {high}" for low, high in pairwise(shown)]
        names = [f"{shown[0]} or less", *middles, f"more than {shown[-1]}"]
    return IntervalEvent(walk=walk, until=slot.until, limits=limits, names=names, shock=plot.shock * law.deviation)


def _interval_phrase(plot: QuestionTemplate, one: str) -> str:
    return one if plot.options else f"a result of {one}"


def _answer_scale(plot: QuestionTemplate, slot: QuestionSlot, event: UnderlyingEvent) -> AnswerScale | None:
    if plot.form is AnswerKind.DATE:
        return AnswerScale(low=slot.opens, high=slot.until, unit="", open_low=False)
    if not isinstance(event, ValueEvent):
        return None
    law: NormalLaw = event.distribution(slot.opens)
    ends = (law.mean - _REACH * law.deviation, law.mean + _REACH * law.deviation)
    low, high = (round(math.exp(end) if event.geometric else end, plot.digits) for end in ends)
    return AnswerScale(low=low, high=max(high, low + 10.0**-plot.digits), unit=plot.unit, digits=plot.digits)


def _round_level(plot: QuestionTemplate, level: float, *, lift: float = 0.0) -> float:
    """Return the level that the text will show, ``lift`` last digits up; levels with a mark are unchanged."""
    if plot.mark is not None:
        return level
    unit = 10.0**-plot.digits
    if plot.walk.geometric:
        # Never down to zero.
        return math.log(max(round(math.exp(level) + lift * unit, plot.digits), unit))
    return round(level + lift * unit, plot.digits)


def _level_text(plot: QuestionTemplate, event: UnderlyingEvent) -> str:
    if not isinstance(event, ThresholdEvent | PassageEvent):
        return ""
    return format_number(
        math.exp(event.level) if plot.walk.geometric else event.level - _series_base(plot, event), plot.digits
    )


def _series_base(plot: QuestionTemplate, event: UnderlyingEvent) -> float:
    if plot.mark is None or not isinstance(event, ThresholdEvent | PassageEvent):
        return 0.0
    return event.level - plot.mark


def _date_text(slot: QuestionSlot) -> str:
    return slot.calendar.date_text(slot.until)
