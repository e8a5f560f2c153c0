"""The questions of a simulated world at the fake venues: put up, traded, edited, closed and resolved as days pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bot.ports import Clock
    from bot.testing.world.ask import Ask
    from bot.testing.world.life import Happening
    from bot.testing.world.world import World


class Stall(Protocol):
    """Where questions are asked; it knows its own venue."""

    def happen(self, one: Happening) -> None:
        """Do what happens to a question; what the venue has seen otherwise (a fault of its world) stays as it is."""
        ...

    def trade(self, ask: Ask, day: float) -> None:
        """Let the crowd trade to where it stands on the day, if the venue still takes trades."""
        ...


@dataclass(kw_only=True)
class Stalls:
    """All stalls of a world; call ``advance`` every few hours of the clock's time.

    ``daily`` is done at the end of each call, with the day: what is due whoever asked what.
    """

    world: World
    clock: Clock
    stalls: Mapping[str, Stall]
    daily: Sequence[Callable[[float], object]] = ()
    day: float = field(default=-1.0, init=False)

    def advance(self) -> None:
        """Do all that has happened since the last call, and let crowds trade."""
        day = self.world.calendar.day(self.clock.now())
        happened, self.day = self.world.happenings(self.day, day), max(self.day, day)
        for one in happened:
            if one.ask.stall in self.stalls:
                self.stalls[one.ask.stall].happen(one)
        for ask in self.world.open(day):
            if ask.stall in self.stalls:
                self.stalls[ask.stall].trade(ask, day)
        for act in self.daily:
            act(day)


def told(ask: Ask) -> str:
    """Return background and criteria as one text, for venues that have one."""
    return f"{ask.background}\n\n{ask.criteria}\n\nThis question is part of a simulation."


def held(price: float, least: float = 0.01) -> float:
    """Return a price kept away from both ends."""
    return min(1.0 - least, max(least, price))
