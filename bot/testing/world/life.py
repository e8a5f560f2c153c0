"""What happens to a question at its venue, from its opening to its end; a bridge does it there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bot.clock import SeededRandom
from bot.testing.world.ask import Ask, Fate, Form
from bot.testing.world.events import Above, Bands, Field, Level, Reached

# Yes or no, the option, the number, the day on which it happened (infinity if never).
Outcome: TypeAlias = bool | str | float
EDITED_SHARE = 0.08


class Act(StrEnum):
    """What people of a venue do."""

    OPEN = "open"
    EDIT = "edit"
    CLOSE = "close"
    RESOLVE = "resolve"
    ANNUL = "annul"
    UNDO = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One act on a day: ``outcome`` where it resolves, ``text`` where it edits."""

    day: float
    act: Act
    ask: Ask
    outcome: Outcome | None = None
    text: str = ""


def truth(ask: Ask) -> Outcome:
    """Return what becomes of it in the end; of a question on several days, what becomes of the last one."""
    match ask.event:
        case Reached() as event if ask.form is Form.DATE:
            return event.reached_on if event.happened else math.inf
        case Above() | Reached() as event:
            return event.happened
        case Bands() | Field() as event:
            return event.chosen
        case Level() as event:
            return event.landed


def known_on(ask: Ask) -> float:
    """Return the day on which the truth is there for all to see."""
    if isinstance(ask.event, Reached):
        return min(ask.until, ask.event.reached_on)
    return ask.until


def life(ask: Ask, chance: SeededRandom) -> tuple[Happening, ...]:
    """Return what happens to a question, in order."""
    return tuple(sorted(_life(ask, chance), key=lambda one: one.day))


def _life(ask: Ask, chance: SeededRandom) -> Iterator[Happening]:
    stream = chance.stream("life of", ask.key)
    delay, later, edit, when = (float(draw) for draw in stream.random(4))
    known = known_on(ask)
    closed = min(ask.closes, max(known, ask.opens + 0.25))
    told = max(known, closed) + 0.05 + 0.7 * delay
    yield Happening(day=ask.opens, act=Act.OPEN, ask=ask)
    if edit < EDITED_SHARE and ask.form is not Form.DATES:
        text = "Clarification: times are those of the place where it happens."
        yield Happening(day=ask.opens + (0.1 + 0.8 * when) * (closed - ask.opens), act=Act.EDIT, ask=ask, text=text)
    yield Happening(day=closed, act=Act.CLOSE, ask=ask)
    if ask.form is Form.DATES:
        # Benchmarks publish outcomes themselves, day by day.
        return
    match ask.fate:
        case Fate.ANNULLED:
            yield Happening(day=told, act=Act.ANNUL, ask=ask)
        case Fate.LATE:
            yield Happening(day=told + 3.0 + 7.0 * later, act=Act.RESOLVE, ask=ask, outcome=truth(ask))
        case Fate.REVISED:
            yield Happening(day=told, act=Act.RESOLVE, ask=ask, outcome=_mistaken(ask))
            yield Happening(day=told + 1.0, act=Act.UNDO, ask=ask)
            yield Happening(day=told + 1.5 + later, act=Act.RESOLVE, ask=ask, outcome=truth(ask))
        case Fate.RESOLVED:
            yield Happening(day=told, act=Act.RESOLVE, ask=ask, outcome=truth(ask))


def _mistaken(ask: Ask) -> Outcome:
    """Return a wrong outcome of the same form."""
    right = truth(ask)
    if isinstance(right, bool):
        return not right
    if isinstance(right, str):
        return next(name for name in ask.happening if name != right)
    if ask.scale is None:
        return right
    middle = (ask.scale.low + ask.scale.high) / 2.0
    return middle if abs(right - middle) > 1e-6 else ask.scale.low
