"""The one way to language models: from the record, within the budget, in time, and never from a model that fails.

Providers decide nothing. Who is asked, whether it may be, how often and how long is decided here, once for all of them;
every answer is on record before it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

import structlog

from bot.config.llm_schema import LlmSection, ProviderSection, RoleSection
from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Dialect, Finish
from bot.errors import (
    ContextExceeded,
    ContractError,
    FoxcastError,
    NotFound,
    QuotaExhausted,
    Rejected,
    Unauthorized,
    Unavailable,
)
from bot.llm.call import Order, Till
from bot.llm.conversation import addressed, first_asked, keyed
from bot.llm.defaults import sampling_of
from bot.llm.discreet import discreet
from bot.llm.errands import Alarm, Errands
from bot.llm.estimate import Estimate
from bot.llm.flights import Flights
from bot.llm.health import Health
from bot.llm.lane import World
from bot.llm.line import Line
from bot.llm.parts import Memory
from bot.llm.patience import Patience
from bot.llm.price import Tariff
from bot.llm.purse import Purse
from bot.llm.record import Asked
from bot.llm.roles import Roles, provider_of
from bot.ports import Clock, Llm, Random
from bot.store.calls import CostBy
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# What another model may do better.
FAILURES = (Unavailable, Unauthorized, Rejected, ContractError, NotFound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Asks models in their roles; see ``open_gateway``."""

    roles: Roles
    lines: Mapping[str, Line]
    tariff: Tariff
    till: Till
    health: Health
    alarm: Alarm
    memory: Memory = field(default_factory=Memory)
    flights: Flights = field(default_factory=Flights)

    def dialect(self, role: str) -> Dialect:
        """Return how the model that would be asked now wants to be asked; raises ConfigError for a role without one."""
        models = self._fit(role, self.roles.models(role))
        return self.roles.dialect(next(filter(self._is_open, models), models[0]))

    async def ask(self, inquiry: Inquiry, *, deadline_s: float) -> Answer:
        """Return the answer of the role's model, or of its fallback, within the role's time and the deadline.

        The model that spoke in the conversation is asked first, unless it was found wanting or is left alone; any other
        one gets the handover. A model that has another one behind it gets half of the time that is left. What is waited
        for the budget counts towards the deadline alone. An answer with nothing in it is asked for once more; where a
        model refuses, the next one is asked, and the refusal is the answer where there is none.
        Raises Unavailable when nobody answered in time, Rejected for what no model takes or a budget does not allow,
        ContextExceeded, Unauthorized, QuotaExhausted, ContractError, and ConfigError for a role without a model or a
        model without a price.
        """
        table = self.roles.role(inquiry.role)
        prompt = keyed(discreet(inquiry.prompt), inquiry.charge, inquiry.role)
        inquiry = replace(inquiry, prompt=prompt)
        orders = self._orders(inquiry, table)
        return await self._answer(orders, Patience(role_s=table.timeout_s, caller_s=deadline_s))

    async def grade(self, conduct: Conduct, charge: Charge) -> None:
        """Keep how a model did in a trial; one that does badly is replaced for a while, and a person is told."""
        if demotion := await self.health.grade(conduct, charge):
            instead = self.roles.fallback(conduct.role, conduct.model)
            text = (
                f"As {conduct.role}, {demotion.why}. "
                + (f"Until {demotion.until:%Y-%m-%d %H:%M} UTC {instead} is asked instead." if instead else "")
                + ("" if instead else "It goes on being asked, for it has no fallback: [llm.roles] fallback = ...")
            )
            key = f"model {conduct.model} {conduct.role} {demotion.at}"
            self.alarm.tell(key, f"Model {conduct.model} does badly", text)

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 where all is free, None where it is not known.

        See ``Estimate.forecast_usd``.
        """
        return await self._estimates.forecast_usd(forecaster, trials=trials, steps=steps)

    async def worst_usd(self, role: str) -> float | None:
        """Return what one call in a role, with a long prompt, may cost at most in US dollars; None where not known.

        Trials that are to run at once fit a budget where it has room for that much each; else they wait for each other.
        Raises ConfigError for a role without a model.
        """
        return await self._estimates.call_usd(role)

    @property
    def _estimates(self) -> Estimate:
        llms = {name: line.llm for name, line in self.lines.items()}
        return Estimate(roles=self.roles, tariff=self.tariff, llms=llms, calls=self.till.ledger.calls)

    def _is_open(self, model: str) -> bool:
        return self.lines[provider_of(model)].is_open(model)

    def _fit(self, role: str, models: Sequence[str]) -> Sequence[str]:
        return [model for model in models if not self.health.is_demoted(model, role)] or models

    def _able(self, inquiry: Inquiry) -> Sequence[str]:
        """Return the models that may be given the prompt, the one that is to be asked first at the beginning."""
        models, spoke = self.roles.models(inquiry.role), inquiry.prompt.model
        able = [model for model in models if self.roles.understands(model, inquiry.prompt)]
        # A forecaster that offers tools to a model that does not master them has its reasons.
        fit = self._fit(inquiry.role, able or models[:1])
        return first_asked(fit, spoke) if spoke in fit and self._is_open(spoke) else fit

    def _orders(self, inquiry: Inquiry, table: RoleSection) -> Sequence[Order]:
        return [self._order(inquiry, table, model) for model in self._able(inquiry)]

    def _order(self, inquiry: Inquiry, table: RoleSection, model: str) -> Order:
        """Return what is asked of one model: the part of the conversation that is for it, sampled as is its way."""
        line = self.lines[provider_of(model)]
        inquiry = replace(inquiry, prompt=addressed(inquiry.prompt, model))
        parts = self.memory.parts(inquiry.prompt)
        asked = Asked(
            model=model,
            messages=tuple(part.digest for part in parts.messages),
            offer=parts.offer.digest,
            sampling=sampling_of(inquiry.role, table, line.defaults(model), seed=inquiry.seed),
            nth=inquiry.nth,
            place=line.place(model),
        )
        lost_again = self._lost_again(model)
        return Order(inquiry=inquiry, model=model, asked=asked, parts=parts, request=asked.digest, again=lost_again)

    def _lost_again(self, model: str) -> int:
        """Return how often a request may be sent again after a lost reply."""
        return self.roles.section.providers.get(provider_of(model), ProviderSection()).lost_again

    async def _answer(self, orders: Sequence[Order], patience: Patience) -> Answer:
        """Ask one model after the other in time, unless a later one was paid for the answer before a crash."""
        failed: list[tuple[Order, FoxcastError]] = []
        refused: Answer | None = None
        for number, order in enumerate(orders):
            others = orders[1:] if number == 0 else []
            came = await self._share(order, patience, paid=others, behind=orders[number + 1 :])
            if isinstance(came, Answer):
                refused = _together(refused, came)
                if came.completion.finish is not Finish.REFUSED:
                    return refused
            else:
                failed.append((order, came))
            if patience.over or _is_final(came, order):
                break
        self._report(failed, patience, answered=refused is not None)
        if refused is not None:
            return refused
        *before, last = (failure for _, failure in failed)
        for failure in before:
            last.add_note(f"before that: {failure}")
        raise last

    async def _share(
        self, order: Order, patience: Patience, *, paid: Sequence[Order], behind: Sequence[Order]
    ) -> Answer | FoxcastError:
        """Give one model its share of the time."""
        began = asyncio.get_running_loop().time()
        try:
            async with patience.share((lambda: any(self._is_open(one.model) for one in behind)) if behind else None):
                return await self._paid(paid, patience) or await self._filled(order, patience)
        except TimeoutError as error:
            waited_s = asyncio.get_running_loop().time() - began
            told_s = round(waited_s, 0 if waited_s >= 1.0 else 2)
            message = f"{order.model}, asked as {order.inquiry.role}: no answer within {told_s:g} s"
            failure = Unavailable(message)
            failure.__cause__ = error
            return failure

    async def _paid(self, orders: Sequence[Order], patience: Patience) -> Answer | None:
        """Return the answer that was paid for already in this very trial, if there is one; a refusal is none."""
        for order in orders:
            stored = await self.till.stored(order)
            if stored and stored.usage.calls and stored.completion.finish is not Finish.REFUSED:
                return await self._refilled(order, stored, patience)
        return None

    async def _filled(self, order: Order, patience: Patience) -> Answer | FoxcastError:
        """Return the answer of one model as ``_call`` does; one with nothing in it is asked for once more."""
        came = await self._call(order, patience)
        return await self._refilled(order, came, patience) if isinstance(came, Answer) else came

    async def _refilled(self, order: Order, came: Answer, patience: Patience) -> Answer:
        """Return an answer, or what came of asking once more where it is empty; what that cannot mend stays empty."""
        if (again := order.once_more(came.completion)) is None:
            return came
        try:
            other = await self._call(again, patience)
        except FAILURES as error:
            other = error
        if isinstance(other, Answer):
            return _together(came, other)
        log.warning("an empty answer was asked for once more in vain", model=order.model, why=str(other))
        return came

    async def _call(self, order: Order, patience: Patience) -> Answer | FoxcastError:
        """Return the answer of one model, or why it has none where another model may; raises what no model mends."""
        line = self.lines[provider_of(order.model)]
        async with self.flights.turn(order.request):
            if stored := await self.till.stored(order):
                return stored
            try:
                await line.ready(order.model, patience)
                rate = await self.tariff.rate(order.model, line.llm)
            except FAILURES as error:
                return error
            call = await self.till.open(order, rate, patience)
            try:
                settlement = call.settlement(await line.complete(call, patience))
            except asyncio.CancelledError:
                call.give_up()
                raise
            except Exception as error:
                await call.fail(error)
                if isinstance(error, FAILURES):
                    return error
                raise
            return await call.close(settlement)

    def _report(self, failed: Sequence[tuple[Order, FoxcastError]], patience: Patience, *, answered: bool) -> None:
        for order, failure in failed:
            # Of an empty account a person was told when it was found.
            if isinstance(failure, Unauthorized) and not isinstance(failure, QuotaExhausted):
                provider = provider_of(order.model)
                self.alarm.tell(f"key {provider}", f"Provider {provider} refuses the credentials", f"{failure}.")
        if answered or isinstance(failed[-1][1], Rejected) or patience.hurried:
            return
        # Of one model alone the alarm above says it all.
        if len(failed) > 1 or not isinstance(failed[0][1], Unauthorized):
            role = failed[0][0].inquiry.role
            # Most providers name the model themselves.
            whys = [(order.model, str(failure)) for order, failure in failed]
            text = "; ".join(why if why.startswith(model) else f"{model}: {why}" for model, why in whys)
            self.alarm.tell(f"role {role}", f"No model answers as {role}", f"{text}.")


def _together(before: Answer | None, answer: Answer) -> Answer:
    """Return an answer with what was paid for the one before it, which is on record by itself."""
    return answer if before is None else replace(answer, usage=before.usage + answer.usage)


def _is_final(came: Answer | FoxcastError, order: Order) -> bool:
    """Say whether no other model is asked: a conversation that is too long ends with what is believed by then."""
    return isinstance(came, ContextExceeded) and order.prompt.model == order.model


class Seams(TypedDict):
    """What the gateway is given besides its configuration, by keyword; ``alert`` takes a subject and a text."""

    ledger: Ledger
    clock: Clock
    random: Random
    alert: Callable[[str, str], Awaitable[None]]


@asynccontextmanager
async def open_gateway(
    section: LlmSection, providers: Mapping[str, Llm], **seams: Unpack[Seams]
) -> AsyncIterator[Gateway]:
    """Open the gateway on a ledger of which nothing is in flight; at the end, wait for what is being written down.

    ``providers`` are those of the enabled plugins by name; ``ledger``, ``clock``, ``random`` and ``alert`` are given by
    keyword.
    Raises ConfigError for a role whose model has a provider that is not among them.
    """
    roles = Roles(section, frozenset(providers))
    ledger, clock = seams["ledger"], seams["clock"]
    now = clock.now()
    if lost := await ledger.calls.lose(at=now):
        log.warning("calls of an earlier run were lost and count at their worst case", calls=lost)
    purse = Purse(section, clock=clock)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    purse.begin_day(await ledger.calls.spent(since=midnight))
    begun = sum(row.calls for row in await ledger.calls.costs(CostBy.DAY, since=midnight))
    health = Health(section.health, ledger.conducts, clock=clock)
    await health.load()
    errands = Errands()
    alarm = Alarm(seams["alert"], errands=errands, clock=clock)
    world = World(clock=clock, random=seams["random"], alarm=alarm)
    sections = {name: section.providers.get(name, ProviderSection()) for name in providers}
    try:
        yield Gateway(
            roles=roles,
            lines={name: Line(name, llm, sections[name], world=world) for name, llm in providers.items()},
            tariff=Tariff(section.models),
            till=Till(purse, ledger, errands=errands, alarm=alarm, begun=begun),
            health=health,
            alarm=alarm,
        )
    finally:
        await errands.finish()
