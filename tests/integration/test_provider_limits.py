"""A strict model server on loopback whose limits the engine does not know: how soon they are found, and what it costs.

One limit is on the requests at a time; the other on those of a window, which the headers of OpenAI and Anthropic show.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.core.language_models import CostAttribution, Message, MessageRole, ModelRequest, Prompt
from bot.llm.gateway import LlmGateway
from bot.testing.model_server import (
    CompletionRequest,
    ScriptedModelServer,
    ScriptedReply,
    delay_reply,
    reply_error,
    reply_text,
)
from tests.integration.engine_fixture import COMPATIBLE, MODELS, EngineSetup, NoWaitClock, open_engine

ANSWER_S = 0.1


class ScaledClock(NoWaitClock):
    """Runs so many times as fast as real time, so that waits take less of it."""

    def __init__(self, speed: float = 1.0) -> None:
        super().__init__()
        self.speed = speed

    def monotonic(self) -> float:
        return self.speed * super().monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class FullServer:
    """Works on ``permitted`` requests at a time and refuses the rest, with the short wait that OpenAI names."""

    permitted: int
    ends_at: list[float] = field(default_factory=list)
    answered: int = 0
    refused: int = 0

    def __call__(self, asked: CompletionRequest) -> ScriptedReply:
        now = loop_time()
        self.ends_at = [end for end in self.ends_at if end > now]
        if len(self.ends_at) >= self.permitted:
            self.refused += 1
            return with_headers(reply_error(429), {"retry-after-ms": "40"})
        self.answered += 1
        self.ends_at.append(now + ANSWER_S)
        return delay_reply(reply_text("yes"), ANSWER_S)


@dataclass
class WindowServer:
    """Answers ``limit`` requests in each window, and says in the headers of a vendor what is left and until when."""

    limit: int
    window_s: float
    write_headers: Callable[[int, int, float], dict[str, str]]
    answered_at: deque[float] = field(default_factory=deque)
    began: float = -1.0
    used: int = 0
    refused: int = 0

    def __call__(self, asked: CompletionRequest) -> ScriptedReply:
        now = loop_time()
        if now >= self.began + self.window_s:
            self.began, self.used = now, 0
        left_s = self.began + self.window_s - now
        if self.used >= self.limit:
            self.refused += 1
            return with_headers(reply_error(429), self.write_headers(self.limit, 0, left_s))
        self.used += 1
        self.answered_at.append(now)
        headers = self.write_headers(self.limit, self.limit - self.used, left_s)
        return with_headers(delay_reply(reply_text("yes"), 0.01), headers)


def openai_headers(limit: int, left: int, reset_s: float) -> dict[str, str]:
    """As in the guide to rate limits of OpenAI: the reset is a duration."""
    return {
        "x-ratelimit-limit-requests": str(limit),
        "x-ratelimit-remaining-requests": str(left),
        "x-ratelimit-reset-requests": f"{1000 * reset_s:.0f}ms",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }


def anthropic_headers(limit: int, left: int, reset_s: float) -> dict[str, str]:
    """As in the reference of Anthropic: the reset is a moment (RFC 3339)."""
    reset_at = (SystemClock().now() + timedelta(seconds=reset_s)).isoformat()
    return {
        "anthropic-ratelimit-requests-limit": str(limit),
        "anthropic-ratelimit-requests-remaining": str(left),
        "anthropic-ratelimit-requests-reset": reset_at,
    }


def with_headers(reply: ScriptedReply, headers: dict[str, str]) -> ScriptedReply:
    return replace(reply, response=replace(reply.response, headers={**reply.response.headers, **headers}))


async def ask(gateway: LlmGateway, number: int) -> None:
    charge = CostAttribution(scope=f"q{number}", ref=f"lantern:{number}", venue="lantern", forecaster="s", trial=1)
    prompt = Prompt(messages=(Message(speaker=MessageRole.USER, text=f"Will lamp {number} be lit?"),))
    answer = await gateway.ask(ModelRequest(role="main", prompt=prompt, charge=charge), deadline_s=60.0)
    assert answer.completion.text == "yes"


async def ask_many(
    folder: Path,
    script: Callable[[CompletionRequest], ScriptedReply],
    story: Callable[[LlmGateway], Awaitable[None]],
    *,
    speed: float = 1.0,
) -> int:
    """Ask a server through the client, the gateway and the ledger; return the limit that was learned."""
    async with (
        ScriptedModelServer(script, keep=False) as server,
        open_engine(folder, server.base_url, EngineSetup(), ScaledClock(speed)) as engine,
    ):
        await story(engine.gateway)
        return engine.gateway.clients[COMPATIBLE].queue.models[MODELS[COMPATIBLE]].limit.limit


async def test_the_hidden_limit_of_a_strict_server_is_found_and_no_request_lost(
    tmp_path: Path,
) -> None:
    server = FullServer(permitted=40)

    async def story(gateway: LlmGateway) -> None:
        await asyncio.gather(*(ask(gateway, number) for number in range(500)))

    # An answer takes two seconds of the clock, so that pauses are as long beside it as at a real model.
    learned = await ask_many(tmp_path, server, story, speed=20.0)
    assert server.answered == 500
    # How many exactly depends on the load of the machine; in virtual time: tests/unit/llm/test_request_load.py.
    assert server.refused <= 0.3 * 500
    assert 0.6 * 40 <= learned <= 42


@pytest.mark.parametrize("headers", [openai_headers, anthropic_headers])
async def test_no_request_is_sent_while_the_headers_say_that_none_is_left(
    tmp_path: Path, headers: Callable[[int, int, float], dict[str, str]]
) -> None:
    server = WindowServer(limit=8, window_s=0.4, write_headers=headers)

    async def story(gateway: LlmGateway) -> None:
        await ask(gateway, 0)
        await asyncio.gather(*(ask(gateway, number) for number in range(1, 32)))

    await ask_many(tmp_path, server, story)
    assert (len(server.answered_at), server.refused) == (32, 0)
    # All that a window permits is used.
    assert server.answered_at[-1] - server.answered_at[0] < 4 * (server.window_s + 0.1)
