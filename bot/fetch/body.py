"""Collecting a body within bounds, on the wire and unpacked, because no library bounds its own decompression."""

import zlib

from bot.errors import ContractError, Unavailable

_GZIP = 16 + zlib.MAX_WBITS
_PLAIN = frozenset({"", "identity"})
_PACKED = frozenset({"gzip", "x-gzip"})


class Body:
    """Takes a body in pieces and never holds more than ``unpacked_bytes`` of it."""

    def __init__(self, *, encoding: str, wire_bytes: int, unpacked_bytes: int, shown: str) -> None:
        """Raise ContractError for an encoding that was not asked for, such as one within another."""
        if encoding not in _PLAIN | _PACKED:
            message = f"{shown}: encoding {encoding[:40]!r} was not asked for"
            raise ContractError(message)
        self._unpacker = zlib.decompressobj(_GZIP) if encoding in _PACKED else None
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

    def whole(self) -> bytes:
        """Return the body; raises Unavailable where gzip was cut short."""
        if self._unpacker is not None and not self._unpacker.eof:
            message = f"{self._shown}: the body was cut short"
            raise Unavailable(message)
        return b"".join(self._parts)

    def _unpack(self, unpacker: "zlib._Decompress", chunk: bytes) -> bytes:
        try:
            part = unpacker.decompress(chunk, self._room + 1)
        except zlib.error:
            message = f"{self._shown}: the body is not gzip as announced"
            raise ContractError(message) from None
        if unpacker.unused_data:
            message = f"{self._shown}: there is more after the end of the gzip body"
            raise ContractError(message)
        return part
