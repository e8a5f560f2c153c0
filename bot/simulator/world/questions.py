"""A question of the simulated world.

Its underlying event, and its lifecycle at its venue from opening to resolution.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.events import ContestEvent, IntervalEvent, PassageEvent, ThresholdEvent, ValueEvent

UnderlyingEvent: TypeAlias = ThresholdEvent | PassageEvent | IntervalEvent | ContestEvent | ValueEvent


class AnswerKind(StrEnum):
    """The form of an answer."""

    BINARY = "binary"
    CHOICE = "choice"
    NUMBER = "number"
    DATE = "date"
    DATES = "dates"  # yes or no at each of several days, as benchmarks ask of series


class QuestionEnding(StrEnum):
    """How the question ends."""

    RESOLVED = "resolved"
    ANNULLED = "annulled"
    LATE = "late"  # resolved days after it was due
    REVISED = "revised"  # resolved, undone and resolved again


@dataclass(frozen=True, kw_only=True)
class AnswerScale:
    """The range of a number or of a date (in days of the world), and the number of digits."""

    low: float
    high: float
    unit: str = ""
    digits: int = 1
    open_low: bool = True
    open_high: bool = True


@dataclass(frozen=True, kw_only=True)
class SimulatedQuestion:
    """One question. Days are those of the world; ``title``, ``background`` and ``criteria`` are the texts for people.

    ``event_phrases`` is the event as the subject of a sentence ("a win for Ada"), by option where there are options and
    under "" elsewhere; for a number it is the measured quantity. ``series`` names the published walk, "" where there is
    none. ``group`` joins questions that their venue shows as one, under the title ``group_title`` and each with its
    ``label``. ``horizons`` are the days of a question of the form DATES.
    """

    key: str
    theme: str
    venue_kind: str
    answer_kind: AnswerKind
    event: UnderlyingEvent
    title: str
    background: str
    criteria: str
    opens: float
    closes: float
    resolves: float
    event_phrases: Mapping[str, str]
    scale: AnswerScale | None = None
    series: str = ""
    group: str = ""
    group_title: str = ""
    label: str = ""
    horizons: tuple[float, ...] = ()
    ending: QuestionEnding = QuestionEnding.RESOLVED
    tags: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse a life in the wrong order."""
        if not 0.0 <= self.opens < self.closes <= self.resolves:
            message = f"{self.key}: opens, closes and resolves are not in this order"
            raise ValueError(message)

    @property
    def last_day(self) -> float:
        """The last day that counts."""
        return self.event.until

    def is_open(self, day: float) -> bool:
        """Return whether it accepts forecasts on the day."""
        return self.opens <= day < self.closes


# Yes or no, the option, the number, the day on which it happened (infinity if never).
SimulatedOutcome: TypeAlias = bool | str | float


EDITED_SHARE = 0.08


class LifecycleAction(StrEnum):
    """The actions of people at a venue."""

    OPEN = "open"
    EDIT = "edit"
    CLOSE = "close"
    RESOLVE = "resolve"
    ANNUL = "annul"
    UNDO = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """One action on a day: ``outcome`` where it resolves, ``text`` where it edits."""

    day: float
    action: LifecycleAction
    question: SimulatedQuestion
    outcome: SimulatedOutcome | None = None
    text: str = ""


def outcome_of(simulated: SimulatedQuestion) -> SimulatedOutcome:
    """Return the outcome in the end; for a question on several days, that of the last one."""
    match simulated.event:
        case PassageEvent() as event if simulated.answer_kind is AnswerKind.DATE:
            return event.reached_on if event.happened else math.inf
        case ThresholdEvent() | PassageEvent() as event:
            return event.happened
        case IntervalEvent() | ContestEvent() as event:
            return event.winner
        case ValueEvent() as event:
            return event.final_value


def outcome_day(simulated: SimulatedQuestion) -> float:
    """Return the day on which the truth becomes public."""
    if isinstance(simulated.event, PassageEvent):
        return min(simulated.last_day, simulated.event.reached_on)
    return simulated.last_day


def question_lifecycle(simulated: SimulatedQuestion, chance: SeededRandom) -> tuple[LifecycleEvent, ...]:
    """Return what happens to a question, in order."""
    return tuple(sorted(_lifecycle_events(simulated, chance), key=lambda one: one.day))


def _lifecycle_events(simulated: SimulatedQuestion, chance: SeededRandom) -> Iterator[LifecycleEvent]:
    stream = chance.stream("life of", simulated.key)
    delay, later, edit, when = (float(draw) for draw in stream.random(4))
    known = outcome_day(simulated)
    closed = min(simulated.closes, max(known, simulated.opens + 0.25))
    published = max(known, closed) + 0.05 + 0.7 * delay
    yield LifecycleEvent(day=simulated.opens, action=LifecycleAction.OPEN, question=simulated)
    if edit < EDITED_SHARE and simulated.answer_kind is not AnswerKind.DATES:
        text = "Clarification: times are those of the place where it happens."
        yield LifecycleEvent(
            day=simulated.opens + (0.1 + 0.8 * when) * (closed - simulated.opens),
            action=LifecycleAction.EDIT,
            question=simulated,
            text=text,
        )
    yield LifecycleEvent(day=closed, action=LifecycleAction.CLOSE, question=simulated)
    if simulated.answer_kind is AnswerKind.DATES:
        # Benchmarks publish outcomes themselves, day by day.
        return
    match simulated.ending:
        case QuestionEnding.ANNULLED:
            yield LifecycleEvent(day=published, action=LifecycleAction.ANNUL, question=simulated)
        case QuestionEnding.LATE:
            yield LifecycleEvent(
                day=published + 3.0 + 7.0 * later,
                action=LifecycleAction.RESOLVE,
                question=simulated,
                outcome=outcome_of(simulated),
            )
        case QuestionEnding.REVISED:
            yield LifecycleEvent(
                day=published, action=LifecycleAction.RESOLVE, question=simulated, outcome=_wrong_outcome(simulated)
            )
            yield LifecycleEvent(day=published + 1.0, action=LifecycleAction.UNDO, question=simulated)
            yield LifecycleEvent(
                day=published + 1.5 + later,
                action=LifecycleAction.RESOLVE,
                question=simulated,
                outcome=outcome_of(simulated),
            )
        case QuestionEnding.RESOLVED:
            yield LifecycleEvent(
                day=published, action=LifecycleAction.RESOLVE, question=simulated, outcome=outcome_of(simulated)
            )


def _wrong_outcome(simulated: SimulatedQuestion) -> SimulatedOutcome:
    """Return a wrong outcome of the same form."""
    right = outcome_of(simulated)
    if isinstance(right, bool):
        return not right
    if isinstance(right, str):
        return next(name for name in simulated.event_phrases if name != right)
    if simulated.scale is None:
        return right
    middle = (simulated.scale.low + simulated.scale.high) / 2.0
    return middle if abs(right - middle) > 1e-6 else simulated.scale.low
