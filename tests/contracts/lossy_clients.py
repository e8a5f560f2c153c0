"""Doubles for the contract kits: clients that record hosts, lose requests, or follow a test clock."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from bot.api import (
    Account,
    Clock,
    HttpClient,
    IntentState,
    Json,
    Outcome,
    Position,
    SealedRequest,
    SealingSubmitter,
    ServiceUnavailableError,
    SubmissionBatch,
    TradingSubmitter,
    UnpaidOutcome,
    WebSocketClient,
    WebSocketConnection,
    WriteReceipt,
)

# In real seconds: longer than any test waits.
_FOR_EVER_S = 60.0


class HostRecordingClient:
    """Implements HttpClient on another one; ``reached`` are the hosts that were asked."""

    def __init__(self, http: HttpClient) -> None:
        self.reached: set[str] = set()
        self._http = http

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        self.reached.add(urlsplit(url).netloc)
        return await self._http.get(url, max_bytes=max_bytes, headers=headers)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        self.reached.add(urlsplit(url).netloc)
        return await self._http.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)


class ClockedWebSocketClient:
    """Implements WebSocketClient on real ones whose waits are those of a clock that a test moves."""

    def __init__(self, sockets: WebSocketClient, clock: Clock) -> None:
        self._sockets = sockets
        self._clock = clock

    @asynccontextmanager
    async def connect(self, url: str, *, max_bytes: int) -> AsyncIterator[WebSocketConnection]:
        async with self._sockets.connect(url, max_bytes=max_bytes) as socket:
            yield _ClockedWebSocketConnection(socket, self._clock)


class _ClockedWebSocketConnection:
    def __init__(self, socket: WebSocketConnection, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock

    async def send(self, text: str) -> None:
        await self._socket.send(text)

    async def receive(self, *, within_s: float) -> str:
        heard = asyncio.ensure_future(self._socket.receive(within_s=_FOR_EVER_S))
        waited = asyncio.ensure_future(self._clock.sleep(within_s))
        try:
            await asyncio.wait({heard, waited}, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                return heard.result()
        finally:
            for task in (heard, waited):
                task.cancel()
            await asyncio.gather(heard, waited, return_exceptions=True)
        message = f"no message within {within_s:g} s"
        raise ServiceUnavailableError(message)


class LossySubmitter:
    """Implements SealingSubmitter on another one whose requests and replies get lost, as those of a process that dies.

    ``losses`` says of the next writes what is lost: "request" or "reply".
    """

    def __init__(self, inner: Any) -> None:
        self.losses: list[str] = []
        self.inner: Any = inner

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        sealed: Sequence[SealedRequest] = await self.inner.seal_requests(batch)
        return sealed

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        lost = self.losses.pop(0) if self.losses else ""
        if lost == "request":
            return _unknown(batch)
        receipts: Sequence[WriteReceipt] = await self.inner.submit(batch)
        return _unknown(batch) if lost else receipts

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts: Sequence[WriteReceipt] = await self.inner.read_submissions(batch)
        return receipts


class LossyTradingSubmitter(LossySubmitter):
    """The same for TradingSubmitter."""

    async def account(self) -> Account:
        account: Account = await self.inner.account()
        return account

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        ended: Sequence[str] = await self.inner.cancel(order_ids)
        return ended

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        paid: float | UnpaidOutcome = self.inner.payout_per_share(position, outcome, state)
        return paid


def make_lossy(inner: SealingSubmitter) -> LossySubmitter:
    """Wrap a sealer, as what it is."""
    return LossyTradingSubmitter(inner) if isinstance(inner, TradingSubmitter) else LossySubmitter(inner)


def _unknown(batch: SubmissionBatch) -> list[WriteReceipt]:
    return [
        WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost") for intent in batch.intents
    ]
