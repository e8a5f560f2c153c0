"""Response bodies, read raw and unpacked within bounds, because no library bounds its decompression.

Also short excerpts of error replies.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from bot.core.errors import MalformedDataError, ServiceUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping

MAX_QUOTED_BYTES, MAX_QUOTED_CHARS = 262_144, 300
_GZIP_BITS = 16 + zlib.MAX_WBITS
_PLAIN_ENCODINGS = frozenset({"", "identity"})
_GZIP_ENCODINGS = frozenset({"gzip", "x-gzip"})
_ENCODINGS = _PLAIN_ENCODINGS | _GZIP_ENCODINGS
# Parts of a header's value that are shorter than this are words, not keys.
_MIN_KEY_CHARS = 8
_PUBLIC_HEADERS = frozenset({"content-type", "content-length", "accept"})


async def read_body(chunks: AsyncIterator[bytes], max_bytes: int, *, encoding: str, shown: str) -> bytes:
    """Return the unpacked body; arguments and errors as for ``BoundedBody``."""
    body = BoundedBody(max_bytes, encoding=encoding, shown=shown)
    async for chunk in chunks:
        body.feed(chunk)
    return body.finish()


async def read_error_reply(body: Awaitable[bytes], headers: Mapping[str, str]) -> str:
    """Return the body of an error response without the keys of the request; "" if it is too long or malformed."""
    try:
        text = (await body).decode(errors="replace")
    except (MalformedDataError, ServiceUnavailableError):
        return ""
    values = [value for name, value in headers.items() if name.lower() not in _PUBLIC_HEADERS]
    for key in sorted({part for value in values for part in value.split()}, key=len, reverse=True):
        text = text.replace(key, "***") if len(key) >= _MIN_KEY_CHARS else text
    return text


def quote_reply(reply: str, *, only_message: bool) -> str:
    """Return the beginning of a reply in one line, or ""; with ``only_message`` only its message for people."""
    text = " ".join((_reply_message(reply) if only_message else reply).split())
    return f": {text[:MAX_QUOTED_CHARS]}" if text else ""


def _reply_message(text: str) -> str:
    """Return the message for people in a JSON object, under one of the usual keys; else the whole text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(2):
        if not isinstance(value, dict):
            break
        found = [value[name] for name in ("message", "error", "detail", "error_description") if value.get(name)]
        value = next((one for one in found if isinstance(one, str)), found[0] if found else text)
    return value if isinstance(value, str) else text


class BoundedBody:
    """Takes a body in chunks, unpacks gzip and never holds more than ``max_bytes``.

    ``wire_bytes``, if given, bounds the bytes on the wire as well. ``shown`` is the address for errors.
    """

    def __init__(self, max_bytes: int, *, encoding: str, shown: str, wire_bytes: int | None = None) -> None:
        """Raise MalformedDataError for an encoding that was not requested, such as a nested one."""
        encoding = encoding.strip().lower()
        if encoding not in _ENCODINGS:
            message = f"{shown}: encoding {encoding[:40]!r} was not requested"
            raise MalformedDataError(message)
        self._unpacker = zlib.decompressobj(_GZIP_BITS) if encoding in _GZIP_ENCODINGS else None
        self._bytes_left = max_bytes
        self._wire_bytes_left = wire_bytes
        self._bounds = max_bytes, wire_bytes
        self._shown = shown
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Add bytes from the wire; raises MalformedDataError beyond a bound or for malformed gzip."""
        if not chunk:
            return
        if self._wire_bytes_left is not None:
            self._wire_bytes_left -= len(chunk)
            if self._wire_bytes_left < 0:
                self._raise_too_large()
        part = chunk if self._unpacker is None else self._unpack(self._unpacker, chunk)
        self._bytes_left -= len(part)
        if self._bytes_left < 0:
            self._raise_too_large()
        self._parts.append(part)

    def finish(self) -> bytes:
        """Return the body, which may be empty; raises ServiceUnavailableError if gzip was cut short."""
        if self._unpacker is not None and self._parts and not self._unpacker.eof:
            message = f"{self._shown}: the body was cut short"
            raise ServiceUnavailableError(message) from ConnectionResetError("cut short")
        return b"".join(self._parts)

    def _unpack(self, unpacker: zlib._Decompress, chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._bytes_left + 1)
        except zlib.error:
            message = f"{self._shown}: the body is not gzip as announced"
            raise MalformedDataError(message) from None
        if unpacker.unused_data:
            message = f"{self._shown}: there are more bytes after the end of the gzip body"
            raise MalformedDataError(message)
        return part

    def _raise_too_large(self) -> None:
        self._parts.clear()
        max_bytes, wire_bytes = self._bounds
        on_wire = "" if wire_bytes is None else f", or {wire_bytes} on the wire"
        message = f"{self._shown}: the body is larger than {max_bytes} bytes{on_wire}"
        raise MalformedDataError(message)
