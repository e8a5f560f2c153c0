"""A provider of language models that says what a test tells it to, faults included; it opens nothing."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bot.domain.prompt import Completion, Price, Prompt, Sampling
from bot.domain.step import Usage
from bot.ports import Clock

CHEAP = Price(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)


class Hang:
    """The answer that never comes."""


@dataclass(frozen=True, slots=True)
class Slow:
    """An answer that takes so many seconds."""

    seconds: float
    then: "Completion | Exception"


Turn = Completion | Exception | Hang | Slow | Callable[[Prompt], Completion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """One request as it came."""

    model: str
    prompt: Prompt
    sampling: Sampling


@dataclass(slots=True, kw_only=True, eq=False)
class ScriptedLlm:
    """Implements the port Llm: takes its turns in order, the last one again and again.

    ``prices`` are by the name of the model, ``price`` is that of all others; None is not known. ``clock`` is needed for
    what is slow. ``requests`` holds all requests in the order in which they came, ``priced`` the models whose price was
    asked; ``running`` counts the requests under way, ``most`` the most there ever were, ``cancelled`` those given up;
    ``asked`` is set by the first request.
    """

    turns: list[Turn] = field(default_factory=lambda: [said("yes")])
    price_of_all: Price | None = CHEAP
    prices: Mapping[str, Price | None] = field(default_factory=dict)
    clock: Clock | None = None
    requests: list[Requested] = field(default_factory=list)
    priced: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0
    cancelled: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def price(self, model: str) -> Price | None:
        self.priced.append(model)
        return self.prices.get(model, self.price_of_all)

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        turn = self.turns[min(len(self.requests), len(self.turns) - 1)]
        self.requests.append(Requested(model=model, prompt=prompt, sampling=sampling))
        self.asked.set()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self._take(turn, prompt)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _take(self, turn: Turn, prompt: Prompt) -> Completion:
        match turn:
            case Hang():
                never: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
                return await never
            case Slow(seconds=seconds, then=then):
                if self.clock is None:
                    message = "a scripted model that is slow needs a clock"
                    raise TypeError(message)
                await self.clock.sleep(seconds)
                return await self._take(then, prompt)
            case Exception():
                raise turn
            case Completion():
                return turn
        return turn(prompt)


def said(text: str, *, tokens_in: int = 100, tokens_out: int = 10, cost_usd: float | None = None) -> Completion:
    """Return a completion with a text; its cost is not told unless given, so that prices decide."""
    usage = Usage(calls=1, tokens_in=tokens_in, tokens_out=tokens_out)
    return Completion(text=text, usage=usage, cost_usd=cost_usd)
