"""What a model costs: as the operator says, else as its provider says; a price that nobody knows is never zero."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bot.config.llm_schema import ModelSection
from bot.domain.prompt import Completion, Price
from bot.errors import ConfigError, ContractError, FoxcastError
from bot.llm.faults import named
from bot.llm.roles import name_of
from bot.ports import Llm

FREE = Price(tokens_in=0.0, tokens_cached=0.0, tokens_out=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The price of a model; ``own`` says that it is the operator's word and goes before that of the provider."""

    price: Price
    own: bool

    def worst_usd(self, *, tokens_in: int, max_tokens: int) -> float:
        """Return what a call costs at most in US dollars: the prompt at the dearest, the answer as long as may be.

        ``tokens_in`` is an estimate, so a prompt in an unusual script may cost a little more.
        """
        prices = [self.price]
        # What is estimated at half the limit of a short prompt may be over it.
        if self.price.long is not None and 2 * tokens_in > (self.price.long_from or 0):
            prices.append(self.price.long)
        dearest_in = max(_dearest_in(price) for price in prices)
        return (tokens_in * dearest_in + max_tokens * max(price.tokens_out for price in prices)) / 1e6

    def cost_usd(self, completion: Completion) -> float | None:
        """Return what an answer cost in US dollars, or None where the provider counted nothing.

        Of what the provider tells and what its price makes of the tokens the larger one counts: some tell zero for
        what they bill. The operator's own price goes before what is told.
        """
        usage, told = completion.usage, completion.cost_usd
        counted = usage.tokens_in or usage.tokens_out
        reckoned = self._price_paid().of(usage) if counted or self.price == FREE else None
        if self.own or told is None or not 0 <= told < math.inf:
            return reckoned
        # A cost of zero with no tokens is no word of the provider's.
        return max(told, reckoned) if reckoned is not None else told or None

    def _price_paid(self) -> Price:
        """Return the price at which tokens are reckoned where nobody tells a cost."""
        # Usage does not tell what was put into the cache; where the operator says what that costs, it counts for all.
        return replace(self.price, tokens_in=_dearest_fresh(self.price)) if self.own else self.price


def _dearest_fresh(price: Price) -> float:
    return max(price.tokens_in, price.tokens_written or 0.0)


def _dearest_in(price: Price) -> float:
    return max(_dearest_fresh(price), price.tokens_cached)


class Tariff:
    """The rates of all models, each asked of its provider once."""

    def __init__(self, models: Mapping[str, ModelSection]) -> None:
        """Keep what the operator says."""
        self._models = models
        self._rates: dict[str, Rate] = {}

    async def rate(self, model: str, llm: Llm) -> Rate:
        """Return the rate of a model, ``provider:name``; raises ConfigError where it has no price and is not free."""
        if model not in self._rates:
            self._rates[model] = await self._find(model, llm)
        return self._rates[model]

    async def _find(self, model: str, llm: Llm) -> Rate:
        said = self._models.get(model, ModelSection())
        if said.free:
            return Rate(price=FREE, own=True)
        whole = said.price_in is not None and said.price_out is not None
        told = None if whole else await _told(model, llm)
        price = _merged(said, told or FREE)
        if not (0 < price.tokens_in < math.inf and 0 < price.tokens_out < math.inf):
            raise ConfigError(_unpriced(model, whole=whole, told=told))
        return Rate(price=price, own=said.price_in is not None or said.price_out is not None)


async def _told(model: str, llm: Llm) -> Price | None:
    try:
        return await llm.price(name_of(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {named(error)} when asked for its price"
        raise ContractError(message) from error


def _merged(said: ModelSection, told: Price) -> Price:
    tokens_in = told.tokens_in if said.price_in is None else said.price_in
    # A price that was set by hand goes with no rebate that was not.
    cached = told.tokens_cached if said.price_in is None else tokens_in
    written = told.tokens_written if said.price_in is None else None
    # Nor with what the provider says of long prompts, which may be less than what the operator says of all of them.
    alone = said.price_in is not None or said.price_out is not None
    return Price(
        tokens_in=tokens_in,
        tokens_cached=cached if said.price_cached is None else said.price_cached,
        tokens_out=told.tokens_out if said.price_out is None else said.price_out,
        tokens_written=written if said.price_written is None else said.price_written,
        long_from=None if alone else told.long_from,
        long=None if alone else told.long,
    )


def _unpriced(model: str, *, whole: bool, told: Price | None) -> str:
    what = "its price is given as zero" if whole or told is not None else "its provider knows no price for it"
    return (
        f"{model} is not asked: {what}, so no budget could hold. Put its prices in US dollars per million tokens into "
        f'config.toml, [llm.models."{model}"] price_in = ... and price_out = ..., or declare it free there: free = true'
    )
