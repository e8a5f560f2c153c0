"""What a person asks of the running daemon; it alone writes the ledger, so it is asked and does it itself."""

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from bot.domain.order import Leg
from bot.domain.permission import Role
from bot.domain.question import Question, QuestionRef, require_aware


@dataclass(frozen=True, slots=True, kw_only=True)
class LockQuestion:
    """Leave a question alone until a moment, or until it is unlocked; ``forecaster`` None means all of them."""

    ref: QuestionRef
    reason: str
    forecaster: str | None = None
    until: datetime | None = None
    kind: Literal["lock"] = "lock"

    def __post_init__(self) -> None:
        """Refuse a lock that nobody could explain later."""
        require_aware("until", self.until)
        if not self.reason.strip():
            message = "a lock needs a reason"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockQuestion:
    """Take a lock off again; who asks, when, and the proof of it are needed where somebody has a token."""

    ref: QuestionRef
    forecaster: str | None = None
    by: str = ""
    asked_at: datetime | None = None
    proof: str = field(default="", repr=False)
    kind: Literal["unlock"] = "unlock"

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("asked_at", self.asked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQuestion:
    """Forecast a question now; ``question`` is how it stands, where the ledger may not know it.

    Only where it is to ``submit`` does the forecast come before the gate.

    Who asks, when, and the proof of it are needed where somebody has a token.
    """

    ref: QuestionRef
    forecaster: str
    question: Question | None = None
    submit: bool = False
    by: str = ""
    asked_at: datetime | None = None
    proof: str = field(default="", repr=False)
    kind: Literal["forecast"] = "forecast"

    def __post_init__(self) -> None:
        """Refuse a question under the name of another, and a moment without a time zone."""
        require_aware("asked_at", self.asked_at)
        if self.question is not None and self.question.ref != self.ref:
            message = f"a forecast of {self.ref} is asked for with the question {self.question.ref}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """The head of what only some people may ask for: who asks, when, and the proof that it is they.

    ``proof`` is "" where nobody has a token yet.
    """

    by: str
    asked_at: datetime
    proof: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("asked_at", self.asked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmVenue(Signed):
    """Give leave to submit to a venue until a moment, under the configuration of that digest.

    Raises ValueError for amounts that are none.
    """

    venue: str
    account: str
    config: str
    until: datetime
    per_order: float | None = None
    per_day: float | None = None
    total: float | None = None
    kind: Literal["arm"] = "arm"

    def __post_init__(self) -> None:
        """Check amounts and moments."""
        require_aware("asked_at", self.asked_at)
        require_aware("until", self.until)
        for name in ("per_order", "per_day", "total"):
            amount = getattr(self, name)
            if amount is not None and not (math.isfinite(amount) and amount > 0.0):
                message = f"{name} {amount} is no amount that may be spent"
                raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisarmVenue(Signed):
    """Take back leave to submit to a venue."""

    venue: str
    kind: Literal["disarm"] = "disarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt(Signed):
    """Let nothing leave to a venue, or anywhere ("")."""

    reason: str
    venue: str = ""
    kind: Literal["halt"] = "halt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Signed):
    """End what stops a venue; None: everything that stops anything."""

    venue: str | None = None
    kind: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerApproval(Signed):
    """Approve or reject a forecast that waits for it; ``approval`` is the id of what was asked."""

    approval: str
    approved: bool
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrincipal(Signed):
    """Give somebody a token, of which only salt and hash are known here."""

    name: str
    role: Role
    salt: str = field(repr=False)
    hash: str = field(repr=False)
    kind: Literal["principal"] = "principal"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokePrincipal(Signed):
    """Take somebody's token away."""

    name: str
    kind: Literal["revoke"] = "revoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptIntent(Signed):
    """Say what became of an intent that is in doubt: that it stands at the venue under a name, or that it does not.

    Raises ValueError for both and for neither.
    """

    intent: str
    reference: str = ""
    absent: bool = False
    reason: str = ""
    kind: Literal["adopt"] = "adopt"

    def __post_init__(self) -> None:
        """Check the time zone, and that one thing is said."""
        require_aware("asked_at", self.asked_at)
        if self.absent == bool(self.reference.strip()):
            message = "say under which name it stands at the venue, or that it does not"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingTarget:
    """One position: the shares that an account holds of one leg of a contract."""

    venue: str
    contract: str
    leg: Leg


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePositions(Signed):
    """Sell these positions whatever the belief; it waits in a folder of its own (``bot.store.closings``)."""

    targets: tuple[ClosingTarget, ...]
    kind: Literal["close"] = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawForecast(Signed):
    """Take back the forecast of a question that stands at its venue, or on paper."""

    ref: QuestionRef
    reason: str = ""
    kind: Literal["withdraw"] = "withdraw"


LeaveRequest = (
    ArmVenue
    | DisarmVenue
    | Halt
    | Resume
    | AnswerApproval
    | AddPrincipal
    | RevokePrincipal
    | AdoptIntent
    | WithdrawForecast
)
# Each is signed by who asks.
SignedRequest = UnlockQuestion | ForecastQuestion | ClosePositions | LeaveRequest
Request = LockQuestion | SignedRequest


# What follows is asked of orders that were let go already, and waits in a folder of its own (``bot.store.cancels``).
@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOrder:
    """Take an order back that rests at its venue, by the id of its intent. Like halting, this is open to all."""

    intent: str
    by: str
    asked_at: datetime
    kind: Literal["cancel"] = "cancel"

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("asked_at", self.asked_at)
