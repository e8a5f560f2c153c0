"""What models cost: the price from config, else from the provider.

Also the expected cost of a forecast or of one call. An unknown price is never taken as zero.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bot.config.schema import ModelSection
from bot.core.errors import ConfigError, FoxcastError, MalformedDataError
from bot.core.interfaces import ModelProvider
from bot.core.language_models import ModelCompletion, TokenPrice
from bot.llm.providers import HELPER_ROLES, describe_foreign_error, provider_defaults, sampling_settings
from bot.llm.roles import ModelRoles, bare_model_name, provider_name
from bot.store.model_calls import ModelCallStore

FREE_PRICE = TokenPrice(tokens_in=0.0, tokens_cached=0.0, tokens_out=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """The price of a model. ``is_configured`` says that the operator set it; then it replaces the provider's price."""

    tokens: TokenPrice
    is_configured: bool

    def worst_usd(self, *, tokens_in: int, max_tokens: int) -> float:
        """Return the maximum cost of a call in US dollars: the dearest input price, and the longest answer allowed.

        ``tokens_in`` is an estimate, so a prompt in an unusual script may cost a little more.
        """
        prices = [self.tokens]
        # A prompt that is estimated at half the limit of a short prompt may exceed it.
        if self.tokens.long is not None and 2 * tokens_in > (self.tokens.long_from or 0):
            prices.append(self.tokens.long)
        dearest_in = max(_max_input_price(price) for price in prices)
        return (tokens_in * dearest_in + max_tokens * max(price.tokens_out for price in prices)) / 1e6

    def cost_usd(self, completion: ModelCompletion) -> float | None:
        """Return the cost of an answer in US dollars, or None where the provider counted nothing.

        The larger of the cost that the provider reports and the cost at its price counts: some report zero for what
        they bill. The operator's own price takes precedence over a reported cost.
        """
        usage, told = completion.usage, completion.cost_usd
        counted = usage.tokens_in or usage.tokens_out
        reckoned = self._price_paid().usage_cost(usage) if counted or self.tokens == FREE_PRICE else None
        if self.is_configured or told is None or not 0 <= told < math.inf:
            return reckoned
        # A cost of zero with no tokens is not a statement of the provider.
        return max(told, reckoned) if reckoned is not None else told or None

    def _price_paid(self) -> TokenPrice:
        """Return the price of tokens where nobody reports a cost."""
        # Usage does not say what was put into the cache; where the operator gives a price for that, it counts for all.
        return replace(self.tokens, tokens_in=_max_uncached_price(self.tokens)) if self.is_configured else self.tokens


def _max_uncached_price(price: TokenPrice) -> float:
    return max(price.tokens_in, price.tokens_written or 0.0)


def _max_input_price(price: TokenPrice) -> float:
    return max(_max_uncached_price(price), price.tokens_cached)


class PriceTable:
    """The prices of all models; each provider is asked once."""

    def __init__(self, models: Mapping[str, ModelSection]) -> None:
        """Keep the operator's prices."""
        self._models = models
        self._prices: dict[str, ModelPrice] = {}

    async def model_price(self, model: str, llm: ModelProvider) -> ModelPrice:
        """Return the price of a model, ``provider:name``; raises ConfigError where it has none and is not free."""
        if model not in self._prices:
            self._prices[model] = await self._find_price(model, llm)
        return self._prices[model]

    async def _find_price(self, model: str, llm: ModelProvider) -> ModelPrice:
        said = self._models.get(model, ModelSection())
        if said.free:
            return ModelPrice(tokens=FREE_PRICE, is_configured=True)
        whole = said.price_in is not None and said.price_out is not None
        told = None if whole else await _provider_price(model, llm)
        price = _merge_prices(said, told or FREE_PRICE)
        if not (0 < price.tokens_in < math.inf and 0 < price.tokens_out < math.inf):
            raise ConfigError(_missing_price_message(model, whole=whole, told=told))
        return ModelPrice(tokens=price, is_configured=said.price_in is not None or said.price_out is not None)


async def _provider_price(model: str, llm: ModelProvider) -> TokenPrice | None:
    try:
        return await llm.price(bare_model_name(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {describe_foreign_error(error)} when asked for its price"
        raise MalformedDataError(message) from error


def _merge_prices(said: ModelSection, told: TokenPrice) -> TokenPrice:
    tokens_in = told.tokens_in if said.price_in is None else said.price_in
    # A price that was set by hand has only the rebates that were set by hand.
    cached = told.tokens_cached if said.price_in is None else tokens_in
    written = told.tokens_written if said.price_in is None else None
    # The provider's price for long prompts does not apply either, since it may be lower than the operator's price.
    alone = said.price_in is not None or said.price_out is not None
    return TokenPrice(
        tokens_in=tokens_in,
        tokens_cached=cached if said.price_cached is None else said.price_cached,
        tokens_out=told.tokens_out if said.price_out is None else said.price_out,
        tokens_written=written if said.price_written is None else said.price_written,
        long_from=None if alone else told.long_from,
        long=None if alone else told.long,
    )


def _missing_price_message(model: str, *, whole: bool, told: TokenPrice | None) -> str:
    what = "its price is given as zero" if whole or told is not None else "its provider gives no price for it"
    return (
        f"{model} is not used: {what}, so no budget could be enforced. Put its prices in US dollars per million tokens "
        "into "
        f'config.toml, [llm.models."{model}"] price_in = ... and price_out = ..., or declare it free there: free = true'
    )


# A step of an agent that searches: its published trials read 54,000 to 97,000 tokens and write 5,000 to 10,000 in 7 to
# 10 steps, with thinking at a high level. Source: BLF (arXiv 2604.18576v3), the median agent loop on market questions.
STEP_TOKENS_IN = 10_000
STEP_TOKENS_OUT = 1_000
# A helper role reads the result of one search or one page, once for each, and writes little.
HELPER_TOKENS_IN = 3_000
HELPER_TOKENS_OUT = 300
# Used by audits of earlier forecasts, never for a forecast.
AUDIT_ROLES = frozenset({"auditor"})
# A prompt late in such a trial.
LONG_PROMPT_TOKENS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCostEstimator:
    """The prices of the models that play roles now."""

    roles: ModelRoles
    price_table: PriceTable
    providers: Mapping[str, ModelProvider]

    async def step_usd(self) -> float | None:
        """Return the expected cost of one step in US dollars, or None where a price is not known.

        A step is taken to be one call in every role that forecasts use, each to the dearer of its model and its
        fallback, and short calls in the helper roles.
        """
        costs = []
        for role in (role for role in self.roles.section.roles if role not in AUDIT_ROLES):
            is_helper = role in HELPER_ROLES
            tokens_in = HELPER_TOKENS_IN if is_helper else STEP_TOKENS_IN
            most_out = HELPER_TOKENS_OUT if is_helper else STEP_TOKENS_OUT
            costs.append(await self._call_usd(role, tokens_in=tokens_in, most_out=most_out))
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    async def call_usd(self, role: str) -> float | None:
        """Return the cost of a call with a long prompt and the longest answer in US dollars, or None as above.

        Raises ConfigError for a role without a model.
        """
        return await self._call_usd(role, tokens_in=LONG_PROMPT_TOKENS)

    async def _call_usd(self, role: str, *, tokens_in: int, most_out: int | None = None) -> float | None:
        costs, table = [], self.roles.role_section(role)
        for model in self.roles.models(role):
            llm = self.providers[provider_name(model)]
            try:
                rate = await self.price_table.model_price(model, llm)
                longest = sampling_settings(role, table, provider_defaults(llm, model)).max_tokens
            except FoxcastError:
                return None
            tokens_out = longest if most_out is None else min(most_out, longest)
            costs.append(rate.worst_usd(tokens_in=tokens_in, max_tokens=tokens_out))
        return max(costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCostEstimator(CallCostEstimator):
    """What is known of costs: those prices, and the recorded calls."""

    calls: ModelCallStore

    async def forecast_usd(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 where all is free, None where it is not known.

        It is the average cost of the forecaster's forecasts so far, counting only those whose calls were all answered
        by models that play the same roles now; or the cost of a long trial at today's prices. A recorded cost of zero
        does not outweigh a price.
        """
        players = [(role, model) for role in self.roles.section.roles for model in self.roles.models(role)]
        typical = await self.calls.typical_cost(forecaster, players=players)
        if typical:
            return typical
        step_usd = await self.step_usd()
        if step_usd is None:
            return None
        # What the budget of a question does not allow is not spent.
        most = self.roles.section.budget.question_usd
        return min(step_usd * trials * steps, float("inf") if most is None else most)
