"""A simulated world: a seed and a first day determine its questions, crowds, series and outcomes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.simulator.world.calendar import WorldCalendar
from bot.simulator.world.crowd import SimulatedCrowd
from bot.simulator.world.events import ContestEvent, IntervalEvent, PassageEvent, ThresholdEvent, ValueEvent
from bot.simulator.world.question_generation import ROUNDS, GeneratedQuestions, RoundSchedule, generate_questions
from bot.simulator.world.question_templates import WALK_DAYS, PublishedSeries
from bot.simulator.world.questions import (
    AnswerKind,
    LifecycleEvent,
    SimulatedOutcome,
    SimulatedQuestion,
    outcome_of,
    question_lifecycle,
)

if TYPE_CHECKING:
    import numpy as np

TrueProbability = float | Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class SimulatedWorld:
    """The world of a seed from a moment on, with about ``size`` questions in its first year.

    ``rounds`` says when its benchmark asks what.
    """

    seed: int
    start: datetime
    size: int = 300
    rounds: RoundSchedule = ROUNDS
    _crowds: dict[str, SimulatedCrowd] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def random_streams(self) -> SeededRandom:
        """All random numbers of this world."""
        return SeededRandom(self.seed)

    @cached_property
    def calendar(self) -> WorldCalendar:
        """Days and dates."""
        return WorldCalendar(self.start)

    @cached_property
    def _generated(self) -> GeneratedQuestions:
        return generate_questions(self.calendar, self.random_streams, self.size, self.rounds)

    @property
    def questions(self) -> Sequence[SimulatedQuestion]:
        """All questions, in the order of their opening."""
        return self._generated.questions

    @cached_property
    def by_key(self) -> Mapping[str, SimulatedQuestion]:
        """All questions by their keys."""
        return {simulated.key: simulated for simulated in self.questions}

    @property
    def series_by_name(self) -> Mapping[str, PublishedSeries]:
        """All published series, by name."""
        return self._generated.series_by_name

    def open(self, day: float) -> Sequence[SimulatedQuestion]:
        """Return the questions that accept forecasts on the day."""
        return [simulated for simulated in self.questions if simulated.is_open(day)]

    # The truth

    def outcome_of(self, simulated: SimulatedQuestion) -> SimulatedOutcome:
        """Return the outcome of a question in the end."""
        return outcome_of(simulated)

    def true_probability(self, simulated: SimulatedQuestion, day: float) -> TrueProbability:
        """Return the true probability on the day: of yes (on the last day of several), or of each option.

        Raises ValueError for a number or a date, which have a distribution; see ``spread``.
        """
        match simulated.event:
            case IntervalEvent() | ContestEvent() as event:
                return event.probabilities(day)
            case ThresholdEvent() | PassageEvent() as event if simulated.answer_kind is not AnswerKind.DATE:
                return event.probability(day)
            case _:
                message = f"{simulated.key} has a distribution, no probability"
                raise ValueError(message)

    def true_probabilities_by_day(self, simulated: SimulatedQuestion, day: float) -> Sequence[float]:
        """Return the true probability for each of the days of a question."""
        assert isinstance(simulated.event, ThresholdEvent)  # noqa: S101 - such questions are made of nothing else
        return [replace(simulated.event, until=until).probability(day) for until in simulated.horizons]

    def outcomes_by_day(self, simulated: SimulatedQuestion) -> Sequence[bool]:
        """Return the outcome of a question on each of its days."""
        return [chance == 1.0 for chance in self.true_probabilities_by_day(simulated, WALK_DAYS)]

    def true_cdf(self, simulated: SimulatedQuestion, day: float, values: "np.ndarray") -> "np.ndarray":
        """Return the true probability of at most each value, of a number or of a day; shape (n,) in and out."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        match simulated.event:
            case ValueEvent() as event:
                return event.cdf(day, values)
            case PassageEvent() as event:
                return np.array([event.probability_by(day, float(value)) for value in values])
            case _:
                message = f"{simulated.key} is no question of a number or a date"
                raise ValueError(message)

    # Crowds

    def crowd_price(self, simulated: SimulatedQuestion, day: float) -> TrueProbability:
        """Return the crowd's price on the day for yes, or for each option."""
        crowd = self._crowd_of(simulated)
        believed = self.true_probability(simulated, crowd.last_known_day(day, simulated.opens))
        return crowd.prices(believed, day) if isinstance(believed, Mapping) else crowd.price(believed, day)

    def crowd_cdf(self, simulated: SimulatedQuestion, day: float, values: "np.ndarray") -> "np.ndarray":
        """Return the crowd's probability of at most each value, of a number or of a day; it rises with the values."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        crowd = self._crowd_of(simulated)
        believed = self.true_cdf(simulated, crowd.last_known_day(day, simulated.opens), values)
        return np.array([crowd.price(float(one), day) for one in believed])

    def _crowd_of(self, simulated: SimulatedQuestion) -> SimulatedCrowd:
        # A group is in one place, where the same people look at all members.
        key = simulated.group or simulated.key
        if key not in self._crowds:
            self._crowds[key] = SimulatedCrowd(key=key, chance=self.random_streams, days=WALK_DAYS)
        return self._crowds[key]

    # Published series, and events

    def series(self, name: str, day: float, *, days: int = 400) -> Mapping[int, float]:
        """Return the values at the end of each day (by its number) that was over on the day, the last ``days``.

        Raises KeyError for a series that does not exist.
        """
        strip = self.series_by_name[name]
        last = math.floor(day + 1e-9)
        return {number: strip.value(number + 1.0) for number in range(max(0, last - days), last)}

    @cached_property
    def _lifecycle_events(self) -> Sequence[LifecycleEvent]:
        lives = (one for simulated in self.questions for one in question_lifecycle(simulated, self.random_streams))
        return sorted(lives, key=lambda one: (one.day, one.question.key))

    def lifecycle_events(self, after: float, until: float) -> Sequence[LifecycleEvent]:
        """Return the events at the venues after a day (excluded) and until another (included), in order."""
        return [one for one in self._lifecycle_events if after < one.day <= until]
