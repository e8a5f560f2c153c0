"""What a step of a trial is expected to cost where no forecast tells: today's prices for a long conversation."""

from collections.abc import Mapping

from bot.errors import FoxcastError
from bot.llm.price import Tariff
from bot.llm.roles import Roles, provider_of
from bot.ports import Llm

# A conversation half-way through a trial of ten steps with pages in it, and a long answer with reasoning.
TOKENS_IN = 20_000
TOKENS_OUT = 4_000


async def expected_usd(roles: Roles, tariff: Tariff, llms: Mapping[str, Llm]) -> float | None:
    """Return the cost of one step in US dollars, or None where a price is not known.

    A step is taken to be one call in every role, each to the dearer of its model and its fallback.
    """
    total_usd = 0.0
    for role, table in roles.section.roles.items():
        tokens_out = min(TOKENS_OUT, table.max_tokens)
        costs = []
        for model in roles.models(role):
            try:
                rate = await tariff.rate(model, llms[provider_of(model)])
            except FoxcastError:
                return None
            costs.append(rate.worst_usd(tokens_in=TOKENS_IN, max_tokens=tokens_out))
        total_usd += max(costs)
    return total_usd
