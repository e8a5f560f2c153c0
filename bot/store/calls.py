"""Calls to models: reserved at their worst case before they are made, settled after, and found again by request.

A call that was in flight when its run died is lost: it counts as spent at its worst case for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.domain.inquiry import Charge
from bot.domain.step import Usage
from bot.store.runs import Runs


class CallState(StrEnum):
    """Where a call stands."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call about to be made. ``request`` is the digest of all that decides the answer."""

    id: str
    at: datetime
    charge: Charge
    role: str
    provider: str
    model: str
    request: str
    worst_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of a call. ``usage.cost_usd`` is what was spent, also by one that failed.

    ``attempts`` counts the requests that left; ``answer`` is the record of the call as JSON text, None if it failed.
    """

    usage: Usage
    attempts: int
    latency_s: float
    finish: str = ""
    detail: str = ""
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent or is reserved, in US dollars: of one provider in one scope (a forecast)."""

    scope: str
    provider: str
    cost_usd: float


class CostBy(StrEnum):
    """What costs are added up by."""

    QUESTION = "question"
    MODEL = "model"
    DAY = "day"
    VENUE = "venue"
    FORECASTER = "forecaster"
    ROLE = "role"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The calls of one group; ``latency_s`` is the mean of those that were answered, ``forecasts`` counts scopes."""

    name: str
    forecasts: int
    calls: int
    failed: int
    attempts: int
    usage: Usage
    latency_s: float


@dataclass(frozen=True, slots=True)
class Calls:
    """The call log."""

    writer: Runs
    readers: Runs

    async def reserve(self, reservation: Reservation) -> None:
        """Write down a call before it is made."""
        raise NotImplementedError

    async def settle(self, call: str, settlement: Settlement) -> str | None:
        """Write down what became of a reserved call; return the digest of its answer. Raises NotFound, StoreError."""
        raise NotImplementedError

    async def answered(self, request: str) -> tuple[str, str] | None:
        """Return digest and text of the newest answer to the very same request."""
        raise NotImplementedError

    async def lose(self, *, at: datetime) -> int:
        """Mark every call still reserved as lost, at a start, when nothing of this ledger is in flight."""
        raise NotImplementedError

    async def spent(self, *, since: datetime) -> Sequence[Spent]:
        """Return what was spent or reserved from a moment on."""
        raise NotImplementedError

    async def spent_on(self, scope: str) -> float:
        """Return what was spent or reserved on one forecast, in US dollars."""
        raise NotImplementedError

    async def typical(self, forecaster: str, *, least: int = 5) -> float | None:
        """Return the mean cost of one forecast of a forecaster in US dollars, or None with fewer than ``least``."""
        raise NotImplementedError

    async def costs(self, by: CostBy, *, since: datetime | None = None, ref: str | None = None) -> Sequence[CostRow]:
        """Return what was spent, group by group, dearest first (days in order)."""
        raise NotImplementedError
