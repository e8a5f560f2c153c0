"""The HTTP client for writes: one request, one response of any status, no retries.

An error says whether nothing was sent (RequestRejectedError) or the request may have arrived (ServiceUnavailableError).
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import urlsplit

from bot.core.errors import ConfigError, RequestRejectedError, ServiceUnavailableError
from bot.core.proxy_settings import NO_PROXY, ProxySettings
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.net import load_httpx
from bot.net.connections import HttpClientPool, SendTrace, describe_proxy_error, send_once
from bot.net.response_body import read_body
from bot.net.urls import is_loopback_host, loggable_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bot.net.rate_limit import RateLimiter, RequestSlot

HaltCheck: TypeAlias = "Callable[[], str | None]"
# Connections are not reused, so this is the number of concurrent writes.
MAX_CONNECTIONS = 20
_METHOD = re.compile(r"[A-Z]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
# Set by the library: a length other than that of the body would split the request in two.
_FRAMING_HEADERS = frozenset({"connection", "content-length", "expect", "host", "transfer-encoding", "upgrade"})


class HttpWriteClient:
    """Implements ``bot.core.interfaces.WriteClient``.

    A connection serves one request. Cookies are not kept, and .netrc is ignored; so are the other environment
    variables unless ``proxies`` says otherwise.
    Neither errors nor logs show headers, bodies or the query of an address. ``halt_check`` returns why nothing may be
    sent now, or None. It is called when the rate limits allow a request, which may be long after the decision to send.
    """

    def __init__(
        self, *, rates: RateLimiter, halt_check: HaltCheck | None = None, proxies: ProxySettings = NO_PROXY
    ) -> None:
        self._rates = rates
        self._halt_check = halt_check
        self._pool = HttpClientPool(proxies, connections=MAX_CONNECTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next request opens a new one."""
        await self._pool.aclose()

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        """Send once, when the rate limits allow it; the deadline covers all from now to the last byte of the response.

        Raises RequestRejectedError if nothing was sent: no connection, a proxy that refuses, no TLS, no slot of the
        rate limits in time, a halt, or an address or header that cannot be sent, such as plain http to another machine.
        Raises ServiceUnavailableError if the request may have arrived and no complete response came, MalformedDataError
        for a response of more than ``max_bytes`` or in an encoding that was not requested, and StoreError if the rate
        limits or the halt cannot be read; nothing was sent then either.
        """
        load_httpx()
        import httpx  # noqa: PLC0415 - a tenth of a second, and only live venues write

        _require_sendable(request)
        trace, response = SendTrace(), None
        try:
            async with asyncio.timeout(deadline_s):
                async with self._rates.acquire(request.method, request.url, patience_s=deadline_s) as slot:
                    self._require_not_halted(request)
                    response = await self._exchange(request, slot, trace, max_bytes)
        except TimeoutError:
            why = (
                f"no complete response within {deadline_s:g} s"
                if trace.request_started
                else f"no slot of the rate limits or no connection within {deadline_s:g} s"
            )
        except (
            ServiceUnavailableError,
            ConfigError,
        ) as error:  # from the rate limits, a body that was cut short, a proxy
            why = str(error).removeprefix(f"{loggable_url(request.url)}: ")
        except httpx.ProxyError as error:
            why = describe_proxy_error(error)
        except (httpx.TransportError, OSError) as error:
            # The library's own message may hold the whole address.
            why = type(error).__name__
        except (httpx.InvalidURL, UnicodeError):
            why = "the address is malformed"
        finally:
            await trace.close_unfinished()
        if response is not None:
            return response
        # Outside of the handlers, so that no error of the library, which holds the request, is its context.
        if trace.request_started:
            message = f"{loggable_url(request.url)}: {why}; it may have arrived"
            raise ServiceUnavailableError(message)
        message = f"{loggable_url(request.url)}: {why}; nothing was sent"
        raise RequestRejectedError(message)

    def _require_not_halted(self, request: HttpRequest) -> None:
        if self._halt_check is not None and not request.is_cancellation and (why := self._halt_check()) is not None:
            message = f"{loggable_url(request.url)}: {why}; nothing was sent"
            raise RequestRejectedError(message)

    async def _exchange(
        self, request: HttpRequest, slot: RequestSlot, trace: SendTrace, max_bytes: int
    ) -> HttpResponse:
        import httpx  # noqa: PLC0415 - as above

        headers = {"user-agent": "foxcast", "accept-encoding": "identity"}
        headers.update((name.lower(), value) for name, value in request.headers.items())
        response = await send_once(
            self._pool.client_for(request.url),
            httpx.Request(
                request.method, request.url, headers=headers, content=request.body, extensions={"trace": trace}
            ),
        )
        try:
            slot.record_response(response.status_code, response.headers)
            shown = f"{loggable_url(request.url)}: status {response.status_code}"
            encoding = response.headers.get("content-encoding", "")
            body = await read_body(response.aiter_raw(), max_bytes, encoding=encoding, shown=shown)
        finally:
            await response.aclose()
        named = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(status=response.status_code, headers=named, body=body)


def _require_sendable(request: HttpRequest) -> None:
    """Raise RequestRejectedError for a request that must not or cannot be sent; the error shows no values."""
    try:
        parts = urlsplit(request.url)
        host, usable = parts.hostname or "", parts.username is None and parts.port != 0
    except ValueError:  # an open bracket, or a port that is not a number
        host, usable = "", False
    if not usable or not host or not request.url.isascii():
        message = "the address is malformed; nothing was sent"
        raise RequestRejectedError(message)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback_host(host)):
        message = f"{loggable_url(request.url)}: only https is allowed to other machines; nothing was sent"
        raise RequestRejectedError(message)
    invalid = [
        name
        for name, value in request.headers.items()
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value) or name.lower() in _FRAMING_HEADERS
    ]
    if invalid or not _METHOD.fullmatch(request.method):
        message = f"{loggable_url(request.url)}: the method or the headers {invalid} cannot be sent; nothing was sent"
        raise RequestRejectedError(message)
