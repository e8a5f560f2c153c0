"""The network inside the loop: real clients and servers on it, in virtual time, the same each time."""

import asyncio
import json

import pytest

from bot.clock import SeededRandom
from bot.domain.wire import Request
from bot.errors import Rejected, Unavailable
from bot.net.client import RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.testing.loop import Trace, VirtualClock, simulate
from bot.testing.network import NetworkLoop
from bot.testing.venues.faults import Fault, Faults, Trouble
from bot.testing.venues.kit import serve
from bot.testing.venues.manifold import FakeManifold

CHANCE = SeededRandom(1)


def reader(clock: VirtualClock) -> RetryingHttpClient:
    return RetryingHttpClient(clock=clock, random=CHANCE)


def test_a_request_takes_no_time_and_a_slow_answer_its_own() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        faults = Faults()
        async with serve(FakeManifold(clock, faults=faults)) as served, reader(clock) as http:
            url = f"{served.url}/v0/markets?limit=1"
            before = clock.monotonic()
            assert await http.get(url, max_bytes=1000) == b"[]"
            at_once = clock.monotonic() - before
            faults.next(Trouble(fault=Fault.SLOW, wait_s=7.0))
            before = clock.monotonic()
            await http.get(url, max_bytes=1000)
            return at_once, clock.monotonic() - before

    at_once, slowly = simulate(main, make=NetworkLoop)
    assert at_once == 0.0
    assert slowly == pytest.approx(7.0, abs=1e-3)


def test_a_server_that_hangs_is_left_at_the_deadline() -> None:
    async def main(clock: VirtualClock) -> float:
        faults = Faults()
        async with serve(FakeManifold(clock, faults=faults)) as served:
            faults.next(Fault.HANGING)
            wire = HttpWriteClient(rates=RateLimiter((), clock=clock, random=CHANCE))
            request = Request(method="POST", url=f"{served.url}/v0/bet", headers={}, body=b"{}")
            before = clock.monotonic()
            with pytest.raises(Unavailable, match="no whole answer within 60 s"):
                await wire.send(request, max_bytes=1000, deadline_s=60.0)
            await wire.aclose()
            return clock.monotonic() - before

    assert simulate(main, make=NetworkLoop) == pytest.approx(60.0, abs=1e-3)


def test_a_socket_stays_open_for_days() -> None:
    async def main(clock: VirtualClock) -> str:
        async with serve(FakeManifold(clock)) as served:
            sockets = WebSocketConnector(clock=clock, rates=RateLimiter((), clock=clock, random=CHANCE))
            async with sockets.connect(f"{served.ws_url}/ws", max_bytes=10_000) as socket:
                for beat in range(2_000):
                    await clock.sleep(50.0)
                    await socket.send(f'{{"type": "ping", "txid": {beat}}}')
                    answer = await socket.receive(within_s=10.0)
                return answer

    assert json.loads(simulate(main, make=NetworkLoop))["success"] is True


def test_nobody_listens_elsewhere() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        async with reader(clock) as http:
            with pytest.raises(Unavailable, match="cannot be reached"):
                await http.get("http://127.0.0.1:9/x", max_bytes=10)
            with pytest.raises(Rejected, match="nothing was sent"):
                await HttpWriteClient(rates=RateLimiter((), clock=clock, random=CHANCE)).send(
                    Request(method="POST", url="https://127.0.0.2/", headers={}, body=b""), max_bytes=9, deadline_s=5.0
                )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NetworkLoop)
        return loop.refused

    assert set(simulate(main, make=NetworkLoop)) == {("127.0.0.1", 9), ("127.0.0.2", 443)}


def test_the_same_story_has_the_same_trace() -> None:
    def story() -> str:
        trace = Trace()

        async def main(clock: VirtualClock) -> None:
            faults = Faults(
                CHANCE.stream("faults"), dict.fromkeys((Fault.DROPPED_BEFORE, Fault.TOO_MANY, Fault.ERROR_AFTER), 0.1)
            )
            venue = FakeManifold(clock, faults=faults)

            async def ask(number: int) -> None:
                await clock.sleep(number % 7)
                try:
                    answer = await http.get(f"{served.url}/v0/markets?limit={number + 1}", max_bytes=1000)
                except Unavailable as error:
                    answer = str(error).encode()
                trace.add(number, clock.monotonic(), answer)

            async with serve(venue) as served, reader(clock) as http:
                await asyncio.gather(*(ask(number) for number in range(60)))
            for heard in venue.requests:
                trace.add(heard.at_s, heard.target)

        simulate(main, make=NetworkLoop)
        return trace.digest()

    assert story() == story()


def test_a_port_belongs_to_one_server() -> None:
    async def main(_: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 80)
        assert server.is_serving()
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(asyncio.Protocol, "127.0.0.1", 80)
        server.close()
        assert not server.is_serving()
        await server.wait_closed()
        await loop.create_server(asyncio.Protocol, "127.0.0.1", 80)

    simulate(main, make=NetworkLoop)
