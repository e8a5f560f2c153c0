"""What leaves: decisions, intents, the batch they travel in, and what the other side said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from bot.domain.order import Fill, Order
from bot.domain.permission import Exposure
from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef


class Mode(StrEnum):
    """What a venue may be used for, from nothing to real submissions."""

    OFF = "off"
    PAPER = "paper"
    APPROVE = "approve"
    LIVE = "live"


class IntentAction(StrEnum):
    """What is done at the venue."""

    FORECAST = "forecast"
    ORDER = "order"
    WITHDRAW = "withdraw"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The durable wish to do one thing about one question at one venue.

    ``id`` is derived from venue, account, question, forecast and action, so that planning twice is planning once.
    ``order`` is there where the venue trades, ``text`` where something is said, for which
    ``fee`` is charged. A withdrawal has no predictions.
    """

    id: str
    account: str
    ref: QuestionRef
    forecast: str
    action: IntentAction
    predictions: Mapping[str, Prediction]
    batch: str
    order: Order | None = None
    text: str = ""
    fee: float = 0.0
    exposure: Exposure = field(default_factory=Exposure)

    def __post_init__(self) -> None:
        """Freeze the predictions."""
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))

    @property
    def rests_on_forecast(self) -> bool:
        """Whether it may go only onto the question that was forecast; what takes something back fits every version.

        A sale whatever the belief does too: who wants out wants out of a changed question all the more.
        """
        closes = self.order is not None and self.order.closing != ""
        return self.action is not IntentAction.WITHDRAW and not closes


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
class Sealed:
    """The request of one intent as it will be written, byte for byte; kept before the wire is touched.

    ``tag`` finds it again at the venue. ``fence`` is the moment from which on it can take effect no more and every
    reading shows it, so that its absence is proof; None where any reading proves it. ``question`` is the question of a
    forecast or an order as the writer read it for this request, made as its reader makes it: the engine writes nothing
    onto another question than the one that was forecast. Where that reading shows that it changed, no request need be
    made: ``tag`` and ``body`` are then empty.
    """

    intent: str
    tag: str
    body: str
    fence: datetime | None = None
    question: Question | None = None

    @classmethod
    def unwritten(cls, intent: Intent, question: Question) -> Self:
        """Return the reading of a question for which no request was made, as it changed."""
        return cls(intent=intent.id, tag="", body="", question=question)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Intents that go to a venue in one write, and all questions the ledger knows to belong to that write.

    ``sealed`` are their requests: to be written, one an intent; or, to be read back, all that were, newest first.
    """

    key: str
    intents: tuple[Intent, ...]
    questions: tuple[Question, ...]
    sealed: tuple[Sealed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one intent; ``fills`` are all that are known of its order, also those known before.

    To a write ``state`` is acked, refused (with proof, for good), unknown, or absent: provably not written, because its
    batch is not complete yet. Nothing else is honest. ``also`` names what else the venue was sent on the way,
    such as cancels of own orders, for the audit.
    """

    intent: str
    state: IntentState
    reference: str = ""
    detail: str = ""
    fills: tuple[Fill, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """May leave: to the venue, or in paper mode to the paper book, as the gate's mode says.

    ``state`` is the market on which its order was planned, as JSON text.
    """

    intent: Intent
    mode: Mode
    why: str
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Must not leave now; ``until`` says when asking again makes sense, None means not by itself."""

    why: str
    until: datetime | None = None


Decision = Send | Hold
