"""What is asked of the world: a question with the event behind it and the life it leads at its venue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from bot.testing.world.events import Above, Bands, Field, Level, Reached

Event: TypeAlias = Above | Reached | Bands | Field | Level


class Form(StrEnum):
    """What an answer looks like."""

    BINARY = "binary"
    CHOICE = "choice"
    NUMBER = "number"
    DATE = "date"
    DATES = "dates"  # yes or no at each of several days, as benchmarks ask of series


class Fate(StrEnum):
    """How the question ends."""

    RESOLVED = "resolved"
    ANNULLED = "annulled"
    LATE = "late"  # resolved days after it was due
    REVISED = "revised"  # resolved, undone and resolved again


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The range of a number or of a date (in days of the world), and how many digits are told."""

    low: float
    high: float
    unit: str = ""
    digits: int = 1
    open_low: bool = True
    open_high: bool = True


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question. Days are those of the world; ``title``, ``background`` and ``criteria`` are what people read.

    ``happening`` is the event as the subject of a sentence ("a win for Ada"), by option where there are options and
    under "" elsewhere; of a number it is what is measured. ``series`` names the walk that anybody can look up, "" where
    there is none. ``group`` joins questions that their venue shows as one, under the title ``heading`` and each with
    its ``label``. ``horizons`` are the days of a question of the form DATES.
    """

    key: str
    theme: str
    stall: str
    form: Form
    event: Event
    title: str
    background: str
    criteria: str
    opens: float
    closes: float
    resolves: float
    happening: Mapping[str, str]
    scale: Scale | None = None
    series: str = ""
    group: str = ""
    heading: str = ""
    label: str = ""
    horizons: tuple[float, ...] = ()
    fate: Fate = Fate.RESOLVED
    tags: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse a life in the wrong order."""
        if not 0.0 <= self.opens < self.closes <= self.resolves:
            message = f"{self.key}: opens, closes and resolves are not in this order"
            raise ValueError(message)

    @property
    def until(self) -> float:
        """The last day that counts."""
        return self.event.until

    def is_open(self, day: float) -> bool:
        """Return whether it takes forecasts on the day."""
        return self.opens <= day < self.closes
