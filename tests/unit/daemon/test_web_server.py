"""The server of an application in a running loop: where it listens, what it leaves alone, and how it ends."""

import asyncio
import signal
import socket
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.core.errors import ConfigError
from bot.daemon.web_server import GRACE_S, serve_app


async def greet(_: Request) -> Response:
    return PlainTextResponse("good evening")


async def hang(_: Request) -> Response:
    await asyncio.sleep(3600)
    return PlainTextResponse("never")


APP = Starlette(routes=[Route("/", greet), Route("/hang", hang)])


async def test_it_answers_while_the_block_runs_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serve_app(APP, "127.0.0.1", 0) as port, httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/")
        assert (answer.text, "server" in answer.headers) == ("good evening", False)
        assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_request_that_hangs_does_not_hold_up_the_end() -> None:
    async with asyncio.timeout(GRACE_S + 10), httpx.AsyncClient() as client:
        async with serve_app(APP, "127.0.0.1", 0) as port:
            hanging = asyncio.create_task(client.get(f"http://127.0.0.1:{port}/hang", timeout=60))
            await asyncio.sleep(0.3)
        with pytest.raises(httpx.HTTPError):
            (await hanging).raise_for_status()


async def test_an_address_in_use_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"web\.listen: 127\.0\.0\.1:{port} cannot be used: Address already in use"
        ):
            async with serve_app(APP, "127.0.0.1", port):
                pytest.fail("it was opened")


async def test_an_answer_does_not_wait_for_more_to_send() -> None:
    async with serve_app(APP, "127.0.0.1", 0) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        waits = []
        for _ in range(8):
            started = time.perf_counter()
            await client.get("/")
            waits.append(time.perf_counter() - started)
    # Nagle's algorithm with the delayed acknowledgement of the other side makes it 40 ms each time but the first.
    assert min(waits[1:]) < 0.03
