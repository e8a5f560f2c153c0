"""The queue of one provider: how many requests are in flight, of each model and of all, and how many a minute.

While requests wait, urgent ones go first, and then those of the question that asked first: so questions are finished
one after the other, and a later step of one is never behind the first step of another.
"""

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, auto
from itertools import count

from bot.config.schema import ProviderSection
from bot.core.beliefs import ModelUsage
from bot.core.interfaces import Clock
from bot.core.language_models import ModelUrgency
from bot.core.light_dataclass import dataclass
from bot.llm.adaptive_limit import AdaptiveLimit, LimitReason
from bot.net.rate_headers import RequestAllowance

MINUTE_S = 60.0
# Where a provider has nothing left for longer than this, a request is tried after this.
MAX_HOLD_S = 60.0
# A shorter hold counts as none: timers fire early by a rounding error.
MIN_HOLD_S = 1e-3
# Of so many questions it is known which one asked first.
MAX_KNOWN_SCOPES = 10_000


class RequestResult(Enum):
    """How a request ended: with an answer, refused because there are too many, without an answer in time, or else."""

    ANSWERED = auto()
    REFUSED = auto()
    TIMED_OUT = auto()
    OTHER = auto()


@dataclass(slots=True, order=True)
class _WaitingRequest:
    # Its urgency, the number of its question and its own.
    order: tuple[int, int, int]
    admitted: "asyncio.Future[None]" = field(compare=False)


class ModelQueue:
    """The requests to one model: ``limit`` is how many may be in flight; those that wait are in order."""

    def __init__(self, limit: AdaptiveLimit, *, clock: Clock, on_reset: Callable[[], object]) -> None:
        """Start with none; ``on_reset`` is called when a provider that had nothing left has something again."""
        self._on_reset = on_reset
        self.limit = limit
        # The slots that are held, and the requests that were sent: a slot is held from a moment before that.
        self.in_flight = 0
        self._sent = 0
        self._clock = clock
        self._waiting: list[_WaitingRequest] = []
        # What the provider said last, how many requests it has left by that until a time, and the timer for it.
        self._allowance: RequestAllowance | None = None
        self._left, self._left_until = math.inf, 0.0
        # The longest time to a reset that it has named: how long a new window may last before a response says it.
        self._window_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # How many requests were sent since the start, and the number of the one whose response said it.
        self.requests = self._informed_by = 0

    @property
    def has_room(self) -> bool:
        """Whether the limit and the provider's last word on its rate limit allow another request."""
        return self.in_flight < self.limit.limit and self.hold_s == 0.0

    @property
    def hold_s(self) -> float:
        """How long no request is sent because the provider has none left, in seconds."""
        if self._left > 0.0:
            return 0.0
        left_s = self._left_until - self._clock.monotonic()
        return left_s if left_s > MIN_HOLD_S / 2 else 0.0

    @property
    def reason(self) -> LimitReason:
        """Why no more requests are in flight."""
        return LimitReason.ALLOWANCE if self.hold_s else self.limit.reason

    def record_allowance(self, allowance: RequestAllowance, *, number: int) -> None:
        """Record what the provider has left by the response to a request of that number.

        It may not have counted the requests that were sent later; that matters where less is left than may be in
        flight. A response to an earlier request than the last one says nothing new.
        """
        if number < self._informed_by:
            return
        self._informed_by, self._allowance = number, allowance
        later = self.requests - number + self.in_flight - self._sent
        is_scarce = allowance.requests < self.limit.limit
        reset_s = min(MAX_HOLD_S, max(MIN_HOLD_S, allowance.reset_s))
        self._window_s = max(self._window_s, reset_s)
        self._let_through(allowance.requests - later if is_scarce else math.inf, reset_s)

    def count_slot(self, change: int) -> None:
        """Count a slot as held (1) or as free again (-1)."""
        self.in_flight += change
        if change > 0:
            self._left -= change
        if self._left <= 0.0:
            self._set_timer()

    def _let_through(self, requests: float, reset_s: float) -> None:
        """Let so many requests through until the limit is reset, and then as many as it allows."""
        self._left, self._left_until = requests, self._clock.monotonic() + reset_s
        self._set_timer()

    def _set_timer(self) -> None:
        if self._left <= 0.0 and self._timer is None:
            wait_s = max(0.0, self._left_until - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._reset_allowance)

    def _reset_allowance(self) -> None:
        self._timer = None
        if self.hold_s:
            self._set_timer()
        elif self._allowance is not None:
            self._let_through(self._allowance.after_reset, self._window_s)
            self._on_reset()

    def start_request(self) -> float:
        """Count a request as sent, and return the time."""
        self._sent += 1
        self.requests += 1
        return self._clock.monotonic()

    def end_request(self, sent_at: float, result: RequestResult, usage: ModelUsage | None = None) -> None:
        """Record how a request ended that was sent at a time; ``usage`` is that of an answer."""
        now, sent, limit = self._clock.monotonic(), self._sent, self.limit
        self._sent -= 1
        if result is RequestResult.ANSWERED:
            limit.record_answer(
                sent_at=sent_at,
                now=now,
                in_flight=sent,
                usage=usage or ModelUsage(),
                share_left=1.0 if self._allowance is None else self._allowance.share,
            )
        elif result is RequestResult.REFUSED:
            limit.record_refusal(sent_at=sent_at, now=now, in_flight=sent - 1)
        elif result is RequestResult.TIMED_OUT:
            limit.record_timeout(sent_at=sent_at, now=now, in_flight=sent - 1)

    def add_waiting(self, request: _WaitingRequest) -> None:
        """Add a request in its place."""
        heapq.heappush(self._waiting, request)

    def first_waiting(self) -> _WaitingRequest | None:
        """Return the request that is next, if any; forget those that gave up."""
        waiting = self._waiting
        while waiting and waiting[0].admitted.done():
            heapq.heappop(waiting)
        return waiting[0] if waiting else None


class ProviderQueue:
    """The queue of one provider: ``concurrency`` bounds the requests to all models, an adaptive limit those to each."""

    def __init__(
        self, section: ProviderSection, *, clock: Clock, limits: Mapping[str, AdaptiveLimit] | None = None
    ) -> None:
        """Open the queue; ``limits`` are those of models about which something is known."""
        self._ceiling = section.concurrency
        self._clock = clock
        self._in_flight = 0
        self._numbers = count()
        # The number of each question, by its scope, in the order in which they first asked.
        self._first_asked: dict[str, int] = {}
        self._models = {
            name: ModelQueue(limit, clock=clock, on_reset=self._admit_waiting) for name, limit in (limits or {}).items()
        }
        self._rate_limiter = None if section.per_minute is None else MinuteRateLimiter(section.per_minute, clock=clock)

    @property
    def models(self) -> Mapping[str, ModelQueue]:
        """The models that were asked, or are known."""
        return self._models

    def permitted_requests(self, model: str) -> int:
        """Return how many requests to a model may be in flight now."""
        queue = self._model_queue(model)
        return 0 if queue.hold_s else min(self._ceiling, queue.limit.limit)

    def request_slot(
        self, model: str, *, scope: str = "", urgency: ModelUrgency = ModelUrgency.ORDINARY
    ) -> "QueueSlot":
        """Return a slot: entering it waits for it and gives the queue of the model, to record the result.

        ``scope`` names the question that asks.
        """
        return QueueSlot(self, model, scope, urgency)

    async def acquire(self, model: str, scope: str, urgency: ModelUrgency) -> ModelQueue:
        """Wait for a slot and hold it until ``release``."""
        queue, number = self._model_queue(model), next(self._numbers)
        order = (urgency, self._scope_number(scope, number), number)
        if self._in_flight < self._ceiling and queue.has_room and queue.first_waiting() is None:
            self._count(queue, 1)
        else:
            await self._wait_for_slot(queue, order)
        if self._rate_limiter is not None:
            try:
                await self._rate_limiter.wait_for_turn()
            except BaseException:
                self.release(queue)
                raise
        return queue

    def release(self, queue: ModelQueue) -> None:
        """Give a slot back; who waits may have it."""
        self._count(queue, -1)
        self._admit_waiting()

    def _model_queue(self, model: str) -> ModelQueue:
        if model not in self._models:
            self._models[model] = ModelQueue(
                AdaptiveLimit(ceiling=self._ceiling), clock=self._clock, on_reset=self._admit_waiting
            )
        return self._models[model]

    def _scope_number(self, scope: str, number: int) -> int:
        known = self._first_asked
        if scope not in known and len(known) >= MAX_KNOWN_SCOPES:
            del known[next(iter(known))]
        return known.setdefault(scope, number)

    async def _wait_for_slot(self, queue: ModelQueue, order: tuple[int, int, int]) -> None:
        request = _WaitingRequest(order, asyncio.get_running_loop().create_future())
        queue.add_waiting(request)
        try:
            await request.admitted
        except asyncio.CancelledError:
            if not request.admitted.cancelled():
                # It was admitted at the moment when its caller gave up.
                self.release(queue)
            raise

    def _admit_waiting(self) -> None:
        while self._in_flight < self._ceiling:
            waiting = [
                (first, other)
                for other in self._models.values()
                if (first := other.first_waiting()) is not None and other.has_room
            ]
            if not waiting:
                return
            request, admitted_to = min(waiting, key=lambda one: one[0])
            self._count(admitted_to, 1)
            request.admitted.set_result(None)

    def _count(self, queue: ModelQueue, change: int) -> None:
        queue.count_slot(change)
        self._in_flight += change


class QueueSlot:
    """One slot of a queue, held while entered."""

    __slots__ = ("_held", "_model", "_queue", "_scope", "_urgency")

    def __init__(self, queue: ProviderQueue, model: str, scope: str, urgency: ModelUrgency) -> None:
        """Wait for nothing yet."""
        self._queue = queue
        self._model = model
        self._scope = scope
        self._urgency = urgency

    async def __aenter__(self) -> ModelQueue:
        """Wait for the slot."""
        self._held = held = await self._queue.acquire(self._model, self._scope, self._urgency)
        return held

    async def __aexit__(self, *_: object) -> None:
        """Give it back."""
        self._queue.release(self._held)


class MinuteRateLimiter:
    """At most ``per_minute`` requests in any sixty seconds, also all at once."""

    # Not aiolimiter: it polls, and a simulated clock does not advance while it does.
    def __init__(self, per_minute: int, *, clock: Clock) -> None:
        """Start with no request."""
        self._clock = clock
        self._sent_at: deque[float] = deque(maxlen=per_minute)
        self._lock = asyncio.Lock()

    async def wait_for_turn(self) -> None:
        """Wait until a request may be sent, in order of arrival."""
        async with self._lock:
            if len(self._sent_at) == self._sent_at.maxlen:
                wait_s = self._sent_at[0] + MINUTE_S - self._clock.monotonic()
                if wait_s > 0:
                    await self._clock.sleep(wait_s)
            self._sent_at.append(self._clock.monotonic())
