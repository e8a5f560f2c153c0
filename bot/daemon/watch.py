"""The limits the daemon lives by, where its reports go, and the ways it can end."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bot.domain.vitals import Vital

# How long what runs may take to finish once somebody asked to stop.
DRAIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How the daemon watches over itself; all durations in seconds.

    ``seed`` spreads the slots of this installation apart from those of others; ``notify_socket`` is where the
    supervisor listens (systemd's NOTIFY_SOCKET), if there is one. The defaults are those of the reliability study,
    section 3.5. Raises ValueError where the limits are not in the order heartbeat < wake < abort.
    """

    seed: int = 0
    notify_socket: str | None = None
    heartbeat_s: float = 10.0
    look_s: float = 5.0
    wake_after_s: float = 30.0
    abort_after_s: float = 120.0
    clock_step_s: float = 5.0
    lag_every_s: float = 0.1
    lag_warn_s: float = 0.25
    drain_s: float = DRAIN_S

    def __post_init__(self) -> None:
        """Refuse limits under which a healthy daemon would be taken for a dead one."""
        if not 0.0 < self.heartbeat_s < self.wake_after_s < self.abort_after_s:
            limits = f"{self.heartbeat_s}, {self.wake_after_s}, {self.abort_after_s} s"
            message = f"a watch needs heartbeat < wake < abort, got {limits}"
            raise ValueError(message)
        intervals = (self.look_s, self.clock_step_s, self.lag_every_s, self.lag_warn_s, self.drain_s)
        if not all(interval > 0.0 for interval in intervals):
            message = f"the intervals of a watch are positive: {self}"
            raise ValueError(message)


class Record(Protocol):
    """Where the daemon's reports go, usually the ledger."""

    async def __call__(self, vital: Vital, /) -> None:
        """Keep one report; a StoreError ends the daemon, since what it does could no longer be recorded."""
        ...


class ExitReason(StrEnum):
    """Why the daemon, or one pass of it, came to an end."""

    DONE = "every job did its work"
    FAILED = "a job failed"
    UNAUTHORIZED = "a job has no credentials that are taken"
    UNAVAILABLE = "what a job needs is not available now"
    ASKED = "asked to stop"
    CUT = "asked to stop, and a job was cut off"
    STORE = "the store needs a person"
    STALLED = "the scheduler stood still"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a run; ``detail`` names the jobs concerned, or the error with its remedy."""

    reason: ExitReason
    detail: str = ""

    @property
    def clean(self) -> bool:
        """Whether nothing failed and nothing was cut off."""
        return self.reason in {ExitReason.DONE, ExitReason.ASKED}
