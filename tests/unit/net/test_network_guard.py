"""The guard against connections, met by HTTP libraries that are not ours, with a real server that must see nothing."""

import asyncio
import socket
import urllib.request
from collections.abc import Callable

import aiohttp
import httpx
import pytest

from bot.core.errors import RequestRejectedError
from bot.net.network_guard import refuse_connections
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse


def get_with_urllib(url: str) -> None:
    urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - an address of this test


def get_with_httpx(url: str) -> None:
    httpx.get(url, timeout=5)


def get_with_aiohttp(url: str) -> None:
    async def get() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get(url)

    asyncio.run(get())


LIBRARIES = [get_with_urllib, get_with_httpx, get_with_aiohttp]


@pytest.mark.parametrize("get", LIBRARIES, ids=lambda get: get.__name__)
async def test_a_server_sees_only_what_the_guard_permits(get: Callable[[str], None]) -> None:
    seen = []

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        seen.append(request.path)
        return ScriptedResponse(body=b"{}")

    async with LoopbackServer(answer) as server:
        with refuse_connections("nothing is sent"), pytest.raises(RequestRejectedError, match=r"127.*nothing is sent"):
            await asyncio.to_thread(get, f"{server.address}/guarded")
        with refuse_connections("nothing leaves this machine", permits_loopback=True):
            await asyncio.to_thread(get, f"{server.address}/permitted")
        await asyncio.to_thread(get, f"{server.address}/after")
    assert seen == ["/permitted", "/after"]


@pytest.mark.parametrize("get", LIBRARIES, ids=lambda get: get.__name__)
def test_no_name_of_another_machine_is_looked_up(get: Callable[[str], None]) -> None:
    with (
        refuse_connections("kits stay here", permits_loopback=True),
        pytest.raises(RequestRejectedError, match=r"no connection to venue\.example: kits stay here"),
    ):
        get("http://venue.example/")


def test_datagrams_are_refused_and_pairs_of_sockets_are_not() -> None:
    here, there = socket.socketpair()
    with here, there, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, refuse_connections("refused"):
        with pytest.raises(RequestRejectedError):
            datagrams.sendto(b"x", ("127.0.0.1", 9))
        here.sendall(b"x")
        assert there.recv(1) == b"x"


def test_the_stricter_of_two_guards_decides() -> None:
    with (
        refuse_connections("outer"),
        refuse_connections("inner", permits_loopback=True),
        pytest.raises(RequestRejectedError, match="outer"),
    ):
        socket.create_connection(("127.0.0.1", 9))
