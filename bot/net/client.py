"""The HTTP client for known services.

Bounded reads with retries, posts without, and the one place where a status code becomes an error. Writes to venues go
through bot.net.write_client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    HttpErrorResponse,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
)
from bot.core.proxy_settings import NO_PROXY, ProxySettings
from bot.net.clock_skew import ClockSkew
from bot.net.connections import (
    PROXY_REMEDY,
    HttpClientPool,
    SendTrace,
    describe_proxy_error,
    describe_proxy_status,
    loggable_proxy,
    send_once,
)
from bot.net.rate_limit import RateLimiter, RequestSlot, parse_retry_after
from bot.net.response_body import quote_reply, read_body, read_error_reply
from bot.net.urls import loggable_url

if TYPE_CHECKING:
    import httpx
    import numpy as np

    from bot.core.interfaces import Clock, RandomStreams
    from bot.core.values import Json

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# 402 is what model providers answer when the account is empty: like a bad key, a matter for the operator.
_REFUSED_CREDENTIALS = frozenset({401, 402, 403})
_GONE = frozenset({404, 410})
_TRY_LATER, _TOO_MANY_REQUESTS = frozenset({408, 425, 429}), 429
_PROXY_CREDENTIALS_REQUIRED = 407
_UNREACHABLE_TEXT = "cannot be reached: look at the address and the network, and whether the server runs"
_DROPPED_TEXT = "dropped the connection before its answer was whole; it may help to try again"
_DEFAULT_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "foxcast", "Accept": "*/*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how often: ``deadline_s`` bounds one attempt from connecting to the last byte.

    ``connect_s`` bounds connecting alone: a host that never answers is not waited for as long as a slow reply is.
    Waits between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most
    ``longest_wait_s``; a server that asks for more than that is not tried again by the same call.
    ``connections`` bounds those open at once, through each proxy and without one. Many servers close what was idle for
    five seconds, and a question sent at that moment would be lost: after ``keepalive_s`` none is used again.
    """

    deadline_s: float = 30.0
    connect_s: float = 10.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 800
    keepalive_s: float = 5.0


DEFAULT_HTTP_LIMITS = HttpLimits()


class RetryingHttpClient:
    """Implements ``bot.core.interfaces.HttpClient``; a connection is opened by a request that finds none idle.

    Cookies are not kept, and .netrc is ignored; so are the other environment variables unless ``proxies`` says so.
    Neither errors nor logs show the query of an address, or the password of a proxy.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        random: RandomStreams,
        limits: HttpLimits = DEFAULT_HTTP_LIMITS,
        rates: RateLimiter | None = None,
        proxies: ProxySettings = NO_PROXY,
    ) -> None:
        self._clock = clock
        self._random = random
        self._limits = limits
        self._rates = rates or RateLimiter((), clock=clock, random=random)
        self._pool = HttpClientPool(
            proxies, connections=limits.connections, keepalive_s=limits.keepalive_s, connect_s=limits.connect_s
        )
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
        await self._pool.aclose()

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer.

        Raises Unavailable (after the retries) for a failing transport, a missed deadline, 408, 425, 429 and 5xx,
        with the wait that was asked for, which is 0.0 for a 429 that names none, and at once where a pause that was
        asked for earlier is longer than a call waits; ServerUnreachable, one of these, where no connection is made,
        also because a proxy refuses;
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
            except ServiceUnavailableError as error:
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
        request = _HttpRequest("POST", url, said, max_bytes, content)
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
        raise MalformedDataError(message)

    async def _send_request(self, request: _HttpRequest, url: str, turn: RequestSlot, left_s: float) -> bytes | str:
        """Return the body, or where it redirects to."""
        import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

        trace = SendTrace()
        failure: ServiceUnavailableError
        cause: OSError | None = None
        try:
            async with asyncio.timeout(left_s):
                return await self._exchange(request, url, turn, trace)
        except TimeoutError:
            failure = ServiceUnavailableError(f"{loggable_url(url)}: no complete answer within {left_s:g} s")
            cause = TimeoutError(str(failure)) if trace.request_started else None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            failure = ServerUnreachableError(f"{loggable_url(url)} {self._unreachable_text(url)}")
        except httpx.ProxyError as error:
            failure = ServerUnreachableError(f"{loggable_url(url)}: {describe_proxy_error(error)}")
        except httpx.TransportError:
            failure = ServiceUnavailableError(f"{loggable_url(url)} {_DROPPED_TEXT}")
            cause = ConnectionResetError(str(failure)) if trace.request_started else None
        finally:
            await trace.close_unfinished()
        # Outside of the handlers: errors of the library hold the request, and their texts may hold the whole address.
        raise failure from cause

    def _unreachable_text(self, url: str) -> str:
        proxy = self._pool.proxies.proxy_for_url(url)
        if proxy is None:
            return _UNREACHABLE_TEXT
        return f"cannot be reached through the proxy {loggable_proxy(proxy)}; {PROXY_REMEDY}"

    async def _exchange(self, request: _HttpRequest, url: str, turn: RequestSlot, trace: SendTrace) -> bytes | str:
        response = await send_once(self._pool.client_for(url), request.to_library(url, trace))
        try:
            turn.record_answer(response.status_code, response.headers)
            if request.method == "GET" and self._rates.applies_to("GET", url):
                self._clock_skew.compare(response.headers.get("date", ""), response.headers.get("age", ""))
            if response.status_code in _REDIRECTS and request.method == "GET":
                return _same_host_redirect(url, response.headers.get("location", ""))
            await self._raise_for_status(response, url, request)
            return await read_body(response, request.max_bytes, loggable_url(url))
        finally:
            await response.aclose()

    async def _raise_for_status(self, response: httpx.Response, url: str, request: _HttpRequest) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == _PROXY_CREDENTIALS_REQUIRED and self._pool.proxies.proxy_for_url(url) is not None:
            message = f"{loggable_url(url)}: {describe_proxy_status(status)}"
            raise ServerUnreachableError(message)
        # What is said of credentials tells a key that is not taken from an item that it may not see.
        asked = request.method == "POST"
        said = await read_error_reply(response, request.headers) if asked or status in _REFUSED_CREDENTIALS else ""
        beginning = quote_reply(said, sentence=status == _TOO_MANY_REQUESTS) if asked and status < 500 else ""
        error = self._error_for_status(response, f"{loggable_url(url)}: status {status}{beginning}")
        error.refusal = HttpErrorResponse(status=status, body=said)
        raise error

    def _error_for_status(self, response: httpx.Response, message: str) -> FoxcastError:
        status = response.status_code
        if status in _REFUSED_CREDENTIALS:
            return AuthenticationError(message)
        if status in _GONE:
            return NotFoundError(message)
        if status in _TRY_LATER or status >= 500:
            asked_s = parse_retry_after(response.headers.get("retry-after", ""), now=self._clock.now())
            return ServiceUnavailableError(
                message, retry_after_s=0.0 if asked_s is None and status == _TOO_MANY_REQUESTS else asked_s
            )
        return RequestRejectedError(message) if status >= 400 else MalformedDataError(message)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        self._jitter = self._jitter or self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))


@dataclass(frozen=True, slots=True)
class _HttpRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: bytes | None = None

    def to_library(self, url: str, trace: SendTrace) -> httpx.Request:
        """Return the request to that address for the library; raises ConfigError for what no header can carry."""
        import httpx  # noqa: PLC0415 - as above

        try:
            headers = httpx.Headers(_DEFAULT_HEADERS)
            headers.update(self.headers)
        except UnicodeEncodeError:
            message = (
                f"a header for {loggable_url(self.url)} has a character that headers cannot carry; correct it in config"
            )
            raise ConfigError(message) from None
        return httpx.Request(
            self.method, _parse_url(url), headers=headers, content=self.content, extensions={"trace": trace}
        )


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
def _parse_url(url: str) -> httpx.URL:
    """Return an address as it goes over the wire; raises ConfigError."""
    import httpx  # noqa: PLC0415 - as above

    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        message = f"{loggable_url(url)} is not an address"
        raise ConfigError(message) from None


def _raise_contract_error(message: str) -> NoReturn:
    raise MalformedDataError(message)
