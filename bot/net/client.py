"""The HTTP client for known services.

Bounded reads with retries, posts without, and the one place where a status code becomes an error. Writes to venues go
through bot.net.write_client.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

import structlog
from pydantic_core import PydanticSerializationError, to_json

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
from bot.core.light_dataclass import dataclass
from bot.core.proxy_settings import NO_PROXY, ProxySettings
from bot.net.connections import PROXY_REMEDY, ProxySelector, describe_proxy_status, loggable_proxy
from bot.net.rate_headers import report_response_headers, retry_after_s
from bot.net.rate_limit import RateLimiter, RequestSlot
from bot.net.response_body import MAX_QUOTED_BYTES, BoundedBody, quote_reply, read_error_reply
from bot.net.urls import loggable_url

if TYPE_CHECKING:
    import aiohttp
    import numpy as np

    from bot.core.interfaces import Clock, RandomStreams
    from bot.core.values import Json
    from bot.net.pooled_session import PooledSession, RequestProgress

log = structlog.get_logger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Model providers answer 402 when the account is empty; the operator must act, as for an invalid key.
_REFUSED_CREDENTIALS = frozenset({401, 402, 403})
_NOT_FOUND = frozenset({404, 410})
_TRY_LATER, _TOO_MANY_REQUESTS = frozenset({408, 425, 429}), 429
_PROXY_CREDENTIALS_REQUIRED = 407
_UNREACHABLE_TEXT = "cannot be reached: check the address, the network, and whether the server runs"
_DROPPED_TEXT = "dropped the connection before its response was complete; it may help to try again"
# The skew is the median over the last few responses, so that the wrong clock of one server does not decide it.
_COMPARED_RESPONSES = 3
_CONNECTIONS_REMEDY = "raise connections in [http] of config"
_DEFAULT_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "foxcast", "Accept": "*/*"}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Timeouts, attempts and connections of a client.

    ``deadline_s`` bounds one attempt from connecting to the last byte, ``connect_s`` the connecting alone. Waits
    between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most ``longest_wait_s``; if
    a server asks for a longer wait, the same call does not try again. ``connections`` bounds the open connections
    through each proxy and without one. A connection that was idle for ``keepalive_s`` is not used again, because many
    servers close a connection after five idle seconds and a request sent at that moment would be lost.
    """

    deadline_s: float = 30.0
    connect_s: float = 10.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 1000
    keepalive_s: float = 5.0


DEFAULT_HTTP_LIMITS = HttpLimits()


class RetryingHttpClient:
    """Implements ``bot.core.interfaces.HttpClient``; a request that finds no idle connection opens one.

    Cookies are not kept, and .netrc is ignored; so are environment variables unless ``proxies`` says otherwise.
    Neither errors nor logs show the query of an address or the password of a proxy.
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
        self._proxies = ProxySelector(proxies)
        self._session: PooledSession | None = None
        self._in_flight = 0
        self._is_bound_logged = False
        self._jitter: np.random.Generator | None = None
        self._clock_skew = _ClockSkewEstimator(clock)

    @property
    def clock_skew_s(self) -> float | None:
        """How many seconds this clock is ahead of the clocks of the venues; None before the first response."""
        return self._clock_skew.ahead_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next request opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a response with status 200.

        Raises ServiceUnavailableError after the retries for a failed transport, a missed deadline, 408, 425, 429 and
        5xx, with the wait that the server asked for (0.0 for a 429 that names none); at once if a pause that it asked
        for earlier is longer than a call waits. Its subclass ServerUnreachableError means that no connection was made,
        for example because a proxy refused. Raises AuthenticationError for 401, 402 and 403, NotFoundError for 404 and
        410, RequestRejectedError for any other 4xx, and ConfigError for an invalid address. Raises MalformedDataError
        for another status, a body of more than ``max_bytes`` bytes, an encoding that was not requested, and a redirect
        to another host.
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
        """Send JSON once, without retries, and return the unpacked body of a 200 response; errors as for ``get``.

        If the exchange ended after sending had begun, the server may have handled and billed the request: then
        ServiceUnavailableError has a TimeoutError or a ConnectionError as its cause. A redirect is a
        MalformedDataError. An error for a status below 500 quotes the beginning of the body; each error for a response
        has it as its ``refusal``. Half a surrogate pair, which has no UTF-8 form, is sent as a question mark.
        """
        _require_address(url)
        content = _encode_body(body)
        all_headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        request = _HttpRequest("POST", url, all_headers, max_bytes, content)
        return await self._attempt(request, self._limits.deadline_s if deadline_s is None else deadline_s)

    async def _attempt(self, request: _HttpRequest, deadline_s: float) -> bytes:
        """Send once and follow redirects; the deadline does not run while the request waits for the rate limits."""
        url, left_s, time = request.url, deadline_s, asyncio.get_running_loop().time
        for _ in range(self._limits.redirects + 1):
            async with self._rates.acquire(request.method, url, patience_s=self._limits.longest_wait_s) as slot:
                began = time()
                result = await self._send_request(request, url, slot, left_s)
                left_s -= time() - began
            if isinstance(result, bytes):
                return result
            url = result
        message = f"{loggable_url(url)}: more than {self._limits.redirects} redirects"
        raise MalformedDataError(message)

    async def _send_request(self, request: _HttpRequest, url: str, slot: RequestSlot, left_s: float) -> bytes | str:
        """Return the body, or the address of a redirect."""
        import aiohttp  # noqa: PLC0415 - a quarter of a second, and most commands read no address

        from bot.net.pooled_session import RequestProgress  # noqa: PLC0415 - as above

        progress = RequestProgress()
        failure: ServiceUnavailableError
        cause: OSError | None = None
        is_full = self._count_request()
        try:
            async with asyncio.timeout(left_s):
                return await self._exchange(request, url, slot, progress)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            failure = ServerUnreachableError(f"{loggable_url(url)} {self._unreachable_text(url)}")
        except aiohttp.ClientHttpProxyError as error:
            failure = ServerUnreachableError(f"{loggable_url(url)}: {describe_proxy_status(error.status)}")
        except TimeoutError:
            waited = f", waiting for one of {self._limits.connections} connections; {_CONNECTIONS_REMEDY}"
            is_waiting = is_full and not progress.request_started
            failure = ServiceUnavailableError(
                f"{loggable_url(url)}: no complete response within {left_s:g} s{waited if is_waiting else ''}"
            )
            cause = TimeoutError(str(failure)) if progress.request_started else None
        except (aiohttp.ClientError, OSError):
            failure = ServiceUnavailableError(f"{loggable_url(url)} {_DROPPED_TEXT}")
            cause = ConnectionResetError(str(failure)) if progress.request_started else None
        finally:
            self._in_flight -= 1
        # Outside the handlers: errors of the library hold the request, and their texts may hold the whole address.
        raise failure from cause

    def _count_request(self) -> bool:
        """Count one more request in flight; return whether it has to wait for a connection, which is logged once."""
        self._in_flight += 1
        is_full = self._in_flight > self._limits.connections
        if is_full and not self._is_bound_logged:
            self._is_bound_logged = True
            log.warning(
                "all connections are in use; requests wait", limit=self._limits.connections, remedy=_CONNECTIONS_REMEDY
            )
        return is_full

    def _unreachable_text(self, url: str) -> str:
        proxy = self._proxies.proxy_for_url(url)
        if proxy is None:
            return _UNREACHABLE_TEXT
        return f"cannot be reached through the proxy {loggable_proxy(proxy)}; {PROXY_REMEDY}"

    async def _exchange(
        self, request: _HttpRequest, url: str, slot: RequestSlot, progress: RequestProgress
    ) -> bytes | str:
        session = self._session or self._open_session()
        response = await session.send(request.method, url, request.all_headers(), request.content, progress)
        try:
            slot.record_response(response.status, response.headers)
            if request.method == "POST":
                report_response_headers(response.headers)
            if request.method == "GET" and self._rates.applies_to("GET", url):
                self._clock_skew.add_response(response.headers.get("date", ""), response.headers.get("age", ""))
            if response.status in _REDIRECTS and request.method == "GET":
                return _same_host_redirect(url, response.headers.get("location", ""))
            await self._raise_for_status(response, url, request)
            return await _read_response(response, request.max_bytes, loggable_url(url))
        finally:
            response.close()

    def _open_session(self) -> PooledSession:
        from bot.net.pooled_session import PooledSession  # noqa: PLC0415 - as above

        limits = self._limits
        self._session = PooledSession(
            self._proxies,
            connections=limits.connections,
            keepalive_s=limits.keepalive_s,
            connect_s=limits.connect_s,
        )
        return self._session

    async def _raise_for_status(self, response: aiohttp.ClientResponse, url: str, request: _HttpRequest) -> None:
        status = response.status
        if status == 200:
            return
        if status == _PROXY_CREDENTIALS_REQUIRED and self._proxies.proxy_for_url(url) is not None:
            message = f"{loggable_url(url)}: {describe_proxy_status(status)}"
            raise ServerUnreachableError(message)
        # The body for refused credentials tells an invalid key apart from an item that a valid key may not see.
        is_post = request.method == "POST"
        reply = ""
        if is_post or status in _REFUSED_CREDENTIALS:
            reply = await read_error_reply(_read_response(response, MAX_QUOTED_BYTES, ""), request.headers)
        quote = quote_reply(reply, only_message=status == _TOO_MANY_REQUESTS) if is_post and status < 500 else ""
        error = self._error_for_status(response, f"{loggable_url(url)}: status {status}{quote}")
        error.refusal = HttpErrorResponse(status=status, body=reply)
        raise error

    def _error_for_status(self, response: aiohttp.ClientResponse, message: str) -> FoxcastError:
        status = response.status
        if status in _REFUSED_CREDENTIALS:
            return AuthenticationError(message)
        if status in _NOT_FOUND:
            return NotFoundError(message)
        if status in _TRY_LATER or status >= 500:
            asked_s = retry_after_s(response.headers, now=self._clock.now())
            return ServiceUnavailableError(
                message, retry_after_s=0.0 if asked_s is None and status == _TOO_MANY_REQUESTS else asked_s
            )
        return RequestRejectedError(message) if status >= 400 else MalformedDataError(message)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        self._jitter = self._jitter or self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))


class _ClockSkewEstimator:
    """Estimates how far the wall clock is ahead of the clocks of servers, by the Date headers of their responses.

    Skews are kept relative to the monotonic clock, so a change of the wall clock shows at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._skews_s: deque[float] = deque(maxlen=_COMPARED_RESPONSES)

    @property
    def ahead_s(self) -> float | None:
        """How many seconds the wall clock is ahead, by the median of the last responses; None before the first."""
        if not self._skews_s:
            return None
        return sorted(self._skews_s)[len(self._skews_s) // 2] + self._wall_offset_s()

    def add_response(self, date: str, age: str) -> None:
        """Add the Date of a response, unless it is from a cache (RFC 9110, section 6.6.1) or invalid."""
        try:
            server_time = parsedate_to_datetime(date)
        except (ValueError, OverflowError):
            return
        if server_time.tzinfo is not None and age in {"", "0"}:
            # A Date has whole seconds, so on average it is half a second behind.
            ahead_s = (self._clock.now() - server_time).total_seconds() - 0.5
            self._skews_s.append(ahead_s - self._wall_offset_s())

    def _wall_offset_s(self) -> float:
        """Return the wall clock minus the monotonic one in seconds; it changes only if the wall clock is set."""
        return self._clock.now().timestamp() - self._clock.monotonic()


@dataclass(frozen=True, slots=True)
class _HttpRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: bytes | None = None

    def all_headers(self) -> Mapping[str, str]:
        """Return the headers with the usual ones; raises ConfigError for one that cannot be sent."""
        headers = _complete_headers(tuple(self.headers.items()))
        if headers is None:
            message = (
                f"a header for {loggable_url(self.url)} has a character that headers cannot carry; correct it in config"
            )
            raise ConfigError(message)
        return headers


# A model is asked with the same headers each time.
@lru_cache(maxsize=64)
def _complete_headers(given: tuple[tuple[str, str], ...]) -> Mapping[str, str] | None:
    """Return headers with the usual ones; None where one cannot be sent."""
    if not all(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value) for name, value in given):
        return None
    names = {name.lower() for name, _ in given}
    usual = {name: value for name, value in _DEFAULT_HEADERS.items() if name.lower() not in names}
    return MappingProxyType({**usual, **dict(given)})


def _encode_body(body: Json) -> bytes:
    """Return JSON as UTF-8; raises ValueError for a number that JSON does not have."""
    # A prompt with its tools takes a third of the time of the standard library.
    try:
        content = to_json(body, inf_nan_mode="constants")
    except PydanticSerializationError:  # half a surrogate pair
        content = b"NaN"
    if b"NaN" in content or b"Infinity" in content:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
    return content


async def _read_response(response: aiohttp.ClientResponse, max_bytes: int, shown: str) -> bytes:
    body = BoundedBody(max_bytes, encoding=response.headers.get("content-encoding", ""), shown=shown)
    content = response.content
    while chunk := await content.readany():
        body.feed(chunk)
    return body.finish()


def _same_host_redirect(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
    except ValueError:
        _raise_malformed(f"{loggable_url(url)}: redirects to an invalid address")
    if not location or (before.scheme, before.netloc) != (after.scheme, after.netloc):
        _raise_malformed(f"{loggable_url(url)}: redirects to another host: {loggable_url(target)}")
    return target


@lru_cache(maxsize=256)
def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:  # an open bracket, or a port that is not a number up to 65535
        message = "the address of a request is malformed"
        raise ConfigError(message) from None
    if not usable:
        message = f"{loggable_url(url)} is not an http or https address without user name"
        raise ConfigError(message)


def _raise_malformed(message: str) -> NoReturn:
    raise MalformedDataError(message)
