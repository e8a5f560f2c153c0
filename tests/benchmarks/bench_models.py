"""What a call to a model costs here: CPU of this process alone, against a scripted server in another process."""

import asyncio
import logging
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import psutil

from bot.core.clock import SeededRandom, SystemClock
from bot.core.language_models import Message, MessageRole, Prompt, SamplingSettings
from bot.core.plugin_specs import PluginContext
from bot.core.values import Json
from bot.net.client import RetryingHttpClient
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import OpenAiCompatibleSettings, open_openai_compatible
from tests.benchmarks.figures import ROOT, MeasureSize, say

Call = Callable[[], Awaitable[object]]

AT_ONCE = (1, 50, 200)
SERVING = """
import asyncio, sys
from bot.testing.model_server import reply_text, serve_script
def announce(url):
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
asyncio.run(serve_script(reply_text("x" * 400), announce))
"""
QUESTION = "Will it rain in Paris tomorrow? " * 60
PROMPT = Prompt(messages=(Message(speaker=MessageRole.USER, text=QUESTION),))
SAMPLING = SamplingSettings(max_tokens=400)
BODY: dict[str, Json] = {"model": "small", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 400}
MAX_BYTES = 2**20


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    warnings.filterwarnings("ignore", category=UserWarning)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with _serving() as base_url:
        asyncio.run(_measure(base_url, size))


async def _measure(base_url: str, size: MeasureSize) -> None:
    for name, opening in CALLERS.items():
        for at_once in AT_ONCE:
            async with opening(base_url) as call:
                await _ask(call, at_once, at_once)  # opens the connections, loads what is loaded once
                runs = [await _timed(call, at_once, size) for _ in range(size.pick(5, 1))]
            cpu_ms, rate = median(run[0] for run in runs), median(run[1] for run in runs)
            say(f"a call by {name}, {at_once} at once", f"CPU {cpu_ms:.2f} ms, {rate:.0f} calls/s")
    async with _compatible(base_url) as call:
        await _flat(call, size)


async def _timed(call: Call, at_once: int, size: MeasureSize) -> tuple[float, float]:
    """Return the milliseconds of CPU a call, and the calls a second of wall."""
    count = size.pick(max(200, 2 * at_once), at_once)
    started, used = perf_counter(), process_time()
    await _ask(call, at_once, count)
    return 1000 * (process_time() - used) / count, count / (perf_counter() - started)


async def _ask(call: Call, at_once: int, count: int) -> None:
    """Make that many calls by that many callers, each one after another."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(work() for _ in range(at_once)))


async def _flat(call: Call, size: MeasureSize) -> None:
    count = size.pick(20_000, 100)
    await _ask(call, 50, count // 10)
    before, files = _resident_mb(), _open_files()
    await _ask(call, 50, count)
    grown = f"{_resident_mb() - before:.1f} MB and {_open_files() - files} files more"
    say(f"after {count:,} calls by openai_compatible", grown)


def _resident_mb() -> float:
    resident: int = psutil.Process().memory_info().rss
    return resident / 2**20


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@asynccontextmanager
async def _raw(base_url: str) -> AsyncIterator[Call]:
    import httpx

    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(trust_env=False, timeout=600.0, limits=limits) as client:
        yield lambda: client.post(f"{base_url}/chat/completions", json=BODY)


@asynccontextmanager
async def _posted(base_url: str) -> AsyncIterator[Call]:
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        yield lambda: http.post(f"{base_url}/chat/completions", BODY, max_bytes=MAX_BYTES)


@asynccontextmanager
async def _compatible(base_url: str) -> AsyncIterator[Call]:
    chosen = OpenAiCompatibleSettings.model_validate({"endpoints": {"local": {"base_url": base_url}}})
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)))
        place = PluginContext(clock=SystemClock(), http=http, folder=Path())
        llm = await stack.enter_async_context(open_openai_compatible(chosen, place))
        yield lambda: llm.complete("local/small", PROMPT, SAMPLING)


@asynccontextmanager
async def _through_litellm(base_url: str) -> AsyncIterator[Call]:
    chosen = LitellmSettings.model_validate({"keys": {"openai": "none"}, "base_urls": {"openai": base_url}})
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        place = PluginContext(clock=SystemClock(), http=http, folder=Path())
        async with open_litellm(chosen, place) as llm:
            yield lambda: llm.complete("openai/small", PROMPT, SAMPLING)


CALLERS = {
    "httpx with one client": _raw,
    "our POST": _posted,
    "openai_compatible": _compatible,
    "litellm": _through_litellm,
}


@contextmanager
def _serving() -> Iterator[str]:
    """Run the scripted server in a process of its own; yield its base URL."""
    process = subprocess.Popen([sys.executable, "-c", SERVING], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip() if process.stdout else ""
    finally:
        process.kill()
        process.communicate()
