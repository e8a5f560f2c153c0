"""Submissions to venues: execution modes, gate decisions, intents, batches, sealed requests and write receipts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from bot.core.orders import Fill, Order
from bot.core.permissions import ExposureGroups
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef


class ExecutionMode(StrEnum):
    """What a venue may be used for, from nothing to real submissions."""

    OFF = "off"
    PAPER = "paper"
    APPROVE = "approve"
    LIVE = "live"


class IntentAction(StrEnum):
    """The action at the venue."""

    FORECAST = "forecast"
    ORDER = "order"
    WITHDRAW = "withdraw"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The durable decision to do one thing about one question at one venue.

    ``id`` is derived from venue, account, question, forecast and action, so that planning twice is planning once.
    ``order`` is set where the venue trades, ``text`` for a comment, which costs ``fee``. A withdrawal has no
    predictions.
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
    exposure: ExposureGroups = field(default_factory=ExposureGroups)

    def __post_init__(self) -> None:
        """Freeze the predictions."""
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))

    @property
    def requires_same_question(self) -> bool:
        """Whether it is only valid for the version of the question that was forecast; withdrawals fit every version.

        So does the sale of a position whatever the belief: a changed question is one more reason to sell.
        """
        closes = self.order is not None and self.order.closing != ""
        return self.action is not IntentAction.WITHDRAW and not closes


class IntentState(StrEnum):
    """The state of an intent; ``UNKNOWN`` counts as sent until proved otherwise."""

    PLANNED = "planned"
    READY = "ready"
    SENDING = "sending"
    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    ABSENT = "absent"
    IN_DOUBT = "in doubt"
    SUPERSEDED = "superseded"


FINAL_INTENT_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.SUPERSEDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRequest:
    """The request of one intent as it will be written, byte for byte; recorded before the venue is contacted.

    ``tag`` finds it again at the venue. ``fence`` is the moment after which it can take effect no more and every
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
    def without_request(cls, intent: Intent, question: Question) -> Self:
        """Return the changed reading of a question for which no request was made."""
        return cls(intent=intent.id, tag="", body="", question=question)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionBatch:
    """Intents that go to a venue in one write, and all questions that the ledger knows to belong to that write.

    ``sealed`` are their requests: those to be written, one per intent; or, for reading back, all that were written,
    newest first.
    """

    key: str
    intents: tuple[Intent, ...]
    questions: tuple[Question, ...]
    sealed: tuple[SealedRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReceipt:
    """The result of a write for one intent; ``fills`` are all known fills of its order, including earlier ones.

    For a write ``state`` is acked, refused (with proof, for good), unknown, or absent: provably not written, because
    its batch is not complete yet. No other state is allowed. ``other_writes`` names the other writes that were needed,
    such as cancellations of own orders, for the audit.
    """

    intent: str
    state: IntentState
    reference: str = ""
    detail: str = ""
    fills: tuple[Fill, ...] = ()
    other_writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SendDecision:
    """Submission is allowed: to the venue, or in paper mode to the paper book, as the gate's mode says.

    ``market_state`` is the market on which its order was planned, as JSON text.
    """

    intent: Intent
    mode: ExecutionMode
    why: str
    market_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldDecision:
    """Submission is not allowed now; ``until`` says when asking again makes sense, None means not by itself."""

    why: str
    until: datetime | None = None


GateDecision = SendDecision | HoldDecision


LIVE_MODES = frozenset({ExecutionMode.APPROVE, ExecutionMode.LIVE})
