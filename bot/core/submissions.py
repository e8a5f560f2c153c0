"""Submissions to venues: execution modes, gate decisions, intents, batches, sealed requests and write receipts."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from bot.core.light_dataclass import dataclass
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
    """The durable decision to take one action on one question at one venue.

    ``id`` is derived from venue, account, question, forecast and action, so planning twice has no further effect.
    ``order`` is set if the venue trades, ``text`` for a comment, which costs ``fee``. A withdrawal has no
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
        """Whether it is only valid for the version of the question that was forecast.

        A withdrawal is valid for every version, and so is the sale of a position regardless of the forecast, because a
        changed question is one more reason to sell.
        """
        closes = self.order is not None and self.order.closing != ""
        return self.action is not IntentAction.WITHDRAW and not closes


class IntentState(StrEnum):
    """The state of an intent; ``UNKNOWN`` counts as sent until the opposite is proved."""

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
    """The exact request of one intent; recorded before the venue is contacted.

    ``tag`` identifies it at the venue. ``fence`` is the moment after which it cannot take effect any more and every
    reading shows it, so that its absence is proof; None if any reading proves it. ``question`` is the question of a
    forecast or an order as the writer read it for this request, in the form of the reader: the engine writes only to
    the question that was forecast. If the question has changed, no request is needed: ``tag`` and ``body`` are then
    empty.
    """

    intent: str
    tag: str
    body: str
    fence: datetime | None = None
    question: Question | None = None

    @classmethod
    def without_request(cls, intent: Intent, question: Question) -> Self:
        """Return the reading of a changed question, for which no request was made."""
        return cls(intent=intent.id, tag="", body="", question=question)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionBatch:
    """Intents of one write to a venue, and all questions of that write that the ledger knows.

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

    For a write ``state`` is acked, refused (proved and final), unknown, or absent: provably not written, because its
    batch is not complete yet. No other state is allowed. ``other_writes`` names the other writes that were needed,
    such as cancellations of own orders, for the audit.
    """

    intent: str
    state: IntentState
    reference: str = ""
    detail: str = ""
    fills: tuple[Fill, ...] = ()
    other_writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWrite:
    """A write of the account as the venue lists it, whichever program or person made it.

    ``reference`` is its id there, as in the receipt or the tag of a write of our own; ``text`` describes it.
    """

    reference: str
    contract: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendDecision:
    """Submission is allowed: to the venue, or in paper mode to the paper book.

    ``market_state`` is the market for which its order was planned, as JSON text.
    """

    intent: Intent
    mode: ExecutionMode
    why: str
    market_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldDecision:
    """Submission is not allowed now; ``until`` is when to ask again, None if time alone does not change it."""

    why: str
    until: datetime | None = None


GateDecision = SendDecision | HoldDecision
LIVE_MODES = frozenset({ExecutionMode.APPROVE, ExecutionMode.LIVE})
