"""The network inside the loop: real clients and servers on it, in virtual time, the same each time."""

import asyncio
import json

import pytest

from bot.core.clock import SeededRandom
from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.core.venue_http import HttpRequest
from bot.net.client import RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import FaultDetails, FaultSchedule, RequestFault
from bot.simulator.network import NetworkEventLoop
from bot.simulator.venues.manifold import FakeManifold
from bot.testing.event_loop import EventTrace, VirtualClock, run_in_virtual_time

CHANCE = SeededRandom(1)


def reader(clock: VirtualClock) -> RetryingHttpClient:
    return RetryingHttpClient(clock=clock, random=CHANCE)


def test_a_request_takes_no_time_and_a_slow_answer_its_own() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        faults = FaultSchedule()
        async with serve_service(FakeManifold(clock, faults=faults)) as served, reader(clock) as http:
            url = f"{served.url}/v0/markets?limit=1"
            before = clock.monotonic()
            assert await http.get(url, max_bytes=1000) == b"[]"
            at_once = clock.monotonic() - before
            faults.schedule(FaultDetails(fault=RequestFault.SLOW, wait_s=7.0))
            before = clock.monotonic()
            await http.get(url, max_bytes=1000)
            return at_once, clock.monotonic() - before

    at_once, slowly = run_in_virtual_time(main, make=NetworkEventLoop)
    assert at_once == 0.0
    assert slowly == pytest.approx(7.0, abs=1e-3)


def test_a_server_that_hangs_is_left_at_the_deadline() -> None:
    async def main(clock: VirtualClock) -> float:
        faults = FaultSchedule()
        async with serve_service(FakeManifold(clock, faults=faults)) as served:
            faults.schedule(RequestFault.HANGING)
            wire = HttpWriteClient(rates=RateLimiter((), clock=clock, random=CHANCE))
            request = HttpRequest(method="POST", url=f"{served.url}/v0/bet", headers={}, body=b"{}")
            before = clock.monotonic()
            with pytest.raises(ServiceUnavailableError, match="no complete response within 60 s"):
                await wire.send(request, max_bytes=1000, deadline_s=60.0)
            await wire.aclose()
            return clock.monotonic() - before

    assert run_in_virtual_time(main, make=NetworkEventLoop) == pytest.approx(60.0, abs=1e-3)


def test_a_socket_stays_open_for_days() -> None:
    async def main(clock: VirtualClock) -> str:
        async with serve_service(FakeManifold(clock)) as served:
            sockets = WebSocketConnector(clock=clock, rates=RateLimiter((), clock=clock, random=CHANCE))
            async with sockets.connect(f"{served.ws_url}/ws", max_bytes=10_000) as socket:
                for beat in range(2_000):
                    await clock.sleep(50.0)
                    await socket.send(f'{{"type": "ping", "txid": {beat}}}')
                    answer = await socket.receive(within_s=10.0)
                return answer

    assert json.loads(run_in_virtual_time(main, make=NetworkEventLoop))["success"] is True


def test_nobody_listens_elsewhere() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        async with reader(clock) as http:
            with pytest.raises(ServiceUnavailableError, match="cannot be reached"):
                await http.get("http://127.0.0.1:9/x", max_bytes=10)
            with pytest.raises(RequestRejectedError, match="nothing was sent"):
                await HttpWriteClient(rates=RateLimiter((), clock=clock, random=CHANCE)).send(
                    HttpRequest(method="POST", url="https://127.0.0.2/", headers={}, body=b""),
                    max_bytes=9,
                    deadline_s=5.0,
                )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NetworkEventLoop)
        return loop.refused_connections

    assert set(run_in_virtual_time(main, make=NetworkEventLoop)) == {("127.0.0.1", 9), ("127.0.0.2", 443)}


def test_the_same_story_has_the_same_trace() -> None:
    def story() -> str:
        trace = EventTrace()

        async def main(clock: VirtualClock) -> None:
            faults = FaultSchedule(
                CHANCE.stream("faults"),
                dict.fromkeys((RequestFault.DROPPED_BEFORE, RequestFault.TOO_MANY, RequestFault.ERROR_AFTER), 0.1),
            )
            venue = FakeManifold(clock, faults=faults)

            async def ask(number: int) -> None:
                await clock.sleep(number % 7)
                try:
                    answer = await http.get(f"{served.url}/v0/markets?limit={number + 1}", max_bytes=1000)
                except ServiceUnavailableError as error:
                    answer = str(error).encode()
                trace.add(number, clock.monotonic(), answer)

            async with serve_service(venue) as served, reader(clock) as http:
                await asyncio.gather(*(ask(number) for number in range(60)))
            for heard in venue.requests:
                trace.add(heard.at_s, heard.target)

        run_in_virtual_time(main, make=NetworkEventLoop)
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

    run_in_virtual_time(main, make=NetworkEventLoop)
