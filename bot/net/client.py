"""The HTTP client for known services.

Bounded reads with retries, posts without, and the one place where a status code becomes an error. Writes to venues go
through bot.net.write_client.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    HttpRefusal,
    NotFound,
    Rejected,
    ServerUnreachable,
    Unauthorized,
    Unavailable,
)
from bot.net.clock_skew import ClockSkew
from bot.net.rate_limit import RateLimiter, RequestSlot, parse_retry_after
from bot.net.response_body import header_value, quote_reply, read_body, read_error_reply
from bot.net.urls import loggable_url

if TYPE_CHECKING:
    import ssl

    import httpcore
    import numpy as np

    from bot.domain.step import Json
    from bot.ports import Clock, Random

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# 402 is what model providers answer when the account is empty: like a bad key, a matter for the operator.
_REFUSED_CREDENTIALS = frozenset({401, 402, 403})
_GONE = frozenset({404, 410})
_TRY_LATER, _TOO_MANY_REQUESTS = frozenset({408, 425, 429}), 429
_UNREACHABLE_TEXT = "cannot be reached: look at the address and the network, and whether the server runs"
_DROPPED_TEXT = "dropped the connection before its answer was whole; it may help to try again"
_DEFAULT_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "foxcast", "Accept": "*/*"}
# Many servers close what was idle for five seconds, and a question sent at that moment would be lost.
_KEEPALIVE_S = 5.0
# A connection that was not used for so long is given back to the system.
_IDLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how often: ``deadline_s`` bounds one attempt from connecting to the last byte.

    ``connect_s`` bounds connecting alone: a host that never answers is not waited for as long as a slow reply is.
    Waits between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most
    ``longest_wait_s``; a server that asks for more than that is not tried again by the same call.
    ``connections`` bounds those open at once.
    """

    deadline_s: float = 30.0
    connect_s: float = 10.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 800


DEFAULT_HTTP_LIMITS = HttpLimits()


class RetryingHttpClient:
    """Implements ``bot.ports.Http``; a connection is opened by a request that finds none idle.

    Environment variables (proxies, .netrc) are ignored. Neither errors nor logs show the query of an address.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        limits: HttpLimits = DEFAULT_HTTP_LIMITS,
        rates: RateLimiter | None = None,
    ) -> None:
        self._clock = clock
        self._random = random
        self._limits = limits
        self._rates = rates or RateLimiter((), clock=clock, random=random)
        self._connection_slots = asyncio.Semaphore(limits.connections)
        self._connections: set[_PooledConnection] = set()
        # Those that are not in use, the one that was used last at the end.
        self._idle: dict[_PooledConnection, None] = {}
        self._tls: ssl.SSLContext | None = None
        self._jitter: np.random.Generator | None = None
        self._clock_skew = ClockSkew(clock)

    @property
    def clock_skew_s(self) -> float | None:
        """By how many seconds this clock is ahead of that of the venues; None where none has answered yet."""
        return self._clock_skew.ahead_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next request would open a new one."""
        lines, self._connections, self._idle = self._connections, set(), {}
        for line in lines:
            await line.connection.aclose()

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer.

        Raises Unavailable (after the retries) for a failing transport, a missed deadline, 408, 425, 429 and 5xx,
        with the wait that was asked for, which is 0.0 for a 429 that names none, and at once where a pause that was
        asked for earlier is longer than a call waits; ServerUnreachable, one of these, where no connection is made;
        Unauthorized for 401 and 403; NotFound for 404 and 410; Rejected for any other 4xx; ContractError for another
        status, a body of more than ``max_bytes`` bytes, an encoding that was not asked for, or a redirect to another
        host; ConfigError for an address that is none.
        """
        _require_address(url)
        request = _HttpRequest("GET", url, dict(headers or {}), max_bytes)
        attempt = 1
        while True:
            try:
                return await self._attempt(request, self._limits.deadline_s)
            except Unavailable as error:
                wait_s = self._wait_s(attempt, error.retry_after_s or 0.0)
                if attempt >= self._limits.attempts or wait_s > self._limits.longest_wait_s:
                    raise
            attempt += 1
            await self._clock.sleep(wait_s)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        """Send JSON once, without retries, and return the unpacked body of a 200 answer; errors as ``get`` raises them.

        Where it broke off after the question had begun to leave, which may have been worked on and billed, Unavailable
        has a TimeoutError or a ConnectionError as its cause. Where nobody was reached it is ServerUnreachable.
        A redirect is a ContractError, and an error below 500 quotes the beginning of what the other side says; each
        error that stands for an answer has it as its ``refusal``.
        Half a surrogate pair, which has no UTF-8 form, goes out as a question mark.
        """
        _require_address(url)
        content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
        said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        request = _HttpRequest(
            "POST", url, {**said, "Content-Length": str(len(content))}, max_bytes, _RequestBody(content)
        )
        return await self._attempt(request, self._limits.deadline_s if deadline_s is None else deadline_s)

    async def _attempt(self, request: _HttpRequest, deadline_s: float) -> bytes:
        """Ask once, redirects followed; the deadline does not run while a turn is waited for."""
        url, left_s, time = request.url, deadline_s, asyncio.get_running_loop().time
        for _ in range(self._limits.redirects + 1):
            async with self._rates.acquire(request.method, url, patience_s=self._limits.longest_wait_s) as turn:
                began = time()
                came = await self._send_request(request, url, turn, left_s)
                left_s -= time() - began
            if isinstance(came, bytes):
                return came
            url = came
        message = f"{loggable_url(url)}: more than {self._limits.redirects} redirects"
        raise ContractError(message)

    async def _send_request(self, request: _HttpRequest, url: str, turn: RequestSlot, left_s: float) -> bytes | str:
        """Return the body, or where it redirects to."""
        import httpcore  # noqa: PLC0415 - a tenth of a second, and most commands read no address

        try:
            async with asyncio.timeout(left_s):
                return await self._exchange(request, url, turn)
        except TimeoutError as error:
            message = f"{loggable_url(url)}: no complete answer within {left_s:g} s"
            raise Unavailable(message) from (error if request.sent else None)
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            # Their own message may hold the whole address.
            message = f"{loggable_url(url)} {_UNREACHABLE_TEXT}"
            raise ServerUnreachable(message) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
            message = f"{loggable_url(url)} {_DROPPED_TEXT}"
            raise Unavailable(message) from (ConnectionResetError(message) if request.sent else None)

    async def _exchange(self, request: _HttpRequest, url: str, turn: RequestSlot) -> bytes | str:
        target = _parse_url(url)
        async with (
            self._connection(target) as connection,
            connection.stream(
                request.method,
                target,
                headers=request.wire_headers,
                content=request.content,
                extensions={"timeout": {"connect": self._limits.connect_s}},
            ) as response,
        ):
            turn.record_answer(
                response.status, {name.decode("latin-1"): text.decode("latin-1") for name, text in response.headers}
            )
            if request.method == "GET" and self._rates.applies_to("GET", url):
                self._clock_skew.compare(header_value(response, b"date"), header_value(response, b"age"))
            if response.status in _REDIRECTS and request.method == "GET":
                return _same_host_redirect(url, header_value(response, b"location"))
            await self._raise_for_status(response, url, request)
            return await read_body(response, request.max_bytes, loggable_url(url))

    async def _raise_for_status(self, response: httpcore.Response, url: str, request: _HttpRequest) -> None:
        status = response.status
        if status == 200:
            return
        # What is said of credentials tells a key that is not taken from an item that it may not see.
        asked = request.method == "POST"
        said = await read_error_reply(response, request.headers) if asked or status in _REFUSED_CREDENTIALS else ""
        beginning = quote_reply(said, sentence=status == _TOO_MANY_REQUESTS) if asked and status < 500 else ""
        error = self._error_for_status(response, f"{loggable_url(url)}: status {status}{beginning}")
        error.refusal = HttpRefusal(status=status, body=said)
        raise error

    def _error_for_status(self, response: httpcore.Response, message: str) -> FoxcastError:
        status = response.status
        if status in _REFUSED_CREDENTIALS:
            return Unauthorized(message)
        if status in _GONE:
            return NotFound(message)
        if status in _TRY_LATER or status >= 500:
            asked_s = parse_retry_after(header_value(response, b"retry-after"), now=self._clock.now())
            return Unavailable(
                message, retry_after_s=0.0 if asked_s is None and status == _TOO_MANY_REQUESTS else asked_s
            )
        return Rejected(message) if status >= 400 else ContractError(message)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        self._jitter = self._jitter or self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))

    @asynccontextmanager
    async def _connection(self, url: httpcore.URL) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """Lend a connection: the one to this host that was used last, or a new one, for which one may have to go."""
        async with self._connection_slots:
            oldest = next(iter(self._idle), None)
            if oldest is not None and self._clock.monotonic() - oldest.used_at > _IDLE_S:
                await self._close(oldest)
            line = next((line for line in reversed(self._idle) if line.connection.can_handle_request(url.origin)), None)
            if line is None or line.connection.has_expired():
                line = await self._opened(url.origin, line)
            self._idle.pop(line, None)
            try:
                yield line.connection
            finally:
                line.used_at = self._clock.monotonic()
                if line.connection.is_closed():
                    self._connections.discard(line)
                elif line in self._connections:
                    self._idle[line] = None

    async def _close(self, line: _PooledConnection) -> None:
        self._idle.pop(line, None)
        self._connections.discard(line)
        await line.connection.aclose()

    async def _opened(self, origin: httpcore.Origin, expired: _PooledConnection | None) -> _PooledConnection:
        import httpcore  # noqa: PLC0415 - as above
        import httpx  # noqa: PLC0415 - as above

        if self._tls is None:
            # Below WARNING it logs whole addresses, with keys in their queries, and cookies.
            logging.getLogger("httpcore").setLevel(logging.WARNING)
            # Reading the certificates takes longer than a request.
            self._tls = httpx.create_ssl_context(trust_env=False)
        if expired is not None:
            await self._close(expired)
        while self._idle and len(self._connections) >= self._limits.connections:
            await self._close(next(iter(self._idle)))
        line = _PooledConnection(
            httpcore.AsyncHTTPConnection(origin, ssl_context=self._tls, keepalive_expiry=_KEEPALIVE_S)
        )
        self._connections.add(line)
        return line


@dataclass(slots=True, eq=False)
class _PooledConnection:
    """A connection, lent to one request at a time, and when it was given back."""

    connection: httpcore.AsyncHTTPConnection
    used_at: float = 0.0


@dataclass(slots=True)
class _RequestBody:
    """The body of a question, which leaves once; ``sent`` says that it has begun to."""

    content: bytes
    sent: bool = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self.sent:
            raise StopAsyncIteration
        self.sent = True
        return self.content


@dataclass(frozen=True, slots=True)
class _HttpRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: _RequestBody | None = None

    @property
    def sent(self) -> bool:
        return self.content is not None and self.content.sent

    @property
    def wire_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they go out, ours where none is given; raises ConfigError for what no header can carry."""
        given = {name.lower() for name in self.headers}
        ours = ((name, value) for name, value in _DEFAULT_HEADERS.items() if name.lower() not in given)
        try:
            return [(name.encode("ascii"), text.encode("ascii")) for name, text in (*ours, *self.headers.items())]
        except UnicodeEncodeError:
            message = (
                f"a header for {loggable_url(self.url)} has a character that headers cannot carry; correct it in config"
            )
            raise ConfigError(message) from None


def _same_host_redirect(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
    except ValueError:
        _raise_contract_error(f"{loggable_url(url)}: redirects to what is no address")
    if not location or (before.scheme, before.netloc) != (after.scheme, after.netloc):
        _raise_contract_error(f"{loggable_url(url)}: redirects to {loggable_url(target)}, which is not the same host")
    return target


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:  # an open bracket, or a port that is no number up to 65535
        message = "an address to be read is malformed"
        raise ConfigError(message) from None
    if not usable:
        message = f"{loggable_url(url)} is not an http or https address without user name"
        raise ConfigError(message)


@lru_cache(maxsize=256)
def _parse_url(url: str) -> httpcore.URL:
    """Return an address as it goes over the wire; raises ConfigError."""
    import httpcore  # noqa: PLC0415 - as above
    import httpx  # noqa: PLC0415 - as above

    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        message = f"{loggable_url(url)} is not an address"
        raise ConfigError(message) from None
    return httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)


def _raise_contract_error(message: str) -> NoReturn:
    raise ContractError(message)
