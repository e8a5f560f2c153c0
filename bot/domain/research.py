"""What research brings: search hits, series, quotes and notices."""

from dataclasses import dataclass
from datetime import date, datetime

from bot.domain.prediction import Prediction
from bot.domain.question import QuestionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search. ``published_at`` is the engine's word for the age of the page; None if it has none."""

    url: str
    title: str
    snippet: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A time series as it was known at the cutoff: dates in order, one value each, with unit and source."""

    name: str
    unit: str
    source: str
    dates: tuple[date, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse dates and values of different length."""
        if len(self.dates) != len(self.values):
            message = f"{self.name}: {len(self.dates)} dates for {len(self.values)} values"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One price of one question at one moment, as a venue's feed reports it."""

    ref: QuestionRef
    prediction: Prediction
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a person should know: a subject in one line and the text below it."""

    subject: str
    text: str
