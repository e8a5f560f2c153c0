"""What research brings: search hits, series, quotes and notices."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from bot.domain.prediction import Prediction
from bot.domain.question import QuestionRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search. ``published_at`` is the engine's word for the age of the page; None if it has none.

    ``snippet`` is all that an engine gives as an excerpt, in up to 5,000 characters; ``text`` is the text of the page,
    or long extracts of it, from engines that bring them. ``source_url`` is where the page really stands, or its
    publisher, from engines whose ``url`` is an address of their own that only leads there; empty elsewhere.
    """

    url: str
    title: str
    snippet: str
    published_at: datetime | None
    text: str = ""
    source_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What an address held: the address after all redirects, the body as it came (unpacked), and its declared type."""

    url: str
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The visible text of a page, with the date that it gives itself, if it does."""

    url: str
    title: str
    text: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A section of a page as it stood at a moment: ``revised_at`` is when that state of the page was written."""

    url: str
    page: str
    heading: str
    text: str
    revised_at: datetime


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
class SourcePolicy:
    """How questions of one source are worked on: the meta-controller's row for it.

    ``tools`` names what may be used (None: everything); ``first`` is to be used before anything else; ``searches``
    bounds the web searches of a trial; with ``bypass`` what ``first`` estimates is the answer and no model is asked.
    ``advice`` says in words how to judge such questions; models are shown it with the question.
    Source: BLF (arXiv 2604.18576v3), tables 5 and 6.
    """

    tools: tuple[str, ...] | None = None
    first: str | None = None
    searches: int | None = None
    bypass: bool = False
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesModel:
    """How the series of one source are extrapolated by a simple model; what it is where nothing is said suits prices.

    A line is fitted to the last ``window`` points or days. ``trust`` in [0, 1] is its weight against one half, and
    ``trend_share`` in [0, 1] its weight against the same day of earlier years, where these are known. With ``seasonal``
    the season alone is believed: what stood above the last value at that time of the year. ``shows_season`` says that
    the season is told beside the probability; of prices it says nothing, and a model that reads it takes it for
    evidence. Source: BLF (arXiv 2604.18576v3), appendix I, equations 17-23, with the constants of its published code
    for daily prices.
    """

    window: int = 60
    unit: Literal["points", "days"] = "points"
    trust: float = 0.1
    trend_share: float = 0.5
    seasonal: bool = False
    shows_season: bool = False

    def __post_init__(self) -> None:
        """Refuse a window without points, and weights that are none."""
        if self.window < 1 or not (0 <= self.trust <= 1 and 0 <= self.trend_share <= 1):
            message = f"a window of at least 1 and weights from 0 to 1 make a model of series, not {self}"
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
