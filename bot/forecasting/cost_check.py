"""The expected cost of a pass: above a threshold no paid forecast is made until a person agrees."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime
from typing import Protocol

import structlog

from bot.core.errors import FoxcastError
from bot.core.light_dataclass import dataclass
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.llm.gateway import LlmGateway
from bot.llm.roles import provider_name

log = structlog.get_logger()


class CostEstimateSource(Protocol):
    """Estimates costs: ``bot.llm.gateway``."""

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars; None if it is not known."""
        ...


@dataclass(slots=True, kw_only=True)
class CostCheck:
    """The cost estimates, the dollars a day above which a person is asked, and whether one agreed to this run.

    Forecasts that this process began without agreement count all day (UTC): many small passes cost as much as one large
    one. A new process counts from zero.
    ``budget_warnings`` says which budgets are too small; it is called once, when prices are first needed.
    """

    estimates: CostEstimateSource | None = None
    ask_above_usd: float = 0.0
    confirmed: bool = False
    budget_warnings: Callable[[], Awaitable[Sequence[str]]] | None = None
    warned: set[str] = field(default_factory=set)
    forecast_usd: dict[str, float] = field(default_factory=dict)
    day: date | None = None
    started_usd: float = 0.0

    @property
    def is_needed(self) -> bool:
        """Whether anything without agreement can cost money, or the budgets were not checked yet."""
        return self.estimates is not None and not (self.confirmed and self.budget_warnings is None)

    async def forecasters_on_hold(
        self, forecasters: Mapping[str, ConfiguredForecaster], due: Mapping[str, int], *, now: datetime
    ) -> tuple[str, ...]:
        """Return the forecasters that must wait for agreement: those that cost, if all of them together cost too much.

        An unknown cost counts as too much, since asking a person costs little.
        """
        paid = [
            forecaster for forecaster in forecasters.values() if forecaster.uses_models and due.get(forecaster.name)
        ]
        if self.estimates is None:
            return ()
        if paid:
            await self.log_budget_warnings()
        if self.confirmed:
            return ()
        if self.day != now.date():
            self.day, self.started_usd = now.date(), 0.0
        costs = {forecaster.name: await expected_cost(self.estimates, forecaster, 1) for forecaster in paid}
        self.forecast_usd = {name: cost for name, cost in costs.items() if cost is not None}
        costly = tuple(name for name, cost in costs.items() if cost is None or cost > 0.0)
        total = sum(cost * due[name] for name, cost in self.forecast_usd.items())
        known = None not in costs.values()
        if self.started_usd + total <= self.ask_above_usd and known:
            return ()
        await self._warn_on_hold(costly, total if known else None, sum(due[name] for name in costly))
        return costly

    async def log_budget_warnings(self) -> None:
        """Warn once if trials will wait for each other because a budget is too small for all of them."""
        check, self.budget_warnings = self.budget_warnings, None
        for why in () if check is None else await check():
            log.warning("trials wait for each other's budget", why=why)

    def record_started(self, forecasters: Iterable[str]) -> None:
        """Count forecasts that were begun without agreement."""
        self.started_usd += sum(self.forecast_usd.get(name, 0.0) for name in forecasters)

    async def _warn_on_hold(self, costly: tuple[str, ...], total: float | None, count: int) -> None:
        if self.warned.issuperset(costly):
            return
        self.warned.update(costly)
        log.warning(
            "waiting for confirmation (foxcast run --yes) or a higher llm.budget.ask_above_usd",
            forecasters=costly,
            forecasts=count,
            expected_usd=None if total is None else round(total, 2),
            begun_today_usd=round(self.started_usd, 2),
            ask_above_usd=self.ask_above_usd,
            why=await self._hold_reason(known=total is not None),
        )

    async def _hold_reason(self, *, known: bool) -> str:
        if known:
            return "the expected cost is more than may be spent without confirmation"
        faults = [] if self.estimates is None else await missing_price_errors(self.estimates)
        return "; ".join(map(str, faults)) or "its cost is not known"


async def expected_cost(prices: CostEstimateSource, forecaster: ConfiguredForecaster, questions: int) -> float | None:
    """Return the expected cost of this many forecasts in US dollars; None if it is not known."""
    cost = await prices.estimate(forecaster.name, trials=forecaster.trials, steps=forecaster.limits.steps)
    return None if cost is None else cost * questions


async def missing_price_errors(prices: CostEstimateSource) -> Sequence[FoxcastError]:
    """Return why models have no known price: ConfigError if a person must give it."""
    if not isinstance(prices, LlmGateway):
        return ()
    models = [model for role in prices.roles.section.roles for model in prices.roles.models(role)]
    faults = []
    for model in dict.fromkeys(models):
        try:
            await prices.price_table.model_price(model, prices.clients[provider_name(model)].provider)
        except FoxcastError as error:
            faults.append(error)
    return faults
