"""The services that a trial may use.

Models, search engines, data sources, page sources, a page reader and a calculator.
"""

from datetime import datetime
from typing import Any, Protocol

from bot.core.interfaces import DataSource, PageSource, SearchEngine
from bot.core.language_models import CostAttribution, ModelAnswer, ModelDialect, ModelPerformance, ModelRequest
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import DataSpec
from bot.core.research import FetchedPage, PageText


class ModelGateway(Protocol):
    """The gateway to models."""

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the model in that role; raises ConfigError for a role without a model."""
        ...

    async def ask(self, inquiry: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        """Ask within budget and limits; errors as in ``bot.core.interfaces.TrialContext.ask_model``."""
        ...

    async def grade(self, performance: ModelPerformance, charge: CostAttribution) -> None:
        """Store how the model in a role performed in one trial."""
        ...


class PageTextReader(Protocol):
    """Turns a fetched page into text."""

    async def read(self, fetched: FetchedPage) -> PageText:
        """Return the visible text; raises MalformedDataError if there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculationResult:
    """The result of a calculation: its output, the value of its last line, and its error; each may be missing."""

    printed: str = ""
    value: str = ""
    error: str = ""


class PythonCalculator(Protocol):
    """Runs a Python program that has no access to anything outside."""

    async def run(self, code: str, *, now: datetime) -> CalculationResult:
        """Return the result, with the clock fixed at ``now``; raises ServiceUnavailableError if it could not run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSearchEngine:
    """A search engine under its name in config; ``bounds_dates`` as in ``SearchSpec``."""

    name: str
    engine: SearchEngine
    bounds_dates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredDataSource:
    """A source of series."""

    spec: DataSpec[Any]
    source: DataSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredPageSource:
    """A source of pages with their history."""

    spec: DataSpec[Any]
    source: PageSource
