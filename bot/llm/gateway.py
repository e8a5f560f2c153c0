"""The one way to language models: from the record, within the budget, in time, and never from a model that fails.

Providers decide nothing. Who is asked, whether it may be, how often and how long is decided here, once for all of them;
every answer is on record before it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

import structlog

from bot.config.model import LlmSection, ProviderSection, RoleSection
from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Dialect, Sampling
from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unauthorized, Unavailable
from bot.llm.call import Order, Till
from bot.llm.errands import Alarm, Errands
from bot.llm.estimate import expected_usd
from bot.llm.flights import Flights
from bot.llm.health import Health
from bot.llm.line import Line, Patience, World
from bot.llm.parts import Memory
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
        models = self._fit(role)
        ready = [model for model in models if self.lines[provider_of(model)].is_open]
        return self.roles.dialect((ready or models)[0])

    async def ask(self, inquiry: Inquiry, *, deadline_s: float) -> Answer:
        """Return the answer of the role's model, or of its fallback, within the role's time and the deadline.

        Raises Unavailable when nobody answered in time, Rejected for what no model takes or a budget does not allow,
        Unauthorized, ContractError, and ConfigError for a role without a model or a model without a price.
        """
        table = self.roles.role(inquiry.role)
        orders = self._orders(inquiry, table)
        limit_s = min(table.timeout_s, deadline_s)
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await self._answer(orders, Patience(whole_s=table.timeout_s, limit=limit))
        except TimeoutError as error:
            message = f"{orders[0].model}, asked as {inquiry.role}: no answer within {limit_s:.3g} s"
            raise Unavailable(message) from error

    async def grade(self, conduct: Conduct, charge: Charge) -> None:
        """Keep how a model did in a trial; one that does badly is replaced for a while, and a person is told."""
        if demotion := await self.health.grade(conduct, charge):
            instead = " or ".join(self.roles.fallbacks(conduct.model))
            text = (
                f"{demotion.why[0].upper()}{demotion.why[1:]}. "
                + (f"Until {demotion.until:%Y-%m-%d %H:%M} UTC {instead} is asked instead." if instead else "")
                + ("" if instead else "It goes on being asked, for it has no fallback: [llm.roles] fallback = ...")
            )
            self.alarm.tell(f"model {conduct.model} {demotion.at}", f"Model {conduct.model} does badly", text)

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 where all is free, None where it is not known.

        It is what the forecaster's forecasts cost so far, on average, or a long trial at today's prices.
        """
        typical = await self.till.ledger.calls.typical(forecaster)
        if typical is not None:
            return typical
        llms = {name: line.llm for name, line in self.lines.items()}
        step_usd = await expected_usd(self.roles, self.tariff, llms)
        return None if step_usd is None else step_usd * trials * steps

    def _fit(self, role: str) -> tuple[str, ...]:
        models = self.roles.models(role)
        return tuple(model for model in models if not self.health.is_demoted(model)) or models

    def _orders(self, inquiry: Inquiry, table: RoleSection) -> Sequence[Order]:
        parts = self.memory.parts(inquiry.prompt)
        sampling = Sampling(
            max_tokens=table.max_tokens, temperature=table.temperature, effort=table.effort, seed=inquiry.seed
        )
        first, *others = self._fit(inquiry.role)
        orders = []
        for model in (first, *(other for other in others if self.roles.understands(other, inquiry.prompt))):
            asked = Asked(
                model=model,
                messages=tuple(part.digest for part in parts.messages),
                offer=parts.offer.digest,
                sampling=sampling,
                nth=inquiry.nth,
            )
            orders.append(Order(inquiry=inquiry, model=model, asked=asked, parts=parts, request=asked.digest))
        return orders

    async def _answer(self, orders: Sequence[Order], patience: Patience) -> Answer:
        """Ask one model after the other, unless one of the later ones was paid for the answer before a crash."""
        for order in orders[1:]:
            if (stored := await self.till.stored(order)) and stored.usage.calls:
                return stored
        failures: list[FoxcastError] = []
        for order in orders:
            answer = await self._call(order, patience)
            if isinstance(answer, Answer):
                return answer
            failures.append(answer)
        self._report(orders, failures)
        for failure in failures[:-1]:
            failures[-1].add_note(f"before that: {failure}")
        raise failures[-1]

    async def _call(self, order: Order, patience: Patience) -> Answer | FoxcastError:
        """Return the answer of one model, or why it has none where another model may; raises what no model mends."""
        line = self.lines[provider_of(order.model)]
        async with self.flights.turn(order.request):
            if stored := await self.till.stored(order):
                return stored
            try:
                line.require_open()
                rate = await self.tariff.rate(order.model, line.llm)
            except FAILURES as error:
                return error
            call = await self.till.open(order, rate)
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

    def _report(self, orders: Sequence[Order], failures: Sequence[FoxcastError]) -> None:
        for order, failure in zip(orders, failures, strict=True):
            if isinstance(failure, Unauthorized):
                provider = provider_of(order.model)
                self.alarm.tell(f"key {provider}", f"Provider {provider} refuses the credentials", f"{failure}.")
        if not isinstance(failures[-1], Rejected):
            role = orders[0].inquiry.role
            text = "; ".join(f"{order.model}: {failure}" for order, failure in zip(orders, failures, strict=True))
            self.alarm.tell(f"role {role}", f"No model answers as {role}", f"{text}.")


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
