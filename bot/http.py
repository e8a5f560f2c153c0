"""Bounded reading over HTTP: the only importer of httpx, and the only place where a status code becomes an error.

A body is read raw and unpacked here with a bound, because the library's own decompression has none. Writes never pass
through this module: they must not be repeated, reads may.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urljoin, urlsplit

from bot.errors import ConfigError, ContractError, NotFound, Rejected, Unauthorized, Unavailable

if TYPE_CHECKING:
    from types import TracebackType

    import httpx
    import numpy as np

    from bot.domain.step import Json
    from bot.ports import Clock, Random

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REFUSED_CREDENTIALS = frozenset({401, 403})
_GONE = frozenset({404, 410})
_TRY_LATER = frozenset({408, 425, 429})
QUOTED_BYTES = 16_384
QUOTED_CHARS = 300
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long and how often: ``deadline_s`` bounds one attempt from connecting to the last byte.

    Waits between attempts are drawn uniformly from zero to ``first_wait_s`` doubled each time, at most
    ``longest_wait_s``; a server that asks for more than that is not tried again by the same call.
    """

    deadline_s: float = 30.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 10.0
    redirects: int = 3
    connections: int = 16


DEFAULT_LIMITS = HttpLimits()


class HttpReader:
    """Implements ``bot.ports.Http`` on one shared client, which is opened by the first request.

    Environment variables (proxies, .netrc) are ignored. Neither errors nor logs show the query of an address.
    """

    def __init__(self, *, clock: Clock, random: Random, limits: HttpLimits = DEFAULT_LIMITS) -> None:
        self._clock = clock
        self._random = random
        self._limits = limits
        self._client: httpx.AsyncClient | None = None
        self._jitter: np.random.Generator | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client and its connections; the next request would open a new one."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the unpacked body of a 200 answer.

        Raises Unavailable (after the retries) for a failing transport, a missed deadline, 408, 425, 429 and 5xx;
        Unauthorized for 401 and 403; NotFound for 404 and 410; Rejected for any other 4xx; ContractError for another
        status, a body of more than ``max_bytes`` bytes, an encoding that was not asked for, or a redirect to another
        host; ConfigError for an address that is none.
        """
        _require_address(url)
        request = _Request("GET", url, dict(headers or {}), max_bytes)
        attempt = 1
        while True:
            try:
                return await self._attempt(request)
            except Unavailable as error:
                wait_s = self._wait_s(attempt, error.retry_after_s or 0.0)
                if attempt >= self._limits.attempts or wait_s > self._limits.longest_wait_s:
                    raise
            attempt += 1
            await self._clock.sleep(wait_s)

    async def post(self, url: str, body: Json, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Send JSON once, without retries, and return the unpacked body of a 200 answer; errors as ``get`` raises them.

        A redirect is a ContractError, and Rejected quotes the beginning of what the other side says.
        """
        _require_address(url)
        content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        return await self._attempt(_Request("POST", url, said, max_bytes, content))

    async def _attempt(self, request: _Request) -> bytes:
        import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

        url = request.url
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await self._follow(request)
        except TimeoutError as error:
            message = f"{_shown(url)}: no complete answer within {self._limits.deadline_s:g} s"
            raise Unavailable(message) from error
        except httpx.TransportError as error:
            # The library's own message may hold the whole address.
            message = f"{_shown(url)}: {type(error).__name__}"
            raise Unavailable(message) from None
        except httpx.InvalidURL:
            message = f"{_shown(url)} is not an address"
            raise ConfigError(message) from None

    async def _follow(self, request: _Request) -> bytes:
        client, url = self._opened(), request.url
        for _ in range(self._limits.redirects + 1):
            async with client.stream(request.method, url, headers=request.headers, content=request.content) as response:
                if response.status_code not in _REDIRECTS or request.method != "GET":
                    await self._check(response, url, quoted=request.method == "POST")
                    return await _body(response, request.max_bytes, _shown(url))
                url = _same_host(url, response.headers.get("location", ""))
        message = f"{_shown(url)}: more than {self._limits.redirects} redirects"
        raise ContractError(message)

    async def _check(self, response: httpx.Response, url: str, *, quoted: bool) -> None:
        status = response.status_code
        if status == 200:
            return
        message = f"{_shown(url)}: status {status}" + (await _quoted(response) if quoted and status < 500 else "")
        if status in _REFUSED_CREDENTIALS:
            raise Unauthorized(message)
        if status in _GONE:
            raise NotFound(message)
        if status in _TRY_LATER or status >= 500:
            raise Unavailable(message, retry_after_s=self._retry_after_s(response.headers.get("retry-after", "")))
        raise Rejected(message) if status >= 400 else ContractError(message)

    def _retry_after_s(self, text: str) -> float | None:
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._clock.now()).total_seconds())
        except (TypeError, ValueError):  # no date, or one without a zone
            return None

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        if self._jitter is None:
            self._jitter = self._random.stream("http", "jitter")
        ceiling = min(self._limits.longest_wait_s, self._limits.first_wait_s * 2.0 ** (attempt - 1))
        return max(asked_s, float(self._jitter.uniform(0.0, ceiling)))

    def _opened(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415 - as above

        if self._client is None:
            # Below WARNING these log whole addresses, with keys in their queries, and cookies.
            for name in ("httpx", "httpcore"):
                logging.getLogger(name).setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(self._limits.deadline_s),
                limits=httpx.Limits(max_connections=self._limits.connections),
                headers={"Accept-Encoding": "gzip", "User-Agent": "foxcast"},
            )
        return self._client


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_bytes: int
    content: bytes | None = None


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
            raise Unavailable(message)
        return b"".join(self._parts)

    def _unpack(self, unpacker: zlib._Decompress, chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._room + 1)
        except zlib.error:
            _refuse(f"{self._shown}: the body is not gzip as announced")
        if unpacker.unused_data:
            _refuse(f"{self._shown}: there is more after the end of the gzip body")
        return part


async def _quoted(response: httpx.Response) -> str:
    """Return the beginning of what the other side says about a refusal, in one line, or nothing."""
    try:
        said = await _body(response, QUOTED_BYTES, "")
    except (ContractError, Unavailable):
        return ""
    text = " ".join(said.decode(errors="replace").split())
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
        _refuse(f"{_shown(url)}: redirects to what is no address")
    if not location or (before.scheme, before.netloc) != (after.scheme, after.netloc):
        _refuse(f"{_shown(url)}: redirects to {_shown(target)}, which is not the same host")
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
        message = f"{_shown(url)} is not an http or https address without user name"
        raise ConfigError(message)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _refuse(message: str) -> NoReturn:
    raise ContractError(message)
