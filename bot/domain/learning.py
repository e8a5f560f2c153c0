"""What is learned from outcomes, and the rounds and sheets that backtests and scorers read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef, require_aware
from bot.domain.resolution import Outcome, Resolution
from bot.domain.step import Json

# A step of this name leaves the text of its argument "text" as a note to those who forecast later.
NOTE_TO_SELF = "keep_lesson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Parameters that a forecaster learned strictly from outcomes that were known before ``before``.

    ``payload`` is the forecaster's own JSON object; ``provenance`` says in words where the examples came from.
    """

    forecaster: str
    before: datetime
    examples: int
    payload: Mapping[str, Json]
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the moment and freeze."""
        require_aware("before", self.before)
        object.__setattr__(self, "payload", MappingProxyType(dict(self.payload)))
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """The last word of a forecaster on a target, and what happened then.

    ``prediction`` is what its trials said together, before calibration; ``reason`` what the last of them gave as its
    reason, and ``notes`` are the texts of its steps of the name ``keep_lesson``: both are words of models.
    """

    forecast: str
    forecaster: str
    question: Question
    prediction: Prediction
    resolution: Resolution
    cutoff: datetime
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What happened."""
        return self.resolution.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Questions that a venue asked at one moment, with the outcomes published so far."""

    key: str
    as_of: datetime
    questions: tuple[Question, ...]
    resolutions: tuple[Resolution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A file of forecasts written by anyone: probability by question and target, as given.

    ``complaints`` are the rows that the documented rules drop, each with its reason.
    """

    name: str
    author: str
    round: str
    probabilities: Mapping[tuple[QuestionRef, str], float]
    complaints: Sequence[str] = ()
