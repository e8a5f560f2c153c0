"""The client of one model provider: a queue with its rate limit, circuit breakers of its servers, and retries."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from bot.config.schema import ProviderSection
from bot.core.beliefs import ModelUsage
from bot.core.concurrency import reject_unrequested_cancellation
from bot.core.errors import FoxcastError, MalformedDataError, QuotaExhaustedError, ServiceUnavailableError
from bot.core.interfaces import ModelProvider
from bot.core.language_models import ModelCompletion, ModelDefaults
from bot.core.light_dataclass import dataclass
from bot.llm.adaptive_limit import AdaptiveLimit
from bot.llm.calls import ModelCall
from bot.llm.circuit_breaker import BreakerPermit, RequestVerdict, ServerServices, ServerState
from bot.llm.deadline import RequestDeadline
from bot.llm.providers import (
    describe_foreign_error,
    is_busy,
    is_overloaded,
    is_unreachable,
    may_be_billed,
    model_location,
    provider_defaults,
    timed_out,
    was_never_sent,
)
from bot.llm.request_queue import ModelQueue, ProviderQueue, RequestResult
from bot.llm.roles import bare_model_name
from bot.net.rate_headers import HeaderObservation, remaining_allowance

if TYPE_CHECKING:
    import numpy as np

# Waits between attempts are drawn from zero to the first wait doubled each time, at most the longest one.
FIRST_RETRY_WAIT_S = 1.0
MAX_RETRY_WAIT_S = 60.0
# Waits before an unreachable server is tried again: long enough for a restart.
RECONNECT_WAITS_S = (1.0, 2.0)


@dataclass(slots=True)
class _FailureCounts:
    """How often one call failed: after it was sent, and before anything was sent."""

    failures: int = 0
    connection_failures: int = 0


class ProviderClient:
    """The client of one provider.

    There is one queue; each server, which the model name has before a slash, has its own state.
    """

    def __init__(
        self,
        name: str,
        provider: ModelProvider,
        section: ProviderSection,
        *,
        services: ServerServices,
        limits: Mapping[str, AdaptiveLimit] | None = None,
    ) -> None:
        """Open the queue; ``limits`` are those of models about which something is known."""
        self.name = name
        self.provider = provider
        self._section = section
        self._services = services
        self.queue = ProviderQueue(section, clock=services.clock, limits=limits)
        self._servers: dict[str, ServerState] = {}
        self._server_of_model: dict[str, ServerState] = {}
        self._locations: dict[str, str] = {}
        self._defaults: dict[str, ModelDefaults] = {}
        self._jitter: np.random.Generator | None = None

    def is_available(self, model: str) -> bool:
        """Return whether the server of a model may be used."""
        return self._server_state(model).is_available

    def permitted_requests(self, model: str) -> int:
        """Return how many requests to a model may be in flight, by what was learned; 0 while it is paused or fails."""
        return self.queue.permitted_requests(model) if self._server_state(model).is_ready else 0

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

    async def wait_until_ready(self, model: str, deadline: RequestDeadline) -> None:
        """Wait until a model may be asked; raises as ``ServerState.wait_until_ready`` does."""
        server = self._server_state(model)
        if not server.is_ready:
            await server.wait_until_ready(deadline)

    async def complete(self, call: ModelCall, deadline: RequestDeadline) -> ModelCompletion:
        """Send the request until there is an answer, within the deadline.

        A failed request is repeated as often as configured. A response that asks for a pause is no failure: a caller
        without another model waits and tries again. A request that may have been billed is repeated as often as the
        call allows, within the same attempts. One that could not be sent is tried again for three seconds; after that
        all requests fail at once until the server is tried again. Raises the errors of the provider,
        ServiceUnavailableError while the server is not in use, and MalformedDataError for a provider that fails in an
        undocumented way.
        """
        server, counts = self._server_state(call.request.model), _FailureCounts()
        while True:
            try:
                return await self._attempt(call, server, deadline)
            except ServiceUnavailableError as error:
                retry_wait_s = self._reconnect_wait_s if is_unreachable(error) else self._retry_wait_s
                wait_s = retry_wait_s(call, counts, deadline, error)
                if wait_s is None or max(wait_s, server.wait_s) >= deadline.remaining_s:
                    raise
            await server.sleep(wait_s)

    def _retry_wait_s(
        self, call: ModelCall, counts: _FailureCounts, deadline: RequestDeadline, error: ServiceUnavailableError
    ) -> float | None:
        """Return after how many seconds a failed request is repeated, or None where it is not."""
        counts.failures += not is_busy(error)
        if call.is_retry_forbidden or self._gives_up(call, counts.failures, deadline):
            return None
        return self._backoff_s(counts.failures) if error.retry_after_s is None else error.retry_after_s

    def _reconnect_wait_s(
        self, call: ModelCall, counts: _FailureCounts, deadline: RequestDeadline, error: ServiceUnavailableError
    ) -> float | None:
        """Return after how many seconds an unreachable server is tried again, or None, and mark it as unreachable."""
        server = self._server_state(call.request.model)
        counts.connection_failures += 1
        last = min(self._section.attempts, 1 + len(RECONNECT_WAITS_S))
        if server.is_available and counts.connection_failures < last:
            return RECONNECT_WAITS_S[counts.connection_failures - 1]
        server.mark_unreachable(error)
        return None

    async def _attempt(self, call: ModelCall, server: ServerState, deadline: RequestDeadline) -> ModelCompletion:
        while True:
            if not server.is_ready:
                await server.wait_until_ready(deadline)
            asked = call.request.model_request
            async with self.queue.request_slot(
                call.request.model, scope=asked.charge.scope, urgency=asked.urgency
            ) as queue:
                permit = await self._acquire_permit(call, server)
                if permit is not None:
                    return await self._send_in_slot(call, queue, server, permit, deadline=deadline)

    async def _acquire_permit(self, call: ModelCall, server: ServerState) -> BreakerPermit | None:
        """Record the start of a call and return permission to send it, or None if the server became unavailable."""
        if not server.is_ready:
            return None
        await call.record_start()
        return server.acquire_permit()

    def _gives_up(self, call: ModelCall, failures: int, deadline: RequestDeadline) -> bool:
        if deadline.has_alternative():
            return call.attempts >= self._section.attempts or not self.is_available(call.request.model)
        return failures >= self._section.attempts

    async def _send_in_slot(
        self,
        call: ModelCall,
        queue: ModelQueue,
        server: ServerState,
        permit: BreakerPermit,
        *,
        deadline: RequestDeadline,
    ) -> ModelCompletion:
        """Send the request, and record what its result says about the limit of requests in flight."""
        sent_at, result, usage = queue.start_request(), RequestResult.OTHER, None
        try:
            with HeaderObservation(partial(self._record_headers, queue, queue.requests)):
                completion = await self._send(call, server, permit, deadline)
            result, usage = RequestResult.ANSWERED, _reported_usage(completion)
        except FoxcastError as error:
            result = _error_result(error)
            raise
        except asyncio.CancelledError:
            if deadline.had_fair_share(call.latency_s):
                result = RequestResult.TIMED_OUT
            raise
        finally:
            queue.end_request(sent_at, result, usage)
        return completion

    async def _send(
        self, call: ModelCall, server: ServerState, permit: BreakerPermit, deadline: RequestDeadline
    ) -> ModelCompletion:
        verdict, failed = RequestVerdict.NONE, None
        sent_at = self._services.clock.monotonic()
        call.attempts, call.is_unanswered = call.attempts + 1, True
        try:
            completion = await self._call_provider(call)
            verdict = RequestVerdict.ALIVE
        except FoxcastError as error:
            call.is_unanswered, failed = may_be_billed(error), error
            call.attempts -= was_never_sent(error)
            verdict = _error_verdict(error, permit)
            if isinstance(error, QuotaExhaustedError):
                raise server.mark_quota_exhausted(error) from error
            if isinstance(error, ServiceUnavailableError) and is_busy(error):
                server.pause_requests(error, sent_at=sent_at)
            raise
        except asyncio.CancelledError:
            # A deadline shorter than that of the role says nothing about the provider.
            if deadline.had_fair_share(self._services.clock.monotonic() - sent_at):
                verdict = RequestVerdict.FAILED
            raise
        finally:
            call.latency_s = self._services.clock.monotonic() - sent_at
            server.record_verdict(permit, verdict, failed)
        return completion

    async def _call_provider(self, call: ModelCall) -> ModelCompletion:
        request = call.request
        try:
            with reject_unrequested_cancellation(f"{request.model}: its provider"):
                return await self.provider.complete(bare_model_name(request.model), request.prompt, request.sampling)
        except TimeoutError as error:
            message = f"{request.model}: the provider timed out"
            raise ServiceUnavailableError(message) from error
        except FoxcastError:
            raise
        except Exception as error:
            message = f"{request.model}: its provider failed with {describe_foreign_error(error)}"
            raise MalformedDataError(message) from error

    def _record_headers(self, queue: ModelQueue, number: int, headers: Mapping[str, str]) -> None:
        if (allowance := remaining_allowance(headers, now=self._services.clock.now())) is not None:
            queue.record_allowance(allowance, number=number)

    def _server_state(self, model: str) -> ServerState:
        if model not in self._server_of_model:
            server, slash, _ = bare_model_name(model).partition("/")
            name = f"{self.name}:{server}" if slash else self.name
            if name not in self._servers:
                self._servers[name] = ServerState(name, self._section, services=self._services)
            self._server_of_model[model] = self._servers[name]
        return self._server_of_model[model]

    def _backoff_s(self, failures: int) -> float:
        if self._jitter is None:
            self._jitter = self._services.random.stream("provider", "jitter", self.name)
        ceiling = min(MAX_RETRY_WAIT_S, FIRST_RETRY_WAIT_S * 2.0 ** (failures - 1))
        return float(self._jitter.uniform(0.0, ceiling))


def _reported_usage(completion: ModelCompletion) -> ModelUsage:
    """Return the usage of an answer; whether it has its documented form is checked later."""
    usage = getattr(completion, "usage", None)
    return usage if isinstance(usage, ModelUsage) else ModelUsage()


def _error_result(error: FoxcastError) -> RequestResult:
    if is_overloaded(error):
        return RequestResult.REFUSED
    return RequestResult.TIMED_OUT if timed_out(error) else RequestResult.OTHER


def _error_verdict(error: FoxcastError, permit: BreakerPermit) -> RequestVerdict:
    """Return what an error says about a server; one that was unreachable counts only after the last attempt."""
    if not isinstance(error, ServiceUnavailableError):
        return RequestVerdict.ALIVE
    if is_unreachable(error):
        return RequestVerdict.FAILED if permit.probe else RequestVerdict.NONE
    return RequestVerdict.NONE if is_busy(error) else RequestVerdict.FAILED
