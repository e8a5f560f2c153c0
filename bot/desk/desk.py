"""The desk of one trial: the cutoff, what was learned before it, chance of its own, and a bench of tools and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from bot.desk.bare import BareBench
from bot.domain.conduct import Conduct
from bot.domain.forecast import Limits
from bot.domain.learning import Fitted
from bot.domain.prompt import Answer, Dialect, Prompt, Tool
from bot.domain.question import Question
from bot.domain.research import SourcePolicy
from bot.domain.step import Json, ToolResult
from bot.errors import LeakError
from bot.ports import Random

if TYPE_CHECKING:
    import numpy as np


CLOCK_AHEAD = timedelta(minutes=5)


class Bench(Protocol):
    """The tools and models of one trial; see ``bot.ports.Desk``, which has the same methods."""

    @property
    def policy(self) -> SourcePolicy: ...
    @property
    def tools(self) -> Sequence[Tool]: ...
    @property
    def all_tools(self) -> Sequence[Tool]: ...
    def is_late(self, place: str) -> bool: ...
    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult: ...
    def dialect(self, role: str) -> Dialect: ...
    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer: ...
    async def keep(self, text: str) -> str: ...
    async def grade(self, conduct: Conduct) -> None: ...


def cutoff_of(question: Question, now: datetime) -> datetime:
    """Return the moment after which nothing may inform a forecast made now: the venue's own, if that is earlier."""
    return now if question.as_of is None else min(now, question.as_of)


def as_known(question: Question, cutoff: datetime) -> Question:
    """Return the question without a crowd that spoke after the cutoff; the venue's clock may be a little ahead."""
    crowd = question.crowd
    return question if crowd is None or crowd.at <= cutoff + CLOCK_AHEAD else replace(question, crowd=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDesk:
    """One trial's desk; raises LeakError when given parameters learned from after the cutoff."""

    forecast: str
    cutoff: datetime
    trial: int
    fitted: Fitted | None
    random: Random
    limits: Limits = field(default_factory=Limits)
    bench: Bench = field(default_factory=BareBench)

    def __post_init__(self) -> None:
        """Guard the cutoff."""
        if self.fitted is not None and self.fitted.before > self.cutoff:
            message = (
                f"{self.fitted.forecaster} learned from outcomes up to {self.fitted.before.isoformat()}, "
                f"the cutoff is {self.cutoff.isoformat()}"
            )
            raise LeakError(message)

    def stream(self, *labels: str) -> "np.random.Generator":
        """Return chance that belongs to this forecast, trial and labels alone."""
        return self.random.stream(self.forecast, str(self.trial), *labels)

    @property
    def policy(self) -> SourcePolicy:
        """How questions of this source are best worked on."""
        return self.bench.policy

    @property
    def tools(self) -> Sequence[Tool]:
        """What may be used now."""
        return self.bench.tools

    @property
    def all_tools(self) -> Sequence[Tool]:
        """All tools that may be offered at any time of the trial."""
        return self.bench.all_tools

    def is_late(self, place: str) -> bool:
        """Say whether there is only time for the final answer left."""
        return self.bench.is_late(place)

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool."""
        return await self.bench.use(tool, arguments)

    def dialect(self, role: str) -> Dialect:
        """Return how the model in that role is to be asked."""
        return self.bench.dialect(role)

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        """Ask the model in a role."""
        return await self.bench.ask(role, prompt, seed=seed)

    async def keep(self, text: str) -> str:
        """Put a text on record and return its digest."""
        return await self.bench.keep(text)

    async def grade(self, conduct: Conduct) -> None:
        """Tell how the model in a role did in this trial."""
        await self.bench.grade(conduct)
