"""Ask for confirmation before a lot of money is spent on models.

What such forecasts typically cost, and which ones wait for a confirmation.
"""

import sys
from collections.abc import Sequence
from typing import Protocol

import typer

from bot.app.app import BacktestForecaster, FoxcastApp
from bot.cli.output.formatting import format_usd
from bot.config.schema import Config
from bot.core.errors import ConfigError, NotFoundError, StoreError
from bot.forecasting.cost_check import CostEstimateSource, expected_cost, missing_price_errors
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.store.ledger import open_read_only


class CostEstimator(Protocol):
    """A forecaster and who knows what it costs, where anybody does."""

    @property
    def forecaster(self) -> ConfiguredForecaster:
        """The forecaster."""
        ...

    @property
    def gateway(self) -> CostEstimateSource | None:
        """Who knows prices; None where no model is asked."""
        ...


async def confirm_cost(
    payer: CostEstimator, questions: int, *, yes: bool, above_usd: float, usual_usd: float | None = None
) -> None:
    """Ask a person where forecasting so many questions is expected to cost more than a threshold in US dollars.

    ``typical_cost_usd`` is the known cost of one forecast, where another ledger than the gateway's knows it better.
    Raises ConfigError where nobody is there to be asked, where the answer is no, and, with the remedy, where a model
    has no price: it would not be asked, whatever a person says.
    """
    if payer.gateway is None or not payer.forecaster.uses_models or yes:
        return
    known = None if usual_usd is None else usual_usd * questions
    cost = await expected_cost(payer.gateway, payer.forecaster, questions) if known is None else known
    if cost is not None and cost <= above_usd:
        return
    if cost is None:
        await require_prices(payer.gateway)
    said = "an unknown amount" if cost is None else f"about {format_usd(cost)} US dollars"
    forecasts = "1 forecast by" if questions == 1 else f"{questions:,} forecasts by"
    are = "is" if questions == 1 else "are"
    _ask_to_confirm(f"{forecasts} {payer.forecaster.name} {are} expected to cost {said}.")


async def confirm_combined_cost(
    gateway: CostEstimateSource | None, seats: Sequence[ConfiguredForecaster], *, yes: bool, above_usd: float
) -> None:
    """Ask a person once where a forecast by each of these together is expected to cost more than a threshold.

    Raises as ``confirm_cost`` does.
    """
    asking = [seat for seat in seats if seat.uses_models]
    if gateway is None or not asking or yes:
        return
    costs = [await expected_cost(gateway, seat, 1) for seat in asking]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) and sum(known) <= above_usd:
        return
    if len(known) < len(costs):
        await require_prices(gateway)
    said = f"about {format_usd(sum(known))} US dollars" if len(known) == len(costs) else "an unknown amount"
    if len(asking) == 1:
        _ask_to_confirm(f"1 forecast by {asking[0].name} is expected to cost {said}.")
    else:
        _ask_to_confirm(f"forecasts by {', '.join(seat.name for seat in asking)} are expected to cost {said}.")


async def require_prices(gateway: CostEstimateSource) -> None:
    """Raise ConfigError for the first model in a role that has no price and is not declared free."""
    for fault in await missing_price_errors(gateway):
        # What cannot be asked for its price now is not known, but may be paid.
        if isinstance(fault, ConfigError):
            raise fault


def _ask_to_confirm(said: str) -> None:
    if sys.stdin.isatty() and typer.confirm(f"{said} Go on?", err=True):
        return
    message = f"{said} Say yes with --yes, or raise llm.budget.ask_above_usd"
    raise ConfigError(message)


async def unconfirmed_forecasts_message(app: FoxcastApp) -> str | None:
    """Say which forecasts are due and wait for a yes to what they cost; None where none do."""
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
    said = f"about {format_usd(sum(known))} US dollars" if len(known) == len(costs) else "an unknown amount"
    count, names = sum(due[name] for name in held), ", ".join(held)
    return (
        f"{count:,} {'forecast' if count == 1 else 'forecasts'} by {names} held: expected to cost {said}, more than "
        f"llm.budget.ask_above_usd = {app.cost_check.ask_above_usd:g}; say yes with --yes, or raise that"
    )


async def typical_cost_usd(bay: BacktestForecaster, config: Config) -> float | None:
    """Return what the daemon's forecasts by this forecaster cost on average in US dollars, where that says more.

    None where the laboratory has forecasts of its own to go by, and where the daemon's ledger has fewer than five
    whose calls were all made to the models that play the same roles now.
    """
    if bay.gateway is None or bay.tool_factory is None:
        return None
    roles = bay.gateway.roles
    players = [(role, model) for role in roles.section.roles for model in roles.models(role)]
    if await bay.tool_factory.ledger.calls.typical_cost(bay.forecaster.name, players=players):
        return None
    try:
        async with open_read_only(config) as records:
            # A record of nothing is not believed against a price.
            return await records.ledger.calls.typical_cost(bay.forecaster.name, players=players) or None
    except (NotFoundError, StoreError):
        return None
