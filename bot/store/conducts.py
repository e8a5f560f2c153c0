"""How models did in their trials, and which are replaced by their fallback for a while."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.domain.conduct import Conduct
from bot.store.runs import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    """A model that is not asked until a moment, with the reason."""

    model: str
    at: datetime
    until: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Conducts:
    """The conduct of models."""

    writer: Runs
    readers: Runs

    async def add(self, conduct: Conduct, *, scope: str, trial: int, at: datetime) -> None:
        """Keep how a model did in one role of one trial; the same again changes nothing."""
        raise NotImplementedError

    async def recent(self, model: str, *, limit: int, after: datetime | None = None) -> Sequence[Conduct]:
        """Return the last conducts of a model, newest first, those after a moment only where one is given."""
        raise NotImplementedError

    async def demote(self, demotion: Demotion) -> None:
        """Keep that a model is replaced for a while."""
        raise NotImplementedError

    async def demotions(self, *, now: datetime) -> Sequence[Demotion]:
        """Return the demotions in force, one for each model."""
        raise NotImplementedError

    async def models(self) -> Sequence[str]:
        """Return every model with a conduct on record."""
        raise NotImplementedError
