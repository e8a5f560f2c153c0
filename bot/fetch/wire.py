"""A connection that a hostile server cannot keep busy: its bytes are counted before any library looks at them.

What counts is what comes over the wire, not the body: chunk extensions, trailers, blank chunks and answers before the
answer carry no body, and each costs as much to read as a page. Import it late: httpcore takes a tenth of a second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpcore

from bot.errors import ContractError

if TYPE_CHECKING:
    import ssl
    from typing import Any

# Each read gives way to the loop: no more than this is parsed in between.
_READ_BYTES = 16_384
# Early hints are one or two; nothing bounds them in the protocol.
_MOST_HINTS = 8
_HEAD = re.compile(rb"\n\r?\nHTTP/\d\.\d (\d)")
_OVERLAP = 12


class BoundedStream(httpcore.AsyncNetworkStream):
    """Passes on at most ``most_bytes``, and at most a few answers before the answer; then raises ContractError."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, most_bytes: int, shown: str) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._shown = shown
        # As if a blank line stood before the first head.
        self._tail = b"\n\n"
        self._hints = 0
        self._headed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's signature
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._left -= len(data)
        if self._left < 0:
            message = f"{self._shown}: more than {self._most_bytes} bytes came over the wire"
            raise ContractError(message)
        if not self._headed:
            self._watch(data)
        return data

    def _watch(self, data: bytes) -> None:
        seen = self._tail + data
        for head in _HEAD.finditer(seen):
            if head[1] != b"1":
                self._headed = True
                break
            self._hints += 1
        if self._hints > _MOST_HINTS:
            message = f"{self._shown}: more than {_MOST_HINTS} answers before the answer"
            raise ContractError(message)
        self._tail = seen[-_OVERLAP:]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return BoundedStream(secured, self._most_bytes, self._shown)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the library's signature
        return self._stream.get_extra_info(info)
