"""Server-sent events: one short message when the ledger, the daemon or a halt has changed, so that pages read anew.

What changed is not said: a page asks for itself again, and gets what its viewer may see.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import field
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.execution.gate.kill_switch import STOP_FILE
from bot.store.evidence import evidence_path
from bot.store.ledger import LEDGER_FILE
from bot.web.page_rendering import PAGE_HEADERS

POLL_S = 2.0
# A comment now and then keeps proxies from closing the connection, and shows us who is gone.
COMMENT_EVERY = 10
MAX_STREAMS = 20
_NO_CONTENT = 204


@dataclass(slots=True)
class UpdateStreams:
    """The open streams of one server; each looks at the times of a few files, and reads no ledger."""

    folder: Path
    state: Path
    clock: Clock
    count: int = 0
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        """End all streams, so that the server need not wait for them."""
        self._closing.set()

    async def respond(self, request: Request) -> Response:
        """Answer with a stream, or with 204 where too many are open: a browser does not ask again then."""
        if self.count >= MAX_STREAMS:
            return Response(status_code=_NO_CONTENT, headers=dict(PAGE_HEADERS))
        # Before the headers, with which the page calls itself live: what changes from then on is reported.
        seen = await asyncio.to_thread(self._read_times)
        return StreamingResponse(
            self._send_changes(request, seen), media_type="text/event-stream", headers=dict(PAGE_HEADERS)
        )

    async def _send_changes(self, request: Request, seen: tuple[tuple[int, int], ...]) -> AsyncIterator[str]:
        self.count += 1
        try:
            quiet = 0
            yield "retry: 5000\n\n"
            while not await request.is_disconnected():
                if await self._is_closed_after(POLL_S):
                    return
                found = await asyncio.to_thread(self._read_times)
                quiet = 0 if found != seen else quiet + 1
                if found != seen:
                    yield "event: changed\ndata: 1\n\n"
                elif quiet % COMMENT_EVERY == 0:
                    yield ": nothing new\n\n"
                seen = found
        finally:
            self.count -= 1

    async def _is_closed_after(self, seconds: float) -> bool:
        """Wait so long, or until the server ends; return whether it does."""
        waits = [asyncio.create_task(one) for one in (self._closing.wait(), self.clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return self._closing.is_set()

    def _read_times(self) -> tuple[tuple[int, int], ...]:
        """Return time and size of each file that changes with what pages show."""
        ledger = self.folder / LEDGER_FILE
        files = (ledger, evidence_path(ledger))
        watched = [*files, *(file.with_name(f"{file.name}-wal") for file in files), self.state / STOP_FILE]
        return tuple(_read_time(file) for file in watched)


def _read_time(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
