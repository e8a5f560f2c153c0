"""The only way to language models: recorded answers, budgets, deadlines, fallbacks for models that fail.

Providers decide nothing; every answer is recorded before it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

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
)
from bot.core.redaction import redact_known_secrets
from bot.llm.background_tasks import BackgroundTasks, DailyAlerts
from bot.llm.budget import SpendingBudget
from bot.llm.call_records import PromptDocumentCache, RequestRecord
from bot.llm.calls import CostAccounting, ModelCallRequest
from bot.llm.circuit_breaker import ServerServices
from bot.llm.deadline import RequestDeadline
from bot.llm.model_health import ModelHealth
from bot.llm.pricing import ForecastCostEstimator, PriceTable
from bot.llm.provider_client import ProviderClient
from bot.llm.providers import sampling_settings
from bot.llm.roles import ModelRoles, bare_model_name, provider_name
from bot.store.ledger import Ledger
from bot.store.model_calls import CostGrouping


def redact_prompt(prompt: Prompt) -> Prompt:
    """Return the prompt without known secrets; the same object where it holds none."""
    messages, handover = (tuple(map(_redact_message, part)) for part in (prompt.messages, prompt.handover))
    before = (*prompt.messages, *prompt.handover)
    same = all(one is other for one, other in zip((*messages, *handover), before, strict=True))
    return prompt if same else replace(prompt, messages=messages, handover=handover)


def _redact_message(message: Message) -> Message:
    # ``native`` is not changed: it goes back to its author, and one changed letter would make it invalid.
    text = redact_known_secrets(message.text)
    calls = tuple(replace(call, arguments=redact_known_secrets(call.arguments)) for call in message.calls)
    return message if (text, calls) == (message.text, message.calls) else replace(message, text=text, calls=calls)


def with_cache_key(prompt: Prompt, charge: CostAttribution, role: str) -> Prompt:
    """Return the prompt with a key for the provider's cache; the trials of a question share it, for each role."""
    if prompt.cache_key:
        return prompt
    return replace(prompt, cache_key=derive_id("cache", charge.ref, charge.forecaster, role))


def prompt_for_model(prompt: Prompt, model: str) -> Prompt:
    """Return what is sent to a model, ``provider:name``: the conversation if it is its own, else the handover.

    Without a handover another model gets the messages, but never state that is not its own.
    """
    own = prompt.model in {"", model}
    if not own and prompt.handover:
        messages, stable = _without_foreign_state(prompt.handover), len(prompt.handover)
    else:
        messages, stable = (
            _without_foreign_state(prompt.messages, bare_model_name(model) if own else None),
            prompt.stable,
        )
    spoke = prompt.model if own else ""
    if messages is prompt.messages and not prompt.handover and spoke == prompt.model:
        return prompt
    return replace(prompt, messages=messages, stable=stable, model=spoke, handover=())


def _without_foreign_state(messages: tuple[Message, ...], name: str | None = None) -> tuple[Message, ...]:
    """Return the messages without state of models other than the one of that name.

    The same object where none has any.
    """
    if not any(_is_foreign(message, name) for message in messages):
        return messages
    return tuple(replace(message, native=None) if _is_foreign(message, name) else message for message in messages)


def _is_foreign(message: Message, name: str | None) -> bool:
    return message.native is not None and (name is None or message.native.model != name)


def prefer_model(models: Sequence[str], spoke: str) -> Sequence[str]:
    """Return the models with the one that took part in the conversation first, where it is among them."""
    return sorted(models, key=lambda model: model != spoke)


class SingleFlight:
    """A lock for each request in flight."""

    def __init__(self) -> None:
        """Begin with none."""
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def exclusive(self, request: str) -> AsyncIterator[None]:
        """Wait until nobody else makes the same request, and keep others from making it while entered."""
        lock, users = self._locks.get(request, (asyncio.Lock(), 0))
        self._locks[request] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(request)
            if users > 1:
                self._locks[request] = lock, users - 1


log = structlog.get_logger(__name__)
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
    prompt_documents: PromptDocumentCache = field(default_factory=PromptDocumentCache)
    single_flight: SingleFlight = field(default_factory=SingleFlight)

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the model that would be asked now; raises ConfigError for a role without a model."""
        models = self._undemoted_models(role, self.roles.models(role))
        return self.roles.dialect(next(filter(self._is_available, models), models[0]))

    async def ask(self, inquiry: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        """Return the answer of the role's model, or of its fallback, within the role's time and the deadline.

        The model that took part in the conversation is asked first, unless it was demoted or is not available; any
        other one gets the handover. A model with a fallback gets half of the time that is left. Time spent waiting for
        the budget counts towards the deadline alone. An empty answer is requested once more; where a model refuses, the
        next one is asked, and the refusal is the answer where there is none. Raises ServiceUnavailableError when nobody
        answered in time, RequestRejectedError for what no model takes or a budget does not allow,
        ContextLengthExceededError, AuthenticationError, QuotaExhaustedError, MalformedDataError, and ConfigError for a
        role without a model or a model without a price.
        """
        table = self.roles.role_section(inquiry.role)
        prompt = with_cache_key(redact_prompt(inquiry.prompt), inquiry.charge, inquiry.role)
        inquiry = replace(inquiry, prompt=prompt)
        orders = self._call_requests(inquiry, table)
        return await self._first_answer(orders, RequestDeadline(role_s=table.timeout_s, caller_s=deadline_s))

    async def grade(self, conduct: ModelPerformance, charge: CostAttribution) -> None:
        """Record how a model did in a trial; one that does badly is replaced for a while, and a person is alerted."""
        if demotion := await self.health.record_performance(conduct, charge):
            instead = self.roles.fallback(conduct.role, conduct.model)
            text = (
                f"As {conduct.role}, {demotion.why}. "
                + (f"Until {demotion.until:%Y-%m-%d %H:%M} UTC {instead} is asked instead." if instead else "")
                + ("" if instead else "It is still used, because it has no fallback: [llm.roles] fallback = ...")
            )
            key = f"model {conduct.model} {conduct.role} {demotion.at}"
            self.alerts.alert_once(key, f"Model {conduct.model} does badly", text)

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 where all is free, None where it is not known.

        See ``ForecastCostEstimator.forecast_usd``.
        """
        return await self._cost_estimator.forecast_usd(forecaster, trials=trials, steps=steps)

    async def worst_usd(self, role: str) -> float | None:
        """Return the maximum cost of one call with a long prompt in a role, in US dollars; None where not known.

        Trials that run concurrently fit a budget where it has room for that much each; otherwise they wait for each
        other. Raises ConfigError for a role without a model.
        """
        return await self._cost_estimator.call_usd(role)

    @property
    def _cost_estimator(self) -> ForecastCostEstimator:
        llms = {name: line.provider for name, line in self.clients.items()}
        return ForecastCostEstimator(
            roles=self.roles, price_table=self.price_table, providers=llms, calls=self.accounting.ledger.calls
        )

    def _is_available(self, model: str) -> bool:
        return self.clients[provider_name(model)].is_available(model)

    def _undemoted_models(self, role: str, models: Sequence[str]) -> Sequence[str]:
        return [model for model in models if not self.health.is_demoted(model, role)] or models

    def _candidate_models(self, inquiry: ModelRequest) -> Sequence[str]:
        """Return the models that may be given the prompt, the one to ask first at the beginning."""
        models, spoke = self.roles.models(inquiry.role), inquiry.prompt.model
        able = [model for model in models if self.roles.accepts_prompt(model, inquiry.prompt)]
        # A forecaster that offers tools to a model that does not support them has its reasons.
        fit = self._undemoted_models(inquiry.role, able or models[:1])
        return prefer_model(fit, spoke) if spoke in fit and self._is_available(spoke) else fit

    def _call_requests(self, inquiry: ModelRequest, table: RoleSection) -> Sequence[ModelCallRequest]:
        return [self._call_request(inquiry, table, model) for model in self._candidate_models(inquiry)]

    def _call_request(self, inquiry: ModelRequest, table: RoleSection, model: str) -> ModelCallRequest:
        """Return the request to one model: the part of the conversation that is for it, with its sampling settings."""
        line = self.clients[provider_name(model)]
        inquiry = replace(inquiry, prompt=prompt_for_model(inquiry.prompt, model))
        parts = self.prompt_documents.prompt_documents(inquiry.prompt)
        asked = RequestRecord(
            model=model,
            messages=tuple(part.digest for part in parts.messages),
            offer=parts.options.digest,
            sampling=sampling_settings(inquiry.role, table, line.model_defaults(model), seed=inquiry.seed),
            nth=inquiry.nth,
            place=line.model_location(model),
        )
        lost_retries = self._lost_retries(model)
        return ModelCallRequest(
            model_request=inquiry,
            model=model,
            record=asked,
            documents=parts,
            digest=asked.digest,
            lost_retries=lost_retries,
        )

    def _lost_retries(self, model: str) -> int:
        """Return how often a request may be sent again after a lost reply."""
        return self.roles.section.providers.get(provider_name(model), ProviderSection()).lost_retries

    async def _first_answer(self, orders: Sequence[ModelCallRequest], patience: RequestDeadline) -> ModelAnswer:
        """Ask one model after the other in time, unless a later one was paid for the answer before a crash."""
        failed: list[tuple[ModelCallRequest, FoxcastError]] = []
        refused: ModelAnswer | None = None
        for number, order in enumerate(orders):
            others = orders[1:] if number == 0 else []
            came = await self._ask_within_share(order, patience, paid=others, behind=orders[number + 1 :])
            if isinstance(came, ModelAnswer):
                refused = _with_earlier_usage(refused, came)
                if came.completion.finish is not FinishReason.REFUSED:
                    return refused
            else:
                failed.append((order, came))
            if patience.is_over or _is_final(came, order):
                break
        self._alert_failures(failed, patience, answered=refused is not None)
        if refused is not None:
            return refused
        *before, last = (failure for _, failure in failed)
        for failure in before:
            last.add_note(f"earlier: {failure}")
        raise last

    async def _ask_within_share(
        self,
        order: ModelCallRequest,
        patience: RequestDeadline,
        *,
        paid: Sequence[ModelCallRequest],
        behind: Sequence[ModelCallRequest],
    ) -> ModelAnswer | FoxcastError:
        """Give one model its share of the time."""
        began = asyncio.get_running_loop().time()
        try:
            async with patience.next_share(
                (lambda: any(self._is_available(one.model) for one in behind)) if behind else None
            ):
                return await self._find_paid_answer(paid, patience) or await self._ask_model(order, patience)
        except TimeoutError as error:
            waited_s = asyncio.get_running_loop().time() - began
            told_s = round(waited_s, 0 if waited_s >= 1.0 else 2)
            message = f"{order.model}, asked as {order.model_request.role}: no answer within {told_s:g} s"
            failure = ServiceUnavailableError(message)
            failure.__cause__ = error
            return failure

    async def _find_paid_answer(
        self, orders: Sequence[ModelCallRequest], patience: RequestDeadline
    ) -> ModelAnswer | None:
        """Return the answer that was paid for already in this very trial, if there is one; a refusal does not count."""
        for order in orders:
            stored = await self.accounting.find_recorded_answer(order)
            if stored and stored.usage.calls and stored.completion.finish is not FinishReason.REFUSED:
                return await self._retry_if_empty(order, stored, patience)
        return None

    async def _ask_model(self, order: ModelCallRequest, patience: RequestDeadline) -> ModelAnswer | FoxcastError:
        """Return the answer of one model as ``_call`` does; an empty one is requested once more."""
        came = await self._call_model(order, patience)
        return await self._retry_if_empty(order, came, patience) if isinstance(came, ModelAnswer) else came

    async def _retry_if_empty(
        self, order: ModelCallRequest, came: ModelAnswer, patience: RequestDeadline
    ) -> ModelAnswer:
        """Return an answer; repeat the request once where it is empty. It may stay empty."""
        if (again := order.retry_if_empty(came.completion)) is None:
            return came
        try:
            other = await self._call_model(again, patience)
        except FALLBACK_ERRORS as error:
            other = error
        if isinstance(other, ModelAnswer):
            return _with_earlier_usage(came, other)
        log.warning("the repeated request failed after an empty answer", model=order.model, why=str(other))
        return came

    async def _call_model(self, order: ModelCallRequest, patience: RequestDeadline) -> ModelAnswer | FoxcastError:
        """Return the answer of one model, or why it has none where another model may.

        Raises errors that no model can help.
        """
        line = self.clients[provider_name(order.model)]
        async with self.single_flight.exclusive(order.digest):
            if stored := await self.accounting.find_recorded_answer(order):
                return stored
            try:
                await line.wait_until_ready(order.model, patience)
                rate = await self.price_table.model_price(order.model, line.provider)
            except FALLBACK_ERRORS as error:
                return error
            call = await self.accounting.open_call(order, rate, patience)
            try:
                settlement = call.settle_answer(await line.complete(call, patience))
            except asyncio.CancelledError:
                call.abandon()
                raise
            except Exception as error:
                await call.record_failure(error)
                if isinstance(error, FALLBACK_ERRORS):
                    return error
                raise
            return await call.record_answer(settlement)

    def _alert_failures(
        self, failed: Sequence[tuple[ModelCallRequest, FoxcastError]], patience: RequestDeadline, *, answered: bool
    ) -> None:
        for order, failure in failed:
            # When an empty account was found, a person was alerted.
            if isinstance(failure, AuthenticationError) and not isinstance(failure, QuotaExhaustedError):
                provider = provider_name(order.model)
                self.alerts.alert_once(f"key {provider}", f"Provider {provider} refuses the credentials", f"{failure}.")
        if answered or isinstance(failed[-1][1], RequestRejectedError) or patience.caller_ran_out:
            return
        # If only one model fails, the alert above says it all.
        if len(failed) > 1 or not isinstance(failed[0][1], AuthenticationError):
            role = failed[0][0].model_request.role
            # Most providers name the model themselves.
            whys = [(order.model, str(failure)) for order, failure in failed]
            text = "; ".join(why if why.startswith(model) else f"{model}: {why}" for model, why in whys)
            self.alerts.alert_once(f"role {role}", f"No model answers as {role}", f"{text}.")


def _with_earlier_usage(before: ModelAnswer | None, answer: ModelAnswer) -> ModelAnswer:
    """Return an answer with the cost of the one before it, which is recorded by itself."""
    return answer if before is None else replace(answer, usage=before.usage + answer.usage)


def _is_final(came: ModelAnswer | FoxcastError, order: ModelCallRequest) -> bool:
    """Return whether no other model is asked: a conversation that is too long ends with the belief so far."""
    return isinstance(came, ContextLengthExceededError) and order.prompt.model == order.model


class GatewayServices(TypedDict):
    """What the gateway needs besides its configuration, by keyword; ``alert`` takes a subject and a text."""

    ledger: Ledger
    clock: Clock
    random: RandomStreams
    alert: Callable[[str, str], Awaitable[None]]


@asynccontextmanager
async def open_gateway(
    section: LlmSection, providers: Mapping[str, ModelProvider], **seams: Unpack[GatewayServices]
) -> AsyncIterator[LlmGateway]:
    """Open the gateway on a ledger of which nothing is in flight; at the end, wait until everything is recorded.

    ``providers`` are those of the enabled plugins by name; ``ledger``, ``clock``, ``random`` and ``alert`` are keyword
    arguments. Raises ConfigError for a role whose model has a provider that is not among them.
    """
    roles = ModelRoles(section, frozenset(providers))
    ledger, clock = seams["ledger"], seams["clock"]
    now = clock.now()
    if lost := await ledger.calls.mark_lost(at=now):
        log.warning("calls of an earlier run were lost; their worst-case cost counts", calls=lost)
    purse = SpendingBudget(section, clock=clock)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    purse.load_day(await ledger.calls.spent(since=midnight))
    begun = sum(row.calls for row in await ledger.calls.costs(CostGrouping.DAY, since=midnight))
    health = ModelHealth(section.health, ledger.model_performance, clock=clock)
    await health.load_demotions()
    errands = BackgroundTasks()
    alarm = DailyAlerts(seams["alert"], errands=errands, clock=clock)
    world = ServerServices(clock=clock, random=seams["random"], alerts=alarm)
    sections = {name: section.providers.get(name, ProviderSection()) for name in providers}
    try:
        yield LlmGateway(
            roles=roles,
            clients={name: ProviderClient(name, llm, sections[name], world=world) for name, llm in providers.items()},
            price_table=PriceTable(section.models),
            accounting=CostAccounting(purse, ledger, errands=errands, alarm=alarm, begun=begun),
            health=health,
            alerts=alarm,
        )
    finally:
        await errands.wait_for_all()
