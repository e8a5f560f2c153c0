"""How often: the pace of what is asked of one service, kept by all who ask it, across restarts, before anything leaves.

The other side judges by when requests arrive, which nobody here knows. What is known is that each arrived between its
leaving and its answer; so it counts from the one until the window has passed since the other, and however late or
early it arrives, no window of the other side's holds more than it allows. What leaves is written down first, so that
whoever comes after a kill knows the worst that may have happened. Time is monotonic; the wall clock only bridges
restarts, and there the younger of two ages counts: setting it back frees nothing, and holds nothing up longer than one
window.
"""

from __future__ import annotations

import asyncio
import math
import re
from bisect import bisect_right, insort
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

import structlog

from bot.core.errors import ConfigError, ServiceUnavailableError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bot.core.interfaces import Clock, RandomStreams
    from bot.core.venue_http import RateLimit

log = structlog.get_logger(__name__)

# Our seconds and theirs differ, by less than this.
CLOCK_MARGIN = 1.001
# How long bytes may still be on their way after a connection was given up, or after a kill.
IN_TRANSIT_S = 1.0
# The rule is even spacing; nobody waits less than this, lest rounding makes a loop of it.
MIN_WAIT_S = 0.001
# Whoever asks for more is asked again after this.
MAX_PAUSE_S = 86_400.0
# A request of another program is answered, or given up, after so long at the latest.
MAX_ANSWER_S = 60.0
# After the first refusal that names no wait; doubled with each that follows.
FIRST_PAUSE_S = 1.0
MAX_GUESSED_PAUSE_S = 60.0
# Requests that follow each other faster than this are written down several at a time, ahead of their leaving.
RECORD_EVERY_S = 0.05
RECORD_AHEAD_S = 0.25
# Answers are written down in so many classes of age.
AGE_CLASSES = 64

_TOO_MANY_REQUESTS = 429
_SERVICE_UNAVAILABLE = 503
_REFUSAL_STATUSES = frozenset({_TOO_MANY_REQUESTS, _SERVICE_UNAVAILABLE})
_LIMIT_HEADER = re.compile(
    r"^(?P<family>(?:[a-z0-9]+-)*rate-?limit)-(?P<what>remaining|reset)(?P<unit>(?:-[a-z0-9]+)*)$"
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
# Numbers above these are moments, in seconds or milliseconds since 1970, and no waits.
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class RateUsage:
    """What one rate had used when it was written down, by both clocks; all else is in seconds before or after that.

    ``past`` are the answers that still count, as (age, how many); ``out`` is how many requests were under way, or may
    leave before the next note. ``paused_s`` remained of a pause, and ``spacing_s`` until a burst is possible again.
    """

    at: datetime
    monotonic_s: float
    out: int
    past: tuple[tuple[float, int], ...] = ()
    paused_s: float = 0.0
    spacing_s: float = 0.0


class RateUsageStore(Protocol):
    """Where what was used is written down."""

    async def load(self, name: str) -> RateUsage | None:
        """Return what was kept last under the name; raises StoreError."""
        ...

    async def save(self, name: str, spent: RateUsage, *, free_at: datetime) -> None:
        """Keep it durably; ``free_at`` is when the next request may leave, for people. Raises StoreError."""
        ...


class SharedRateUsage(Protocol):
    """What other programs on this machine use of the same rates."""

    def try_lock(self, rate: str) -> AbstractContextManager[bool]:
        """Hold the lock of a rate; False where another program does just then. Raises StoreError."""
        ...

    def other_usage(self, rate: str, *, now: datetime) -> Sequence[RateUsage]:
        """Return what the others have used, as they noted it last."""
        ...

    def save(self, rate: str, spent: RateUsage) -> None:
        """Note what this program has used; raises StoreError."""
        ...


class NullRateUsageStore:
    """Keeps nothing: for programs that ask a few times and end."""

    async def load(self, name: str) -> RateUsage | None:
        """Return nothing."""
        return None

    async def save(self, name: str, spent: RateUsage, *, free_at: datetime) -> None:
        """Do nothing."""


@dataclass(slots=True)
class RequestSlot:
    """One request that may leave now; ``record_answer`` tells what the other side said about the pace."""

    answer: tuple[int, Mapping[str, str]] | None = field(default=None, repr=False)

    def record_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Note that an answer came; names of headers in any case."""
        self.answer = (status, {name.lower(): value for name, value in headers.items()})


class RateLimiter:
    """All rates of one process, kept together with the others that ``shared`` knows of.

    Requests to which none applies leave at once. Raises ConfigError for two different rates of one name, which would
    spend each other's room.
    """

    def __init__(
        self,
        rates: Iterable[RateLimit],
        *,
        clock: Clock,
        random: RandomStreams,
        book: RateUsageStore | None = None,
        shared: SharedRateUsage | None = None,
    ) -> None:
        named = list(dict.fromkeys(rates))
        if twins := sorted(name for name, count in Counter(rate.name for rate in named).items() if count > 1):
            message = f"two plugins set different rates of the name {', '.join(twins)}; disable one of them"
            raise ConfigError(message)
        self._clock = clock
        self._random = random
        kept = book or NullRateUsageStore()
        began = (clock.now(), clock.monotonic())
        paces = [_SingleRateLimiter(rate, clock, kept, began, shared) for rate in named]
        # The same order for everybody, so that nobody waits in a circle; the slowest first, so that nobody waits for
        # it with a turn of another in hand.
        self._limiters = sorted(paces, key=lambda pace: (-pace.interval_s, pace.rate.name))

    def applies_to(self, method: str, url: str) -> bool:
        """Say whether a rate applies to the request, so that it goes to a venue; without any rate nobody can tell."""
        return not self._limiters or any(rate_applies(pace.rate, method, url) for pace in self._limiters)

    @asynccontextmanager
    async def acquire(self, method: str, url: str, *, patience_s: float) -> AsyncIterator[RequestSlot]:
        """Wait until the request may leave; it counts from then until the block ends.

        Raises Unavailable, with the wait, where the other side asked for a pause of more than ``patience_s``, and
        StoreError where what is to leave cannot be written down.
        """
        paces = [pace for pace in self._limiters if rate_applies(pace.rate, method, url)]
        entered: list[_SingleRateLimiter] = []
        turn = RequestSlot()
        try:
            for pace in paces:
                await pace.acquire(patience_s)
                entered.append(pace)
            yield turn
        finally:
            await self._release(entered, turn, left=len(entered) == len(paces))

    async def _release(self, entered: Sequence[_SingleRateLimiter], turn: RequestSlot, *, left: bool) -> None:
        for pace in entered:
            if left:
                pace.release(answered=turn.answer is not None)
            else:
                pace.cancel()
        if turn.answer is not None:
            status, headers = turn.answer
            wait_s = requested_wait_s(status, headers, now=self._clock.now())
            for pace in entered:
                await pace.handle_answer(
                    status, self._guessed_pause_s(pace) if wait_s is None and status == _TOO_MANY_REQUESTS else wait_s
                )

    def _guessed_pause_s(self, pace: _SingleRateLimiter) -> float:
        ceiling = min(MAX_GUESSED_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(pace.refusals, 10))
        return float(self._random.stream("rates", pace.rate.name, str(pace.refusals)).uniform(ceiling / 2, ceiling))


def rate_applies(rate: RateLimit, method: str, url: str) -> bool:
    """Say whether a request falls under the rate."""
    return url.startswith(rate.prefixes) and (not rate.methods or method in rate.methods)


class _SingleRateLimiter:
    """One rate as it is used: a line in which the first one waits for time to pass and the others wait for him."""

    def __init__(
        self,
        rate: RateLimit,
        clock: Clock,
        book: RateUsageStore,
        began: tuple[datetime, float],
        shared: SharedRateUsage | None,
    ) -> None:
        self.rate = rate
        self.interval_s = rate.per_s / rate.count
        self.refusals = 0
        self._clock = clock
        self._store = book
        self._started_at = began
        self._shared = shared
        self._window_s = rate.per_s * CLOCK_MARGIN
        self._burst_slack_s = (min(rate.burst, rate.count) - 1) * self.interval_s
        self._block_size = recorded_block_size(rate)
        self._queue_lock = asyncio.Lock()
        self._record_lock = asyncio.Lock()
        self._answer_event = asyncio.Event()
        self._restored = False
        # Monotonic moments: of answers, in order; when spacing is caught up with; when a pause ends.
        self._answer_times: list[float] = []
        self._next_even_at = -math.inf
        self._paused_until = -math.inf
        self._in_flight = 0
        # Requests that are written down already and have not left.
        self._recorded_ahead = 0
        # When requests of other programs were answered, or will have been at the latest.
        self._other_answers: list[float] = []

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
        """Count one more request, unless other programs have taken its place meanwhile, or are about to take one."""
        if self._shared is None or self._recorded_ahead:
            self._count_request()
            return True
        with self._shared.try_lock(self.rate.name) as free:
            if free:
                self._count_others(self._shared.other_usage(self.rate.name, now=self._clock.now()))
            if not free or self._wait_s(self._clock.monotonic()) > 0.0:
                return False
            self._shared.save(self.rate.name, self._usage(self._block_size))
            self._count_request()
            return True

    def _count_request(self) -> None:
        self._next_even_at = max(self._next_even_at, self._clock.monotonic()) + self.interval_s
        self._in_flight += 1

    def _count_others(self, others: Sequence[RateUsage]) -> None:
        """Take in what other programs have used; of what is under way there nobody knows when it will be answered."""
        wall, now = self._clock.now(), self._clock.monotonic()
        self._other_answers = []
        for spent in others:
            last = now - _lower_age_s(wall, now, spent)
            self._other_answers += [last - age for age, count in spent.past for _ in range(count)]
            self._other_answers += [last + MAX_ANSWER_S] * spent.out
            if spent.paused_s:
                self._paused_until = max(self._paused_until, last + min(spent.paused_s, MAX_PAUSE_S))

    def release(self, *, answered: bool) -> None:
        self._in_flight -= 1
        insort(self._answer_times, self._clock.monotonic() + (0.0 if answered else IN_TRANSIT_S))
        self._answer_event.set()
        if self._shared is not None and self._block_size == 1:
            # Until then the others must take it for one that is still under way.
            with suppress(StoreError):
                self._shared.save(self.rate.name, self._usage(0))

    def cancel(self) -> None:
        """Take back a turn that was not used."""
        self._in_flight -= 1
        self._recorded_ahead += 1
        self._answer_event.set()

    async def handle_answer(self, status: int, wait_s: float | None) -> None:
        """Heed an answer: a pause holds for all of this rate, also after a restart."""
        now = self._clock.monotonic()
        if status not in _REFUSAL_STATUSES:
            self.refusals = 0
        elif now >= self._paused_until:  # not one of those that were under way when the pause began
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
            # The answer is worth more than the note about it; the next request would fail on the same disk.
            log.warning("a pause could not be written down", rate=self.rate.name, error=str(error))

    async def _wait(self, patience_s: float) -> None:
        while True:
            now = self._clock.monotonic()
            if (pause_s := self._paused_until - now) > patience_s:
                message = f"{self.rate.name}: the other side asked for a wait of {pause_s:.0f} s"
                raise ServiceUnavailableError(message, retry_after_s=pause_s)
            wait_s = self._wait_s(now)
            if wait_s <= 0.0:
                return
            if math.isfinite(wait_s):
                await self._clock.sleep(max(wait_s, MIN_WAIT_S))
            else:
                self._answer_event.clear()
                await self._answer_event.wait()

    def _wait_s(self, now: float) -> float:
        """Return how long to wait before one more request, infinity where only an answer helps."""
        del self._answer_times[: bisect_right(self._answer_times, now - self._window_s)]
        if self.rate.max_in_flight is not None and self._in_flight >= self.rate.max_in_flight:
            return math.inf
        self._other_answers = [moment for moment in self._other_answers if moment > now - self._window_s]
        past = sorted((*self._answer_times, *self._other_answers)) if self._other_answers else self._answer_times
        surplus = len(past) + self._in_flight - self.rate.count
        if surplus >= len(past):
            return math.inf
        room_at = past[surplus] + self._window_s if surplus >= 0 else now
        return max(room_at, self._next_even_at - self._burst_slack_s, self._paused_until) - now

    async def _record_usage(self, ahead: int) -> None:
        """Write down what is used now, and ``ahead`` more that may leave before the next note."""
        async with self._record_lock:
            wait_s, spent = self._wait_s(self._clock.monotonic()), self._usage(ahead)
            free_at = spent.at + timedelta(seconds=wait_s if 0.0 < wait_s < math.inf else 0.0)
            await self._store.save(self.rate.name, spent, free_at=free_at)
            self._recorded_ahead += ahead

    def _usage(self, ahead: int) -> RateUsage:
        now = self._clock.monotonic()
        return RateUsage(
            at=self._clock.now(),
            monotonic_s=now,
            out=self._in_flight + self._recorded_ahead + ahead,
            past=_count_by_age([now - moment for moment in self._answer_times], self._window_s / AGE_CLASSES),
            paused_s=max(0.0, self._paused_until - now),
            spacing_s=max(0.0, self._next_even_at - now + ahead * self.interval_s),
        )

    async def _restore_usage(self) -> None:
        """Take over what an earlier process left behind, at its worst."""
        if self._restored:
            return
        spent = await self._store.load(self.rate.name)
        if spent is not None:
            wall, start = self._started_at
            since_s = _lower_age_s(wall, start, spent)
            last = start - since_s
            self._answer_times = sorted(last - age for age, count in spent.past for _ in range(count))
            self._answer_times += [start + IN_TRANSIT_S] * spent.out
            self._paused_until = last + min(spent.paused_s, MAX_PAUSE_S)
            self._next_even_at = last + spent.spacing_s
        self._restored = True


def recorded_block_size(rate: RateLimit) -> int:
    """Return how many requests are written down at a time: one, but for rates so high that the disk could not follow.

    What was written down and did not leave before a kill counts as used: an eighth of the rate at most.
    """
    interval_s = rate.per_s / rate.count
    return 1 if interval_s >= RECORD_EVERY_S else max(1, min(math.ceil(RECORD_AHEAD_S / interval_s), rate.count // 8))


def _lower_age_s(wall: datetime, monotonic_s: float, spent: RateUsage) -> float:
    """Return how long ago that was, by whichever clock says less.

    After a reboot the monotonic one began anew: it says nothing then, or too little, never too much.
    """
    ages = [(wall - spent.at).total_seconds()]
    if monotonic_s >= spent.monotonic_s:
        ages.append(monotonic_s - spent.monotonic_s)
    return max(0.0, min(ages))


def _count_by_age(ages: Iterable[float], width_s: float) -> tuple[tuple[float, int], ...]:
    """Count ages by classes of that width, each under the youngest age that falls into it."""
    counted = Counter(math.floor(age / width_s) for age in ages)
    return tuple((number * width_s, count) for number, count in sorted(counted.items()))


def requested_wait_s(status: int, headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return for how long the other side asks to be left alone, by any of the usual headers; None if it does not.

    Retry-After counts where it refuses (429, 503); of headers such as X-RateLimit-Remaining and X-RateLimit-Reset,
    whatever comes before and after these words, the reset counts where nothing remains. ``headers`` have names in
    lower case.
    """
    waits = [parse_retry_after(headers.get("retry-after", ""), now=now)] if status in _REFUSAL_STATUSES else []
    limits: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in headers.items():
        if found := _LIMIT_HEADER.match(name):
            limits.setdefault((found["family"], found["unit"]), {})[found["what"]] = value.strip()
    waits += [
        _parse_reset_s(told.get("reset", ""), now) for told in limits.values() if _is_used_up(told.get("remaining"))
    ]
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def parse_retry_after(text: str, *, now: datetime) -> float | None:
    """Read the header Retry-After: seconds, or a date as in RFC 9110, section 10.2.3; None for anything else."""
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError, OverflowError):  # no date, or one without a zone
        return None


def _is_used_up(text: str | None) -> bool:
    try:
        return text is not None and float(text) <= 0.0
    except ValueError:
        return False


def _parse_reset_s(text: str, now: datetime) -> float | None:
    """Read seconds to wait, a moment since 1970, a duration such as 1m30s, or a date, as seconds from now."""
    if (seconds := parse_retry_after(text, now=now)) is not None and math.isfinite(seconds):
        since = now.timestamp() * (1000.0 if seconds >= _EPOCH_MS else 1.0)
        return max(0.0, seconds - since) / (1000.0 if seconds >= _EPOCH_MS else 1.0) if seconds >= _EPOCH_S else seconds
    if text and (found := _DURATION.fullmatch(text)):
        hours, minutes, whole, milli = (float(part or 0) for part in found.groups())
        return hours * 3600.0 + minutes * 60.0 + whole + milli / 1000.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())
