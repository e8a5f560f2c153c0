"""Search results, pages, passages and time series, and how questions of one source are researched."""

from datetime import date, datetime
from typing import Literal

from bot.core.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One result of a search.

    ``published_at`` is the date that the engine reports for the page; None if it reports none.

    ``snippet`` is the engine's excerpt, in up to 5,000 characters; ``text`` is the text of the page, or long extracts
    of it, from engines that return them. ``source_url`` is the real address of the page, or of its publisher, from
    engines whose ``url`` only redirects there; empty elsewhere.
    """

    url: str
    title: str
    snippet: str
    published_at: datetime | None
    text: str = ""
    source_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """A fetched page: its address after all redirects, its unpacked body, and its declared type."""

    url: str
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """The visible text of a page, with its declared date, if any."""

    url: str
    title: str
    text: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A section of a page as it was at a moment: ``revised_at`` is when that version of the page was written."""

    url: str
    page: str
    heading: str
    text: str
    revised_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
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
    """How questions of one source are researched.

    ``tools`` names the tools that may be used (None: all); ``first`` must be used before all others; ``searches``
    bounds the web searches of a trial; with ``bypass`` the estimate of ``first`` is the answer and no model is asked.
    ``advice`` tells models in words how to judge such questions; it is shown with the question. Source: BLF (arXiv
    2604.18576v3), tables 5 and 6.
    """

    tools: tuple[str, ...] | None = None
    first: str | None = None
    searches: int | None = None
    bypass: bool = False
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesModel:
    """How a simple model extrapolates the series of one source; the defaults suit prices.

    A line is fitted to the last ``window`` points or days. ``trust`` in [0, 1] is its weight against one half, and
    ``trend_share`` in [0, 1] its weight against the same day of earlier years, where these are known. With ``seasonal``
    only the season counts: how often values were above the last one at that time of the year. With ``shows_season`` the
    season is shown with the probability; not for prices, where it means nothing and a model would take it for evidence.
    Source: BLF (arXiv 2604.18576v3), appendix I, equations 17-23, with the constants of its published code for daily
    prices.
    """

    window: int = 60
    unit: Literal["points", "days"] = "points"
    trust: float = 0.1
    trend_share: float = 0.5
    seasonal: bool = False
    shows_season: bool = False

    def __post_init__(self) -> None:
        """Refuse a window without points, and weights outside [0, 1]."""
        if self.window < 1 or not (0 <= self.trust <= 1 and 0 <= self.trend_share <= 1):
            message = f"a model of series needs a window of at least 1 and weights from 0 to 1, got {self}"
            raise ValueError(message)
