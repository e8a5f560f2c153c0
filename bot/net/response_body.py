"""Response bodies, read raw and unpacked within bounds, because no library bounds its own decompression.

And short excerpts of error replies.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, NoReturn

from bot.errors import ContractError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpcore

_GZIP_BITS = 16 + zlib.MAX_WBITS


MAX_QUOTED_BYTES, MAX_QUOTED_CHARS = 262_144, 300


# Parts of a header's value that are shorter than this are words, not keys.
_MIN_KEY_CHARS = 8


_PUBLIC_HEADERS = frozenset({"content-type", "content-length", "accept"})


def header_value(response: httpcore.Response, wanted: bytes) -> str:
    """Return a header of an answer, given in small letters; "" where there is none."""
    return ", ".join(value.decode(errors="replace") for name, value in response.headers if name.lower() == wanted)


async def read_body(response: httpcore.Response, max_bytes: int, shown: str) -> bytes:
    """Return the unpacked body of at most so many bytes; ``shown`` is the address as errors may show it.

    Raises ContractError for more bytes, broken gzip or an encoding that was not asked for, and Unavailable where gzip
    was cut short.
    """
    encoding = header_value(response, b"content-encoding").strip().lower() or "identity"
    if encoding not in {"identity", "gzip"}:
        _raise_contract_error(f"{shown}: encoding {encoding!r} was not asked for")
    body = _ResponseBody(max_bytes, encoding=encoding, shown=shown)
    async for chunk in response.aiter_stream():
        body.feed(chunk)
    return body.finish()


async def read_error_reply(response: httpcore.Response, headers: Mapping[str, str]) -> str:
    """Return what the other side says about a refusal, without our keys; nothing where that is too long or broken."""
    try:
        text = (await read_body(response, MAX_QUOTED_BYTES, "")).decode(errors="replace")
    except (ContractError, Unavailable):
        return ""
    values = [value for name, value in headers.items() if name.lower() not in _PUBLIC_HEADERS]
    for key in sorted({part for value in values for part in value.split()}, key=len, reverse=True):
        text = text.replace(key, "***") if len(key) >= _MIN_KEY_CHARS else text
    return text


def quote_reply(said: str, *, sentence: bool) -> str:
    """Return the beginning of what was said, in one line, or nothing; only the words for people where ``sentence``."""
    text = " ".join((_reply_message(said) if sentence else said).split())
    return f": {text[:MAX_QUOTED_CHARS]}" if text else ""


def _reply_message(text: str) -> str:
    """Return the words for people in a JSON object, wherever usual replies have them; else all of the text."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(2):
        if not isinstance(said, dict):
            break
        found = [said[name] for name in ("message", "error", "detail", "error_description") if said.get(name)]
        said = next((one for one in found if isinstance(one, str)), found[0] if found else text)
    return said if isinstance(said, str) else text


class _ResponseBody:
    """Collects a body up to a bound, unpacking gzip on the way without ever holding more than the bound."""

    def __init__(self, max_bytes: int, *, encoding: str, shown: str) -> None:
        self._room = max_bytes
        self._max_bytes = max_bytes
        self._shown = shown
        self._parts: list[bytes] = []
        self._unpacker = zlib.decompressobj(_GZIP_BITS) if encoding == "gzip" else None

    def feed(self, chunk: bytes) -> None:
        """Take what came over the wire; raises ContractError beyond the bound or for broken gzip."""
        part = chunk if self._unpacker is None else self._unpack(self._unpacker, chunk)
        if len(part) > self._room:
            _raise_contract_error(f"{self._shown}: the body is larger than {self._max_bytes} bytes")
        self._room -= len(part)
        self._parts.append(part)

    def finish(self) -> bytes:
        """Return the body; raises Unavailable where gzip was cut short."""
        if self._unpacker is not None and not self._unpacker.eof:
            message = f"{self._shown}: the body was cut short"
            raise Unavailable(message) from ConnectionResetError("cut short")
        return b"".join(self._parts)

    def _unpack(self, unpacker: zlib._Decompress, chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._room + 1)
        except zlib.error:
            _raise_contract_error(f"{self._shown}: the body is not gzip as announced")
        if unpacker.unused_data:
            _raise_contract_error(f"{self._shown}: there is more after the end of the gzip body")
        return part


def _raise_contract_error(message: str) -> NoReturn:
    raise ContractError(message)


_GZIP_WINDOW = 16 + zlib.MAX_WBITS


_PLAIN_ENCODINGS = frozenset({"", "identity"})


_GZIP_ENCODINGS = frozenset({"gzip", "x-gzip"})


class BoundedBody:
    """Takes a body in pieces and never holds more than ``unpacked_bytes`` of it."""

    def __init__(self, *, encoding: str, wire_bytes: int, unpacked_bytes: int, shown: str) -> None:
        """Raise ContractError for an encoding that was not asked for, such as one within another."""
        if encoding not in _PLAIN_ENCODINGS | _GZIP_ENCODINGS:
            message = f"{shown}: encoding {encoding[:40]!r} was not asked for"
            raise ContractError(message)
        self._unpacker = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP_ENCODINGS else None
        self._wire_room = wire_bytes
        self._room = unpacked_bytes
        self._bounds = f"{wire_bytes} bytes on the wire or {unpacked_bytes} unpacked"
        self._shown = shown
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Take what came over the wire; raises ContractError beyond a bound or for broken gzip."""
        self._wire_room -= len(chunk)
        part = chunk if self._unpacker is None or self._wire_room < 0 else self._unpack(self._unpacker, chunk)
        self._room -= len(part)
        if self._wire_room < 0 or self._room < 0:
            self._parts.clear()
            message = f"{self._shown}: the body is larger than {self._bounds}"
            raise ContractError(message)
        self._parts.append(part)

    def finish(self) -> bytes:
        """Return the body; raises Unavailable where gzip was cut short."""
        if self._unpacker is not None and not self._unpacker.eof:
            message = f"{self._shown}: the body was cut short"
            raise Unavailable(message)
        return b"".join(self._parts)

    def _unpack(self, unpacker: zlib._Decompress, chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._room + 1)
        except zlib.error:
            message = f"{self._shown}: the body is not gzip as announced"
            raise ContractError(message) from None
        if unpacker.unused_data:
            message = f"{self._shown}: there is more after the end of the gzip body"
            raise ContractError(message)
        return part
