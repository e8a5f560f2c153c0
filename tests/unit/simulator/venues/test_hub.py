"""Sockets of fake venues, over real connections."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bot.core.clock import SeededRandom, SystemClock
from bot.simulator.faults import FaultSchedule, SocketFault
from bot.testing.clock import FakeClock
from tests.unit.simulator.venues.counter_service import CounterClient, CounterService, open_counter


@pytest.fixture
async def counter() -> AsyncIterator[CounterClient]:
    async with open_counter(CounterService(SystemClock())) as here:
        yield here


async def test_a_socket_hears_and_answers(counter: CounterClient) -> None:
    async with connect(f"{counter.served.ws_url}/ws", proxy=None) as socket:
        await socket.send("hello")
        assert json.loads(await socket.recv()) == {"echo": "hello"}
        assert counter.venue.hub.opened == 1
    await counter.venue.wait_until(lambda: not counter.venue.hub.channels)


@pytest.mark.parametrize(
    ("fault", "met", "echoes"),
    [
        (SocketFault.SILENT, 3, []),
        (SocketFault.DUPLICATING, 3, ["a", "a", "b", "b", "c", "c"]),
        (SocketFault.GAPPING, 3, ["b"]),
        # Nothing was said before the first that could come again.
        (SocketFault.STALE, 2, ["a", "a", "a"]),
    ],
)
async def test_messages_go_missing_or_come_again(
    counter: CounterClient, fault: SocketFault, met: int, echoes: list[str]
) -> None:
    async with connect(f"{counter.served.ws_url}/ws", proxy=None) as socket:
        counter.faults.on_sockets.add(fault)
        for word in "abc":
            await socket.send(word)
        await counter.venue.wait_until(lambda: counter.faults.injected[fault] == met)
        counter.faults.on_sockets.clear()
        await socket.send("end")
        heard = [json.loads(await socket.recv())["echo"] for _ in [*echoes, "end"]]
        assert heard == [*echoes, "end"]


async def test_a_garbled_message_is_no_json(counter: CounterClient) -> None:
    async with connect(f"{counter.served.ws_url}/ws", proxy=None) as socket:
        counter.faults.on_sockets.add(SocketFault.GARBLED)
        await socket.send("hello")
        with pytest.raises(json.JSONDecodeError):
            json.loads(await socket.recv())


async def test_a_message_that_meets_a_cut_ends_the_connection_without_a_word(counter: CounterClient) -> None:
    async with connect(f"{counter.served.ws_url}/ws", proxy=None) as socket:
        counter.faults.on_sockets.add(SocketFault.CUT)
        await socket.send("x")
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is None


async def test_a_venue_that_refuses_takes_no_socket(counter: CounterClient) -> None:
    counter.faults.refuses_connections = True
    with pytest.raises(InvalidStatus):
        async with connect(f"{counter.served.ws_url}/ws", proxy=None):
            pass
    assert counter.venue.hub.opened == 0


async def test_bytes_end_the_talk(counter: CounterClient) -> None:
    async with connect(f"{counter.served.ws_url}/ws", proxy=None) as socket:
        await socket.send(b"bytes")
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def test_chance_meets_messages_at_its_rate(counter: CounterClient) -> None:
    counter.venue.faults.socket_rates[SocketFault.DUPLICATING] = 0.5
    with pytest.raises(ValueError, match="stream of chance"):
        counter.venue.faults.next_socket_faults()
    faults = FaultSchedule(SeededRandom(3).stream("sockets"), socket_rates={SocketFault.DUPLICATING: 0.25})
    met = sum(bool(faults.next_socket_faults()) for _ in range(2_000))
    assert 400 < met < 600
    assert faults.injected[SocketFault.DUPLICATING] == met
    faults.clear()
    assert faults.next_socket_faults() == frozenset()


async def test_all_sockets_can_be_cut(counter: CounterClient) -> None:
    url = f"{counter.served.ws_url}/ws"
    async with connect(url, proxy=None) as first, connect(url, proxy=None) as second:
        await counter.venue.wait_until(lambda: len(counter.venue.hub.channels) == 2)
        counter.venue.hub.cut_all()
        for socket in (first, second):
            with pytest.raises(ConnectionClosed):
                await socket.recv()


async def test_pings_of_the_protocol_keep_nobody_alive_but_messages_do() -> None:
    clock = FakeClock()
    async with open_counter(CounterService(clock)) as counter:
        url = f"{counter.served.ws_url}/ws"
        async with connect(url, proxy=None) as idle, connect(url, proxy=None) as lively:
            for _ in range(2):
                await clock.advance(25.0)
                await (await idle.ping())
                await lively.send("ping")
                await lively.recv()
            await clock.advance(50.0)
            with pytest.raises(ConnectionClosed):
                await idle.recv()
            await lively.send("still here")
            assert json.loads(await lively.recv()) == {"echo": "still here"}
