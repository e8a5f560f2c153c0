"""Whether a venue refused our credentials: nothing more is asked of it then, by nobody, until they are renewed.

A refusal stops the venue in the ledger, so that it holds over restarts. What ends it: other credentials at the next
start, or a person who resumes the venue.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from bot.domain.step import Json
from bot.domain.wire import Reply, Request
from bot.errors import HttpRefusal, Rejected, Unauthorized
from bot.net.response_body import quote_reply
from bot.ports import Clock, Http, Wire
from bot.store import stops
from bot.store.audit import AuditRow
from bot.store.ledger import Ledger
from bot.store.stops import Stop, StopEnd

log = structlog.get_logger(__name__)

# Where the first refusal is not final, the others count that come within this time.
WINDOW = timedelta(minutes=10)
# Of a refusal so much is read.
MOST_BYTES = 4000


@dataclass(slots=True, kw_only=True)
class VenueCredentials:
    """Those of one venue; ``refused`` says that they were refused, "" while they are not known to be.

    ``is_refusal`` tells an answer about the credentials from any other, ``final`` is how many of them in a row it
    takes, and ``digest`` tells these credentials from others.
    """

    venue: str
    is_refusal: Callable[[HttpRefusal], bool]
    final: int
    digest: Callable[[], str]
    ledger: Ledger
    clock: Clock
    refused: str = ""
    _refusals: list[datetime] = field(default_factory=list)

    async def recall(self) -> None:
        """At start: what was refused is not asked with again, other credentials are."""
        standing = await self.ledger.leave.read(stops.standing)
        made = next((one for one in standing if (one.venue, one.ends) == (self.venue, StopEnd.RENEWED)), None)
        if made is None:
            return
        if made.credentials == await asyncio.to_thread(self.digest):
            self.refused = _told(made)
            return
        now, why = self.clock.now(), "other credentials are in use now"
        row = AuditRow(at=now, kind="resume", venue=self.venue, actor="", body={"why": why})
        await self.ledger.leave.act(lambda database: stops.end(database, self.venue, StopEnd.RENEWED, at=now), row)
        await self.ledger.journal.note("alert", f"{self.venue} goes on: {why}", at=now)

    async def judge(self, refusal: HttpRefusal) -> None:
        """Look at an answer that refused something, and stop the venue where it refused the credentials."""
        if self.refused or not self.is_refusal(refusal):
            return
        now = self.clock.now()
        self._refusals = [one for one in self._refusals if now - one < WINDOW] + [now]
        if len(self._refusals) < self.final:
            return
        why = f"the credentials were refused (status {refusal.status}{quote_reply(refusal.body, sentence=True)})"
        # Before anything is awaited: who asks meanwhile must not ask.
        self.refused = why
        made = Stop(
            venue=self.venue,
            at=now,
            why=why,
            ends=StopEnd.RENEWED,
            credentials=await asyncio.to_thread(self.digest),
        )
        self.refused = _told(made)
        row = AuditRow(at=now, kind="stop", venue=self.venue, actor="", body={"why": why})
        await self.ledger.leave.act(lambda database: stops.add(database, made), row)
        log.error("stopped", venue=self.venue, why=why, remedy=made.remedy)
        await self.ledger.journal.note("alert", f"{self.venue}: {made}; {made.remedy}", at=now)

    def ask_again(self) -> None:
        """Let the venue be asked, as a person wants it."""
        self.refused = ""
        self._refusals.clear()


def _told(made: Stop) -> str:
    return f"{made}; nothing more is asked there; {made.remedy}"


@dataclass(frozen=True, slots=True)
class GuardedHttp:
    """Implements the port Http for one venue: passes on what may be asked, and looks at what is refused."""

    inner: Http
    credentials: VenueCredentials

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Do as the port says; raises Unauthorized, with nothing sent, once the credentials were refused."""
        self._require_good()
        try:
            return await self.inner.get(url, max_bytes=max_bytes, headers=headers)
        except Unauthorized as error:
            await self._judge(error)
            raise

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        """Do as the port says; raises Unauthorized, with nothing sent, once the credentials were refused."""
        self._require_good()
        try:
            return await self.inner.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)
        except Unauthorized as error:
            await self._judge(error)
            raise

    def _require_good(self) -> None:
        if self.credentials.refused:
            raise Unauthorized(self.credentials.refused, sent=False)

    async def _judge(self, error: Unauthorized) -> None:
        if error.refusal is not None:
            await self.credentials.judge(error.refusal)


@dataclass(frozen=True, slots=True)
class GuardedWire:
    """Implements the port Wire for one venue, likewise."""

    inner: Wire
    credentials: VenueCredentials

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        """Do as the port says; raises Rejected, with nothing sent, once the credentials were refused."""
        if self.credentials.refused:
            raise Rejected(self.credentials.refused)
        reply = await self.inner.send(request, max_bytes=max_bytes, deadline_s=deadline_s)
        if reply.status >= 400:
            text = reply.body[:MOST_BYTES].decode(errors="replace")
            await self.credentials.judge(HttpRefusal(status=reply.status, body=text))
        return reply
