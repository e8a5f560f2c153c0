"""What a workshop is put together from: models, engines, gauges, shelves, and the reader of pages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Dialect
from bot.domain.research import Fetched, Page
from bot.ports import DataSource, PageSource, SearchEngine
from bot.specs import Can, DataSpec


class Models(Protocol):
    """What the gateway to models offers."""

    def dialect(self, role: str) -> Dialect:
        """Return how the model in that role is asked for a move; raises ConfigError for a role without a model."""
        ...

    async def ask(self, inquiry: Inquiry, *, deadline_s: float) -> Answer:
        """Ask within budget and limits; errors as in ``bot.ports.Desk.ask``."""
        ...

    async def grade(self, conduct: Conduct, charge: Charge) -> None:
        """Keep how the model in a role did in one trial."""
        ...


class PageReader(Protocol):
    """Turns what was fetched into text."""

    async def read(self, fetched: Fetched) -> Page:
        """Return the visible text; raises ContractError where there is none to be had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What a calculation came to: what it printed, the value of its last line, and what went wrong, each if any."""

    printed: str = ""
    value: str = ""
    error: str = ""


class Calculator(Protocol):
    """Runs a piece of Python that can reach nothing."""

    async def run(self, code: str, *, now: datetime) -> Sum:
        """Return what it came to with its clock standing at ``now``; raises Unavailable where it could not run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A search engine under its name in config."""

    name: str
    engine: SearchEngine
    abilities: frozenset[Can] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A source of series."""

    spec: DataSpec[Any]
    source: DataSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A source of pages with a past."""

    spec: DataSpec[Any]
    source: PageSource
