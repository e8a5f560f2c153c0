"""Bounded reading over HTTP: the only place where a status code becomes an error.

A body is read raw and unpacked here with a bound, because the library's own decompression has none. Writes never pass
through this module: they must not be repeated, reads may; ``bot.wire`` is theirs. The library's pool takes time
quadratic in its connections, so there are several small clients instead of a large one. Each request, also one that
follows a redirect or a failure, waits for its turn by the rates of the service it goes to.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

from bot.address import public
from bot.errors import ConfigError, ContractError, NotFound, Rejected, Unauthorized, Unavailable
from bot.rates import Rates, Turn, retry_after_s

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    import httpx
    import numpy as np

    from bot.domain.step import Json
    from bot.ports import Clock, Random

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# 402 is what model providers answer when the account is empty: like a bad key, a matter for the operator.
_REFUSED_CREDENTIALS = frozenset({401, 402, 403})
_GONE = frozenset({404, 410})
_TRY_LATER = frozenset({408, 425, 429})
_FULL = 429
QUOTED_BYTES = 16_384
QUOTED_CHARS = 300
_GZIP = 16 + zlib.MAX_WBITS
# Parts of a header's value that are shorter than this are words, not keys.
_KEY_CHARS = 8
_NO_KEYS = frozenset({"content-type", "accept"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how often: ``deadline_s`` bounds one attempt from connecting to the last byte.

    Waits between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most
    ``longest_wait_s``; a server that asks for more than that is not tried again by the same call.
    ``connections`` bounds those open at once; each client has at most ``per_client`` of them.
    """

    deadline_s: float = 30.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 200
    per_client: int = 10


DEFAULT_LIMITS = HttpLimits()


class HttpReader:
    """Implements ``bot.ports.Http`` on small clients, each opened by the first request that finds the others full.

    Environment variables (proxies, .netrc) are ignored. Neither errors nor logs show the query of an address.
    """

    def __init__(
        self, *, clock: Clock, random: Random, limits: HttpLimits = DEFAULT_LIMITS, rates: Rates | None = None
    ) -> None:
        self._clock = clock
        self._random = random
        self._limits = limits
        self._rates = rates or Rates((), clock=clock, random=random)
        self._lanes: list[_Lane] = []
        self._tls: ssl.SSLContext | None = None
        self._jitter: np.random.Generator | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all clients and their connections; the next request would open a new one."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            await lane.client.aclose()

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer.

        Raises Unavailable (after the retries) for a failing transport, a missed deadline, 408, 425, 429 and 5xx,
        with the wait that was asked for, which is 0.0 for a 429 that names none, and at once where a pause that was
        asked for earlier is longer than a call waits;
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
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        request = _Request("POST", url, said, max_bytes, text.encode(errors="replace"))
        return await self._attempt(request, self._limits.deadline_s if deadline_s is None else deadline_s)

    async def _attempt(self, request: _Request, deadline_s: float) -> bytes:
        """Ask once, redirects followed; the deadline does not run while a turn is waited for."""
        url, left_s, time = request.url, deadline_s, asyncio.get_running_loop().time
        for _ in range(self._limits.redirects + 1):
            async with self._rates.turn(request.method, url, patience_s=self._limits.longest_wait_s) as turn:
                began = time()
                came = await self._hop(request, url, turn, left_s)
                left_s -= time() - began
            if isinstance(came, bytes):
                return came
            url = came.url
        message = f"{public(url)}: more than {self._limits.redirects} redirects"
        raise ContractError(message)

    async def _hop(self, request: _Request, url: str, turn: Turn, left_s: float) -> bytes | _Onward:
        import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

        try:
            async with asyncio.timeout(left_s):
                with self._client() as client:
                    return await self._ask(client, request, url, turn)
        except TimeoutError as error:
            message = f"{public(url)}: no complete answer within {left_s:g} s"
            raise Unavailable(message) from (error if request.wire.sent else None)
        except httpx.TransportError as error:
            # The library's own message may hold the whole address.
            name = type(error).__name__
            message = f"{public(url)}: {name}"
            raise Unavailable(message) from (ConnectionResetError(name) if request.wire.sent else None)
        except httpx.InvalidURL:
            message = f"{public(url)} is not an address"
            raise ConfigError(message) from None

    async def _ask(self, client: httpx.AsyncClient, request: _Request, url: str, turn: Turn) -> bytes | _Onward:
        async with client.stream(
            request.method,
            url,
            headers=request.headers,
            content=request.content,
            extensions=None if request.content is None else {"trace": request.wire},
        ) as response:
            turn.heard(response.status_code, response.headers)
            if response.status_code in _REDIRECTS and request.method == "GET":
                return _Onward(_same_host(url, response.headers.get("location", "")))
            await self._check(response, url, request)
            return await _body(response, request.max_bytes, public(url))

    async def _check(self, response: httpx.Response, url: str, request: _Request) -> None:
        status = response.status_code
        if status == 200:
            return
        quoted = request.method == "POST" and status < 500
        message = f"{public(url)}: status {status}" + (await _quoted(response, request.headers) if quoted else "")
        if status in _REFUSED_CREDENTIALS:
            raise Unauthorized(message)
        if status in _GONE:
            raise NotFound(message)
        if status in _TRY_LATER or status >= 500:
            asked_s = retry_after_s(response.headers.get("retry-after", ""), now=self._clock.now())
            raise Unavailable(message, retry_after_s=0.0 if asked_s is None and status == _FULL else asked_s)
        raise Rejected(message) if status >= 400 else ContractError(message)

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        if self._jitter is None:
            self._jitter = self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))

    @contextmanager
    def _client(self) -> Iterator[httpx.AsyncClient]:
        """Lend a client: the first that has room, else a new one, and once there is none to open the least busy one."""
        lane = next((lane for lane in self._lanes if lane.in_flight < self._limits.per_client), None)
        if lane is None and len(self._lanes) < math.ceil(self._limits.connections / self._limits.per_client):
            lane = _Lane(self._opened())
            self._lanes.append(lane)
        lane = lane or min(self._lanes, key=lambda lane: lane.in_flight)
        lane.in_flight += 1
        try:
            yield lane.client
        finally:
            lane.in_flight -= 1

    def _opened(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415 - as above

        if self._tls is None:
            # Below WARNING these log whole addresses, with keys in their queries, and cookies.
            for name in ("httpx", "httpcore"):
                logging.getLogger(name).setLevel(logging.WARNING)
            # Reading the certificates takes longer than a request, so the clients share them.
            self._tls = httpx.create_ssl_context(trust_env=False)
        return httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            verify=self._tls,
            timeout=None,  # noqa: S113 - its time-outs are per operation; ours bounds the whole attempt
            limits=httpx.Limits(max_connections=self._limits.per_client),
            headers={"Accept-Encoding": "gzip", "User-Agent": "foxcast"},
        )


@dataclass(slots=True)
class _Lane:
    client: httpx.AsyncClient
    in_flight: int = 0


@dataclass(slots=True)
class _Wire:
    """Notes, as the library's trace, whether a question has begun to leave: its body, without which it is none."""

    sent: bool = False

    async def __call__(self, event: str, _: object) -> None:
        if event == "http11.send_request_body.started":
            self.sent = True


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: bytes | None = None
    wire: _Wire = field(default_factory=_Wire)


@dataclass(frozen=True, slots=True)
class _Onward:
    """A redirect within the same host."""

    url: str


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


async def _quoted(response: httpx.Response, headers: Mapping[str, str]) -> str:
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


async def _body(response: httpx.Response, max_bytes: int, shown: str) -> bytes:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        _refuse(f"{shown}: encoding {encoding!r} was not asked for")
    body = _Body(max_bytes, encoding=encoding, shown=shown)
    async for chunk in response.aiter_raw():
        body.feed(chunk)
    return body.whole()


def _same_host(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
    except ValueError:
        _refuse(f"{public(url)}: redirects to what is no address")
    if not location or (before.scheme, before.netloc) != (after.scheme, after.netloc):
        _refuse(f"{public(url)}: redirects to {public(target)}, which is not the same host")
    return target


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        plain = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
        usable = plain and parts.port != 0
    except ValueError:  # an open bracket, or a port that is no number up to 65535
        message = "an address to be read is malformed"
        raise ConfigError(message) from None
    if not usable:
        message = f"{public(url)} is not an http or https address without user name"
        raise ConfigError(message)


def _refuse(message: str) -> NoReturn:
    raise ContractError(message)
