"""Scripted model provider in memory: it answers, hangs or fails as a test says."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field

from bot.core.beliefs import ModelUsage
from bot.core.interfaces import Clock
from bot.core.language_models import ModelCompletion, Prompt, SamplingSettings, TokenPrice
from bot.core.light_dataclass import dataclass

CHEAP_PRICE = TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)


class HangingAnswer:
    """The answer that never comes."""


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """An answer that takes so many seconds."""

    seconds: float
    then: "ModelCompletion | Exception"


ProviderTurn = ModelCompletion | Exception | HangingAnswer | SlowAnswer | Callable[[Prompt], ModelCompletion]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCompletionRequest:
    """One request as it arrived."""

    model: str
    prompt: Prompt
    sampling: SamplingSettings


@dataclass(slots=True, kw_only=True, eq=False)
class ScriptedModelProvider:
    """Implements ModelProvider: takes its turns in order, the last one again and again.

    ``prices`` are by the name of the model, ``price`` is that of all others; None is not known. ``clock`` is needed for
    slow answers. ``requests`` holds all requests in the order in which they arrived, ``priced_models`` the models whose
    price was asked; ``running`` counts the requests under way, ``max_running`` the most there ever were, ``cancelled``
    those that were cancelled; ``first_request`` is set by the first request.
    """

    turns: list[ProviderTurn] = field(default_factory=lambda: [text_completion("yes")])
    default_price: TokenPrice | None = CHEAP_PRICE
    prices: Mapping[str, TokenPrice | None] = field(default_factory=dict)
    clock: Clock | None = None
    requests: list[RecordedCompletionRequest] = field(default_factory=list)
    priced_models: list[str] = field(default_factory=list)
    running: int = 0
    max_running: int = 0
    cancelled: int = 0
    first_request: asyncio.Event = field(default_factory=asyncio.Event)

    async def price(self, model: str) -> TokenPrice | None:
        self.priced_models.append(model)
        return self.prices.get(model, self.default_price)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        turn = self.turns[min(len(self.requests), len(self.turns) - 1)]
        self.requests.append(RecordedCompletionRequest(model=model, prompt=prompt, sampling=sampling))
        self.first_request.set()
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        try:
            return await self._take(turn, prompt)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _take(self, turn: ProviderTurn, prompt: Prompt) -> ModelCompletion:
        match turn:
            case HangingAnswer():
                never: asyncio.Future[ModelCompletion] = asyncio.get_running_loop().create_future()
                return await never
            case SlowAnswer(seconds=seconds, then=then):
                if self.clock is None:
                    message = "a scripted model that is slow needs a clock"
                    raise TypeError(message)
                await self.clock.sleep(seconds)
                return await self._take(then, prompt)
            case Exception():
                raise turn
            case ModelCompletion():
                return turn
        return turn(prompt)


def text_completion(
    text: str, *, tokens_in: int = 100, tokens_out: int = 10, cost_usd: float | None = None
) -> ModelCompletion:
    """Return a completion with a text; it reports no cost unless given, so that prices decide."""
    usage = ModelUsage(calls=1, tokens_in=tokens_in, tokens_out=tokens_out)
    return ModelCompletion(text=text, usage=usage, cost_usd=cost_usd)
