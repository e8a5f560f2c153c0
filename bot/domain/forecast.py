"""From trials to one forecast: the values that the ledger keeps for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from bot.domain.belief import Belief
from bot.domain.prediction import Prediction
from bot.domain.question import QuestionRef, require_aware
from bot.domain.step import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a trial is stopped: after so many steps, seconds, tokens (in and out) or US dollars."""

    steps: int = 10
    seconds: float = 600.0
    tokens: int | None = None
    cost_usd: float | None = None


class TrialEnd(StrEnum):
    """Why a trial ended; every end but ``EMPTY`` leaves a valid belief."""

    FINISHED = "finished"
    STEP_LIMIT = "step limit"
    TIME_LIMIT = "time limit"
    TOKEN_LIMIT = "token limit"  # noqa: S105 - a count of tokens, no secret
    COST_LIMIT = "cost limit"
    FAILED = "failed"
    EMPTY = "no step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One independent run of a forecaster on one question."""

    number: int
    end: TrialEnd
    belief: Belief | None
    steps: int
    usage: Usage = field(default_factory=Usage)
    detail: str = ""


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
