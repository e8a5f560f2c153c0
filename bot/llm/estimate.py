"""What a forecast is expected to cost, from its like or from today's prices, and what one call may cost at most."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.errors import FoxcastError
from bot.llm.price import Tariff
from bot.llm.roles import Roles, provider_of
from bot.ports import Llm
from bot.store.calls import Calls

# A conversation half-way through a trial of ten steps with pages in it, and a long answer with reasoning.
TOKENS_IN = 20_000
TOKENS_OUT = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is known of costs: the prices of the models that play roles now, and the calls on record."""

    roles: Roles
    tariff: Tariff
    llms: Mapping[str, Llm]
    calls: Calls

    async def forecast_usd(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 where all is free, None where it is not known.

        It is what the forecaster's forecasts cost so far, on average, those alone whose calls were all answered by
        models that play the same roles now; or that of a long trial at today's prices. A record of nothing is not
        believed against a price.
        """
        players = [(role, model) for role in self.roles.section.roles for model in self.roles.models(role)]
        typical = await self.calls.typical(forecaster, players=players)
        if typical:
            return typical
        step_usd = await self.step_usd()
        return None if step_usd is None else step_usd * trials * steps

    async def step_usd(self) -> float | None:
        """Return the expected cost of one step in US dollars, or None where a price is not known.

        A step is taken to be one call in every role, each to the dearer of its model and its fallback.
        """
        costs = [await self.call_usd(role, most_out=TOKENS_OUT) for role in self.roles.section.roles]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    async def call_usd(self, role: str, *, most_out: int | None = None) -> float | None:
        """Return what a call in a role costs in US dollars, to the dearer of its models, or None as above.

        The prompt is as long as ``TOKENS_IN`` says, the answer as long as the role allows, or ``most_out`` where that
        is less. Raises ConfigError for a role without a model.
        """
        most = self.roles.role(role).max_tokens
        tokens_out = most if most_out is None else min(most, most_out)
        costs = []
        for model in self.roles.models(role):
            try:
                rate = await self.tariff.rate(model, self.llms[provider_of(model)])
            except FoxcastError:
                return None
            costs.append(rate.worst_usd(tokens_in=TOKENS_IN, max_tokens=tokens_out))
        return max(costs)
