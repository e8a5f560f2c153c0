"""What a pass would cost, before it is begun: above a threshold nothing is forecast for money until a person said yes.

A date filter that went wrong once forecast 9,399 questions anew for about 2,400 dollars; an estimate was printed, and
nobody was asked.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

import structlog

from bot.errors import FoxcastError
from bot.jobs.sitting import Seat
from bot.llm.gateway import Gateway
from bot.llm.roles import provider_of

log = structlog.get_logger()


class Estimates(Protocol):
    """What knows prices: ``bot.llm.gateway``."""

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return what one forecast is expected to cost in US dollars; None where that is not known."""
        ...


@dataclass(slots=True, kw_only=True)
class Spending:
    """Who knows prices, above how many dollars a day a person is asked, and whether one said yes for this run.

    What was begun without a yes counts all day (UTC): many small passes cost as much as one large one. ``narrow`` says
    where a budget has too little room; it is asked once, when prices are first needed.
    """

    prices: Estimates | None = None
    ask_above_usd: float = 0.0
    confirmed: bool = False
    narrow: Callable[[], Awaitable[Sequence[str]]] | None = None
    told: set[str] = field(default_factory=set)
    each_usd: dict[str, float] = field(default_factory=dict)
    day: date | None = None
    begun_usd: float = 0.0

    @property
    def matters(self) -> bool:
        """Whether anything can cost money that nobody has said yes to, or budgets were not looked at yet."""
        return self.prices is not None and not (self.confirmed and self.narrow is None)

    async def held(self, seats: Mapping[str, Seat], due: Mapping[str, int], *, now: datetime) -> tuple[str, ...]:
        """Return the forecasters that must wait for a yes: those that cost, where all of them together cost too much.

        A cost that is not known counts as too much: so little stands in the way of asking.
        """
        paid = [seat for seat in seats.values() if seat.asks and due.get(seat.name)]
        if self.prices is None:
            return ()
        if paid:
            await self.look()
        if self.confirmed:
            return ()
        if self.day != now.date():
            self.day, self.begun_usd = now.date(), 0.0
        costs = {seat.name: await expected(self.prices, seat, 1) for seat in paid}
        self.each_usd = {name: cost for name, cost in costs.items() if cost is not None}
        dear = tuple(name for name, cost in costs.items() if cost is None or cost > 0.0)
        total = sum(cost * due[name] for name, cost in self.each_usd.items())
        known = None not in costs.values()
        if self.begun_usd + total <= self.ask_above_usd and known:
            return ()
        await self._tell(dear, total if known else None, sum(due[name] for name in dear))
        return dear

    async def look(self) -> None:
        """Warn, once, where trials will wait for each other because a budget has too little room for all of them."""
        narrow, self.narrow = self.narrow, None
        for why in () if narrow is None else await narrow():
            log.warning("trials wait for each other's budget", why=why)

    def begun(self, forecasters: Iterable[str]) -> None:
        """Count forecasts that were begun without a yes."""
        self.begun_usd += sum(self.each_usd.get(name, 0.0) for name in forecasters)

    async def _tell(self, dear: tuple[str, ...], total: float | None, count: int) -> None:
        if self.told.issuperset(dear):
            return
        self.told.update(dear)
        log.warning(
            "held until somebody says yes (foxcast run --yes), or llm.budget.ask_above_usd is raised",
            forecasters=dear,
            forecasts=count,
            expected_usd=None if total is None else round(total, 2),
            begun_today_usd=round(self.begun_usd, 2),
            ask_above_usd=self.ask_above_usd,
            why=await self._reason(known=total is not None),
        )

    async def _reason(self, *, known: bool) -> str:
        if known:
            return "it is expected to cost more than may be begun unasked"
        faults = [] if self.prices is None else await unpriced(self.prices)
        return "; ".join(map(str, faults)) or "what it costs is not known"


async def expected(prices: Estimates, seat: Seat, questions: int) -> float | None:
    """Return what so many forecasts are expected to cost in US dollars; None where that is not known."""
    one = await prices.estimate(seat.name, trials=seat.trials, steps=seat.limits.steps)
    return None if one is None else one * questions


async def unpriced(prices: Estimates) -> Sequence[FoxcastError]:
    """Return why models that play roles have no known price: ConfigError where a person must give it."""
    if not isinstance(prices, Gateway):
        return ()
    models = [model for role in prices.roles.section.roles for model in prices.roles.models(role)]
    faults = []
    for model in dict.fromkeys(models):
        try:
            await prices.tariff.rate(model, prices.lines[provider_of(model)].llm)
        except FoxcastError as error:
            faults.append(error)
    return faults
