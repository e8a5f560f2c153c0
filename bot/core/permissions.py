"""Who may do what, and how much may be at stake: user roles, arm records, approvals and the use of caps."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from bot.core.light_dataclass import dataclass


class UserRole(StrEnum):
    """What a person may do, each more than the one before; halting is open to all."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"

    def includes(self, other: "UserRole") -> bool:
        """Return whether somebody with this role may do what the other role may."""
        ranks = list(UserRole)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord:
    """A person's permission to submit to one venue until a moment, for the config it was given for.

    Amounts are in the venue's currency: the maximum cost of one order, of one day and of everything under this record.
    A venue where nothing is paid has no amounts. ``is_of_another_folder``: it was given for a state folder of another
    identity, or on another machine, and is not valid here.
    """

    id: str
    venue: str
    account: str
    config: str
    by: str
    armed_at: datetime
    until: datetime
    per_order: float | None = None
    per_day: float | None = None
    total: float | None = None
    disarmed_at: datetime | None = None
    is_of_another_folder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureGroups:
    """The groups of orders that win or lose together with an order; "" means unknown."""

    event: str = ""
    creator: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUsage:
    """The amounts at risk at one venue: acknowledged, in flight or of unknown outcome, and not settled.

    Amounts are in the currency of the venue. ``question``, ``event``, ``creator``, ``category`` are those of the order
    before the gate; ``day`` is what the orders of this UTC day may cost, ``armed`` those since the arm record, ``hour``
    how many orders and ``submissions`` how many writes there were in the last hour. ``lost_today`` and ``drawdown``
    come from readings of the account: equity lost since the day began, and since its highest reading after the last
    resume.
    """

    question: float = 0.0
    event: float = 0.0
    creator: float = 0.0
    category: float = 0.0
    day: float = 0.0
    total: float = 0.0
    armed: float = 0.0
    hour: int = 0
    lost_today: float = 0.0
    drawdown: float = 0.0


class ApprovalState(StrEnum):
    """The state of a request for approval."""

    ASKED = "asked"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    USED = "used"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionApproval:
    """A person's answer to one forecast that waits to be submitted.

    It is valid for that forecast, up to that cost, until ``expires_at``. ``shown`` is what the person was shown, by
    name.
    """

    id: str
    forecast: str
    venue: str
    cost: float
    state: ApprovalState
    asked_at: datetime
    expires_at: datetime
    by: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze what was shown."""
        object.__setattr__(self, "shown", MappingProxyType(dict(self.shown)))
