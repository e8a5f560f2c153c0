"""The client of one model provider.

A queue with its rate limit, the circuit breakers of its servers, and retries where they may help.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.config.schema import ProviderSection
from bot.core.errors import FoxcastError, MalformedDataError, QuotaExhaustedError, ServiceUnavailableError
from bot.core.interfaces import Clock, ModelProvider
from bot.core.language_models import ModelCompletion, ModelDefaults
from bot.llm.calls import ModelCall
from bot.llm.circuit_breaker import BreakerPermit, RequestVerdict, ServerServices, ServerState
from bot.llm.deadline import RequestDeadline
from bot.llm.providers import (
    describe_foreign_error,
    is_busy,
    is_unreachable,
    may_be_billed,
    model_location,
    provider_defaults,
    was_never_sent,
)
from bot.llm.roles import bare_model_name

if TYPE_CHECKING:
    import numpy as np

MINUTE_S = 60.0


class ProviderQueue:
    """The queue of one provider: so many requests at once, and so many in any minute."""

    def __init__(self, section: ProviderSection, *, clock: Clock) -> None:
        """Open the queue."""
        self._slots = asyncio.Semaphore(section.concurrency)
        self._rate_limiter = None if section.per_minute is None else MinuteRateLimiter(section.per_minute, clock=clock)

    @asynccontextmanager
    async def request_slot(self) -> AsyncIterator[None]:
        """Wait for a place and keep it while entered."""
        async with self._slots:
            if self._rate_limiter is not None:
                await self._rate_limiter.wait_for_turn()
            yield


class MinuteRateLimiter:
    """At most so many turns in any sixty seconds; as many as that may come at once."""

    # aiolimiter would do, but on a simulated clock, which stands still while it polls, it polls for ever.
    def __init__(self, per_minute: int, *, clock: Clock) -> None:
        """Begin with no turn taken."""
        self._clock = clock
        self._taken: deque[float] = deque(maxlen=per_minute)
        self._lock = asyncio.Lock()

    async def wait_for_turn(self) -> None:
        """Wait for a turn, behind those who came before."""
        async with self._lock:
            if len(self._taken) == self._taken.maxlen:
                wait_s = self._taken[0] + MINUTE_S - self._clock.monotonic()
                if wait_s > 0:
                    await self._clock.sleep(wait_s)
            self._taken.append(self._clock.monotonic())


# Waits between attempts are drawn from zero to the first one doubled each time, at most the longest.
FIRST_RETRY_WAIT_S = 1.0
MAX_RETRY_WAIT_S = 60.0
# A server that cannot be reached is tried so much later each time: by then a restart is over, but a wrong address is
# not.
RECONNECT_WAITS_S = (1.0, 2.0)


@dataclass(slots=True)
class _FailureCounts:
    """How often one call failed: with an error or no answer, and before anything was sent."""

    failures: int = 0
    connection_failures: int = 0


class ProviderClient:
    """The client of one provider.

    There is one queue; each server behind it, named before a slash, has its own state.
    """

    def __init__(self, name: str, llm: ModelProvider, section: ProviderSection, *, world: ServerServices) -> None:
        """Open the queue."""
        self.name = name
        self.provider = llm
        self._section = section
        self._services = world
        self._queue = ProviderQueue(section, clock=world.clock)
        self._servers: dict[str, ServerState] = {}
        self._server_of_model: dict[str, ServerState] = {}
        self._locations: dict[str, str] = {}
        self._defaults: dict[str, ModelDefaults] = {}
        self._jitter: np.random.Generator | None = None

    def is_available(self, model: str) -> bool:
        """Return whether the server of a model may be used."""
        return self._server_state(model).is_available

    def model_location(self, model: str) -> str:
        """Return where a model is served, as far as the provider reports it."""
        if model not in self._locations:
            self._locations[model] = model_location(self.provider, model)
        return self._locations[model]

    def model_defaults(self, model: str) -> ModelDefaults:
        """Return what the provider recommends for a model."""
        if model not in self._defaults:
            self._defaults[model] = provider_defaults(self.provider, model)
        return self._defaults[model]

    async def wait_until_ready(self, model: str, patience: RequestDeadline) -> None:
        """Wait until a model may be asked; raises ServiceUnavailableError as ``ServerState.ready`` does."""
        lane = self._server_state(model)
        if not lane.is_ready:
            await lane.wait_until_ready(patience)

    async def complete(self, call: ModelCall, patience: RequestDeadline) -> ModelCompletion:
        """Send the request until there is an answer, within the time.

        A failed request is repeated as often as configured. A request for a pause is no failure: a caller with no other
        model waits and asks again. A request that may have been billed is repeated as often as the call says, within
        the same attempts. One that could not be sent is tried again for three seconds; then nobody waits for this
        server until it is tried anew. Raises what the provider raises, ServiceUnavailableError while the server is not
        in use, and MalformedDataError for a provider that fails in an undocumented way.
        """
        lane, tries = self._server_state(call.request.model), _FailureCounts()
        while True:
            try:
                return await self._attempt(call, lane, patience)
            except ServiceUnavailableError as error:
                again = self._reconnect_wait_s if is_unreachable(error) else self._retry_wait_s
                wait_s = again(call, tries, patience, error)
                if wait_s is None or max(wait_s, lane.wait_s) >= patience.remaining_s:
                    raise
            await lane.sleep(wait_s)

    def _retry_wait_s(
        self, call: ModelCall, tries: _FailureCounts, patience: RequestDeadline, error: ServiceUnavailableError
    ) -> float | None:
        """Return after how many seconds a failed request is repeated, or None where it is not."""
        tries.failures += not is_busy(error)
        if call.doubtful or self._gives_up(call, tries.failures, patience):
            return None
        return self._backoff_s(tries.failures) if error.retry_after_s is None else error.retry_after_s

    def _reconnect_wait_s(
        self, call: ModelCall, tries: _FailureCounts, patience: RequestDeadline, error: ServiceUnavailableError
    ) -> float | None:
        """Return after how many seconds an unreachable server is tried again, or None, and mark it as unreachable."""
        lane = self._server_state(call.request.model)
        tries.connection_failures += 1
        last = min(self._section.attempts, 1 + len(RECONNECT_WAITS_S))
        if lane.is_available and tries.connection_failures < last:
            return RECONNECT_WAITS_S[tries.connection_failures - 1]
        lane.mark_unreachable(error)
        return None

    async def _attempt(self, call: ModelCall, lane: ServerState, patience: RequestDeadline) -> ModelCompletion:
        while True:
            await lane.wait_until_ready(patience)
            async with self._queue.request_slot():
                passage = await self._acquire_permit(call, lane)
                if passage is not None:
                    return await self._send(call, lane, passage, patience)

    async def _acquire_permit(self, call: ModelCall, lane: ServerState) -> BreakerPermit | None:
        """Return permission to send a recorded request, or None where the server was closed meanwhile."""
        if not lane.is_ready:
            return None
        await call.record_start()
        return lane.acquire_permit()

    def _gives_up(self, call: ModelCall, failures: int, patience: RequestDeadline) -> bool:
        if patience.has_alternative():
            return call.attempts >= self._section.attempts or not self.is_available(call.request.model)
        return failures >= self._section.attempts

    async def _send(
        self, call: ModelCall, lane: ServerState, passage: BreakerPermit, patience: RequestDeadline
    ) -> ModelCompletion:
        verdict, failed = RequestVerdict.NONE, None
        sent_at = self._services.clock.monotonic()
        call.attempts, call.doubtful = call.attempts + 1, True
        try:
            completion = await self._call_provider(call)
            verdict = RequestVerdict.ALIVE
        except FoxcastError as error:
            call.doubtful, failed = may_be_billed(error), error
            call.attempts -= was_never_sent(error)
            verdict = _error_verdict(error, passage)
            if isinstance(error, QuotaExhaustedError):
                raise lane.mark_quota_exhausted(error) from error
            if isinstance(error, ServiceUnavailableError) and is_busy(error):
                lane.pause_requests(error, sent_at=sent_at)
            raise
        except asyncio.CancelledError:
            # A deadline shorter than the role's own says something about the caller, not about the provider.
            if patience.had_fair_share(self._services.clock.monotonic() - sent_at):
                verdict = RequestVerdict.FAILED
            raise
        finally:
            call.latency_s = self._services.clock.monotonic() - sent_at
            lane.record_verdict(passage, verdict, failed)
        return completion

    async def _call_provider(self, call: ModelCall) -> ModelCompletion:
        order = call.request
        try:
            return await self.provider.complete(bare_model_name(order.model), order.prompt, order.sampling)
        except TimeoutError as error:
            message = f"{order.model}: the provider timed out"
            raise ServiceUnavailableError(message) from error
        except FoxcastError:
            raise
        except Exception as error:
            message = f"{order.model}: its provider failed with {describe_foreign_error(error)}"
            raise MalformedDataError(message) from error

    def _server_state(self, model: str) -> ServerState:
        if model not in self._server_of_model:
            server, slash, _ = bare_model_name(model).partition("/")
            name = f"{self.name}:{server}" if slash else self.name
            if name not in self._servers:
                self._servers[name] = ServerState(name, self._section, world=self._services)
            self._server_of_model[model] = self._servers[name]
        return self._server_of_model[model]

    def _backoff_s(self, failures: int) -> float:
        if self._jitter is None:
            self._jitter = self._services.random.stream("llm", "jitter", self.name)
        ceiling = min(MAX_RETRY_WAIT_S, FIRST_RETRY_WAIT_S * 2.0 ** (failures - 1))
        return float(self._jitter.uniform(0.0, ceiling))


def _error_verdict(error: FoxcastError, passage: BreakerPermit) -> RequestVerdict:
    """Return what an error says about a server. That nothing could be sent counts once the tries are over."""
    if not isinstance(error, ServiceUnavailableError):
        return RequestVerdict.ALIVE
    if is_unreachable(error):
        return RequestVerdict.FAILED if passage.probe else RequestVerdict.NONE
    return RequestVerdict.NONE if is_busy(error) else RequestVerdict.FAILED
