"""Whether a model server may be called now: a circuit breaker, requested pauses, and accounts without money."""

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from bot.config.schema import ProviderSection
from bot.core.errors import FoxcastError, QuotaExhaustedError, ServerUnreachableError, ServiceUnavailableError
from bot.core.interfaces import Clock, RandomStreams
from bot.core.light_dataclass import dataclass
from bot.llm.background_tasks import DailyAlerts
from bot.llm.deadline import RequestDeadline
from bot.llm.providers import is_unreachable

if TYPE_CHECKING:
    import numpy as np

# A shorter wait counts as none. Otherwise a timer that fires early by a rounding error would be set again forever on a
# simulated clock.
MIN_WAIT_S = 1e-5


class RequestVerdict(Enum):
    """What a request shows about its provider: it works, it fails, or neither (the caller gave up)."""

    ALIVE = auto()
    FAILED = auto()
    NONE = auto()


class BreakerTransition(Enum):
    """How a verdict changed the breaker."""

    OPENED = auto()
    CLOSED = auto()
    UNCHANGED = auto()


@dataclass(frozen=True, slots=True)
class BreakerPermit:
    """Permission to send one request; ``probe`` where it tests whether the provider is back."""

    probe: bool = False


_ORDINARY_PERMIT = BreakerPermit()


class CircuitBreaker:
    """Opens after ``failure_limit`` consecutive failures for ``open_s`` seconds, then permits one request at a time."""

    def __init__(self, *, failure_limit: int, open_s: float, clock: Clock) -> None:
        """Start closed."""
        self._failure_limit = failure_limit
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def is_closed(self) -> bool:
        """Whether every request is permitted."""
        return self._opened_at is None

    @property
    def is_probing(self) -> bool:
        """Whether a test request is under way."""
        return self._probing

    @property
    def wait_s(self) -> float:
        """How long no request is permitted, in seconds, as far as is known; 0.0 if one may be sent now."""
        if self._opened_at is None:
            return 0.0
        if self._probing:
            return self._open_s
        left_s = self._opened_at + self._open_s - self._clock.monotonic()
        return left_s if left_s > MIN_WAIT_S else 0.0

    def open(self) -> None:
        """Open now, with any number of failures."""
        self._opened_at = self._clock.monotonic()

    async def wait_for_probe_time(self) -> None:
        """Sleep until a test request may be sent; then it may, even if the clock was changed."""
        opened_at = self._opened_at
        await self._clock.sleep(self.wait_s)
        if opened_at is not None and self._opened_at == opened_at:
            self._opened_at = self._clock.monotonic() - self._open_s

    def acquire_permit(self) -> BreakerPermit | None:
        """Return permission to send one request, or None."""
        if self._opened_at is None:
            return _ORDINARY_PERMIT
        if self._probing or self.wait_s > 0:
            return None
        self._probing = True
        return BreakerPermit(probe=True)

    def record_verdict(self, permit: BreakerPermit, verdict: RequestVerdict) -> BreakerTransition:
        """Record the verdict of a permitted request."""
        if permit.probe:
            self._probing = False
        match verdict:
            case RequestVerdict.ALIVE:
                return self._record_success()
            case RequestVerdict.FAILED:
                return self._record_failure(permit)
            case RequestVerdict.NONE:
                return BreakerTransition.UNCHANGED

    def _record_success(self) -> BreakerTransition:
        was_open = self._opened_at is not None
        self._failures, self._opened_at = 0, None
        return BreakerTransition.CLOSED if was_open else BreakerTransition.UNCHANGED

    def _record_failure(self, permit: BreakerPermit) -> BreakerTransition:
        self._failures += 1
        if self._opened_at is None and self._failures >= self._failure_limit:
            self._opened_at = self._clock.monotonic()
            return BreakerTransition.OPENED
        if permit.probe:
            self._opened_at = self._clock.monotonic()
        return BreakerTransition.UNCHANGED


# Pauses without a stated length are drawn from the upper half of a bound that doubles each time in a row.
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
# One request an hour shows, without harm, whether a daily limit was lifted.
MAX_RETRY_AFTER_S = 3600.0
# An account without money is tried again after this, because a person may have added some.
QUOTA_RETRY_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerServices:
    """The services that the client of a provider needs."""

    clock: Clock
    random: RandomStreams
    alerts: DailyAlerts


class ServerState:
    """The circuit breaker of one server, its pauses, and its quota."""

    def __init__(self, name: str, section: ProviderSection, *, services: ServerServices) -> None:
        """Start with the breaker closed and no pause."""
        self.name = name
        self._section = section
        self._services = services
        self._breaker = CircuitBreaker(failure_limit=section.break_after, open_s=section.break_s, clock=services.clock)
        self._changed = asyncio.Event()
        self._paused_until = 0.0
        self._paused_at = -1.0
        self._pauses = 0
        self._pause_reason = ""
        # The last failure, and whether the server could not be reached.
        self._last_failure = ""
        self._is_unreachable = False
        # Why the account is empty, and until when nothing is sent.
        self._quota_message = ""
        self._quota_retry_at = 0.0
        self._jitter: np.random.Generator | None = None

    @property
    def is_available(self) -> bool:
        """Whether the server is in use, neither paused nor failed."""
        return self._breaker.wait_s == 0.0 and not self._is_quota_exhausted

    @property
    def is_ready(self) -> bool:
        """Whether a request may be sent now."""
        if self._breaker.is_closed and not self._quota_retry_at and not self._paused_until:
            return True
        return self.is_available and self._pause_s == 0.0

    @property
    def wait_s(self) -> float:
        """How long no request is sent, in seconds; the duration of a test request is unknown and not included."""
        return max(self._pause_s, 0.0 if self._breaker.is_probing else self._breaker.wait_s)

    async def wait_until_ready(self, deadline: RequestDeadline) -> None:
        """Wait until a request may be sent.

        Raises ServiceUnavailableError at once if another model can be asked instead, or if the wait would exceed the
        time left; ServerUnreachableError and QuotaExhaustedError at once while these are the cause.
        """
        while not self.is_ready:
            if (error := self._immediate_error) is not None:
                raise error
            if (not self.is_available and deadline.has_alternative()) or self.wait_s >= deadline.remaining_s:
                raise self._unavailable_error()
            if self._pause_s:
                await self._wait_out_pause()
            else:
                await self._wait_out_breaker()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but stop as soon as waiting for this server cannot help."""
        sleep = asyncio.ensure_future(self._services.clock.sleep(seconds))
        try:
            while not sleep.done() and self._immediate_error is None:
                await self._wait_for_change(sleep)
        finally:
            sleep.cancel()

    def acquire_permit(self) -> BreakerPermit | None:
        """Return permission to send one request, or None."""
        return self._breaker.acquire_permit() if self._pause_s == 0.0 else None

    def record_verdict(self, permit: BreakerPermit, verdict: RequestVerdict, error: FoxcastError | None = None) -> None:
        """Record the verdict of a request, with its error; alert a person when the breaker opens."""
        transition = self._breaker.record_verdict(permit, verdict)
        if verdict is RequestVerdict.ALIVE:
            self._pauses, self._is_unreachable = 0, False
        elif verdict is RequestVerdict.FAILED:
            self._last_failure = "no answer in time" if error is None else str(error)
            self._is_unreachable = error is not None and is_unreachable(error)
        if transition is not BreakerTransition.UNCHANGED or permit.probe:
            self._notify_waiters()
        if transition is BreakerTransition.OPENED:
            self._alert_unavailable(f"{self._section.break_after} consecutive requests failed: {self._last_failure}")

    def mark_unreachable(self, error: FoxcastError) -> None:
        """Stop calling the server because it cannot be reached; all requests that wait for it fail at once."""
        if self.is_available:
            self._last_failure, self._is_unreachable = str(error), True
            self._breaker.open()
            self._notify_waiters()
            self._alert_unavailable(self._last_failure)

    def mark_quota_exhausted(self, error: QuotaExhaustedError) -> QuotaExhaustedError:
        """Send nothing for a while because the account is empty; return the error for all waiting requests.

        A person is alerted.
        """
        was_empty = self._is_quota_exhausted
        minutes = round(QUOTA_RETRY_S / 60)
        self._quota_message = (
            f"{error}; nothing is sent to {self.name} until its account has money or quota; it is tried again in "
            f"{minutes} minutes"
        )
        self._quota_retry_at = self._services.clock.monotonic() + QUOTA_RETRY_S
        if not was_empty:
            self._notify_waiters()
            self._services.alerts.alert_once(
                f"quota {self.name}", f"No money or quota at {self.name}", f"{self._quota_message}."
            )
        return QuotaExhaustedError(self._quota_message)

    def pause_requests(self, error: ServiceUnavailableError, *, sent_at: float) -> None:
        """Send nothing for as long as the server asks, or for a growing time if it does not say how long."""
        now = self._services.clock.monotonic()
        self._pause_reason = str(error)
        asked_s = min(MAX_RETRY_AFTER_S, error.retry_after_s or 0.0)
        # Requests that were sent together are refused together, which is one pause.
        if sent_at > self._paused_at:
            self._paused_at = now
            self._pauses += 1
            asked_s = max(asked_s, self._backoff_s())
        self._paused_until = max(self._paused_until, now + asked_s)

    @property
    def _is_quota_exhausted(self) -> bool:
        return self._quota_retry_at > 0.0 and self._quota_retry_at - self._services.clock.monotonic() > MIN_WAIT_S

    @property
    def _immediate_error(self) -> FoxcastError | None:
        """The error if waiting does not help; None while a test request is under way."""
        if self._is_quota_exhausted:
            return QuotaExhaustedError(self._quota_message)
        if self._is_unreachable and self._breaker.wait_s and not self._breaker.is_probing:
            return ServerUnreachableError(self._last_failure)
        return None

    @property
    def _pause_s(self) -> float:
        if not self._paused_until:
            return 0.0
        left_s = self._paused_until - self._services.clock.monotonic()
        return left_s if left_s > MIN_WAIT_S else 0.0

    def _backoff_s(self) -> float:
        if self._jitter is None:
            self._jitter = self._services.random.stream("llm", "pause", self.name)
        bound = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (min(self._pauses, 20) - 1))
        return float(self._jitter.uniform(bound / 2, bound))

    async def _wait_out_pause(self) -> None:
        until = self._paused_until
        await self.sleep(self._pause_s)
        if self._paused_until == until and self._immediate_error is None:
            self._paused_until = 0.0

    async def _wait_out_breaker(self) -> None:
        """Wait until the breaker changes or a test request may be sent; the duration of one under way is unknown."""
        probe_timer = None if self._breaker.is_probing else asyncio.ensure_future(self._breaker.wait_for_probe_time())
        try:
            await self._wait_for_change(probe_timer)
        finally:
            if probe_timer is not None:
                probe_timer.cancel()

    async def _wait_for_change(self, other: "asyncio.Future[None] | None" = None) -> None:
        """Wait until the breaker changes, or the other event has happened."""
        changed = asyncio.ensure_future(self._changed.wait())
        waits: list[asyncio.Future[Any]] = [changed] if other is None else [changed, other]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    def _notify_waiters(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _alert_unavailable(self, what: str) -> None:
        text = (
            f"{what}. Nothing is sent to it for {self._section.break_s:g} s; then it is tried again. Meanwhile the "
            "fallbacks of roles are asked, if they use another provider."
        )
        self._services.alerts.alert_once(f"breaker {self.name}", f"Provider {self.name} does not answer", text)

    def _unavailable_error(self) -> ServiceUnavailableError:
        wait_s = self.wait_s or self._breaker.wait_s
        if self.is_available:
            message = f"{self.name} asked for a pause of another {wait_s:.0f} s: {self._pause_reason}"
        elif self._is_unreachable:
            return ServerUnreachableError(self._last_failure)
        else:
            count = self._section.break_after
            message = (
                f"{self.name} failed {count} times in a row and is not used for {wait_s:.0f} s: {self._last_failure}"
            )
        return ServiceUnavailableError(message, retry_after_s=wait_s)
