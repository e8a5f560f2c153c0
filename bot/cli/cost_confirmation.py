"""Ask for confirmation before models cost more than a threshold.

Also the typical cost of forecasts, and the forecasts that wait for a confirmation.
"""

import sys
from collections.abc import Sequence
from typing import Protocol

import typer

from bot.app.app import BacktestForecaster, FoxcastApp
from bot.config.schema import Config
from bot.core.errors import ConfigError, NotFoundError, StoreError
from bot.evaluation.value_text import format_usd
from bot.forecasting.cost_check import CostEstimateSource, expected_cost, missing_price_errors
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.store.ledger import open_read_only


class CostEstimator(Protocol):
    """A forecaster and the source of its cost estimates."""

    @property
    def forecaster(self) -> ConfiguredForecaster:
        """The forecaster."""
        ...

    @property
    def gateway(self) -> CostEstimateSource | None:
        """The source of prices; None if no model is used."""
        ...


async def confirm_cost(
    estimator: CostEstimator, questions: int, *, yes: bool, above_usd: float, typical_usd: float | None = None
) -> None:
    """Ask a person if forecasting this many questions is expected to cost more than a threshold in US dollars.

    ``typical_usd`` is the cost of one forecast according to another ledger than the gateway's, if it is known there.
    Raises ConfigError without a terminal, for the answer no, and, with the remedy, for a model without a price, which
    would not be used even after a confirmation.
    """
    if estimator.gateway is None or not estimator.forecaster.uses_models or yes:
        return
    known = None if typical_usd is None else typical_usd * questions
    cost = await expected_cost(estimator.gateway, estimator.forecaster, questions) if known is None else known
    if cost is not None and cost <= above_usd:
        return
    if cost is None:
        await require_prices(estimator.gateway)
    amount = _amount_text(cost)
    forecasts = "1 forecast by" if questions == 1 else f"{questions:,} forecasts by"
    are = "is" if questions == 1 else "are"
    _ask_to_confirm(f"{forecasts} {estimator.forecaster.name} {are} expected to cost {amount}.")


async def confirm_combined_cost(
    gateway: CostEstimateSource | None, forecasters: Sequence[ConfiguredForecaster], *, yes: bool, above_usd: float
) -> None:
    """Ask a person once if forecasts by all of these are expected to cost more than a threshold together.

    Raises as ``confirm_cost`` does.
    """
    paid = [forecaster for forecaster in forecasters if forecaster.uses_models]
    if gateway is None or not paid or yes:
        return
    costs = [await expected_cost(gateway, forecaster, 1) for forecaster in paid]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) and sum(known) <= above_usd:
        return
    if len(known) < len(costs):
        await require_prices(gateway)
    amount = _amount_text(sum(known) if len(known) == len(costs) else None)
    if len(paid) == 1:
        _ask_to_confirm(f"1 forecast by {paid[0].name} is expected to cost {amount}.")
    else:
        _ask_to_confirm(f"forecasts by {', '.join(one.name for one in paid)} are expected to cost {amount}.")


async def require_prices(gateway: CostEstimateSource) -> None:
    """Raise ConfigError for the first model in a role that has no price and is not declared free."""
    for fault in await missing_price_errors(gateway):
        # A price that cannot be read now is unknown, but the model may be used.
        if isinstance(fault, ConfigError):
            raise fault


def _amount_text(cost: float | None) -> str:
    return "an unknown amount" if cost is None else f"about {format_usd(cost)} US dollars"


def _ask_to_confirm(text: str) -> None:
    if sys.stdin.isatty() and typer.confirm(f"{text} Continue?", err=True):
        return
    message = f"{text} Confirm with --yes, or raise llm.budget.ask_above_usd"
    raise ConfigError(message)


async def unconfirmed_forecasts_message(app: FoxcastApp) -> str | None:
    """Return a message about due forecasts that wait for a confirmation of their cost; None if there are none."""
    if app.gateway is None:
        return None
    due = await app.ledger.schedule.count_due(app.clock.now())
    held = await app.cost_check.forecasters_on_hold(app.forecasters, due, now=app.clock.now())
    if not held:
        return None
    costs = [await expected_cost(app.gateway, app.forecasters[name], due[name]) for name in held]
    if None in costs:
        try:
            await require_prices(app.gateway)
        except ConfigError as error:
            return f"{', '.join(held)} held: {error}"
    known = [cost for cost in costs if cost is not None]
    amount = _amount_text(sum(known) if len(known) == len(costs) else None)
    count, names = sum(due[name] for name in held), ", ".join(held)
    return (
        f"{count:,} {'forecast' if count == 1 else 'forecasts'} by {names} held: expected to cost {amount}, more than "
        f"llm.budget.ask_above_usd = {app.cost_check.ask_above_usd:g}; confirm with --yes, or raise that"
    )


async def typical_cost_usd(backtested: BacktestForecaster, config: Config) -> float | None:
    """Return the average cost in US dollars of the daemon's forecasts by this forecaster.

    None if the backtest ledger has forecasts of its own, or if the daemon's ledger has fewer than five forecasts whose
    calls all went to the models that have the same roles now.
    """
    if backtested.gateway is None or backtested.tool_factory is None:
        return None
    roles = backtested.gateway.roles
    players = [(role, model) for role in roles.section.roles for model in roles.models(role)]
    if await backtested.tool_factory.ledger.calls.typical_cost(backtested.forecaster.name, players=players):
        return None
    try:
        async with open_read_only(config) as records:
            # A recorded cost of zero does not outweigh a price.
            return await records.ledger.calls.typical_cost(backtested.forecaster.name, players=players) or None
    except (NotFoundError, StoreError):
        return None
