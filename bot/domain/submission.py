"""What leaves: decisions, intents, the batch they travel in, and what the other side said."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef


class Mode(StrEnum):
    """What a venue may be used for, from nothing to real submissions."""

    OFF = "off"
    PAPER = "paper"
    APPROVE = "approve"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The durable wish to have one forecast stand at one venue.

    ``id`` is derived from venue, account, question, forecast and action, so that planning twice is planning once.
    """

    id: str
    account: str
    ref: QuestionRef
    forecast: str
    action: str
    predictions: Mapping[str, Prediction]
    batch: str

    def __post_init__(self) -> None:
        """Freeze the predictions."""
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))


class IntentState(StrEnum):
    """Where an intent stands; ``UNKNOWN`` counts as sent until proved otherwise."""

    PLANNED = "planned"
    READY = "ready"
    SENDING = "sending"
    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    ABSENT = "absent"
    IN_DOUBT = "in doubt"
    SUPERSEDED = "superseded"


FINAL_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.SUPERSEDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Intents that go to a venue in one write, and all questions the ledger knows to belong to that write."""

    key: str
    intents: tuple[Intent, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one intent.

    To a write ``state`` is acked, refused (with proof, for good), unknown, or absent: provably not written, because its
    batch is not complete yet. Nothing else is honest.
    """

    intent: str
    state: IntentState
    reference: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """May leave: to the venue, or in paper mode to the paper book, as the gate's mode says."""

    intent: Intent
    mode: Mode
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Must not leave now; ``until`` says when asking again makes sense, None means not by itself."""

    why: str
    until: datetime | None = None


Decision = Send | Hold
