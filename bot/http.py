"""Bounded reading over HTTP from known services, and the only place where a status code becomes an error.

A body is read raw and unpacked here with a bound, because the library's own decompression has none. Writes never pass
through this module: they must not be repeated, reads may. Connections are those of httpcore, without its pool, which
takes time quadratic in them, and without httpx around it, with which a request takes three times as long.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

from bot.errors import ConfigError, ContractError, NotFound, Rejected, Unauthorized, Unavailable

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
_TRY_LATER, _FULL = frozenset({408, 425, 429}), 429
_UNREACHED = "cannot be reached: look at the address and the network, and whether the server runs"
_LOST = "dropped the connection before its answer was whole; it may help to try again"
QUOTED_BYTES, QUOTED_CHARS = 16_384, 300
_GZIP = 16 + zlib.MAX_WBITS
# Parts of a header's value that are shorter than this are words, not keys.
_KEY_CHARS = 8
_NO_KEYS = frozenset({"content-type", "content-length", "accept"})
_OURS = {"Accept-Encoding": "gzip", "User-Agent": "foxcast", "Accept": "*/*"}
# Many servers close what was idle for five seconds, and a question sent at that moment would be lost.
_KEPT_S = 5.0
# A connection that was not used for so long is given back to the system.
_IDLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how often: ``deadline_s`` bounds one attempt from connecting to the last byte.

    Waits between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most
    ``longest_wait_s``; a server that asks for more than that is not tried again by the same call.
    ``connections`` bounds those open at once.
    """

    deadline_s: float = 30.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 800


DEFAULT_LIMITS = HttpLimits()


class HttpReader:
    """Implements ``bot.ports.Http``; a connection is opened by a request that finds none idle.

    Environment variables (proxies, .netrc) are ignored. Neither errors nor logs show the query of an address.
    """

    def __init__(self, *, clock: Clock, random: Random, limits: HttpLimits = DEFAULT_LIMITS) -> None:
        self._clock = clock
        self._random = random
        self._limits = limits
        self._places = asyncio.Semaphore(limits.connections)
        self._lines: set[_Line] = set()
        # Those that are not in use, the one that was used last at the end.
        self._idle: dict[_Line, None] = {}
        self._tls: ssl.SSLContext | None = None
        self._jitter: np.random.Generator | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next request would open a new one."""
        lines, self._lines, self._idle = self._lines, set(), {}
        for line in lines:
            await line.connection.aclose()

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer.

        Raises Unavailable (after the retries) for a failing transport, a missed deadline, 408, 425, 429 and 5xx,
        with the wait that was asked for, which is 0.0 for a 429 that names none;
        Unauthorized for 401 and 403; NotFound for 404 and 410; Rejected for any other 4xx; ContractError for another
        status, a body of more than ``max_bytes`` bytes, an encoding that was not asked for, or a redirect to another
        host; ConfigError for an address that is none.
        """
        _require_address(url)
        request = _Request("GET", url, dict(headers or {}), max_bytes)
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
        has a TimeoutError or a ConnectionError as its cause; it has none where nobody was reached.
        A redirect is a ContractError, and an error below 500 quotes the beginning of what the other side says.
        Half a surrogate pair, which has no UTF-8 form, goes out as a question mark.
        """
        _require_address(url)
        content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")
        said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        request = _Request("POST", url, {**said, "Content-Length": str(len(content))}, max_bytes, _Wire(content))
        return await self._attempt(request, self._limits.deadline_s if deadline_s is None else deadline_s)

    async def _attempt(self, request: _Request, deadline_s: float) -> bytes:
        import httpcore  # noqa: PLC0415 - a tenth of a second, and most commands read no address

        try:
            async with asyncio.timeout(deadline_s):
                return await self._follow(request)
        except TimeoutError as error:
            message = f"{_shown(request.url)}: no complete answer within {deadline_s:g} s"
            raise Unavailable(message) from (error if request.sent else None)
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            # Its own message may hold the whole address.
            message = f"{_shown(request.url)} {_UNREACHED if isinstance(error, httpcore.ConnectError) else _LOST}"
            raise Unavailable(message) from (ConnectionResetError(message) if request.sent else None)

    async def _follow(self, request: _Request) -> bytes:
        url = request.url
        for _ in range(self._limits.redirects + 1):
            target = _target(url)
            async with (
                self._connection(target) as connection,
                connection.stream(request.method, target, headers=request.lines, content=request.content) as response,
            ):
                if response.status not in _REDIRECTS or request.method != "GET":
                    await self._check(response, url, request)
                    return await _body(response, request.max_bytes, _shown(url))
                url = _same_host(url, _header(response, b"location"))
        message = f"{_shown(url)}: more than {self._limits.redirects} redirects"
        raise ContractError(message)

    async def _check(self, response: httpcore.Response, url: str, request: _Request) -> None:
        status = response.status
        if status == 200:
            return
        quoted = request.method == "POST" and status < 500
        message = f"{_shown(url)}: status {status}" + (await _quoted(response, request.headers) if quoted else "")
        if status in _REFUSED_CREDENTIALS:
            raise Unauthorized(message)
        if status in _GONE:
            raise NotFound(message)
        if status in _TRY_LATER or status >= 500:
            asked_s = self._retry_after_s(_header(response, b"retry-after"))
            raise Unavailable(message, retry_after_s=0.0 if asked_s is None and status == _FULL else asked_s)
        raise Rejected(message) if status >= 400 else ContractError(message)

    def _retry_after_s(self, text: str) -> float | None:
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._clock.now()).total_seconds())
        except (TypeError, ValueError):  # no date, or one without a zone
            return None

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        self._jitter = self._jitter or self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))

    @asynccontextmanager
    async def _connection(self, url: httpcore.URL) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """Lend a connection: the one to this host that was used last, or a new one, for which one may have to go."""
        async with self._places:
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
                    self._lines.discard(line)
                elif line in self._lines:
                    self._idle[line] = None

    async def _close(self, line: _Line) -> None:
        self._idle.pop(line, None)
        self._lines.discard(line)
        await line.connection.aclose()

    async def _opened(self, origin: httpcore.Origin, expired: _Line | None) -> _Line:
        import httpcore  # noqa: PLC0415 - as above
        import httpx  # noqa: PLC0415 - as above

        if self._tls is None:
            # Below WARNING it logs whole addresses, with keys in their queries, and cookies.
            logging.getLogger("httpcore").setLevel(logging.WARNING)
            # Reading the certificates takes longer than a request.
            self._tls = httpx.create_ssl_context(trust_env=False)
        if expired is not None:
            await self._close(expired)
        while self._idle and len(self._lines) >= self._limits.connections:
            await self._close(next(iter(self._idle)))
        line = _Line(httpcore.AsyncHTTPConnection(origin, ssl_context=self._tls, keepalive_expiry=_KEPT_S))
        self._lines.add(line)
        return line


@dataclass(slots=True, eq=False)
class _Line:
    """A connection, lent to one request at a time, and when it was given back."""

    connection: httpcore.AsyncHTTPConnection
    used_at: float = 0.0


@dataclass(slots=True)
class _Wire:
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
class _Request:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: _Wire | None = None

    @property
    def sent(self) -> bool:
        return self.content is not None and self.content.sent

    @property
    def lines(self) -> list[tuple[bytes, bytes]]:
        """The headers as they go out, ours where none is given; raises ConfigError for what no header can carry."""
        given = {name.lower() for name in self.headers}
        ours = ((name, value) for name, value in _OURS.items() if name.lower() not in given)
        try:
            return [(name.encode("ascii"), text.encode("ascii")) for name, text in (*ours, *self.headers.items())]
        except UnicodeEncodeError:
            message = f"a header for {_shown(self.url)} has a character that headers cannot carry; correct it in config"
            raise ConfigError(message) from None


class _Body:
    """Collects a body up to a bound, unpacking gzip on the way without ever holding more than the bound."""

    def __init__(self, max_bytes: int, *, encoding: str, shown: str) -> None:
        self._room = max_bytes
        self._max_bytes = max_bytes
        self._shown = shown
        self._parts: list[bytes] = []
        self._unpacker = zlib.decompressobj(_GZIP) if encoding == "gzip" else None

    def feed(self, chunk: bytes) -> None:
        """Take what came over the wire; raises ContractError beyond the bound or for broken gzip."""
        part = chunk if self._unpacker is None else self._unpack(self._unpacker, chunk)
        if len(part) > self._room:
            _refuse(f"{self._shown}: the body is larger than {self._max_bytes} bytes")
        self._room -= len(part)
        self._parts.append(part)

    def whole(self) -> bytes:
        """Return the body; raises Unavailable where gzip was cut short."""
        if self._unpacker is not None and not self._unpacker.eof:
            message = f"{self._shown}: the body was cut short"
            raise Unavailable(message) from ConnectionResetError("cut short")
        return b"".join(self._parts)

    def _unpack(self, unpacker: zlib._Decompress, chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._room + 1)
        except zlib.error:
            _refuse(f"{self._shown}: the body is not gzip as announced")
        if unpacker.unused_data:
            _refuse(f"{self._shown}: there is more after the end of the gzip body")
        return part


async def _quoted(response: httpcore.Response, headers: Mapping[str, str]) -> str:
    """Return the beginning of what the other side says about a refusal, in one line, without our keys, or nothing."""
    try:
        said = await _body(response, QUOTED_BYTES, "")
    except (ContractError, Unavailable):
        return ""
    text = " ".join(said.decode(errors="replace").split())
    values = [value for name, value in headers.items() if name.lower() not in _NO_KEYS]
    for key in sorted({part for value in values for part in value.split()}, key=len, reverse=True):
        text = text.replace(key, "***") if len(key) >= _KEY_CHARS else text
    return f": {text[:QUOTED_CHARS]}" if text else ""


def _header(response: httpcore.Response, wanted: bytes) -> str:
    """Return a header of an answer, given in small letters; "" where there is none."""
    return ", ".join(value.decode(errors="replace") for name, value in response.headers if name.lower() == wanted)


async def _body(response: httpcore.Response, max_bytes: int, shown: str) -> bytes:
    encoding = _header(response, b"content-encoding").strip().lower() or "identity"
    if encoding not in {"identity", "gzip"}:
        _refuse(f"{shown}: encoding {encoding!r} was not asked for")
    body = _Body(max_bytes, encoding=encoding, shown=shown)
    async for chunk in response.aiter_stream():
        body.feed(chunk)
    return body.whole()


def _same_host(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
    except ValueError:
        _refuse(f"{_shown(url)}: redirects to what is no address")
    if not location or (before.scheme, before.netloc) != (after.scheme, after.netloc):
        _refuse(f"{_shown(url)}: redirects to {_shown(target)}, which is not the same host")
    return target


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:  # an open bracket, or a port that is no number up to 65535
        message = "an address to be read is malformed"
        raise ConfigError(message) from None
    if not usable:
        message = f"{_shown(url)} is not an http or https address without user name"
        raise ConfigError(message)


@lru_cache(maxsize=256)
def _target(url: str) -> httpcore.URL:
    """Return an address as it goes over the wire; raises ConfigError."""
    import httpcore  # noqa: PLC0415 - as above
    import httpx  # noqa: PLC0415 - as above

    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        message = f"{_shown(url)} is not an address"
        raise ConfigError(message) from None
    return httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _refuse(message: str) -> NoReturn:
    raise ContractError(message)
