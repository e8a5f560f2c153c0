"""What whole trials cost: BLF, desk, gateway, provider and ledger against a scripted server in another process."""

import asyncio
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter, process_time

import psutil

from bot.domain.forecast import Limits, TrialEnd
from bot.domain.question import QuestionRef
from bot.domain.step import Usage
from tests.benchmarks.figures import ROOT, Size, say
from tests.integration.stage import COMPATIBLE, LITELLM, Setup, Stage, question, staged

STEPS = 10
MODEL_S = 2.0
LIMITS = Limits(steps=STEPS, seconds=600.0)
PAGE = "What the page says about the lamp, the keeper and the weather. " * 60
# It searches nine times and submits; of what it is sent it counts as cached what began the request before.
SERVING = """
import asyncio, json, os, sys
from dataclasses import replace
from bot.testing.model_server import serve, slowly
from tests.integration.stage import search, submit
DELAY_S, STEPS = float(sys.argv[1]), int(sys.argv[2])
before = {}
def play(asked):
    name, messages = asked.messages[1]["content"], [json.dumps(one) for one in asked.messages]
    known = before.get(name, [])
    same = next((n for n, (a, b) in enumerate(zip(known, messages)) if a != b), min(len(known), len(messages)))
    before[name] = messages
    if asked.turn + 1 < STEPS:
        reply = search(asked, f"lamp {asked.turn}")
    else:
        reply = submit(asked, 30)
        before.pop(name, None)
    tokens = [sum(map(len, part)) // 4 for part in (messages, messages[:same])]
    reply = replace(reply, tokens_in=tokens[0], tokens_cached=tokens[1], tokens_out=150)
    return slowly(reply, DELAY_S) if DELAY_S else reply
def announce(url):
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
asyncio.run(serve(play, announce))
"""


def main(size: Size) -> None:
    """Measure and print everything."""
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in ("httpx", "LiteLLM"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with _serving(0.0) as base_url:
        asyncio.run(_raw(base_url, size))
        for kind in (COMPATIBLE, LITELLM):
            asyncio.run(_cost(base_url, kind, size))
        asyncio.run(_memory(base_url, size))
    delay_s = MODEL_S if size is Size.FULL else 0.1
    with _serving(delay_s) as base_url:
        for at_once in (200, 400) if size is Size.FULL else (10,):
            asyncio.run(_share(base_url, at_once, delay_s))


async def _raw(base_url: str, size: Size) -> None:
    """The same conversation, posted by httpx and nothing else."""
    import httpx

    messages = [{"role": "system", "content": PAGE}, {"role": "user", "content": PAGE}]
    tool = {"type": "function", "function": {"name": "web_search", "parameters": {"type": "object"}}}
    count = size.pick(300, 10)
    async with httpx.AsyncClient(trust_env=False) as client:
        used = 0.0
        for number in range(count + 1):
            # The first one opens the connection.
            used = process_time() if number == 1 else used
            body = {"model": "small", "messages": messages, "tools": [tool]}
            (await client.post(f"{base_url}/chat/completions", json=body)).json()
    say("a request by httpx alone", f"CPU {1000 * (process_time() - used) / count:.2f} ms")


async def _cost(base_url: str, kind: str, size: Size) -> None:
    async with _opened(base_url, kind) as stage:
        await _trials(stage, 2, at_once=2)
        for at_once in (1, 20):
            trials = size.pick(60, 2)
            begun, used = perf_counter(), process_time()
            usage = await _trials(stage, trials, at_once=at_once, first=1000 * at_once)
            steps = trials * STEPS
            cpu_ms, rate = 1000 * (process_time() - used) / steps, steps / (perf_counter() - begun)
            say(f"a step of BLF by {kind}, {at_once} trials at once", f"CPU {cpu_ms:.2f} ms, {rate:.0f} steps/s")
        cached = usage.tokens_cached / usage.tokens_in
        tokens = f"{usage.tokens_in / trials:,.0f} tokens in, {usage.tokens_out / trials:,.0f} out"
        say(f"a trial of {STEPS} steps by {kind}", f"{tokens}, cached {100 * cached:.0f} %")


async def _memory(base_url: str, size: Size) -> None:
    trials = size.pick(1000, 2)
    async with _opened(base_url, COMPATIBLE) as stage:
        process = psutil.Process()
        await _trials(stage, trials, at_once=20)
        before = process.memory_info().rss
        await _trials(stage, trials, at_once=20, first=trials)
        grown = (process.memory_info().rss - before) / 2**20
        file_kb = stage.path.stat().st_size / 2**10 / (2 * trials)
    say(
        f"memory after {trials * STEPS:,} of {2 * trials * STEPS:,} calls",
        f"{before / 2**20:.0f} MB, grown by {grown:.1f} MB",
    )
    say("the ledger of a trial", f"{1024 * file_kb:,.0f} bytes")


async def _share(base_url: str, at_once: int, delay_s: float) -> None:
    """Measure what share of the steps is made that a model of so many seconds would allow."""
    async with _opened(base_url, COMPATIBLE) as stage:
        await _trials(stage, 2, at_once=2)
        begun, used = perf_counter(), process_time()
        await _trials(stage, at_once, at_once=at_once, first=1000)
        wall_s, cpu_s = perf_counter() - begun, process_time() - used
    share = at_once * STEPS / (at_once * wall_s / delay_s)
    say(
        f"{at_once} trials at once with a model of {delay_s:g} s",
        f"{100 * share:.1f} % of the ideal, CPU {100 * cpu_s / wall_s:.0f} %",
    )


async def _trials(stage: Stage, count: int, *, at_once: int, first: int = 0) -> Usage:
    """Play that many questions, one trial each; raises RuntimeError for one that does not come to its end."""
    waiting = iter(range(first, first + count))
    total = Usage()

    async def work() -> None:
        nonlocal total
        for number in waiting:
            asked = question(ref=QuestionRef("lantern", f"lamp {number}"), title=f"Will lamp {number} be lit?")
            played = await stage.play(asked, LIMITS)
            if played.trial.end is not TrialEnd.FINISHED or played.trial.steps != STEPS:
                message = f"trial {number} ended: {played.trial.end} {played.trial.detail}"
                raise RuntimeError(message)
            total += played.trial.usage

    await asyncio.gather(*(work() for _ in range(at_once)))
    return total


@asynccontextmanager
async def _opened(base_url: str, kind: str) -> AsyncIterator[Stage]:
    setup = Setup(kind=kind, provider={"attempts": 1, "concurrency": 1000}, role={"timeout_s": 120.0})
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), base_url, setup) as stage:
            yield stage


@contextmanager
def _serving(delay_s: float) -> Iterator[str]:
    """Run the scripted server in a process of its own; yield its base URL."""
    command = [sys.executable, "-c", SERVING, str(delay_s), str(STEPS)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip() if process.stdout else ""
    finally:
        process.kill()
        process.communicate()
