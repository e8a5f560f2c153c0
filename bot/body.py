"""The body of an answer, read raw and unpacked with a bound."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NoReturn

from bot.errors import ContractError, Unavailable

if TYPE_CHECKING:
    import httpcore

_GZIP = 16 + zlib.MAX_WBITS


def header(response: httpcore.Response, wanted: bytes) -> str:
    """Return a header of an answer, given in small letters; "" where there is none."""
    return ", ".join(value.decode(errors="replace") for name, value in response.headers if name.lower() == wanted)


async def body_of(response: httpcore.Response, max_bytes: int, shown: str) -> bytes:
    """Return the unpacked body of at most so many bytes; ``shown`` is the address as errors may show it.

    Raises ContractError for more bytes, broken gzip or an encoding that was not asked for, and Unavailable where gzip
    was cut short.
    """
    encoding = header(response, b"content-encoding").strip().lower() or "identity"
    if encoding not in {"identity", "gzip"}:
        _refuse(f"{shown}: encoding {encoding!r} was not asked for")
    body = _Body(max_bytes, encoding=encoding, shown=shown)
    async for chunk in response.aiter_stream():
        body.feed(chunk)
    return body.whole()


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


def _refuse(message: str) -> NoReturn:
    raise ContractError(message)
