"""A fake trading venue over HTTP that protects nobody.

It places whatever arrives before its expiry, as often as it arrives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.interfaces import Clock, HttpClient, WriteClient
from bot.core.submissions import Intent, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.core.venue_http import HttpRequest
from bot.simulator.fake_service import FakeService, logged_request, read_json_body
from bot.simulator.faults import RequestFault
from bot.simulator.request_log import LoggedRequest

LIFE_MS, CACHE_S = 120_000, 20.0
MAX_BYTES = 1_000_000


class UnprotectedExchange(FakeService):
    """The venue; ``ledger`` has an effect of kind "order" for each order that was placed."""

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/orders", self._place, methods=["POST"]),
            Route("/orders", self._list, methods=["GET"]),
        ]

    def account(self, heard: LoggedRequest) -> str:
        return "me"

    def apply_world_fault(self, fault: RequestFault, heard: LoggedRequest) -> None:
        pass

    async def _place(self, request: Asked) -> Response:
        given = read_json_body(logged_request(request))
        if self.now_ms() >= given["expires"]:
            return JSONResponse({"message": "expired"}, status_code=400)
        self.record_effect(
            logged_request(request), "order", subject=given["market"], intent=given["intent"], expires=given["expires"]
        )
        return JSONResponse({"expires": given["expires"]})

    async def _list(self, request: Asked) -> Response:
        found = [effect.detail["expires"] for effect in self.ledger.effects("order")]
        return JSONResponse(found, headers={"Cache-Control": "max-age=5, stale-while-revalidate=10"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprotectedExchangeWriter:
    """Implements SealingSubmitter."""

    url: str
    clock: Clock
    http: HttpClient
    wire: WriteClient

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [self._seal(intent) for intent in batch.intents]

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        sealed = {one.intent: one for one in batch.sealed}
        return [await self._write(intent, sealed[intent.id]) for intent in batch.intents]

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        found = {str(one) for one in json.loads(await self.http.get(f"{self.url}/orders", max_bytes=MAX_BYTES))}
        tags: dict[str, set[str]] = {}
        for one in batch.sealed:
            tags.setdefault(one.intent, set()).add(one.tag)
        return [
            WriteReceipt(intent=intent.id, state=IntentState.ACKED if tags.get(intent.id, set()) & found else _ABSENT)
            for intent in batch.intents
        ]

    def _seal(self, intent: Intent) -> SealedRequest:
        # Spread over a second by the intent: what is sealed in the same millisecond must not have the same expiry.
        expires = round(self.clock.now().timestamp() * 1000) + LIFE_MS + int(intent.id[:8], 16) % 1000
        body = {"market": intent.ref.key, "intent": intent.id, "expires": expires}
        fence = datetime.fromtimestamp(expires / 1000, tz=UTC) + timedelta(seconds=CACHE_S)
        return SealedRequest(intent=intent.id, tag=str(expires), body=json.dumps(body), fence=fence)

    async def _write(self, intent: Intent, sealed: SealedRequest) -> WriteReceipt:
        request = HttpRequest(method="POST", url=f"{self.url}/orders", body=sealed.body.encode())
        try:
            reply = await self.wire.send(request, max_bytes=MAX_BYTES, deadline_s=5.0)
        except RequestRejectedError as error:
            return WriteReceipt(intent=intent.id, state=_ABSENT, detail=str(error))
        except (ServiceUnavailableError, MalformedDataError) as error:
            return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail=str(error))
        if reply.status == 400:
            return WriteReceipt(intent=intent.id, state=_ABSENT, detail="expired on its way")
        if reply.status == 200 and _has_tag(reply.body, sealed.tag):
            return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=sealed.tag)
        if reply.status == 429:
            return WriteReceipt(intent=intent.id, state=_ABSENT, detail="too many requests")
        return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail=f"status {reply.status}")


_ABSENT = IntentState.ABSENT


def _has_tag(body: bytes, tag: str) -> bool:
    try:
        fields: Mapping[str, Any] = json.loads(body)
        return str(fields["expires"]) == tag
    except (ValueError, KeyError, TypeError):
        return False
