"""What a forecast usually cost: told by the daemon's ledger where the laboratory has too few of its like."""

from bot.app import Bay, open_records
from bot.config.model import Config
from bot.errors import NotFound, StoreError


async def usual_usd(bay: Bay, config: Config) -> float | None:
    """Return what the daemon's forecasts by this forecaster cost on average in US dollars, where that says more.

    None where the laboratory has forecasts of its own to go by, and where the daemon's ledger has fewer than five
    whose calls were all made to the models that play the same roles now.
    """
    if bay.gateway is None or bay.workshop is None:
        return None
    roles = bay.gateway.roles
    players = [(role, model) for role in roles.section.roles for model in roles.models(role)]
    if await bay.workshop.ledger.calls.typical(bay.seat.name, players=players):
        return None
    try:
        async with open_records(config) as records:
            # A record of nothing is not believed against a price.
            return await records.ledger.calls.typical(bay.seat.name, players=players) or None
    except (NotFound, StoreError):
        return None
