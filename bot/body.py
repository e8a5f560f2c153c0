"""The body of an answer, read raw and unpacked with a bound."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, NoReturn

from bot.errors import ContractError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpcore

_GZIP = 16 + zlib.MAX_WBITS
QUOTED_BYTES, QUOTED_CHARS = 262_144, 300
# Parts of a header's value that are shorter than this are words, not keys.
_KEY_CHARS = 8
_NO_KEYS = frozenset({"content-type", "content-length", "accept"})


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


async def refusal_said(response: httpcore.Response, headers: Mapping[str, str]) -> str:
    """Return what the other side says about a refusal, without our keys; nothing where that is too long or broken."""
    try:
        text = (await body_of(response, QUOTED_BYTES, "")).decode(errors="replace")
    except (ContractError, Unavailable):
        return ""
    values = [value for name, value in headers.items() if name.lower() not in _NO_KEYS]
    for key in sorted({part for value in values for part in value.split()}, key=len, reverse=True):
        text = text.replace(key, "***") if len(key) >= _KEY_CHARS else text
    return text


def quoted(said: str, *, sentence: bool) -> str:
    """Return the beginning of what was said, in one line, or nothing; only the words for people where ``sentence``."""
    text = " ".join((_message_in(said) if sentence else said).split())
    return f": {text[:QUOTED_CHARS]}" if text else ""


def _message_in(text: str) -> str:
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
