"""What a forecaster believes at one moment, and why: the record that is logged at every step."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bot.domain.prediction import Prediction, mismatch
from bot.domain.question import Question


class Confidence(StrEnum):
    """How sure the forecaster says it is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason, where it comes from, and how far it moved the log-odds where that is known."""

    text: str
    source: str
    log_odds: float | None = None


class PriorSource(StrEnum):
    """What a prior rests on."""

    CROWD = "crowd"
    BASE_RATE = "base rate"
    EVEN = "even odds"


@dataclass(frozen=True, slots=True)
class TrialPrior:
    """What a trial starts from before any evidence, the same for every target of the question."""

    # No field of the name ``kind``: the ledger tells the members of unions apart by that.
    source: PriorSource
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """One prediction per target, with the reasons for it.

    ``anchor`` states the base rate or prior it started from, ``reason`` why this belief differs from the one before.
    ``stated`` is False while it is what the trial began with, or a number given before any evidence was seen: such a
    belief is never the answer of a trial that was cut short.
    """

    predictions: Mapping[str, Prediction]
    confidence: Confidence = Confidence.LOW
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


def unfit(belief: Belief, question: Question) -> str | None:
    """Say why the belief does not answer the question in full; None if it does."""
    expected = {target.key for target in question.targets}
    if set(belief.predictions) != expected:
        return f"targets {sorted(belief.predictions)} are not the question's {sorted(expected)}"
    for key, prediction in belief.predictions.items():
        if why := mismatch(prediction, question.shape):
            return f"target {key}: {why}"
    return None
