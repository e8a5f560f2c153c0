"""Questions asked by POST: sent once, bounded, with a deadline of their own, over several small clients."""

import asyncio
import gzip
import json
import math
from types import NoneType

import pytest
from structlog.testing import capture_logs

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.values import Json
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.testing.clock import FakeClock
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ResponseEnding, ScriptedResponse

KEY = "key-that-nobody-may-see"
HEADERS = {"Authorization": f"Bearer {KEY}", "X-Short": "abc"}


def reading(**limits: float) -> RetryingHttpClient:
    chosen = HttpLimits(**{"attempts": 3, **limits})  # type: ignore[arg-type]  # names by keyword
    return RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=chosen)


async def test_json_is_sent_and_the_answer_returned() -> None:
    seen: list[ReceivedRequest] = []

    def answer(received: ReceivedRequest) -> ScriptedResponse:
        seen.append(received)
        return ScriptedResponse(body=b"fine")

    async with LoopbackServer(answer) as server, reading() as http:
        url = f"{server.address}/ask?x=1"
        assert await http.post(url, {"q": "é", "n": [1]}, max_bytes=4, headers=HEADERS) == b"fine"
    (received,) = seen
    assert (received.method, received.path) == ("POST", "/ask?x=1")
    assert json.loads(received.body) == {"q": "é", "n": [1]}
    assert received.headers["content-type"] == "application/json"
    assert received.headers["authorization"] == f"Bearer {KEY}"


async def test_half_a_surrogate_pair_does_not_stop_a_question() -> None:
    async with LoopbackServer(lambda received: ScriptedResponse(body=received.body)) as server, reading() as http:
        assert json.loads(await http.post(server.address, "a\ud83eb", max_bytes=100)) == "a?b"


@pytest.mark.parametrize(
    "body", ["NaN is no number", {"a": ["\u00e9\x00\u2028", 1e-7, -0.0, 2**70, None, True, {}, []]}]
)
async def test_a_body_arrives_as_it_was(body: Json) -> None:
    async with LoopbackServer(lambda received: ScriptedResponse(body=received.body)) as server, reading() as http:
        echo = await http.post(server.address, body, max_bytes=200)
    assert json.dumps(json.loads(echo)) == json.dumps(body)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_a_number_that_json_has_not_is_not_sent(number: float) -> None:
    async with reading() as http:
        with pytest.raises(ValueError, match="not JSON compliant"):
            await http.post("http://127.0.0.1:9/", {"a": [number]}, max_bytes=100)


async def test_a_get_takes_headers_too() -> None:
    def answer(received: ReceivedRequest) -> ScriptedResponse:
        return ScriptedResponse(body=received.headers["authorization"].encode())

    async with LoopbackServer(answer) as server, reading() as http:
        assert await http.get(server.address, max_bytes=100, headers=HEADERS) == f"Bearer {KEY}".encode()


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (ScriptedResponse(status=302, headers={"Location": "/there"}), MalformedDataError),
        (ScriptedResponse(status=400), RequestRejectedError),
        (ScriptedResponse(status=401), AuthenticationError),
        (ScriptedResponse(status=402), AuthenticationError),
        (ScriptedResponse(status=404), NotFoundError),
        (ScriptedResponse(status=429), ServiceUnavailableError),
        (ScriptedResponse(status=500), ServiceUnavailableError),
        (ScriptedResponse(status=503), ServiceUnavailableError),
        (ScriptedResponse(ending=ResponseEnding.NO_ANSWER), ServiceUnavailableError),
        (ScriptedResponse(body=b"half of it", ending=ResponseEnding.MIDWAY), ServiceUnavailableError),
        (ScriptedResponse(body=b"x" * 101), MalformedDataError),
    ],
    ids=["302", "400", "401", "402", "404", "429", "500", "503", "no answer", "half a body", "too large"],
)
async def test_a_failed_question_is_sent_exactly_once(sent: ScriptedResponse, kind: type[FoxcastError]) -> None:
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(FoxcastError) as caught:
            await http.post(server.address, {}, max_bytes=100)
    assert (type(caught.value), server.received) == (kind, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_that_is_asked_for_comes_with_the_error(status: int) -> None:
    sent = ScriptedResponse(status=status, headers={"Retry-After": "7"})
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.post(server.address, {}, max_bytes=100)
    assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (ScriptedResponse(ending=ResponseEnding.NO_ANSWER), ConnectionError),
        (ScriptedResponse(body=b"half of it", ending=ResponseEnding.MIDWAY), ConnectionError),
        (ScriptedResponse(ending=ResponseEnding.NEVER), TimeoutError),
        (
            ScriptedResponse(headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"a long enough text")[:-9]),
            ConnectionError,
        ),
        (ScriptedResponse(status=429), NoneType),
        (ScriptedResponse(status=500), NoneType),
    ],
    ids=["no answer", "half a body", "never", "half a gzip", "429", "500"],
)
async def test_what_broke_off_after_the_question_left_is_told_by_its_cause(sent: ScriptedResponse, cause: type) -> None:
    async with LoopbackServer(lambda _: sent) as server, reading(deadline_s=0.3) as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.post(server.address, {}, max_bytes=100)
    assert isinstance(caught.value.__cause__, cause)


async def test_a_lost_connection_is_told_in_words() -> None:
    async with LoopbackServer(lambda _: ScriptedResponse(ending=ResponseEnding.NO_ANSWER)) as server, reading() as http:
        with pytest.raises(ServiceUnavailableError, match="dropped the connection before its response was complete"):
            await http.post(server.address, {}, max_bytes=100)
    async with reading() as http:
        with pytest.raises(ServiceUnavailableError, match="cannot be reached: check the address, the network"):
            await http.post(server.address, {}, max_bytes=100)


async def test_a_question_that_never_left_has_no_cause() -> None:
    async with LoopbackServer(lambda _: ScriptedResponse()) as server:
        nobody = server.address
    async with reading() as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.post(nobody, {}, max_bytes=100)
    assert caught.value.__cause__ is None
    # One that waits for a connection until its time is over has not left either.
    never = ScriptedResponse(ending=ResponseEnding.NEVER)
    async with LoopbackServer(lambda _: never) as server, reading(connections=1) as http:
        first = asyncio.ensure_future(http.post(server.address, {}, max_bytes=100))
        await server.wait_until(lambda: server.in_flight == 1)
        with pytest.raises(ServiceUnavailableError, match="no complete response") as caught:
            await http.post(server.address, {}, max_bytes=100, deadline_s=0.1)
        assert (caught.value.__cause__, server.received) == (None, 1)
        first.cancel()


@pytest.mark.parametrize(("status", "asked_s"), [(429, 0.0), (503, None)])
async def test_a_full_server_that_names_no_wait_is_told_from_one_that_fails(status: int, asked_s: float | None) -> None:
    sent = ScriptedResponse(status=status)
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.post(server.address, {}, max_bytes=100)
    assert caught.value.retry_after_s == asked_s


async def test_a_refusal_is_quoted_in_one_line_without_our_key() -> None:
    sent = ScriptedResponse(status=400, body=f"The key {KEY}\n is   wrong: abc, {'!' * 500}".encode())
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(RequestRejectedError) as caught:
            await http.post(server.address, {}, max_bytes=100, headers=HEADERS)
    assert "The key *** is wrong: abc, !!!" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            '{"error": {"message": "Too many requests,\\n slow down", "code": "rate_limit"}}',
            "Too many requests, slow down",
        ),
        ('{"code": 7, "message": "Slow down"}', "Slow down"),
        ('{"error": "Slow down"}', "Slow down"),
        ('{"detail": "Slow down"}', "Slow down"),
        ('{"error": {"code": 7}}', '{"error": {"code": 7}}'),
        ('["Slow down"]', '["Slow down"]'),
        ("Slow down", "Slow down"),
    ],
)
async def test_what_a_full_server_says_in_json_is_told_in_its_words(body: str, told: str) -> None:
    sent = ScriptedResponse(status=429, body=body.encode())
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.post(server.address, {}, max_bytes=100)
    assert str(caught.value).endswith(f"status 429: {told}")


async def test_a_broken_quotation_is_left_out() -> None:
    sent = ScriptedResponse(status=400, headers={"Content-Encoding": "gzip"}, body=b"not gzip")
    async with LoopbackServer(lambda _: sent) as server, reading() as http:
        with pytest.raises(RequestRejectedError, match=r"status 400$"):
            await http.post(server.address, {}, max_bytes=100)


async def test_a_question_has_the_usual_deadline_or_its_own() -> None:
    async with (
        LoopbackServer(lambda _: ScriptedResponse(ending=ResponseEnding.NEVER)) as server,
        reading(deadline_s=0.1) as http,
    ):
        with pytest.raises(ServiceUnavailableError, match=r"within 0\.1 s"):
            await http.post(server.address, {}, max_bytes=100)
        with pytest.raises(ServiceUnavailableError, match=r"within 0\.2 s"):
            await http.post(server.address, {}, max_bytes=100, deadline_s=0.2)


async def test_a_longer_deadline_outlasts_the_usual_one() -> None:
    async with (
        LoopbackServer(lambda _: ScriptedResponse(body=b"late", delay_s=0.2)) as server,
        reading(deadline_s=0.05) as http,
    ):
        assert await http.post(server.address, {}, max_bytes=100, deadline_s=20.0) == b"late"


async def test_cancelling_a_question_ends_it_and_leaves_room_for_others() -> None:
    sent = [ScriptedResponse(ending=ResponseEnding.NEVER)]
    async with LoopbackServer(lambda _: sent[0]) as server, reading(connections=1) as http:
        asking = asyncio.ensure_future(http.post(server.address, {}, max_bytes=100))
        await server.wait_until(lambda: server.in_flight == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.wait_until(lambda: server.hung_up == 1)
        sent[0] = ScriptedResponse(body=b"next")
        assert await http.post(server.address, {}, max_bytes=100) == b"next"


async def at_once(count: int, **limits: float) -> LoopbackServer:
    """Ask that many questions at once and let none be answered before all have come that can."""
    allowed = min(count, int(limits.get("connections", count)))
    clock = FakeClock()
    async with (
        LoopbackServer(lambda _: ScriptedResponse(body=b"x", delay_s=1.0), clock=clock) as server,
        reading(**limits) as http,
    ):
        asking = [asyncio.ensure_future(http.post(server.address, {}, max_bytes=1)) for _ in range(count)]
        await server.wait_until(lambda: server.most_in_flight >= allowed)
        while not all(one.done() for one in asking):
            await clock.advance(1.0)
        assert [one.result() for one in asking] == [b"x"] * count
    return server


async def test_many_questions_are_in_flight_at_once() -> None:
    assert (await at_once(35, connections=40)).most_in_flight == 35


async def test_connections_are_bounded_and_the_rest_waits() -> None:
    assert (await at_once(20, connections=6)).most_in_flight == 6


async def test_a_request_that_got_no_connection_in_time_names_the_setting() -> None:
    never = ScriptedResponse(ending=ResponseEnding.NEVER)
    async with LoopbackServer(lambda _: never) as server, reading(connections=1) as http:
        first = asyncio.ensure_future(http.post(server.address, {}, max_bytes=1))
        await server.wait_until(lambda: server.in_flight == 1)
        with capture_logs() as logged:
            asked = [http.post(server.address, {}, max_bytes=1, deadline_s=0.05) for _ in range(2)]
            errors = await asyncio.gather(*asked, return_exceptions=True)
        first.cancel()
    assert all("one of 1 connections; raise connections in" in str(error) for error in errors)
    assert [error.__cause__ for error in errors if isinstance(error, ServiceUnavailableError)] == [None, None]
    assert [(one["log_level"], one["limit"]) for one in logged] == [("warning", 1)]
    assert server.received == 1


async def test_a_question_of_several_megabytes_arrives_whole() -> None:
    async with (
        LoopbackServer(lambda sent: ScriptedResponse(body=str(len(sent.body)).encode())) as server,
        reading() as http,
    ):
        assert await http.post(server.address, "x" * 3_000_000, max_bytes=100) == b"3000002"


async def test_one_after_another_needs_one_connection() -> None:
    async with LoopbackServer(lambda _: ScriptedResponse(body=b"x")) as server, reading() as http:
        for _ in range(5):
            await http.post(server.address, {}, max_bytes=1)
    assert server.connections == 1


async def test_connections_of_a_crowd_are_used_again() -> None:
    async with LoopbackServer(lambda _: ScriptedResponse(body=b"x")) as server, reading() as http:
        for _ in range(3):
            await asyncio.gather(*(http.post(server.address, {}, max_bytes=1) for _ in range(20)))
    assert server.connections <= 20


async def test_an_idle_connection_to_another_host_takes_no_room_and_is_used_again() -> None:
    async with (
        LoopbackServer(lambda _: ScriptedResponse(body=b"1")) as one,
        LoopbackServer(lambda _: ScriptedResponse(body=b"2")) as other,
        reading(connections=1) as http,
    ):
        for _ in range(2):
            assert await http.post(one.address, {}, max_bytes=1) == b"1"
            assert await http.post(other.address, {}, max_bytes=1) == b"2"
    assert (one.connections, other.connections) == (1, 1)


@pytest.mark.parametrize("headers", [{"X-Key": "clé-secret"}, {"X-Ké": "plain"}])
async def test_a_header_that_cannot_be_sent_is_told_without_its_value(headers: dict[str, str]) -> None:
    async with LoopbackServer(lambda _: ScriptedResponse(body=b"x")) as server, reading() as http:
        with pytest.raises(ConfigError, match="headers cannot carry") as caught:
            await http.post(server.address, {}, max_bytes=1, headers=headers)
    assert "secret" not in str(caught.value)
    assert server.received == 0
