"""What the gateway itself costs: a provider that answers at once from memory, and the real ledger on a real disk."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bot.config.schema import LlmSection
from bot.core.clock import SeededRandom, SystemClock
from bot.core.language_models import (
    CostAttribution,
    Message,
    MessageRole,
    ModelCompletion,
    ModelRequest,
    Prompt,
    SamplingSettings,
    TokenPrice,
    ToolDefinition,
)
from bot.llm.gateway import LlmGateway, open_gateway
from bot.store.ledger import open_ledger
from bot.testing.models import CHEAP_PRICE, text_completion
from tests.benchmarks.figures import MeasureSize, say

SECTION = LlmSection.model_validate(
    {
        "roles": {"main": {"model": "memory:x"}},
        "providers": {"memory": {"concurrency": 1000}},
        "budget": {"question_usd": None, "day_usd": None},
    }
)
TOOLS = tuple(
    ToolDefinition(
        name=f"tool_{number}", description="What it does. " * 10, parameters={"type": "object", "properties": {}}
    )
    for number in range(8)
)
ANSWER = text_completion("No. " * 200, tokens_in=1000, tokens_out=200)


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    for concurrency in (1, 20, 200):
        asyncio.run(_fresh(size.pick(2_000, 40), concurrency))
    asyncio.run(_stored(size.pick(2_000, 40)))
    asyncio.run(_growing(size.pick(40, 2)))
    asyncio.run(_flat(size.pick(20_000, 200)))


async def _fresh(count: int, concurrency: int) -> None:
    async with _open_gateway() as (gateway, _):
        cpu_s, wall_s = await _measured(gateway, count, concurrency)
        say(
            f"gateway, fresh asks, {concurrency} at once",
            f"{cpu_s / count * 1e3:.2f} ms CPU, {count / wall_s:,.0f} asks/s",
        )


async def _stored(count: int) -> None:
    async with _open_gateway() as (gateway, llm):
        await _measured(gateway, count, 20)
        asked = llm.answered
        cpu_s, wall_s = await _measured(gateway, count, 20)
        if llm.answered != asked:
            message = "an answer on record was asked for again"
            raise RuntimeError(message)
        say(
            "gateway, asks from the record, 20 at once",
            f"{cpu_s / count * 1e3:.2f} ms CPU, {count / wall_s:,.0f} asks/s",
        )


async def _growing(trials: int) -> None:
    """Trials of ten steps with 10 kB of pages each, all sent again at every step: what does the last step cost?"""
    steps = 10
    cpu_s = [0.0] * steps
    async with _open_gateway() as (gateway, _):
        for trial in range(trials):
            messages: tuple[Message, ...] = ()
            for step in range(steps):
                text = f"trial {trial}, step {step}: " + "what a page says about it " * 400
                messages += (Message(speaker=MessageRole.USER, text=text),)
                inquiry = _make_request(Prompt(messages=messages, tools=TOOLS), scope=f"trial {trial}")
                started = time.process_time()
                await gateway.ask(inquiry, deadline_s=60)
                cpu_s[step] += (time.process_time() - started) / trials
    figure = f"{cpu_s[0] * 1e3:.2f} ms CPU, step {steps} {cpu_s[-1] * 1e3:.2f} ms CPU"
    say("gateway, conversation that grows by 10 kB a step, step 1", figure)


async def _flat(count: int) -> None:
    process = psutil.Process()
    async with _open_gateway() as (gateway, _):
        # What fills up once (caches of bounded size, the page cache of SQLite) is full by then.
        await _measured(gateway, count // 2, 50)
        before = process.memory_info().rss
        await _measured(gateway, count // 2, 50, first=count // 2)
        grown = (process.memory_info().rss - before) / 2**20
        say(
            f"gateway, memory after {count // 2:,} of {count:,} asks",
            f"{before / 2**20:.0f} MB, grown by {grown:.1f} MB",
        )


class _AtOnce:
    """A provider that answers at once and keeps nothing, so that the memory measured is the gateway's."""

    def __init__(self) -> None:
        self.answered = 0

    async def price(self, model: str) -> TokenPrice:
        return CHEAP_PRICE

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        self.answered += 1
        return ANSWER


@asynccontextmanager
async def _open_gateway() -> AsyncIterator[tuple[LlmGateway, _AtOnce]]:
    clock, llm = SystemClock(), _AtOnce()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_ledger(Path(folder) / "ledger.sqlite", now=clock.now()) as ledger,
            open_gateway(
                SECTION, {"memory": llm}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=_drop_log
            ) as gateway,
        ):
            yield gateway, llm


async def _drop_log(subject: str, text: str) -> None:
    pass


async def _measured(gateway: LlmGateway, count: int, concurrency: int, *, first: int = 0) -> tuple[float, float]:
    """Ask that many different questions; return the CPU time of this process and the wall time, in seconds."""
    waiting = iter(range(first, first + count))

    async def ask() -> None:
        for number in waiting:
            prompt = Prompt(
                messages=(Message(speaker=MessageRole.USER, text=f"Question {number}: " + "will it? " * 200),)
            )
            await gateway.ask(_make_request(prompt, scope=f"forecast {number // 10}"), deadline_s=600)

    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(concurrency)))
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


def _make_request(prompt: Prompt, *, scope: str) -> ModelRequest:
    charge = CostAttribution(scope=scope, ref="bench:question", venue="bench", forecaster="bench", trial=1)
    return ModelRequest(role="main", prompt=prompt, charge=charge)
