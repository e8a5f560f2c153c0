"""What whole trials cost: BLF, trial tools, gateway, provider and ledger against a server in another process."""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter, process_time

import psutil

from bot.core.beliefs import ModelUsage
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.questions import QuestionRef
from tests.benchmarks.figures import ROOT, MeasureSize, say
from tests.integration.engine_fixture import COMPATIBLE, LITELLM, EngineFixture, EngineSetup, open_engine, question

STEPS = 10
MODEL_S = 2.0
PLACES = (200, 300, 400, 500, 600, 800)
# How often it is looked whether the event loop is in time, and what share of the ideal is still called carried.
PROBE_S = 0.05
LEAST_SHARE = 0.9
LIMITS = TrialLimits(steps=STEPS, seconds=600.0)
PAGE = "What the page says about the lamp, the keeper and the weather. " * 60
# It searches nine times and submits; of what it is sent it counts as cached what began the request before.
SERVING = """
import asyncio, json, os, sys
from dataclasses import replace
from bot.testing.model_server import serve_script, delay_reply
from tests.integration.engine_fixture import search, submit
DELAY_S, STEPS = float(sys.argv[1]), int(sys.argv[2])
before = {}
def play(asked):
    name, messages = asked.messages[1]["content"], [json.dumps(one) for one in asked.messages]
    known = before.get(name, [])
    same = next((n for n, (a, b) in enumerate(zip(known, messages)) if a != b), min(len(known), len(messages)))
    before[name] = messages
    if asked.assistant_turns + 1 < STEPS:
        reply = search(asked, f"lamp {asked.assistant_turns}")
    else:
        reply = submit(asked, 30)
        before.pop(name, None)
    tokens = [sum(map(len, part)) // 4 for part in (messages, messages[:same])]
    reply = replace(reply, tokens_in=tokens[0], tokens_cached=tokens[1], tokens_out=150)
    return delay_reply(reply, DELAY_S) if DELAY_S else reply
def announce(url):
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
asyncio.run(serve_script(play, announce))
"""


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in ("httpx", "LiteLLM"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with _serving(0.0) as base_url:
        asyncio.run(_raw(base_url, size))
        for kind in (COMPATIBLE, LITELLM):
            asyncio.run(_cost(base_url, kind, size))
        asyncio.run(_memory(base_url, size))
    delay_s, places = (MODEL_S, PLACES) if size is MeasureSize.FULL else (0.1, (4, 8))
    with _serving(delay_s) as base_url:
        asyncio.run(_burst(base_url, places[0], delay_s))
        shares = {places[0]: asyncio.run(_steady(base_url, places[0], delay_s, trials=size.pick(3, 1)))}
        for more in places[1:]:
            # How much one process carries.
            if min(shares.values()) >= LEAST_SHARE:
                shares[more] = asyncio.run(_steady(base_url, more, delay_s, trials=1))
    carried = max((count for count, share in shares.items() if share >= LEAST_SHARE), default=0)
    rate = f"{carried} places, {carried / delay_s:.0f} steps/s if the model alone took time"
    say(f"the most that had {100 * LEAST_SHARE:.0f} % of the ideal", rate)


async def _raw(base_url: str, size: MeasureSize) -> None:
    """The same conversation, posted by httpx and nothing else."""
    import httpx

    messages = [{"role": "system", "content": PAGE}, {"role": "user", "content": PAGE}]
    tool = {"type": "function", "function": {"name": "web_search", "parameters": {"type": "object"}}}
    requests = size.pick(300, 10)
    async with httpx.AsyncClient(trust_env=False) as client:
        used = 0.0
        for number in range(requests + 1):
            # The first one opens the connection.
            used = process_time() if number == 1 else used
            body = {"model": "small", "messages": messages, "tools": [tool]}
            (await client.post(f"{base_url}/chat/completions", json=body)).json()
    say("a request by httpx alone", f"CPU {1000 * (process_time() - used) / requests:.2f} ms")


async def _cost(base_url: str, kind: str, size: MeasureSize) -> None:
    async with _open_engine(base_url, kind) as engine:
        await _trials(engine, 2, at_once=2)
        for at_once in (1, 20):
            trials = size.pick(60, 2)
            begun, used = perf_counter(), process_time()
            usage = await _trials(engine, trials, at_once=at_once, first=1000 * at_once)
            steps = trials * STEPS
            cpu_ms, rate = 1000 * (process_time() - used) / steps, steps / (perf_counter() - begun)
            say(f"a step of BLF by {kind}, {at_once} trials at once", f"CPU {cpu_ms:.2f} ms, {rate:.0f} steps/s")
        cached = usage.tokens_cached / usage.tokens_in
        tokens = f"{usage.tokens_in / trials:,.0f} tokens in, {usage.tokens_out / trials:,.0f} out"
        say(f"a trial of {STEPS} steps by {kind}", f"{tokens}, cached {100 * cached:.0f} %")


async def _memory(base_url: str, size: MeasureSize) -> None:
    trials = size.pick(1000, 2)
    async with _open_engine(base_url, COMPATIBLE) as engine:
        process = psutil.Process()
        await _trials(engine, trials, at_once=20)
        before = process.memory_info().rss
        await _trials(engine, trials, at_once=20, first=trials)
        grown = (process.memory_info().rss - before) / 2**20
        file_kb = engine.path.stat().st_size / 2**10 / (2 * trials)
    say(
        f"memory after {trials * STEPS:,} of {2 * trials * STEPS:,} calls",
        f"{before / 2**20:.0f} MB, grown by {grown:.1f} MB",
    )
    say("the ledger of a trial", f"{1024 * file_kb:,.0f} bytes")


async def _burst(base_url: str, at_once: int, delay_s: float) -> None:
    """Measure what share of the steps is made that a model of so many seconds would allow, begun in one instant."""
    async with _open_engine(base_url, COMPATIBLE) as engine:
        await _trials(engine, 2, at_once=2)
        begun, used = perf_counter(), process_time()
        await _trials(engine, at_once, at_once=at_once, first=1000)
        wall_s, cpu_s = perf_counter() - begun, process_time() - used
    share = STEPS * delay_s / wall_s
    say(
        f"{at_once} trials begun in one instant with a model of {delay_s:g} s",
        f"{100 * share:.1f} % of the ideal, CPU {100 * cpu_s / wall_s:.0f} %, load {_load():.1f}",
    )


async def _steady(base_url: str, places: int, delay_s: float, *, trials: int) -> float:
    """Measure the same of places that are kept full, as by the daemon, for so many trials' length; return the share.

    The trials are at different steps, for the first ones are begun one after another over a trial's length. Steps
    count when they are durable. The worst wait of the event loop is what a task that only sleeps sees.
    """
    length_s = STEPS * delay_s
    async with _open_engine(base_url, COMPATIBLE) as engine:
        await _trials(engine, 2, at_once=2)

        async def place(number: int) -> None:
            await asyncio.sleep(length_s * number / places)
            for nth in count(1):
                await _trials(engine, 1, at_once=1, first=10_000 * nth + number)

        async with _together(place, places):
            # The last place has begun; half a trial later the first one has begun its second.
            await asyncio.sleep(1.5 * length_s)
            before, begun, used, waits = await _steps(engine), perf_counter(), process_time(), [0.0]
            while (wall_s := perf_counter() - begun) < trials * length_s:
                await asyncio.sleep(PROBE_S)
                waits.append(perf_counter() - begun - wall_s - PROBE_S)
            made, cpu_s = await _steps(engine) - before, process_time() - used
            wall_s = perf_counter() - begun
    share = made * delay_s / (places * wall_s)
    say(
        f"{places} places kept full for {wall_s:.0f} s with a model of {delay_s:g} s",
        f"{100 * share:.1f} % of the ideal, CPU {1000 * cpu_s / made:.2f} ms a step, {100 * cpu_s / wall_s:.0f} %, "
        f"the loop late by {1000 * max(waits):.0f} ms at most, load {_load():.1f}",
    )
    return share


@asynccontextmanager
async def _together(place: Callable[[int], Awaitable[None]], places: int) -> AsyncIterator[None]:
    """Keep the places at work while entered; raises what one of them raised."""
    working = [asyncio.ensure_future(place(number)) for number in range(places)]
    try:
        yield
    finally:
        broken = [one.exception() for one in working if one.done()]
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    for error in broken:
        raise error or RuntimeError


async def _steps(engine: EngineFixture) -> int:
    """Return how many steps are on record."""
    return await engine.ledger.calls.readers.run(
        lambda database: int(database.execute("select count(*) from step").fetchone()[0])
    )


def _load() -> float:
    """Return the load of the machine over the last minute, this process and the server's part of it."""
    return os.getloadavg()[0]


async def _trials(engine: EngineFixture, trials: int, *, at_once: int, first: int = 0) -> ModelUsage:
    """Play that many questions, one trial each; raises RuntimeError for one that does not come to its end."""
    waiting = iter(range(first, first + trials))
    total = ModelUsage()

    async def work() -> None:
        nonlocal total
        for number in waiting:
            asked = question(ref=QuestionRef("lantern", f"lamp {number}"), title=f"Will lamp {number} be lit?")
            played = await engine.play(asked, LIMITS)
            if played.trial.end is not TrialEnd.FINISHED or played.trial.steps != STEPS:
                message = f"trial {number} ended: {played.trial.end} {played.trial.detail}"
                raise RuntimeError(message)
            total += played.trial.usage

    await asyncio.gather(*(work() for _ in range(at_once)))
    return total


@asynccontextmanager
async def _open_engine(base_url: str, kind: str) -> AsyncIterator[EngineFixture]:
    setup = EngineSetup(kind=kind, provider={"attempts": 1, "concurrency": 1000}, role={"timeout_s": 120.0})
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(Path(folder), base_url, setup) as engine:
            yield engine


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
