"""Stops all requests to a venue that refused our credentials, until they are renewed.

The refusal is kept in the ledger, so it holds over restarts. It ends with other credentials at the next start, or
when a person resumes the venue.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta

import structlog

from bot.core.errors import AuthenticationError, HttpErrorResponse, RequestRejectedError
from bot.core.interfaces import Clock, HttpClient, WriteClient
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.net.response_body import quote_reply
from bot.store import permissions
from bot.store.audit_log import AuditRow
from bot.store.event_log import ALERT_EVENT
from bot.store.ledger import Ledger
from bot.store.permissions import HaltEndCondition, SubmissionHalt

log = structlog.get_logger(__name__)

# If the first refusal is not final, later ones count within this time.
REFUSAL_WINDOW = timedelta(minutes=10)
# At most this much of a refusal is read.
MAX_REFUSAL_BYTES = 4000


@dataclass(slots=True, kw_only=True)
class CredentialGuard:
    """Guards the credentials of one venue; ``refusal_reason`` says that they were refused, "" means they were not.

    ``is_refusal`` recognises a response that refuses the credentials, ``final_refusals`` is how many of them in a row
    halt the venue, and ``compute_digest`` identifies the credentials.
    """

    venue: str
    is_refusal: Callable[[HttpErrorResponse], bool]
    final_refusals: int
    compute_digest: Callable[[], str]
    ledger: Ledger
    clock: Clock
    refusal_reason: str = ""
    _refusals: list[datetime] = field(default_factory=list)
    _is_halting: bool = False

    async def load_refusal(self) -> None:
        """At start: refused credentials are not used again; new ones lift the halt."""
        halts = await self.ledger.permissions.read(permissions.list_active_halts)
        halt = next(
            (one for one in halts if (one.venue, one.end_condition) == (self.venue, HaltEndCondition.RENEWED)), None
        )
        if halt is None:
            return
        if halt.credentials == await asyncio.to_thread(self.compute_digest):
            self.refusal_reason = _refusal_message(halt)
            return
        now, why = self.clock.now(), "other credentials are in use now"
        row = AuditRow(at=now, kind="resume", venue=self.venue, actor="", body={"why": why})
        await self.ledger.permissions.write_with_audit(
            lambda database: permissions.end_halts(database, self.venue, HaltEndCondition.RENEWED, at=now), row
        )
        await self.ledger.events.add_event(ALERT_EVENT, f"{self.venue} resumes: {why}", at=now)

    async def handle_refusal(self, refusal: HttpErrorResponse) -> None:
        """Check a refused request, and halt the venue if its credentials were refused."""
        if self.refusal_reason or not self.is_refusal(refusal):
            return
        now = self.clock.now()
        self._refusals = [one for one in self._refusals if now - one < REFUSAL_WINDOW] + [now]
        if len(self._refusals) < self.final_refusals:
            return
        why = f"the credentials were refused (status {refusal.status}{quote_reply(refusal.body, only_message=True)})"
        # Set before anything is awaited, so that no other request is sent meanwhile.
        self.refusal_reason, self._is_halting = why, True
        try:
            await self._halt(why, now)
        finally:
            self._is_halting = False

    async def _halt(self, why: str, now: datetime) -> None:
        halt = SubmissionHalt(
            venue=self.venue,
            at=now,
            why=why,
            end_condition=HaltEndCondition.RENEWED,
            credentials=await asyncio.to_thread(self.compute_digest),
        )
        self.refusal_reason = _refusal_message(halt)
        row = AuditRow(at=now, kind="stop", venue=self.venue, actor="", body={"why": why})
        await self.ledger.permissions.write_with_audit(lambda database: permissions.add_halt(database, halt), row)
        log.error("stopped", venue=self.venue, why=why, remedy=halt.remedy)
        await self.ledger.events.add_event(ALERT_EVENT, f"{self.venue}: {halt}; {halt.remedy}", at=now)

    def clear_refusal(self) -> None:
        """Allow requests to the venue again, because a person resumed it.

        A halt that is still being written came after what the person had seen: it stays.
        """
        if not self._is_halting:
            self.refusal_reason = ""
            self._refusals.clear()


def _refusal_message(halt: SubmissionHalt) -> str:
    return f"{halt}; no more requests are sent there; {halt.remedy}"


@dataclass(frozen=True, slots=True)
class GuardedHttpClient:
    """Implements ``HttpClient`` for one venue: passes on allowed requests and checks refusals."""

    inner: HttpClient
    credentials: CredentialGuard

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """See ``HttpClient``. Raises AuthenticationError, with nothing sent, once the credentials were refused."""
        self._require_good()
        try:
            return await self.inner.get(url, max_bytes=max_bytes, headers=headers)
        except AuthenticationError as error:
            await self._check_refusal(error)
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
        """See ``HttpClient``. Raises AuthenticationError, with nothing sent, once the credentials were refused."""
        self._require_good()
        try:
            return await self.inner.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)
        except AuthenticationError as error:
            await self._check_refusal(error)
            raise

    def _require_good(self) -> None:
        if self.credentials.refusal_reason:
            raise AuthenticationError(self.credentials.refusal_reason, sent=False)

    async def _check_refusal(self, error: AuthenticationError) -> None:
        if error.refusal is not None:
            await self.credentials.handle_refusal(error.refusal)


@dataclass(frozen=True, slots=True)
class GuardedWriteClient:
    """Implements ``WriteClient`` for one venue: passes on allowed requests and checks refusals."""

    inner: WriteClient
    credentials: CredentialGuard

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        """See ``WriteClient``. Raises RequestRejectedError, with nothing sent, once the credentials were refused."""
        if self.credentials.refusal_reason:
            raise RequestRejectedError(self.credentials.refusal_reason)
        reply = await self.inner.send(request, max_bytes=max_bytes, deadline_s=deadline_s)
        if reply.status >= 400:
            text = reply.body[:MAX_REFUSAL_BYTES].decode(errors="replace")
            await self.credentials.handle_refusal(HttpErrorResponse(status=reply.status, body=text))
        return reply
