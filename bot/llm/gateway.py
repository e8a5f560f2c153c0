"""The gateway to language models: recorded answers, budgets, deadlines, and fallbacks for models that fail.

All calls go through it, and every answer is recorded before it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import lru_cache

import structlog

from bot.config.schema import LlmSection, ProviderSection, RoleSection
from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.identity_cache import WeakIdentityCache
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, ModelProvider, RandomStreams
from bot.core.language_models import (
    CostAttribution,
    FinishReason,
    Message,
    ModelAnswer,
    ModelDialect,
    ModelPerformance,
    ModelRequest,
    Prompt,
    ToolCall,
)
from bot.core.light_dataclass import dataclass
from bot.core.redaction import SecretRedactor, known_redactor, redact_known_secrets
from bot.llm.adaptive_limit import LimitReason
from bot.llm.background_tasks import BackgroundTasks, DailyAlerts
from bot.llm.budget import SpendingBudget
from bot.llm.call_records import PromptDocumentCache, RequestRecord
from bot.llm.calls import CostAccounting, ModelCallRequest
from bot.llm.circuit_breaker import ServerServices
from bot.llm.deadline import RequestDeadline
from bot.llm.learned_concurrency import LearnedConcurrency
from bot.llm.model_health import ModelHealth
from bot.llm.pricing import ForecastCostEstimator, PriceTable
from bot.llm.provider_client import ProviderClient
from bot.llm.providers import sampling_settings
from bot.llm.request_load import RequestLoad
from bot.llm.roles import MAIN_ROLE, ModelRoles, bare_model_name, provider_name
from bot.store.cost_totals import CostGrouping
from bot.store.ledger import Ledger


class PromptRedactor:
    """Hides known secrets in prompts; a message that comes again is not searched again for the same secrets."""

    def __init__(self) -> None:
        """Start with no known message."""
        self._redactor: SecretRedactor | None = None
        # What is sent of each message, None where that is the message itself: a conversation only grows, so its
        # messages come again in each of its requests.
        self._known: WeakIdentityCache[Message, Message | None] = WeakIdentityCache()

    def redact(self, prompt: Prompt) -> Prompt:
        """Return the prompt without known secrets; the same object if it has none."""
        redactor = known_redactor()
        if redactor is not self._redactor:
            self._redactor, self._known = redactor, WeakIdentityCache()
        messages, handover = self._redact_messages(prompt.messages), self._redact_messages(prompt.handover)
        is_same = messages is prompt.messages and handover is prompt.handover
        return prompt if is_same else replace(prompt, messages=messages, handover=handover)

    def _redact_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages without known secrets; the same object if they have none."""
        find = self._known.find
        sent = tuple([find(message, _redact_message) or message for message in messages])
        return messages if sent == messages else sent


def _redact_message(message: Message) -> Message | None:
    """Return the message without known secrets, None if it has none."""
    # ``native`` is not changed: it is sent back to its provider, and any change would make it invalid.
    text = redact_known_secrets(message.text)
    calls = tuple([_redact_call(call) for call in message.calls])
    return None if (text, calls) == (message.text, message.calls) else replace(message, text=text, calls=calls)


def _redact_call(call: ToolCall) -> ToolCall:
    arguments = redact_known_secrets(call.arguments)
    return call if arguments is call.arguments else replace(call, arguments=arguments)


def prompt_for_model(prompt: Prompt, model: str, *, cache_key: str = "") -> Prompt:
    """Return the prompt for a model, ``provider:name``: the conversation if it is its own, else the handover.

    Without a handover another model gets the messages, but never the native state of another model. ``cache_key`` is
    for a prompt that has none.
    """
    is_own = prompt.model in {"", model}
    if not is_own and prompt.handover:
        messages, stable = _without_foreign_state(prompt.handover), len(prompt.handover)
    else:
        messages, stable = (
            _without_foreign_state(prompt.messages, bare_model_name(model) if is_own else None),
            prompt.stable,
        )
    previous_model, cache_key = prompt.model if is_own else "", prompt.cache_key or cache_key
    is_same = messages is prompt.messages and not prompt.handover and previous_model == prompt.model
    if is_same and cache_key == prompt.cache_key:
        return prompt
    return Prompt(
        messages=messages,
        tools=prompt.tools,
        allowed=prompt.allowed,
        schema=prompt.schema,
        stable=stable,
        model=previous_model,
        cache_key=cache_key,
    )


def _without_foreign_state(messages: tuple[Message, ...], name: str | None = None) -> tuple[Message, ...]:
    """Return the messages without native state of models other than ``name``; the same object if there is none."""
    kept = tuple(
        [
            message if message.native is None or message.native.model == name else replace(message, native=None)
            for message in messages
        ]
    )
    return messages if kept == messages else kept


def prefer_model(models: Sequence[str], previous_model: str) -> Sequence[str]:
    """Return the models with the one that took part in the conversation first, if it is among them."""
    return sorted(models, key=lambda model: model != previous_model)


@lru_cache(maxsize=1024)
def _cache_key(ref: str, forecaster: str, role: str) -> str:
    """Return the key for the provider's cache that the trials of a question share in a role."""
    return derive_id("cache", ref, forecaster, role)


class SingleFlight:
    """A lock for each request in flight, so that equal requests are sent once."""

    def __init__(self) -> None:
        """Start with none in flight."""
        # The lock of each request, with how many hold it or wait for it.
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def begin(self, request: str) -> None:
        """Wait until nothing else makes the same request; others wait until ``end``."""
        lock, users = self._locks.get(request) or (asyncio.Lock(), 0)
        self._locks[request] = lock, users + 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(request)
            raise

    def end(self, request: str) -> None:
        """Give the turn to the next one that waits for it and has not given up."""
        self._locks[request][0].release()
        self._leave(request)

    def _leave(self, request: str) -> None:
        lock, users = self._locks.pop(request)
        if users > 1:
            self._locks[request] = lock, users - 1


log = structlog.get_logger(__name__)
DEFAULT_PROVIDER = ProviderSection()
# Errors after which another model may do better.
FALLBACK_ERRORS = (
    ServiceUnavailableError,
    AuthenticationError,
    RequestRejectedError,
    MalformedDataError,
    NotFoundError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmGateway:
    """Asks models in their roles; see ``open_gateway``."""

    roles: ModelRoles
    clients: Mapping[str, ProviderClient]
    price_table: PriceTable
    accounting: CostAccounting
    health: ModelHealth
    alerts: DailyAlerts
    learned_concurrency: LearnedConcurrency
    load: RequestLoad
    prompt_documents: PromptDocumentCache = field(default_factory=PromptDocumentCache)
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    redactor: PromptRedactor = field(default_factory=PromptRedactor)

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the model that would be asked now; raises ConfigError for a role without one."""
        models = self._undemoted_models(role, self.roles.models(role))
        return self.roles.dialect(next(filter(self._is_available, models), models[0]))

    async def ask(self, model_request: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        """Return the answer of the model of the role, or of its fallback, within the time of the role and the deadline.

        The model that took part in the conversation is asked first, unless it was demoted or is not available; any
        other one gets the handover. A model with a fallback gets half of the time that is left. Time spent waiting for
        the budget counts only towards the deadline. After an empty answer the request is repeated once. If a model
        refuses, the next one is asked; the refusal is the answer if there is none. Raises ServiceUnavailableError if
        no model answered in time, RequestRejectedError for a request that no model accepts or a budget does not allow,
        ContextLengthExceededError, AuthenticationError, QuotaExhaustedError, MalformedDataError, and ConfigError for a
        role without a model or a model without a price.
        """
        table = self.roles.role_section(model_request.role)
        call_requests = self._call_requests(model_request, table)
        return await self._first_answer(call_requests, RequestDeadline(role_s=table.timeout_s, caller_s=deadline_s))

    async def grade(self, performance: ModelPerformance, charge: CostAttribution) -> None:
        """Record how a model did in a trial; replace one that does badly for a while, and alert a person."""
        if demotion := await self.health.record_performance(performance, charge):
            fallback = self.roles.fallback(performance.role, performance.model)
            text = (
                f"As {performance.role}, {demotion.why}. "
                + (f"Until {demotion.until:%Y-%m-%d %H:%M} UTC {fallback} is asked instead." if fallback else "")
                + ("" if fallback else "It is still used, because it has no fallback: [llm.roles] fallback = ...")
            )
            key = f"model {performance.model} {performance.role} {demotion.at}"
            self.alerts.alert_once(key, f"Model {performance.model} does badly", text)

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 if all is free, None if it is unknown.

        See ``ForecastCostEstimator.forecast_usd``.
        """
        return await self._cost_estimator.forecast_usd(forecaster, trials=trials, steps=steps)

    async def worst_usd(self, role: str) -> float | None:
        """Return the maximum cost of one call with a long prompt in a role, in US dollars; None if unknown.

        Concurrent trials need that much budget each; otherwise they wait for each other. Raises ConfigError for a role
        without a model.
        """
        return await self._cost_estimator.call_usd(role)

    @property
    def _cost_estimator(self) -> ForecastCostEstimator:
        llms = {name: client.provider for name, client in self.clients.items()}
        return ForecastCostEstimator(
            roles=self.roles, price_table=self.price_table, providers=llms, calls=self.accounting.ledger.calls
        )

    def _is_available(self, model: str) -> bool:
        return self.clients[provider_name(model)].is_available(model)

    def _undemoted_models(self, role: str, models: Sequence[str]) -> Sequence[str]:
        return [model for model in models if not self.health.is_demoted(model, role)] or models

    def _candidate_models(self, model_request: ModelRequest) -> Sequence[str]:
        """Return the models that may be given the prompt, the one to ask first at the beginning."""
        models, previous_model = self.roles.models(model_request.role), model_request.prompt.model
        if len(models) == 1:
            return models
        able = [model for model in models if self.roles.accepts_prompt(model, model_request.prompt)]
        # Without a suitable model the first one is used, although it does not support tools.
        candidates = self._undemoted_models(model_request.role, able or models[:1])
        return (
            prefer_model(candidates, previous_model)
            if previous_model in candidates and self._is_available(previous_model)
            else candidates
        )

    def _call_requests(self, model_request: ModelRequest, table: RoleSection) -> Sequence[ModelCallRequest]:
        return [self._call_request(model_request, table, model) for model in self._candidate_models(model_request)]

    def _call_request(self, model_request: ModelRequest, table: RoleSection, model: str) -> ModelCallRequest:
        """Return the request to one model: its part of the conversation, with its sampling settings.

        The trials of a question share a key for the provider's cache in each role.
        """
        client, charge = self.clients[provider_name(model)], model_request.charge
        cache_key = _cache_key(charge.ref, charge.forecaster, model_request.role)
        prompt = self.redactor.redact(prompt_for_model(model_request.prompt, model, cache_key=cache_key))
        parts = self.prompt_documents.prompt_documents(prompt)
        record = RequestRecord(
            model=model,
            messages=tuple([part.digest for part in parts.messages]),
            offer=parts.options.digest,
            sampling=sampling_settings(
                model_request.role, table, client.model_defaults(model), seed=model_request.seed
            ),
            nth=model_request.nth,
            place=client.model_location(model),
        )
        lost_retries = self._lost_retries(model)
        return ModelCallRequest(
            model_request=ModelRequest(
                role=model_request.role,
                prompt=prompt,
                charge=charge,
                seed=model_request.seed,
                nth=model_request.nth,
                urgency=model_request.urgency,
            ),
            model=model,
            record=record,
            documents=parts,
            digest=record.digest,
            lost_retries=lost_retries,
        )

    def _lost_retries(self, model: str) -> int:
        """Return how often a request may be sent again after a lost reply."""
        return self.roles.section.providers.get(provider_name(model), DEFAULT_PROVIDER).lost_retries

    async def _first_answer(self, call_requests: Sequence[ModelCallRequest], deadline: RequestDeadline) -> ModelAnswer:
        """Ask one model after the other in time; before that, look for a paid answer of a later one (after a crash)."""
        failed: list[tuple[ModelCallRequest, FoxcastError]] = []
        refused: ModelAnswer | None = None
        for number, call_request in enumerate(call_requests):
            alternatives = call_requests[1:] if number == 0 else []
            result = await self._ask_within_share(
                call_request, deadline, paid=alternatives, later=call_requests[number + 1 :]
            )
            if isinstance(result, ModelAnswer):
                refused = _with_earlier_usage(refused, result)
                if result.completion.finish is not FinishReason.REFUSED:
                    return refused
            else:
                failed.append((call_request, result))
            if deadline.is_over or _is_final(result, call_request):
                break
        self._alert_failures(failed, deadline, answered=refused is not None)
        if refused is not None:
            return refused
        *before, last = (failure for _, failure in failed)
        for failure in before:
            last.add_note(f"earlier: {failure}")
        raise last

    async def _ask_within_share(
        self,
        call_request: ModelCallRequest,
        deadline: RequestDeadline,
        *,
        paid: Sequence[ModelCallRequest],
        later: Sequence[ModelCallRequest],
    ) -> ModelAnswer | FoxcastError:
        """Give one model its share of the time; repeat the request once after an empty answer."""
        began = asyncio.get_running_loop().time()
        try:
            async with deadline.next_share(
                (lambda: any(self._is_available(other.model) for other in later)) if later else None
            ):
                if paid and (answer := await self._find_paid_answer(paid, deadline)) is not None:
                    return answer
                result = await self._call_model(call_request, deadline)
                if isinstance(result, ModelAnswer):
                    return await self._retry_if_empty(call_request, result, deadline)
                return result
        except TimeoutError as error:
            waited_s = asyncio.get_running_loop().time() - began
            shown_s = round(waited_s, 0 if waited_s >= 1.0 else 2)
            message = (
                f"{call_request.model}, asked as {call_request.model_request.role}: no answer within {shown_s:g} s"
            )
            failure = ServiceUnavailableError(message)
            failure.__cause__ = error
            return failure

    async def _find_paid_answer(
        self, call_requests: Sequence[ModelCallRequest], deadline: RequestDeadline
    ) -> ModelAnswer | None:
        """Return the answer that this trial has already paid for, if there is one; a refusal does not count."""
        for call_request in call_requests:
            stored = await self.accounting.find_recorded_answer(call_request)
            if stored and stored.usage.calls and stored.completion.finish is not FinishReason.REFUSED:
                return await self._retry_if_empty(call_request, stored, deadline)
        return None

    async def _retry_if_empty(
        self, call_request: ModelCallRequest, result: ModelAnswer, deadline: RequestDeadline
    ) -> ModelAnswer:
        """Return an answer; repeat the request once if it is empty. The second answer may be empty too."""
        if (retry := call_request.retry_if_empty(result.completion)) is None:
            return result
        try:
            other = await self._call_model(retry, deadline)
        except FALLBACK_ERRORS as error:
            other = error
        if isinstance(other, ModelAnswer):
            return _with_earlier_usage(result, other)
        log.warning("the repeated request failed after an empty answer", model=call_request.model, why=str(other))
        return result

    async def _call_model(
        self, call_request: ModelCallRequest, deadline: RequestDeadline
    ) -> ModelAnswer | FoxcastError:
        """Return the answer of one model, or the error if another model may succeed; raises all other errors."""
        model, scope = call_request.model, call_request.model_request.charge.scope
        await self.single_flight.begin(call_request.digest)
        try:
            if stored := await self.accounting.find_recorded_answer(call_request):
                return stored
            self.load.begin_call(model, scope)
            try:
                return await self._make_call(call_request, self.clients[provider_name(model)], deadline)
            finally:
                self.load.end_call(model, scope)
        finally:
            self.single_flight.end(call_request.digest)

    async def _make_call(
        self, call_request: ModelCallRequest, client: ProviderClient, deadline: RequestDeadline
    ) -> ModelAnswer | FoxcastError:
        try:
            await client.wait_until_ready(call_request.model, deadline)
            price = await self.price_table.model_price(call_request.model, client.provider)
        except FALLBACK_ERRORS as error:
            return error
        call = await self.accounting.open_call(call_request, price, deadline)
        try:
            settlement = call.settle_answer(await client.complete(call, deadline))
        except asyncio.CancelledError:
            call.abandon()
            raise
        except Exception as error:
            await call.record_failure(error)
            if isinstance(error, FALLBACK_ERRORS):
                return error
            raise
        finally:
            self.save_concurrency()
        return await call.record_answer(settlement)

    def save_concurrency(self, *, now: bool = False) -> None:
        """Record how many requests each model may get at the same time, if that changed; see ``LearnedConcurrency``."""
        if not now and not self.learned_concurrency.is_due:
            return
        limits = ((model, queue) for client in self.clients.values() for model, queue in client.queue.models.items())
        self.learned_concurrency.save_changed(limits, other_reason=self._find_other_limit(), now=now)

    def _find_other_limit(self) -> LimitReason | None:
        """Return why no model gets more requests, whatever its limit."""
        if self.accounting.budget.has_waiting_requests:
            return LimitReason.BUDGET
        if self.load.is_process_busy:
            return LimitReason.PROCESS
        is_bounded = self.load.is_question_limit_reached and self.load.room() > 0
        return LimitReason.QUESTIONS if is_bounded else None

    def _alert_failures(
        self, failed: Sequence[tuple[ModelCallRequest, FoxcastError]], deadline: RequestDeadline, *, answered: bool
    ) -> None:
        for call_request, failure in failed:
            # A person was alerted when the empty account was found.
            if isinstance(failure, AuthenticationError) and not isinstance(failure, QuotaExhaustedError):
                provider = provider_name(call_request.model)
                self.alerts.alert_once(f"key {provider}", f"Provider {provider} refuses the credentials", f"{failure}.")
        if answered or isinstance(failed[-1][1], RequestRejectedError) or deadline.caller_ran_out:
            return
        # If only one model failed, the alert above is enough.
        if len(failed) > 1 or not isinstance(failed[0][1], AuthenticationError):
            role = failed[0][0].model_request.role
            # Most errors of providers already name the model.
            reasons = [(call_request.model, str(failure)) for call_request, failure in failed]
            text = "; ".join(why if why.startswith(model) else f"{model}: {why}" for model, why in reasons)
            self.alerts.alert_once(f"role {role}", f"No model answers as {role}", f"{text}.")


def _with_earlier_usage(before: ModelAnswer | None, answer: ModelAnswer) -> ModelAnswer:
    """Return an answer with the cost of the earlier one added, which has its own record."""
    return answer if before is None else replace(answer, usage=before.usage + answer.usage)


def _is_final(result: ModelAnswer | FoxcastError, call_request: ModelCallRequest) -> bool:
    """Return whether no other model is asked, because the conversation is too long for its own model."""
    return isinstance(result, ContextLengthExceededError) and call_request.prompt.model == call_request.model


@asynccontextmanager
async def open_gateway(
    section: LlmSection,
    providers: Mapping[str, ModelProvider],
    *,
    ledger: Ledger,
    clock: Clock,
    random: RandomStreams,
    alert: Callable[[str, str], Awaitable[None]],
) -> AsyncIterator[LlmGateway]:
    """Open the gateway on a ledger without calls in flight; at the end, wait until everything is recorded.

    ``providers`` are those of the enabled plugins by name; ``alert`` takes a subject and a text. Raises ConfigError for
    a role whose model has a provider that is not among them.
    """
    roles = ModelRoles(section, frozenset(providers))
    now = clock.now()
    if lost := await ledger.calls.mark_lost(at=now):
        log.warning("calls of an earlier run were lost; their maximum cost counts", calls=lost)
    budget = SpendingBudget(section, clock=clock)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    budget.load_day(await ledger.calls.spent(since=midnight))
    calls_today = sum(row.calls for row in await ledger.calls.costs(CostGrouping.DAY, since=midnight))
    health = ModelHealth(section.health, ledger.model_performance, clock=clock)
    await health.load_demotions()
    tasks = BackgroundTasks()
    alerts = DailyAlerts(alert, tasks=tasks, clock=clock)
    services = ServerServices(clock=clock, random=random, alerts=alerts)
    sections = {name: section.providers.get(name, DEFAULT_PROVIDER) for name in providers}
    learned = LearnedConcurrency(ledger.model_concurrency, clock=clock, tasks=tasks)
    limits = await learned.load_limits(sections)
    clients = {
        name: ProviderClient(name, llm, sections[name], services=services, limits=limits.get(name))
        for name, llm in providers.items()
    }
    usual_roles = [section.roles[MAIN_ROLE]] if MAIN_ROLE in section.roles else section.roles.values()
    gateway = LlmGateway(
        roles=roles,
        clients=clients,
        price_table=PriceTable(section.models),
        accounting=CostAccounting(budget, ledger, tasks=tasks, alerts=alerts, calls_today=calls_today),
        health=health,
        alerts=alerts,
        learned_concurrency=learned,
        load=RequestLoad(clients, budget, usual_models=[role.model for role in usual_roles]),
    )
    try:
        yield gateway
    finally:
        gateway.save_concurrency(now=True)
        await tasks.wait_for_all()
