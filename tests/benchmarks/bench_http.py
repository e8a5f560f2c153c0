"""What a request costs here over the client for known services: CPU of this process alone, and connections kept."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time

from bot.core.clock import SeededRandom, SystemClock
from bot.core.values import Json
from bot.net.client import RetryingHttpClient
from tests.benchmarks.figures import ROOT, MeasureSize, say

AT_ONCE = (1, 50, 200)
SERVING = """
import asyncio, sys
from bot.testing.loopback_server import LoopbackServer, ScriptedResponse
def answer(request):
    return ScriptedResponse(body=str(server.connections).encode() if request.method == "GET" else b"x" * 400)
async def main():
    async with server:
        sys.stdout.write(server.address + "\\n")
        sys.stdout.flush()
        await asyncio.sleep(3600)
server = LoopbackServer(answer)
asyncio.run(main())
"""
BODY: dict[str, Json] = {"question": "Will it rain in Paris tomorrow? " * 60}
MAX_BYTES = 2**20


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    with _serving() as address:
        for at_once in AT_ONCE:
            asyncio.run(_measure(address, at_once, size))


async def _measure(address: str, at_once: int, size: MeasureSize) -> None:
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
        before = int(await http.get(address, max_bytes=MAX_BYTES))
        await _post(http, address, at_once, at_once)  # opens the connections, loads what is loaded once
        runs = [await _timed(http, address, at_once, size) for _ in range(size.pick(5, 1))]
        opened = int(await http.get(address, max_bytes=MAX_BYTES)) - before + 1
    cpu_ms, rate = median(run[0] for run in runs), median(run[1] for run in runs)
    say(f"a POST, {at_once} at once over {opened} connections", f"CPU {cpu_ms:.3f} ms, {rate:.0f} calls/s")


async def _timed(http: RetryingHttpClient, address: str, at_once: int, size: MeasureSize) -> tuple[float, float]:
    """Return the milliseconds of CPU a call, and the calls a second of wall."""
    count = size.pick(2_000, at_once)
    started, used = perf_counter(), process_time()
    await _post(http, address, at_once, count)
    return 1000 * (process_time() - used) / count, count / (perf_counter() - started)


async def _post(http: RetryingHttpClient, address: str, at_once: int, count: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await http.post(address, BODY, max_bytes=MAX_BYTES)

    await asyncio.gather(*(work() for _ in range(at_once)))


@contextmanager
def _serving() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SERVING], cwd=ROOT, stdout=subprocess.PIPE, text=True) as serving:
        try:
            yield serving.stdout.readline().strip() if serving.stdout else ""
        finally:
            serving.terminate()
