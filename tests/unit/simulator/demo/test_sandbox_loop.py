"""The loop of the demo: weeks pass at once over real sockets, and no other machine is reached."""

import asyncio
import socket

import pytest

from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.net.client import RetryingHttpClient
from bot.simulator.demo.demo_run import LoopbackEventLoop
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.manifold import FakeManifold
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


def test_a_request_over_a_real_socket_takes_no_time_of_the_world() -> None:
    async def main(clock: VirtualClock) -> tuple[bytes, float, int]:
        async with (
            serve_service(FakeManifold(clock)) as served,
            RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http,
        ):
            port = int(served.url.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                body = await http.get(f"{served.url}/v0/markets?limit=1", max_bytes=1000)
            started_s = clock.monotonic()
            await clock.sleep(40 * 86_400.0)
            return body, started_s, round(clock.monotonic() / 86_400.0)

    assert run_in_virtual_time(main, make=LoopbackEventLoop) == (b"[]", 0.0, 40)


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "0.0.0.0", "2001:db8::1"])  # noqa: S104 - asked, not bound
def test_nobody_outside_this_machine_is_reached(host: str) -> None:
    async def main(_: VirtualClock) -> None:
        with pytest.raises(ConnectionRefusedError, match="connects to no other machine"):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, 443)

    run_in_virtual_time(main, make=LoopbackEventLoop)


def test_the_client_of_the_engine_hears_of_it_as_of_any_server_that_is_away() -> None:
    async def main(clock: VirtualClock) -> None:
        async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
            with pytest.raises(ServiceUnavailableError):
                await http.get("http://192.0.2.1/", max_bytes=1000)

    run_in_virtual_time(main, make=LoopbackEventLoop)


def test_what_is_given_to_a_thread_is_done_at_once_and_its_errors_reach_who_waits() -> None:
    async def main(clock: VirtualClock) -> float:
        assert await asyncio.to_thread(sum, [1, 2]) == 3
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return clock.monotonic()

    assert run_in_virtual_time(main, make=LoopbackEventLoop) == 0.0


def test_who_watches_is_told_while_things_happen() -> None:
    reported: list[float] = []

    async def main(clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LoopbackEventLoop)
        loop.watcher = lambda: reported.append(clock.monotonic())
        while not reported:
            await clock.sleep(1.0)

    run_in_virtual_time(main, make=LoopbackEventLoop)
    assert len(reported) == 1
