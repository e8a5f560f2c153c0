"""Training data and fitted parameters: examples, resolved forecasts, past rounds and forecast files."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from types import MappingProxyType

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Outcome, Resolution
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.core.values import Json, require_timezone

# A step of this name records the text of its argument "text" as a note for later forecasts.
LESSON_ACTION = "keep_lesson"
# The tool of a trial that shows such notes while their question is open: no outcome has confirmed them.
UNRESOLVED_NOTES_TOOL = "unresolved_notes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedParameters:
    """Parameters that a forecaster learned only from outcomes that were known before ``before``.

    ``payload`` is the forecaster's own JSON object; ``provenance`` says in words where the examples came from.
    """

    forecaster: str
    before: datetime
    examples: int
    payload: Mapping[str, Json]
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the moment and freeze."""
        require_timezone("before", self.before)
        object.__setattr__(self, "payload", MappingProxyType(dict(self.payload)))
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedForecast:
    """The last prediction of a forecaster for a target, and the outcome.

    ``prediction`` is the aggregate of its trials, before calibration; ``reason`` is the reason that the last of them
    gave, and ``notes`` are the texts of its steps named ``keep_lesson``: models wrote both.
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
        """The outcome."""
        return self.resolution.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedNote:
    """A note that a forecaster kept in a forecast whose question is still open; a model wrote it."""

    forecast: str
    ref: QuestionRef
    title: str
    made_at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Questions that a venue asked at one moment, with the outcomes published so far."""

    key: str
    as_of: datetime
    questions: tuple[Question, ...]
    resolutions: tuple[Resolution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastFile:
    """A file of forecasts written by anyone: probability by question and target, as given.

    ``dropped_rows`` are the rows that the documented rules drop, each with its reason.
    """

    name: str
    author: str
    round: str
    probabilities: Mapping[tuple[QuestionRef, str], float]
    dropped_rows: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExample:
    """A resolved target to learn from; the question has no text if only its outcome was published."""

    question: Question
    resolution: Resolution
