"""What a forecast is expected to cost, from its like or from today's prices, and what one call may cost at most."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.errors import FoxcastError
from bot.llm.defaults import HELPERS, defaults_of, sampling_of
from bot.llm.price import Tariff
from bot.llm.roles import Roles, provider_of
from bot.ports import Llm
from bot.store.calls import Calls

# A step of an agent that searches: its published trials read 54,000 to 97,000 tokens and write 5,000 to 10,000 in 7 to
# 10 steps, with thinking at a high level. Source: BLF (arXiv 2604.18576v3), the median agent loop on market questions.
STEP_TOKENS_IN = 10_000
STEP_TOKENS_OUT = 1_000
# A helper of the desk is shown what one search or one page brought, once for each, and says little of it.
HELPER_TOKENS_IN = 3_000
HELPER_TOKENS_OUT = 300
# Asked by audits of what was forecast before, never for a forecast.
APART = frozenset({"auditor"})
# A prompt late in such a trial.
LONG_TOKENS_IN = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of the models that play roles now."""

    roles: Roles
    tariff: Tariff
    llms: Mapping[str, Llm]

    async def step_usd(self) -> float | None:
        """Return the expected cost of one step in US dollars, or None where a price is not known.

        A step is taken to be one call in every role that forecasts ask, each to the dearer of its model and its
        fallback, and short ones to the desk's helpers.
        """
        costs = []
        for role in (role for role in self.roles.section.roles if role not in APART):
            is_helper = role in HELPERS
            tokens_in = HELPER_TOKENS_IN if is_helper else STEP_TOKENS_IN
            most_out = HELPER_TOKENS_OUT if is_helper else STEP_TOKENS_OUT
            costs.append(await self._call_usd(role, tokens_in=tokens_in, most_out=most_out))
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    async def call_usd(self, role: str) -> float | None:
        """Return what a call in a role with a long prompt and the longest answer costs in US dollars, or None as above.

        Raises ConfigError for a role without a model.
        """
        return await self._call_usd(role, tokens_in=LONG_TOKENS_IN)

    async def _call_usd(self, role: str, *, tokens_in: int, most_out: int | None = None) -> float | None:
        costs, table = [], self.roles.role(role)
        for model in self.roles.models(role):
            llm = self.llms[provider_of(model)]
            try:
                rate = await self.tariff.rate(model, llm)
                longest = sampling_of(role, table, defaults_of(llm, model)).max_tokens
            except FoxcastError:
                return None
            tokens_out = longest if most_out is None else min(most_out, longest)
            costs.append(rate.worst_usd(tokens_in=tokens_in, max_tokens=tokens_out))
        return max(costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Prices):
    """What is known of costs: those prices, and the calls on record."""

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
        if step_usd is None:
            return None
        # What the budget of a question does not allow is not spent.
        most = self.roles.section.budget.question_usd
        return min(step_usd * trials * steps, float("inf") if most is None else most)
