"""From trials to one forecast: the values that the ledger keeps for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from bot.domain.belief import Belief, TrialPrior
from bot.domain.prediction import Prediction
from bot.domain.question import QuestionRef, require_aware
from bot.domain.step import Usage

# The final answer of a model that thinks long takes about as long as one call may take by default.
FINAL_S = 120.0
# A call that hangs is given up this long before the trial ends, so that the trial can still say so itself.
RESERVE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a trial is stopped: after so many steps, seconds, tokens (in and out) or US dollars."""

    steps: int = 10
    seconds: float = 600.0
    tokens: int | None = None
    cost_usd: float | None = None

    @property
    def call_seconds(self) -> float:
        """After how many seconds of the trial no call to a model is waited for any more."""
        return self.seconds - min(RESERVE_S, self.seconds / 20)

    @property
    def final_seconds(self) -> float:
        """How many seconds at its end a trial keeps for its final answer: a fifth of them, at most FINAL_S."""
        return min(FINAL_S, self.seconds / 5)


class TrialEnd(StrEnum):
    """Why a trial ended; all but ``FAILED`` and ``EMPTY`` leave a valid belief."""

    FINISHED = "finished"
    STEP_LIMIT = "step limit"
    TIME_LIMIT = "time limit"
    TOKEN_LIMIT = "token limit"  # noqa: S105 - a count of tokens, no secret
    COST_LIMIT = "cost limit"
    REPEAT_LIMIT = "repeat limit"
    CONTEXT_LIMIT = "context limit"
    FAILED = "failed"
    EMPTY = "no step"


# A trial that ended at one of these counts where it had stated a belief on evidence before.
LIMITS = frozenset(
    {
        TrialEnd.STEP_LIMIT,
        TrialEnd.TIME_LIMIT,
        TrialEnd.TOKEN_LIMIT,
        TrialEnd.COST_LIMIT,
        TrialEnd.REPEAT_LIMIT,
        TrialEnd.CONTEXT_LIMIT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One independent run of a forecaster on one question.

    ``belief`` is the last one on record, also of a trial that failed; ``detail`` says why it ended early. ``prior`` is
    what it started from, where it said so.
    """

    number: int
    end: TrialEnd
    belief: Belief | None
    steps: int
    usage: Usage = field(default_factory=Usage)
    detail: str = ""
    prior: TrialPrior | None = None

    @property
    def counts(self) -> bool:
        """Whether it is an answer: it finished, or it met a limit after it had stated a belief on evidence.

        A trial that does not count has failed: what it began with is no answer.
        """
        if self.belief is None:
            return False
        return self.end is TrialEnd.FINISHED or (self.end in LIMITS and self.belief.stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One revision of one forecaster's answer to one question, as recorded.

    ``cutoff`` is the moment after which nothing informed it; ``raw`` is the aggregate of the trials, ``predictions``
    the same after calibration; ``why`` says what triggered this revision; ``fitted`` and ``calibration`` are the
    digests of the parameters in use, where there were any.
    """

    id: str
    ref: QuestionRef
    version: str
    forecaster: str
    revision: int
    cutoff: datetime
    made_at: datetime
    why: str
    raw: Mapping[str, Prediction]
    predictions: Mapping[str, Prediction]
    fitted: str | None = None
    calibration: str | None = None

    def __post_init__(self) -> None:
        """Check the moments and freeze the predictions."""
        require_aware("cutoff", self.cutoff)
        require_aware("made_at", self.made_at)
        object.__setattr__(self, "raw", MappingProxyType(dict(self.raw)))
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))
