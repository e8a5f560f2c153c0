"""Puts the questions of a simulated world on the fake venues.

Opened, traded, edited, closed and resolved as days pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    from bot.core.interfaces import Clock
    from bot.simulator.world.questions import LifecycleEvent, SimulatedQuestion
    from bot.simulator.world.simulated_world import SimulatedWorld


class VenueBridge(Protocol):
    """The bridge to one venue."""

    def apply_event(self, one: LifecycleEvent) -> None:
        """Apply an event of a question; a state that a fault of the venue's world changed stays."""
        ...

    def move_price(self, simulated: SimulatedQuestion, day: float) -> None:
        """Let the crowd trade to its price of the day, if the venue still accepts trades."""
        ...


@dataclass(kw_only=True)
class WorldRunner:
    """All bridges of a world; call ``advance`` every few hours of the clock's time.

    ``daily_actions`` run at the end of each call, with the day: they are due in any case.
    """

    world: SimulatedWorld
    clock: Clock
    bridges: Mapping[str, VenueBridge]
    daily_actions: Sequence[Callable[[float], object]] = ()
    day: float = field(default=-1.0, init=False)

    def advance(self) -> None:
        """Apply all events since the last call, and let crowds trade."""
        day = self.world.calendar.day_of(self.clock.now())
        happened, self.day = self.world.lifecycle_events(self.day, day), max(self.day, day)
        for one in happened:
            if one.question.venue_kind in self.bridges:
                self.bridges[one.question.venue_kind].apply_event(one)
        for simulated in self.world.open(day):
            if simulated.venue_kind in self.bridges:
                self.bridges[simulated.venue_kind].move_price(simulated, day)
        for act in self.daily_actions:
            act(day)


def question_text(simulated: SimulatedQuestion) -> str:
    """Return background and criteria as one text, for venues that have one."""
    return f"{simulated.background}\n\n{simulated.criteria}\n\nThis question is part of a simulation."


def bound_price(price: float, least: float = 0.01) -> float:
    """Return a price kept away from both ends."""
    return min(1.0 - least, max(least, price))
