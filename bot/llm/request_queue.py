"""The queue of one provider: how many requests are in flight, of each model and of all, and how many a minute.

While requests wait, urgent ones go first, and then those of the question that asked first: so questions are finished
one after the other, and a later step of one is never behind the first step of another.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count

from bot.config.schema import ProviderSection
from bot.core.beliefs import ModelUsage
from bot.core.interfaces import Clock
from bot.core.language_models import ModelUrgency
from bot.llm.adaptive_limit import AdaptiveLimit

MINUTE_S = 60.0
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

    def __init__(self, limit: AdaptiveLimit, *, clock: Clock) -> None:
        """Start with none."""
        self.limit = limit
        # The slots that are held, and the requests that were sent: a slot is held from a moment before that.
        self.in_flight = 0
        self._sent = 0
        self._clock = clock
        self._waiting: list[_WaitingRequest] = []

    @property
    def has_room(self) -> bool:
        """Whether the limit allows another request."""
        return self.in_flight < self.limit.limit

    def start_request(self) -> float:
        """Count a request as sent, and return the time."""
        self._sent += 1
        return self._clock.monotonic()

    def end_request(self, sent_at: float, result: RequestResult, usage: ModelUsage | None = None) -> None:
        """Record how a request ended that was sent at a time; ``usage`` is that of an answer."""
        now, sent, limit = self._clock.monotonic(), self._sent, self.limit
        self._sent -= 1
        if result is RequestResult.ANSWERED:
            limit.record_answer(sent_at=sent_at, now=now, in_flight=sent, usage=usage or ModelUsage())
        elif result is RequestResult.REFUSED:
            limit.record_refusal(sent_at=sent_at, now=now, in_flight=sent - 1)
        elif result is RequestResult.TIMED_OUT:
            limit.record_timeout(sent_at=sent_at, now=now, in_flight=sent - 1)

    def add_waiting(self, request: _WaitingRequest) -> None:
        """Add a request in its place."""
        heapq.heappush(self._waiting, request)

    def first_waiting(self) -> _WaitingRequest | None:
        """Return the request that is next, if any; forget those that gave up."""
        while self._waiting and self._waiting[0].admitted.done():
            heapq.heappop(self._waiting)
        return self._waiting[0] if self._waiting else None


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
        self._models = {name: ModelQueue(limit, clock=clock) for name, limit in (limits or {}).items()}
        self._rate_limiter = None if section.per_minute is None else MinuteRateLimiter(section.per_minute, clock=clock)

    @property
    def models(self) -> Mapping[str, ModelQueue]:
        """The models that were asked, or are known."""
        return self._models

    @asynccontextmanager
    async def request_slot(
        self, model: str, *, scope: str = "", urgency: ModelUrgency = ModelUrgency.ORDINARY
    ) -> AsyncIterator[ModelQueue]:
        """Wait for a slot and hold it while entered; return the queue of the model, to record the result.

        ``scope`` names the question that asks.
        """
        queue, number = self._model_queue(model), next(self._numbers)
        await self._acquire(queue, (urgency, self._scope_number(scope, number), number))
        try:
            if self._rate_limiter is not None:
                await self._rate_limiter.wait_for_turn()
            yield queue
        finally:
            self._release(queue)

    def _model_queue(self, model: str) -> ModelQueue:
        if model not in self._models:
            self._models[model] = ModelQueue(AdaptiveLimit(ceiling=self._ceiling), clock=self._clock)
        return self._models[model]

    def _scope_number(self, scope: str, number: int) -> int:
        known = self._first_asked
        if scope not in known and len(known) >= MAX_KNOWN_SCOPES:
            del known[next(iter(known))]
        return known.setdefault(scope, number)

    async def _acquire(self, queue: ModelQueue, order: tuple[int, int, int]) -> None:
        if self._in_flight < self._ceiling and queue.has_room and queue.first_waiting() is None:
            self._count(queue, 1)
            return
        request = _WaitingRequest(order, asyncio.get_running_loop().create_future())
        queue.add_waiting(request)
        try:
            await request.admitted
        except asyncio.CancelledError:
            if not request.admitted.cancelled():
                # It was admitted at the moment when its caller gave up.
                self._release(queue)
            raise

    def _release(self, queue: ModelQueue) -> None:
        self._count(queue, -1)
        while self._in_flight < self._ceiling:
            waiting = [
                (first, other)
                for other in self._models.values()
                if other.has_room and (first := other.first_waiting()) is not None
            ]
            if not waiting:
                return
            request, admitted_to = min(waiting, key=lambda one: one[0])
            self._count(admitted_to, 1)
            request.admitted.set_result(None)

    def _count(self, queue: ModelQueue, change: int) -> None:
        queue.in_flight += change
        self._in_flight += change


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
