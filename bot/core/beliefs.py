"""Beliefs with their evidence, and the steps (action, observation, model usage) that a trial records."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction, prediction_mismatch
from bot.core.questions import Question
from bot.core.values import Json


class ConfidenceLevel(StrEnum):
    """How sure the forecaster says it is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason with its source, and its effect in log-odds where that is known."""

    text: str
    source: str
    log_odds: float | None = None


class PriorSource(StrEnum):
    """What a prior is based on."""

    CROWD = "crowd"
    BASE_RATE = "base rate"
    EVEN = "even odds"


@dataclass(frozen=True, slots=True)
class TrialPrior:
    """What a trial starts from before any evidence, the same for every target of the question."""

    # No field may be named ``kind``: the ledger uses that name to tell the members of unions apart.
    source: PriorSource
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """One prediction per target, with the reasons for it.

    ``anchor`` states the base rate or prior that it started from, ``reason`` why it differs from the belief before.
    ``stated`` is False for the prior of the trial, and for a number given before any evidence: such a belief is never
    the answer of a trial that was stopped.
    """

    predictions: Mapping[str, Prediction]
    confidence: ConfidenceLevel = ConfidenceLevel.LOW
    anchor: str = ""
    evidence_for: tuple[Evidence, ...] = ()
    evidence_against: tuple[Evidence, ...] = ()
    open_questions: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    reason: str = ""
    stated: bool = True

    def __post_init__(self) -> None:
        """Freeze the predictions."""
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))


def belief_mismatch(belief: Belief, question: Question) -> str | None:
    """Return why the belief does not answer the question in full; None if it does."""
    expected = {target.key for target in question.targets}
    if set(belief.predictions) != expected:
        return f"targets {sorted(belief.predictions)} are not the question's {sorted(expected)}"
    for key, prediction in belief.predictions.items():
        if why := prediction_mismatch(prediction, question.shape):
            return f"target {key}: {why}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """Consumption of a model: calls, tokens, and cost in US dollars."""

    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and NaN amounts, which would increase a budget."""
        counts = self.calls >= 0 and self.tokens_in >= 0 and self.tokens_cached >= 0 and self.tokens_out >= 0
        if not (counts and self.cost_usd >= 0):  # also refuses NaN
            message = f"usage must not be negative: {self}"
            raise ValueError(message)

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        if other is NO_USAGE:
            return self
        return ModelUsage(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_cached=self.tokens_cached + other.tokens_cached,
            tokens_out=self.tokens_out + other.tokens_out,
            cost_usd=self.cost_usd + other.cost_usd,
        )


NO_USAGE = ModelUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAction:
    """What the forecaster did: the name of a tool or of a step of a model, with its arguments."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the arguments."""
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepObservation:
    """What was returned, as text, with the digests of the stored documents that it is based on."""

    text: str = ""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSource:
    """One source in the result of a tool: the ``name`` that evidence cites it by, and its details.

    ``date`` is a day (YYYY-MM-DD), ``text`` the part of it that was shown, without the fence around it there.
    ``search`` and ``place`` are the numbers by which a tool reads a search result in full, 0 for any other source.
    """

    name: str
    url: str = ""
    title: str = ""
    date: str = ""
    text: str = ""
    search: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool: text for the model, ``data`` for code, and the cost.

    ``sources`` are those that the text shows, in its order, for code as well. ``failed`` says that the tool could not
    do it; the text then says why in words for the model.
    """

    observation: StepObservation
    usage: ModelUsage = NO_USAGE
    data: Json = None
    sources: tuple[ShownSource, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded move; ``belief`` is complete and valid at every step, so the last one is always an answer.

    ``final`` says that the forecaster has finished, so a limit that is reached in this step does not stop it.
    ``remarks`` are important for an observer, such as the start of a trial or a refused belief update. ``prior`` is the
    prior of the trial, if its first step states it.
    """

    action: StepAction
    observation: StepObservation
    belief: Belief
    usage: ModelUsage = NO_USAGE
    final: bool = False
    remarks: tuple[str, ...] = ()
    prior: TrialPrior | None = None
