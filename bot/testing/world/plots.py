"""What a theme is made of: plots, each a kind of question with its motion and its words, and what they become.

A plot says how something moves and how people ask about it; ``drafted`` makes questions of it. Levels, bands and
ranges are chosen from what is known when the question opens, so that nothing is settled by its wording.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bot.clock import SeededRandom
from bot.testing.world.ask import Ask, Event, Fate, Form, Scale
from bot.testing.world.calendar import Calendar
from bot.testing.world.events import Above, Bands, Field, Level, Reached, passage
from bot.testing.world.grammar import headed, write
from bot.testing.world.walks import Law, Walk

if TYPE_CHECKING:
    import numpy as np

# Days for which walks are known: a year, and what benchmarks ask beyond it.
SPAN = 760.0
# Of a range that is asked about, in deviations of what was known at the beginning.
_REACH = 3.2
# How often another walk is tried where one has been too high before.
_ATTEMPTS = 40


class Kind(StrEnum):
    """What is asked of a motion."""

    ABOVE = "above"
    REACHED = "reached"
    BANDS = "bands"
    FIELD = "field"
    LEVEL = "level"


@dataclass(frozen=True, kw_only=True)
class Motion:
    """How something moves: it starts between two values, with ``sigma`` per square root of a day.

    ``pull`` draws it back to where it started; ``geometric`` motions are of the logarithm, with sigma relative.
    """

    starts: tuple[float, float]
    sigma: float
    pull: float = 0.0
    drift: float = 0.0
    geometric: bool = False

    def walk(self, name: str, chance: SeededRandom) -> Walk:
        """Return the walk of that name."""
        low, high = self.starts
        start = float(chance.stream("start", name).uniform(low, high))
        start = math.log(start) if self.geometric else start
        drift = self.pull * start if self.pull else self.drift
        return Walk(name=name, chance=chance, days=SPAN, start=start, sigma=self.sigma, drift=drift, pull=self.pull)


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A series that anybody can look up: a walk as it is published, ``base`` taken off, rounded to ``digits``."""

    name: str
    title: str
    unit: str
    digits: int
    walk: Walk
    geometric: bool = False
    base: float = 0.0

    def value(self, day: float) -> float:
        """Return what is published on the day."""
        return round(self.shown(self.walk.at(day)), self.digits)

    def shown(self, value: float) -> float:
        """Return a value of the walk in the unit of the series."""
        return math.exp(value) if self.geometric else value - self.base


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A kind of question. Texts are written by the grammar, with the words of the cast and ``{level}``, ``{date}``.

    ``happening`` is the event, or what is measured; ``options`` are of a choice (bands from below, or who competes),
    made of numbers where there are none. ``mark`` is what the level is called where only the distance to it counts.
    ``measure`` is the title of the series that shows the motion, "" where nothing is published. ``shock`` is what the
    last day adds, in deviations of the motion. ``heading`` is the title of several such questions together: with
    ``{level}`` in ``label`` at several levels, with ``{date}`` on several days.
    """

    form: Form
    kind: Kind
    motion: Motion
    title: str
    background: str
    criteria: str
    happening: str
    options: tuple[str, ...] = ()
    measure: str = ""
    unit: str = ""
    digits: int = 1
    mark: float | None = None
    shock: float = 0.0
    heading: str = ""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Where and when something is asked; ``until`` is the last day that counts."""

    key: str
    theme: str
    stall: str
    opens: float
    closes: float
    until: float
    calendar: Calendar
    chance: SeededRandom = field(repr=False)
    words: Mapping[str, str] = field(repr=False)
    fate: Fate = Fate.RESOLVED

    def stream(self, *labels: str) -> "np.random.Generator":
        """Return the chance of this question for the labels."""
        return self.chance.stream(self.key, *labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Questions, and the series that they are about."""

    asks: Sequence[Ask]
    strips: Sequence[Strip]


def drafted(plot: Plot, slot: Slot) -> Draft:
    """Return what the plot becomes: one question, or a group where the plot has a heading."""
    if plot.kind is Kind.FIELD:
        return Draft(asks=(_field(plot, slot),), strips=())
    walk = plot.motion.walk(f"{slot.theme} {slot.key}", slot.chance)
    match plot.kind:
        case Kind.LEVEL:
            return _put(plot, slot, walk, Level(walk=walk, until=slot.until, geometric=plot.motion.geometric))
        case Kind.BANDS:
            return _put(plot, slot, walk, _bands(plot, slot, walk))
        case Kind.ABOVE:
            event: Above | Reached = _above(plot, slot, walk)
        case Kind.REACHED:
            event = _reached(plot, slot)
    return _grouped(plot, slot, event) if plot.heading else _put(plot, slot, event.walk, event)


def strip_of(plot: Plot, slot: Slot, walk: Walk, *, base: float = 0.0) -> Strip:
    """Return the series that shows a walk."""
    return Strip(
        name=series_name(slot),
        title=write(plot.measure, slot.stream("measure"), slot.words),
        unit=plot.unit,
        digits=plot.digits,
        walk=walk,
        geometric=plot.motion.geometric,
        base=base,
    )


def series_name(slot: Slot) -> str:
    """Return the name under which a series is looked up; texts name it so."""
    return f"SIM-{slot.theme[:4].upper()}-{slot.key.upper()}"


@dataclass(frozen=True, slots=True)
class Texts:
    """What people read of a question."""

    title: str
    background: str
    criteria: str


def texts(plot: Plot, slot: Slot, more: Mapping[str, str]) -> Texts:
    """Return title, background and criteria, written; one slot always writes alike."""
    words = {**slot.words, "date": _date(slot), "unit": plot.unit, **more}
    title, background, criteria = (
        headed(write(pattern, slot.stream(part), words))
        for part, pattern in (("title", plot.title), ("background", plot.background), ("criteria", plot.criteria))
    )
    if plot.measure:
        published = headed(write(plot.measure, slot.stream("measure"), slot.words))
        background = f"{background} {published} is published daily as series {series_name(slot)}."
    return Texts(title, background, criteria)


def number(value: float, digits: int) -> str:
    """Return a number as texts show it."""
    return f"{value:,.{digits}f}"


def _put(plot: Plot, slot: Slot, walk: Walk, event: Event) -> Draft:
    base = _base(plot, event)
    words = {"level": _level(plot, event), "date": _date(slot)}
    name = write(plot.happening, slot.stream("happening"), {**slot.words, **words})
    ask = _ask(
        plot,
        slot,
        event,
        texts(plot, slot, words),
        happening={one: _of_band(plot, one) for one in event.names} if isinstance(event, Bands) else {"": name},
        scale=_scale(plot, slot, event),
        series=series_name(slot) if plot.measure else "",
    )
    return Draft(asks=(ask,), strips=(strip_of(plot, slot, walk, base=base),) if plot.measure else ())


def _ask(plot: Plot, slot: Slot, event: Event, written: Texts, **more: Any) -> Ask:  # noqa: ANN401 - fields of Ask
    return Ask(
        key=slot.key,
        theme=slot.theme,
        stall=slot.stall,
        form=plot.form,
        event=event,
        title=written.title,
        background=written.background,
        criteria=written.criteria,
        opens=slot.opens,
        closes=slot.closes,
        resolves=slot.until + 1.0,
        fate=slot.fate,
        tags=(slot.theme,),
        **more,
    )


def _grouped(plot: Plot, slot: Slot, event: Above | Reached) -> Draft:
    """Return three questions on one motion: at three levels, or by three days."""
    asks, law = [], event.walk.law(slot.opens, slot.until)
    for place, letter in enumerate("abc"):
        part = replace(slot, key=f"{slot.key}{letter}")
        if "{level}" in plot.label:
            moved = replace(event, level=_rounded(plot, event.level + (place - 1) * 0.6 * law.deviation))
        else:
            end = slot.opens + max(1.0, round((slot.until - slot.opens) * (0.5 + 0.25 * place)))
            moved = replace(event, until=min(end, slot.until))
            part = replace(part, until=moved.until, closes=min(slot.closes, moved.until))
        asks.append(_part(plot, slot, part, moved))
    return Draft(asks=asks, strips=(strip_of(plot, slot, event.walk, base=_base(plot, event)),))


def _part(plot: Plot, whole: Slot, part: Slot, event: Above | Reached) -> Ask:
    # The members of a group read alike: one slot writes them all.
    words = {"level": _level(plot, event), "date": _date(part), "unit": plot.unit}
    return _ask(
        plot,
        part,
        event,
        texts(plot, whole, words),
        happening={"": write(plot.happening, whole.stream("happening"), {**whole.words, **words})},
        series=series_name(whole) if plot.measure else "",
        group=whole.key,
        heading=headed(write(plot.heading, whole.stream("heading"), {**whole.words, **words, "date": _date(whole)})),
        label=plot.label.format_map(words),
    )


def _field(plot: Plot, slot: Slot) -> Ask:
    names = [write(option, slot.stream("option"), slot.words) for option in plot.options]
    walks = {one: plot.motion.walk(f"{slot.theme} {slot.key} {one}", slot.chance) for one in names}
    deviation = next(iter(walks.values())).law(slot.opens, slot.until).deviation
    said = {one: {**slot.words, "option": one} for one in names}
    return _ask(
        plot,
        slot,
        Field(walks=walks, until=slot.until, shock=plot.shock * deviation),
        texts(plot, slot, {"level": ""}),
        happening={one: write(plot.happening, slot.stream("happening"), words) for one, words in said.items()},
    )


def _above(plot: Plot, slot: Slot, walk: Walk) -> Above:
    law = walk.law(slot.opens, slot.until)
    shock = plot.shock * law.deviation
    lead = float(slot.stream("level").normal(0.0, 0.8))
    level = law.mean + lead * law.blurred(shock).deviation
    return Above(walk=walk, until=slot.until, level=_rounded(plot, level), shock=shock)


def _reached(plot: Plot, slot: Slot) -> Reached:
    """Return a walk with a level that it has not reached before, and may reach.

    What is looked at to choose the walk and the level lies before the opening, so the law of what follows is as it was.
    """
    wanted = float(slot.stream("level").uniform(0.12, 0.85))
    for attempt in range(_ATTEMPTS):
        walk = plot.motion.walk(f"{slot.theme} {slot.key} {attempt}", slot.chance)
        found = _level_above(plot, slot, walk, wanted)
        if found.chance(slot.opens) > 0.5 * wanted:
            break
    return found


def _level_above(plot: Plot, slot: Slot, walk: Walk, wanted: float) -> Reached:
    """Return a level that is reached with about the wanted chance, or a smaller one if it was reached before."""
    here, law = walk.at(slot.opens), walk.law(slot.opens, slot.until)
    low, high = 0.0, abs(law.mean - here) + 4.0 * law.deviation
    for _ in range(30):
        middle = (low + high) / 2.0
        likely = passage(walk, middle, slot.until - slot.opens) > wanted
        low, high = (middle, high) if likely else (low, middle)
    step = 0.15 * law.deviation
    level = max(here + high, walk.start + step)
    while True:
        found = Reached(walk=walk, until=slot.until, level=_rounded(plot, level, lift=0.5))
        if found.reached_on > slot.opens:
            return found
        level += step


def _bands(plot: Plot, slot: Slot, walk: Walk) -> Bands:
    law = walk.law(slot.opens, slot.until)
    wide = law.blurred(plot.shock * law.deviation).deviation
    if plot.options:
        side = float(slot.stream("level").normal(0.0, 0.4))
        limits = [law.mean + (side + at) * wide for at in (-0.4, 0.4)]
        names = [write(option, slot.stream("option"), slot.words) for option in plot.options]
    else:
        limits = sorted({_rounded(plot, law.mean + at * wide) for at in (-0.9, 0.0, 0.9)})
        shown = [number(math.exp(one) if plot.motion.geometric else one, plot.digits) for one in limits]
        middles = [f"{low} to {high}" for low, high in pairwise(shown)]
        names = [f"{shown[0]} or less", *middles, f"more than {shown[-1]}"]
    return Bands(walk=walk, until=slot.until, limits=limits, names=names, shock=plot.shock * law.deviation)


def _of_band(plot: Plot, one: str) -> str:
    return one if plot.options else f"a result of {one}"


def _scale(plot: Plot, slot: Slot, event: Event) -> Scale | None:
    if plot.form is Form.DATE:
        return Scale(low=slot.opens, high=slot.until, unit="", open_low=False)
    if not isinstance(event, Level):
        return None
    law: Law = event.law(slot.opens)
    ends = (law.mean - _REACH * law.deviation, law.mean + _REACH * law.deviation)
    low, high = (round(math.exp(end) if event.geometric else end, plot.digits) for end in ends)
    return Scale(low=low, high=max(high, low + 10.0**-plot.digits), unit=plot.unit, digits=plot.digits)


def _rounded(plot: Plot, level: float, *, lift: float = 0.0) -> float:
    """Return the level that the text will show, ``lift`` last digits up; those called by a mark stay as they are."""
    if plot.mark is not None:
        return level
    unit = 10.0**-plot.digits
    if plot.motion.geometric:
        # Never down to zero.
        return math.log(max(round(math.exp(level) + lift * unit, plot.digits), unit))
    return round(level + lift * unit, plot.digits)


def _level(plot: Plot, event: Event) -> str:
    if not isinstance(event, Above | Reached):
        return ""
    return number(math.exp(event.level) if plot.motion.geometric else event.level - _base(plot, event), plot.digits)


def _base(plot: Plot, event: Event) -> float:
    if plot.mark is None or not isinstance(event, Above | Reached):
        return 0.0
    return event.level - plot.mark


def _date(slot: Slot) -> str:
    return slot.calendar.words(slot.until)
