"""Requests of a person to the running daemon, such as locks, arming, halts and approvals.

The daemon alone writes the ledger, so all other commands send it requests.
"""

import math
from dataclasses import field
from datetime import datetime
from typing import Literal

from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide
from bot.core.permissions import UserRole
from bot.core.questions import Question, QuestionRef
from bot.core.values import require_timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class LockQuestion:
    """Make no forecast of a question until a moment, or until it is unlocked; ``forecaster`` None means all of them."""

    ref: QuestionRef
    reason: str
    forecaster: str | None = None
    until: datetime | None = None
    kind: Literal["lock"] = "lock"

    def __post_init__(self) -> None:
        """Refuse a lock without a reason."""
        require_timezone("until", self.until)
        if not self.reason.strip():
            message = "a lock needs a reason"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockQuestion:
    """Remove a lock; the name, time and proof of the requester are required as soon as any token exists."""

    ref: QuestionRef
    forecaster: str | None = None
    by: str = ""
    asked_at: datetime | None = None
    proof: str = field(default="", repr=False)
    kind: Literal["unlock"] = "unlock"

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("asked_at", self.asked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQuestion:
    """Forecast a question now; ``question`` is its present version, if the ledger may not have it.

    The forecast goes to the gate only with ``submit``. The name, time and proof of the requester are required as soon
    as any token exists.
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
        """Refuse a question with another reference, and a moment without a time zone."""
        require_timezone("asked_at", self.asked_at)
        if self.question is not None and self.question.ref != self.ref:
            message = f"a forecast of {self.ref} is requested with the question {self.question.ref}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFields:
    """The base of all privileged requests: who asks, when, and the proof of it.

    ``proof`` is "" while there is no token.
    """

    by: str
    asked_at: datetime
    proof: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("asked_at", self.asked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmVenue(SignedFields):
    """Permit submission to a venue until a moment, under the configuration of that digest.

    Raises ValueError for invalid amounts.
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
        require_timezone("asked_at", self.asked_at)
        require_timezone("until", self.until)
        for name in ("per_order", "per_day", "total"):
            amount = getattr(self, name)
            if amount is not None and not (math.isfinite(amount) and amount > 0.0):
                message = f"{name} {amount} is not a valid amount"
                raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisarmVenue(SignedFields):
    """Revoke live submission for a venue."""

    venue: str
    kind: Literal["disarm"] = "disarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltSubmissions(SignedFields):
    """Stop all submissions to a venue, or everywhere (""); ``all_orders``: also cancel orders that are not ours."""

    reason: str
    venue: str = ""
    all_orders: bool = False
    kind: Literal["halt"] = "halt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSubmissions(SignedFields):
    """End the halts of a venue; None: all halts."""

    venue: str | None = None
    kind: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerApproval(SignedFields):
    """Approve or reject a forecast that waits for it; ``approval`` is the id of the approval request."""

    approval: str
    approved: bool
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrincipal(SignedFields):
    """Add a person with a token, of which only salt and hash are stored."""

    name: str
    role: UserRole
    salt: str = field(repr=False)
    hash: str = field(repr=False)
    kind: Literal["principal"] = "principal"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokePrincipal(SignedFields):
    """Revoke a person's token."""

    name: str
    kind: Literal["revoke"] = "revoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptIntent(SignedFields):
    """State the result of an intent of unknown outcome: its reference at the venue, or that it is absent there.

    Raises ValueError for both and for neither.
    """

    intent: str
    reference: str = ""
    absent: bool = False
    reason: str = ""
    kind: Literal["adopt"] = "adopt"

    def __post_init__(self) -> None:
        """Check the time zone, and that exactly one result is stated."""
        require_timezone("asked_at", self.asked_at)
        if self.absent == bool(self.reference.strip()):
            message = "state either the reference of the intent at the venue, or that it is absent there"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionToClose:
    """One position: the shares that an account holds of one leg of a contract."""

    venue: str
    contract: str
    leg: ContractSide


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePositions(SignedFields):
    """Sell these positions regardless of the forecast; it has its own request folder (``bot.store.requests``)."""

    targets: tuple[PositionToClose, ...]
    kind: Literal["close"] = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawForecast(SignedFields):
    """Withdraw the published forecast of a question, also on paper."""

    ref: QuestionRef
    reason: str = ""
    kind: Literal["withdraw"] = "withdraw"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptFolder(SignedFields):
    """Make the state folder belong to its present place and machine, so that it may submit live again."""

    kind: Literal["adopt_folder"] = "adopt_folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidePair(SignedFields):
    """State whether two questions ask the same; ``texts`` is the digest of what the person was shown."""

    pair: str
    texts: str
    confirmed: bool
    kind: Literal["decide_pair"] = "decide_pair"


PrivilegedRequest = (
    ArmVenue
    | DisarmVenue
    | HaltSubmissions
    | ResumeSubmissions
    | AnswerApproval
    | AddPrincipal
    | RevokePrincipal
    | AdoptIntent
    | WithdrawForecast
    | AdoptFolder
    | DecidePair
)
# Each is signed by the requester.
SignedRequest = UnlockQuestion | ForecastQuestion | ClosePositions | PrivilegedRequest
OperatorRequest = LockQuestion | SignedRequest


# The following requests are about orders that were permitted before; they have their own request folder
# (``bot.store.requests``).
@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOrder:
    """Cancel an open order at its venue, by the id of its intent. Like a halt, anybody may request it."""

    intent: str
    by: str
    asked_at: datetime
    kind: Literal["cancel"] = "cancel"

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("asked_at", self.asked_at)
