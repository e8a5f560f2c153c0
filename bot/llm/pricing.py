"""Prices of models, from config or else from the provider, and the expected cost of a forecast or a call.

An unknown price never counts as zero.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from bot.config.schema import ModelSection
from bot.core.errors import ConfigError, FoxcastError, MalformedDataError
from bot.core.interfaces import ModelProvider
from bot.core.language_models import ModelCompletion, TokenPrice
from bot.core.light_dataclass import dataclass
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
        """Return the maximum cost of a call in US dollars: the highest input price, and the longest answer allowed.

        ``tokens_in`` is an estimate, so a prompt in an unusual script may cost a little more.
        """
        tokens = self.tokens
        max_input, max_output = _max_input_price(tokens), tokens.tokens_out
        # A prompt that is estimated at half the limit of a short prompt may exceed it.
        if tokens.long is not None and 2 * tokens_in > (tokens.long_from or 0):
            max_input, max_output = (
                max(max_input, _max_input_price(tokens.long)),
                max(max_output, tokens.long.tokens_out),
            )
        return (tokens_in * max_input + max_tokens * max_output) / 1e6

    def cost_usd(self, completion: ModelCompletion) -> float | None:
        """Return the cost of an answer in US dollars, or None if the provider counted nothing.

        It is the larger of the reported cost and the cost at the price, because some providers report zero for calls
        that they bill. The price of the operator takes precedence over a reported cost.
        """
        usage, reported = completion.usage, completion.cost_usd
        has_tokens = usage.tokens_in or usage.tokens_out
        computed = self._price_paid().usage_cost(usage) if has_tokens or self.tokens == FREE_PRICE else None
        if self.is_configured or reported is None or not 0 <= reported < math.inf:
            return computed
        # A cost of zero without tokens is not a statement of the provider.
        return max(reported, computed) if computed is not None else reported or None

    def _price_paid(self) -> TokenPrice:
        """Return the price of tokens without a reported cost."""
        # Usage does not count cache writes; if the operator sets a price for them, it applies to all input.
        if self.is_configured and (most := _max_uncached_price(self.tokens)) != self.tokens.tokens_in:
            return replace(self.tokens, tokens_in=most)
        return self.tokens


def _max_uncached_price(price: TokenPrice) -> float:
    return max(price.tokens_in, price.tokens_written or 0.0)


def _max_input_price(price: TokenPrice) -> float:
    return max(_max_uncached_price(price), price.tokens_cached)


class PriceTable:
    """The prices of all models; a provider is asked once for each."""

    def __init__(self, models: Mapping[str, ModelSection]) -> None:
        """Keep the prices of the operator."""
        self._models = models
        self._prices: dict[str, ModelPrice] = {}

    async def model_price(self, model: str, llm: ModelProvider) -> ModelPrice:
        """Return the price of a model, ``provider:name``; raises ConfigError if it has none and is not free."""
        if model not in self._prices:
            self._prices[model] = await self._find_price(model, llm)
        return self._prices[model]

    async def _find_price(self, model: str, llm: ModelProvider) -> ModelPrice:
        section = self._models.get(model, ModelSection())
        if section.free:
            return ModelPrice(tokens=FREE_PRICE, is_configured=True)
        is_complete = section.price_in is not None and section.price_out is not None
        provider_price = None if is_complete else await _provider_price(model, llm)
        price = _merge_prices(section, provider_price or FREE_PRICE)
        if not (0 < price.tokens_in < math.inf and 0 < price.tokens_out < math.inf):
            raise ConfigError(_missing_price_message(model, is_zero=is_complete or provider_price is not None))
        return ModelPrice(tokens=price, is_configured=section.price_in is not None or section.price_out is not None)


async def _provider_price(model: str, llm: ModelProvider) -> TokenPrice | None:
    try:
        return await llm.price(bare_model_name(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {describe_foreign_error(error)} when asked for its price"
        raise MalformedDataError(message) from error


def _merge_prices(section: ModelSection, provider: TokenPrice) -> TokenPrice:
    tokens_in = provider.tokens_in if section.price_in is None else section.price_in
    # A configured price has only configured discounts.
    cached = provider.tokens_cached if section.price_in is None else tokens_in
    written = provider.tokens_written if section.price_in is None else None
    # The provider's price for long prompts does not apply then, because it may be lower than the configured price.
    is_configured = section.price_in is not None or section.price_out is not None
    return TokenPrice(
        tokens_in=tokens_in,
        tokens_cached=cached if section.price_cached is None else section.price_cached,
        tokens_out=provider.tokens_out if section.price_out is None else section.price_out,
        tokens_written=written if section.price_written is None else section.price_written,
        long_from=None if is_configured else provider.long_from,
        long=None if is_configured else provider.long,
    )


def _missing_price_message(model: str, *, is_zero: bool) -> str:
    what = "its price is given as zero" if is_zero else "its provider gives no price for it"
    return (
        f"{model} is not used: {what}, so no budget could be enforced. Put its prices in US dollars per million tokens "
        "into "
        f'config.toml, [llm.models."{model}"] price_in = ... and price_out = ..., or declare it free there: free = true'
    )


# A step of an agent that searches: its published trials read 54,000 to 97,000 tokens and write 5,000 to 10,000 in 7 to
# 10 steps, with thinking at a high level. Source: BLF (arXiv 2604.18576v3), the median agent loop on market questions.
STEP_TOKENS_IN = 10_000
STEP_TOKENS_OUT = 1_000
# A helper role reads the result of one search or one page per call, and writes little.
HELPER_TOKENS_IN = 3_000
HELPER_TOKENS_OUT = 300
# Roles for audits of earlier forecasts, never for a forecast.
AUDIT_ROLES = frozenset({"auditor"})
# A prompt late in such a trial.
LONG_PROMPT_TOKENS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCostEstimator:
    """Estimates costs from the prices of the models that play roles now."""

    roles: ModelRoles
    price_table: PriceTable
    providers: Mapping[str, ModelProvider]

    async def step_usd(self) -> float | None:
        """Return the expected cost of one step in US dollars, or None if a price is unknown.

        A step counts as one call in every role that forecasts use, to the more expensive of its model and its fallback,
        and short calls in the helper roles.
        """
        costs = []
        for role in (role for role in self.roles.section.roles if role not in AUDIT_ROLES):
            is_helper = role in HELPER_ROLES
            tokens_in = HELPER_TOKENS_IN if is_helper else STEP_TOKENS_IN
            max_out = HELPER_TOKENS_OUT if is_helper else STEP_TOKENS_OUT
            costs.append(await self._call_usd(role, tokens_in=tokens_in, max_out=max_out))
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    async def call_usd(self, role: str) -> float | None:
        """Return the cost of a call with a long prompt and the longest answer in US dollars; None if it is unknown.

        Raises ConfigError for a role without a model.
        """
        return await self._call_usd(role, tokens_in=LONG_PROMPT_TOKENS)

    async def _call_usd(self, role: str, *, tokens_in: int, max_out: int | None = None) -> float | None:
        costs, table = [], self.roles.role_section(role)
        for model in self.roles.models(role):
            llm = self.providers[provider_name(model)]
            try:
                price = await self.price_table.model_price(model, llm)
                max_tokens = sampling_settings(role, table, provider_defaults(llm, model)).max_tokens
            except FoxcastError:
                return None
            tokens_out = max_tokens if max_out is None else min(max_out, max_tokens)
            costs.append(price.worst_usd(tokens_in=tokens_in, max_tokens=tokens_out))
        return max(costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCostEstimator(CallCostEstimator):
    """Estimates costs from prices and recorded calls."""

    calls: ModelCallStore

    async def forecast_usd(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        """Return the expected cost of one forecast in US dollars: 0.0 if all is free, None if it is unknown.

        It is the average cost of earlier forecasts of the forecaster whose calls were all answered by models that play
        the same roles now; or the cost of a long trial at today's prices. A price counts more than a recorded cost of
        zero.
        """
        players = [(role, model) for role in self.roles.section.roles for model in self.roles.models(role)]
        typical = await self.calls.estimate_typical_cost(forecaster, players)
        if typical:
            return typical
        step_usd = await self.step_usd()
        if step_usd is None:
            return None
        limit = self.roles.section.budget.question_usd
        return min(step_usd * trials * steps, float("inf") if limit is None else limit)
