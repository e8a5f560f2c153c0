"""A simulated world: one integer and a first day make its questions, its crowds, its series and what becomes of all.

Nothing is computed before it is asked for, each thing from chance of its own, so the order of asking never matters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from bot.clock import SeededRandom
from bot.testing.world.ask import Ask, Form
from bot.testing.world.asks import Asked, asked
from bot.testing.world.calendar import Calendar
from bot.testing.world.crowd import Crowd
from bot.testing.world.events import Above, Bands, Field, Level, Reached
from bot.testing.world.life import Happening, Outcome, life, truth
from bot.testing.world.plots import SPAN, Strip

if TYPE_CHECKING:
    import numpy as np

Belief = float | Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class World:
    """The world of a seed from a moment on, with about ``size`` questions in its first year."""

    seed: int
    start: datetime
    size: int = 300
    _crowds: dict[str, Crowd] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def chance(self) -> SeededRandom:
        """All chance of this world."""
        return SeededRandom(self.seed)

    @cached_property
    def calendar(self) -> Calendar:
        """Days and dates."""
        return Calendar(self.start)

    @cached_property
    def _asked(self) -> Asked:
        return asked(self.calendar, self.chance, self.size)

    @property
    def asks(self) -> Sequence[Ask]:
        """All questions, in the order of their opening."""
        return self._asked.asks

    @cached_property
    def by_key(self) -> Mapping[str, Ask]:
        """All questions by their keys."""
        return {ask.key: ask for ask in self.asks}

    @property
    def strips(self) -> Mapping[str, Strip]:
        """All series that anybody can look up, by name."""
        return self._asked.strips

    def open(self, day: float) -> Sequence[Ask]:
        """Return what takes forecasts on the day."""
        return [ask for ask in self.asks if ask.is_open(day)]

    # What is true

    def truth(self, ask: Ask) -> Outcome:
        """Return what becomes of a question in the end."""
        return truth(ask)

    def chance_of(self, ask: Ask, day: float) -> Belief:
        """Return the true probability on the day: of yes (on the last day of several), or of each option.

        Raises ValueError for a number or a date, which have a distribution; see ``spread``.
        """
        match ask.event:
            case Bands() | Field() as event:
                return event.shares(day)
            case Above() | Reached() as event if ask.form is not Form.DATE:
                return event.chance(day)
            case _:
                message = f"{ask.key} has a distribution, no probability"
                raise ValueError(message)

    def chances_on(self, ask: Ask, day: float) -> Sequence[float]:
        """Return the true probability for each of the days that a question asks about."""
        assert isinstance(ask.event, Above)  # noqa: S101 - such questions are made of nothing else
        return [replace(ask.event, until=until).chance(day) for until in ask.horizons]

    def truths_on(self, ask: Ask) -> Sequence[bool]:
        """Return what becomes of a question on each of the days that it asks about."""
        return [chance == 1.0 for chance in self.chances_on(ask, SPAN)]

    def spread(self, ask: Ask, day: float, values: "np.ndarray") -> "np.ndarray":
        """Return the true probability of at most each value, of a number or of a day; shape (n,) in and out."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        match ask.event:
            case Level() as event:
                return event.cdf(day, values)
            case Reached() as event:
                return np.array([event.by(day, float(value)) for value in values])
            case _:
                message = f"{ask.key} is no question of a number or a date"
                raise ValueError(message)

    # What crowds say

    def price(self, ask: Ask, day: float) -> Belief:
        """Return what the crowd pays on the day for yes, or for each option."""
        crowd = self._crowd(ask)
        believed = self.chance_of(ask, crowd.looked(day, ask.opens))
        return crowd.prices(believed, day) if isinstance(believed, Mapping) else crowd.price(believed, day)

    def guess(self, ask: Ask, day: float, values: "np.ndarray") -> "np.ndarray":
        """Return the crowd's probability of at most each value, of a number or of a day; it rises with the values."""
        import numpy as np  # noqa: PLC0415 - commands that have no world do without

        crowd = self._crowd(ask)
        believed = self.spread(ask, crowd.looked(day, ask.opens), values)
        return np.array([crowd.price(float(one), day) for one in believed])

    def _crowd(self, ask: Ask) -> Crowd:
        # A group is one place, where the same people look at all members.
        key = ask.group or ask.key
        if key not in self._crowds:
            self._crowds[key] = Crowd(key=key, chance=self.chance, days=SPAN)
        return self._crowds[key]

    # What can be looked up, and what happens

    def series(self, name: str, day: float, *, days: int = 400) -> Mapping[int, float]:
        """Return the values at the end of each day (by its number) that was over on the day, the last ``days``.

        Raises KeyError for a series that is not there.
        """
        strip = self.strips[name]
        last = math.floor(day + 1e-9)
        return {number: strip.value(number + 1.0) for number in range(max(0, last - days), last)}

    @cached_property
    def _happenings(self) -> Sequence[Happening]:
        lives = (one for ask in self.asks for one in life(ask, self.chance))
        return sorted(lives, key=lambda one: (one.day, one.ask.key))

    def happenings(self, after: float, until: float) -> Sequence[Happening]:
        """Return what happens at the venues after a day (excluded) and until another (included), in order."""
        return [one for one in self._happenings if after < one.day <= until]
