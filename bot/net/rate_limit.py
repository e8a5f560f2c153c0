"""Rate limits of services, kept by all clients of a process, by all processes of a machine, and across restarts.

A service counts requests when they arrive, and that moment is not known here. A request arrives between its sending
and its response, so it counts from its sending until one window after its response: then no window of the service
holds more requests than it allows. Usage is recorded before a request is sent, so after a kill the next process knows
the worst case. Ages are measured with the monotonic clock. Across restarts the smaller of the ages by the two clocks
counts, so setting the wall clock back neither frees capacity nor delays a request by more than one window.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right, insort
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, Self

import structlog

from bot.core.errors import ConfigError, ServiceUnavailableError, StoreError
from bot.core.light_dataclass import dataclass
from bot.net.rate_headers import REFUSAL_STATUSES, TOO_MANY_REQUESTS, requested_wait_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bot.core.interfaces import Clock, RandomStreams
    from bot.core.venue_http import RateLimit

log = structlog.get_logger(__name__)
# The clocks of the two sides run at different speeds; the ratio is below this.
CLOCK_MARGIN = 1.001
# How long bytes may still be in transit after a connection was abandoned, or after a kill.
IN_TRANSIT_S = 1.0
# The shortest wait, so that rounding cannot cause a busy loop.
MIN_WAIT_S = 0.001
# The longest pause; a service that asks for more is asked again after this.
MAX_PAUSE_S = 86_400.0
# A request of another process is answered or abandoned after this at the latest.
MAX_ANSWER_S = 60.0
# The pause after the first refusal that names no wait; it doubles with each further refusal.
FIRST_PAUSE_S = 1.0
MAX_GUESSED_PAUSE_S = 60.0
# Requests that follow each other faster than this are recorded in blocks, before they are sent.
RECORD_EVERY_S = 0.05
RECORD_AHEAD_S = 0.25
# Responses are recorded in this many classes of age.
AGE_CLASSES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RateUsage:
    """The usage of one rate limit when it was recorded, by both clocks; all else is in seconds before or after that.

    ``responses`` are the responses that still count, as (age, count). ``in_flight`` is how many requests were in
    flight, or may be sent before the next record. ``paused_s`` remained of a pause, ``spacing_s`` until the next burst.
    """

    at: datetime
    monotonic_s: float
    in_flight: int
    responses: tuple[tuple[float, int], ...] = ()
    paused_s: float = 0.0
    spacing_s: float = 0.0


class RateUsageStore(Protocol):
    """Where the usage of rate limits is recorded."""

    async def load(self, name: str) -> RateUsage | None:
        """Return the last recorded usage of a rate limit; raises StoreError."""
        ...

    async def save(self, name: str, usage: RateUsage, *, free_at: datetime) -> None:
        """Record usage durably; ``free_at`` tells a person when the next request may be sent. Raises StoreError."""
        ...


class SharedRateUsage(Protocol):
    """The usage of the same rate limits by other processes of this machine."""

    def try_lock(self, rate: str) -> AbstractContextManager[bool]:
        """Hold the lock of a rate limit; yields False while another process holds it. Raises StoreError."""
        ...

    def other_usage(self, rate: str, *, now: datetime) -> Sequence[RateUsage]:
        """Return the usage that the other processes recorded last."""
        ...

    def save(self, rate: str, usage: RateUsage) -> None:
        """Record the usage of this process; raises StoreError."""
        ...


class NullRateUsageStore:
    """Records nothing: for processes that send a few requests and end."""

    async def load(self, name: str) -> RateUsage | None:
        """Return None."""
        return None

    async def save(self, name: str, usage: RateUsage, *, free_at: datetime) -> None:
        """Do nothing."""


class RequestSlot:
    """One request under the rate limits that apply to it; once entered, it may be sent.

    ``record_response`` passes on what the service says about its rate limit.
    """

    __slots__ = ("_limiters", "_patience_s", "_rates", "response")

    def __init__(self, rates: RateLimiter, limiters: Sequence[_SingleRateLimiter], patience_s: float) -> None:
        self._rates = rates
        self._limiters = limiters
        self._patience_s = patience_s
        self.response: tuple[int, Mapping[str, str]] | None = None

    async def __aenter__(self) -> Self:
        acquired: list[_SingleRateLimiter] = []
        try:
            for limiter in self._limiters:
                await limiter.acquire(self._patience_s)
                acquired.append(limiter)
        except BaseException:
            for limiter in acquired:
                limiter.cancel()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._limiters:
            await self._rates.release(self._limiters, self)

    def record_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Record that a response came; names of headers in any case."""
        self.response = (status, headers)


class RateLimiter:
    """All rate limits of one process, kept together with the processes that ``shared`` knows.

    A request to which no rate limit applies is sent at once. Raises ConfigError for two different rate limits of one
    name, which would use up each other's capacity.
    """

    def __init__(
        self,
        rates: Iterable[RateLimit],
        *,
        clock: Clock,
        random: RandomStreams,
        store: RateUsageStore | None = None,
        shared: SharedRateUsage | None = None,
    ) -> None:
        named = list(dict.fromkeys(rates))
        if duplicates := sorted(name for name, count in Counter(rate.name for rate in named).items() if count > 1):
            message = f"two plugins set different rate limits named {', '.join(duplicates)}; disable one of them"
            raise ConfigError(message)
        self._clock = clock
        self._random = random
        store = store or NullRateUsageStore()
        started_at = (clock.now(), clock.monotonic())
        limiters = [_SingleRateLimiter(rate, clock, store, started_at, shared) for rate in named]
        # The same order for every request, so that there is no deadlock; the slowest first, so that no request holds a
        # slot of another rate limit while it waits for the slowest one.
        self._limiters = sorted(limiters, key=lambda limiter: (-limiter.interval_s, limiter.rate.name))

    def applies_to(self, method: str, url: str) -> bool:
        """Return whether a rate limit applies, so the request goes to a venue; also True without any rate limit."""
        return not self._limiters or any(rate_applies(limiter.rate, method, url) for limiter in self._limiters)

    def acquire(self, method: str, url: str, *, patience_s: float) -> RequestSlot:
        """Return the slot of a request: entering it waits until the request may be sent, and counts it until the end.

        Entering raises ServiceUnavailableError, with the wait, where the service asked for a pause of more than
        ``patience_s``, and StoreError where the usage cannot be recorded.
        """
        limiters = [limiter for limiter in self._limiters if rate_applies(limiter.rate, method, url)]
        return RequestSlot(self, limiters, patience_s)

    async def release(self, limiters: Sequence[_SingleRateLimiter], slot: RequestSlot) -> None:
        """Give back a slot whose request was sent, and heed its response."""
        for limiter in limiters:
            limiter.release(is_answered=slot.response is not None)
        if slot.response is not None:
            status, headers = slot.response
            named = {name.lower(): value for name, value in headers.items()}
            wait_s = requested_wait_s(status, named, now=self._clock.now())
            for limiter in limiters:
                await limiter.handle_response(
                    status,
                    self._guessed_pause_s(limiter) if wait_s is None and status == TOO_MANY_REQUESTS else wait_s,
                )

    def _guessed_pause_s(self, limiter: _SingleRateLimiter) -> float:
        refusals = limiter.refusals
        ceiling = min(MAX_GUESSED_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(refusals, 10))
        return float(self._random.stream("rates", limiter.rate.name, str(refusals)).uniform(ceiling / 2, ceiling))


def rate_applies(rate: RateLimit, method: str, url: str) -> bool:
    """Return whether a rate limit applies to a request."""
    return url.startswith(rate.prefixes) and (not rate.methods or method in rate.methods)


class _SingleRateLimiter:
    """One rate limit in use: requests queue, and the first of the queue waits for the time when it may be sent."""

    def __init__(
        self,
        rate: RateLimit,
        clock: Clock,
        store: RateUsageStore,
        started_at: tuple[datetime, float],
        shared: SharedRateUsage | None,
    ) -> None:
        self.rate = rate
        self.interval_s = rate.per_s / rate.count
        self.refusals = 0
        self._clock = clock
        self._store = store
        self._started_at = started_at
        self._shared = shared
        self._window_s = rate.per_s * CLOCK_MARGIN
        self._burst_slack_s = (min(rate.burst, rate.count) - 1) * self.interval_s
        self._block_size = recorded_block_size(rate)
        self._queue_lock = asyncio.Lock()
        self._record_lock = asyncio.Lock()
        self._response_event = asyncio.Event()
        self._restored = False
        # Monotonic moments: of responses, in order; from when even spacing allows a request; when a pause ends.
        self._response_times: list[float] = []
        self._next_even_at = -math.inf
        self._paused_until = -math.inf
        self._in_flight = 0
        # Requests that are recorded and not yet sent.
        self._recorded_ahead = 0
        # When requests of other processes were answered, or will have been at the latest.
        self._other_responses: list[float] = []

    async def acquire(self, patience_s: float) -> None:
        async with self._queue_lock:
            await self._restore_usage()
            await self._wait(patience_s)
            while not self._try_reserve():
                await self._clock.sleep(MIN_WAIT_S)
                await self._wait(patience_s)
            if self._recorded_ahead:
                self._recorded_ahead -= 1
                return
            try:
                await self._record_usage(self._block_size - 1)
            except BaseException:
                self._in_flight -= 1
                raise

    def _try_reserve(self) -> bool:
        """Count one more request, unless other processes have used its capacity meanwhile, or are about to."""
        if self._shared is None or self._recorded_ahead:
            self._count_request()
            return True
        with self._shared.try_lock(self.rate.name) as locked:
            if locked:
                self._count_others(self._shared.other_usage(self.rate.name, now=self._clock.now()))
            if not locked or self._wait_s(self._clock.monotonic()) > 0.0:
                return False
            self._shared.save(self.rate.name, self._usage(self._block_size))
            self._count_request()
            return True

    def _count_request(self) -> None:
        self._next_even_at = max(self._next_even_at, self._clock.monotonic()) + self.interval_s
        self._in_flight += 1

    def _count_others(self, others: Sequence[RateUsage]) -> None:
        """Count the usage of other processes; their requests in flight count as if they were answered at the latest."""
        wall, now = self._clock.now(), self._clock.monotonic()
        self._other_responses = []
        for usage in others:
            recorded_at = now - _lower_age_s(wall, now, usage)
            self._other_responses += [recorded_at - age for age, count in usage.responses for _ in range(count)]
            self._other_responses += [recorded_at + MAX_ANSWER_S] * usage.in_flight
            if usage.paused_s:
                self._paused_until = max(self._paused_until, recorded_at + min(usage.paused_s, MAX_PAUSE_S))

    def release(self, *, is_answered: bool) -> None:
        self._in_flight -= 1
        insort(self._response_times, self._clock.monotonic() + (0.0 if is_answered else IN_TRANSIT_S))
        self._response_event.set()
        if self._shared is not None and self._block_size == 1:
            # Where this fails, the other processes take the request for one that is still in flight.
            with suppress(StoreError):
                self._shared.save(self.rate.name, self._usage(0))

    def cancel(self) -> None:
        """Return a slot that was not used."""
        self._in_flight -= 1
        self._recorded_ahead += 1
        self._response_event.set()

    async def handle_response(self, status: int, wait_s: float | None) -> None:
        """Handle a response: a pause applies to all requests under this rate limit, also after a restart."""
        now = self._clock.monotonic()
        if status not in REFUSAL_STATUSES:
            self.refusals = 0
        elif now >= self._paused_until:  # not one that was in flight when the pause began
            self.refusals += 1
        until = now + min(wait_s or 0.0, MAX_PAUSE_S)
        if not wait_s or until <= self._paused_until:
            return
        self._paused_until = until
        log.info("asked to wait", rate=self.rate.name, seconds=round(wait_s, 3), status=status)
        try:
            if self._shared is not None:
                self._shared.save(self.rate.name, self._usage(0))
            await self._record_usage(0)
        except StoreError as error:
            # The response matters more than this record; the next request would fail on the same disk.
            log.warning("a pause could not be recorded", rate=self.rate.name, error=str(error))

    async def _wait(self, patience_s: float) -> None:
        while True:
            now = self._clock.monotonic()
            if (pause_s := self._paused_until - now) > patience_s:
                message = f"{self.rate.name}: the service asked for a pause; {pause_s:.0f} s are left"
                raise ServiceUnavailableError(message, retry_after_s=pause_s)
            wait_s = self._wait_s(now)
            if wait_s <= 0.0:
                return
            if math.isfinite(wait_s):
                await self._clock.sleep(max(wait_s, MIN_WAIT_S))
            else:
                self._response_event.clear()
                await self._response_event.wait()

    def _wait_s(self, now: float) -> float:
        """Return how long to wait before one more request; infinity where a response must come first."""
        del self._response_times[: bisect_right(self._response_times, now - self._window_s)]
        if self.rate.max_in_flight is not None and self._in_flight >= self.rate.max_in_flight:
            return math.inf
        self._other_responses = [moment for moment in self._other_responses if moment > now - self._window_s]
        counted = self._response_times
        if self._other_responses:
            counted = sorted((*self._response_times, *self._other_responses))
        surplus = len(counted) + self._in_flight - self.rate.count
        if surplus >= len(counted):
            return math.inf
        free_at = counted[surplus] + self._window_s if surplus >= 0 else now
        return max(free_at, self._next_even_at - self._burst_slack_s, self._paused_until) - now

    async def _record_usage(self, ahead: int) -> None:
        """Record the usage, and ``ahead`` more requests that may be sent before the next record."""
        async with self._record_lock:
            wait_s, usage = self._wait_s(self._clock.monotonic()), self._usage(ahead)
            free_at = usage.at + timedelta(seconds=wait_s if 0.0 < wait_s < math.inf else 0.0)
            await self._store.save(self.rate.name, usage, free_at=free_at)
            self._recorded_ahead += ahead

    def _usage(self, ahead: int) -> RateUsage:
        now = self._clock.monotonic()
        return RateUsage(
            at=self._clock.now(),
            monotonic_s=now,
            in_flight=self._in_flight + self._recorded_ahead + ahead,
            responses=_count_by_age([now - moment for moment in self._response_times], self._window_s / AGE_CLASSES),
            paused_s=max(0.0, self._paused_until - now),
            spacing_s=max(0.0, self._next_even_at - now + ahead * self.interval_s),
        )

    async def _restore_usage(self) -> None:
        """Load the usage that an earlier process recorded, in its worst case."""
        if self._restored:
            return
        usage = await self._store.load(self.rate.name)
        if usage is not None:
            wall, start = self._started_at
            recorded_at = start - _lower_age_s(wall, start, usage)
            self._response_times = sorted(recorded_at - age for age, count in usage.responses for _ in range(count))
            self._response_times += [start + IN_TRANSIT_S] * usage.in_flight
            self._paused_until = recorded_at + min(usage.paused_s, MAX_PAUSE_S)
            self._next_even_at = recorded_at + usage.spacing_s
        self._restored = True


def recorded_block_size(rate: RateLimit) -> int:
    """Return how many requests are recorded at a time: one, but more for rates that are too high for the disk.

    A request that was recorded and not sent before a kill counts as sent: at most an eighth of the rate.
    """
    interval_s = rate.per_s / rate.count
    return 1 if interval_s >= RECORD_EVERY_S else max(1, min(math.ceil(RECORD_AHEAD_S / interval_s), rate.count // 8))


def _lower_age_s(wall: datetime, monotonic_s: float, usage: RateUsage) -> float:
    """Return how long ago usage was recorded, by the clock that gives the smaller age.

    After a reboot the monotonic clock starts again from zero: then it gives no age or too small a one, never too large.
    """
    ages = [(wall - usage.at).total_seconds()]
    if monotonic_s >= usage.monotonic_s:
        ages.append(monotonic_s - usage.monotonic_s)
    return max(0.0, min(ages))


def _count_by_age(ages: Iterable[float], width_s: float) -> tuple[tuple[float, int], ...]:
    """Count ages by classes of that width, each under the smallest age of the class."""
    counted = Counter(math.floor(age / width_s) for age in ages)
    return tuple((number * width_s, count) for number, count in sorted(counted.items()))
