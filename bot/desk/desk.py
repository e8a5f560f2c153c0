"""The desk of one trial: the cutoff, what was learned before it, and chance of its own."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.domain.learning import Fitted
from bot.domain.question import Question
from bot.errors import LeakError
from bot.ports import Random

if TYPE_CHECKING:
    import numpy as np


def cutoff_of(question: Question, now: datetime) -> datetime:
    """Return the moment after which nothing may inform a forecast made now: the venue's own, if that is earlier."""
    return now if question.as_of is None else min(now, question.as_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDesk:
    """One trial's desk; raises LeakError when given parameters learned from after the cutoff."""

    forecast: str
    cutoff: datetime
    trial: int
    fitted: Fitted | None
    random: Random

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
