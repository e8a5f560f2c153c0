"""Requests of people to the daemon, one private file each: operator requests, cancellations, closing of positions."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from bot.core.errors import MalformedDataError, StoreError
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import CancelOrder, ClosePositions, OperatorRequest, SignedRequest
from bot.core.orders import ContractSide
from bot.store.database import translate_errors
from bot.store.event_log import ALERT_EVENT
from bot.store.intents import SELECT_INTENT, IntentRow, read_intent_rows
from bot.store.ledger import Ledger
from bot.store.private_files import read_private_file, sync_to_disk, write_private_file
from bot.store.serialization import JsonSerializer, format_timestamp

REFUSED_FOLDER = "refused"
# A request may contain a new question with a long background.
MAX_REQUEST_BYTES = 1024 * 1024
RequestT = TypeVar("RequestT")


@dataclass(frozen=True, slots=True)
class PendingRequest(Generic[RequestT]):
    """A request that waits."""

    path: Path
    serializer: JsonSerializer[RequestT]

    def read(self) -> RequestT:
        """Return the request; raises MalformedDataError for an unreadable file or another content."""
        try:
            content = read_private_file(self.path, MAX_REQUEST_BYTES + 1)
        except OSError as error:
            message = f"{self.path.name} cannot be read: {error.strerror}"
            raise MalformedDataError(message) from error
        except StoreError as error:
            raise MalformedDataError(str(error)) from error
        if len(content) > MAX_REQUEST_BYTES:
            message = f"{self.path.name} is larger than {MAX_REQUEST_BYTES} bytes"
            raise MalformedDataError(message)
        return self.serializer.decode(content.decode(errors="replace"))

    def done(self) -> None:
        """Delete the request."""
        withdraw_request(self.path)

    def refuse(self) -> Path:
        """Move the request to the folder of refused requests, for people to read; return its new path."""
        refused = self.path.parent / REFUSED_FOLDER / self.path.name
        refused.parent.mkdir(mode=0o700, exist_ok=True)
        return self.path.replace(refused)


def write_request(folder: Path, text: str, *, at: datetime) -> Path:
    """Write the text of a request to a new file, readable only by its owner; raises StoreError."""
    name = f"{format_timestamp(at).replace(':', '')}-{derive_id('request', text)}"
    path = folder / f"{name}.json"
    partial = path.with_suffix(".partial")
    with translate_errors(path):
        write_private_file(partial, text.encode())
        partial.replace(path)
        sync_to_disk(path.parent)
    return path


def withdraw_request(path: Path) -> None:
    """Delete a request if it still waits."""
    path.unlink(missing_ok=True)


def list_pending(folder: Path, serializer: JsonSerializer[RequestT]) -> list[PendingRequest[RequestT]]:
    """Return the waiting requests, oldest first."""
    return [PendingRequest(path, serializer) for path in sorted(folder.glob("*.json"))]


REQUEST_FOLDER = "requests"
_REQUEST_SERIALIZER: JsonSerializer[OperatorRequest] = JsonSerializer("request", OperatorRequest)


def send_request(state: Path, request: OperatorRequest, *, at: datetime) -> Path:
    """Write a request for the daemon of the state folder, readable only by its owner.

    Raises StoreError, and MalformedDataError for a request that is too large.
    """
    text = _REQUEST_SERIALIZER.encode(request)
    if len(text.encode()) > MAX_REQUEST_BYTES:
        message = f"a request ({request.kind}) takes more than {MAX_REQUEST_BYTES} bytes; shorten its texts"
        raise MalformedDataError(message)
    return write_request(state / REQUEST_FOLDER, text, at=at)


def request_text(request: SignedRequest) -> str:
    """Return the text of a request without its proof: the text that the proof signs."""
    return _REQUEST_SERIALIZER.encode(replace(request, proof=""))


def pending_requests(state: Path) -> list[PendingRequest[OperatorRequest]]:
    """Return the waiting requests, oldest first."""
    return list_pending(state / REQUEST_FOLDER, _REQUEST_SERIALIZER)


CANCELLATION_FOLDER = "orders"
_CANCELLATION_SERIALIZER: JsonSerializer[CancelOrder] = JsonSerializer("request", CancelOrder)


def request_cancellation(folder: Path, request: CancelOrder) -> Path:
    """Write a request for the daemon of the folder, readable only by its owner; raises StoreError."""
    return write_request(
        folder / REQUEST_FOLDER / CANCELLATION_FOLDER, _CANCELLATION_SERIALIZER.encode(request), at=request.asked_at
    )


def pending_cancellations(folder: Path) -> list[PendingRequest[CancelOrder]]:
    """Return the waiting requests, oldest first."""
    return list_pending(folder / REQUEST_FOLDER / CANCELLATION_FOLDER, _CANCELLATION_SERIALIZER)


CLOSING_FOLDER = "closings"
CLOSING_EVENT_KIND = "close"
# Results are searched among this many newest events.
_MAX_RESULT_EVENTS = 10_000
_UNREPORTED_SALES = f"""
{SELECT_INTENT} where i.venue = :venue and i.account = :account and i.planned_at >= :since
  and coalesce(json_extract(i.order_body, '$.closing'), '') <> ''
  and not exists (select 1 from event e where e.kind = :kind and instr(e.text, i.id)) order by i.seq
"""  # noqa: S608 - made of constants


class ClosingState(StrEnum):
    """The result of closing a position: all sold, a part sold, not known yet, or nothing sold."""

    CLOSED = "closed"
    PART = "part"
    PENDING = "pending"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingResult:
    """The result for one position: ``sold`` of the ``held`` shares, and the ``cash`` received for them.

    ``request`` is the request of a person, ``reason`` the reason of a policy; ``intent`` is the order, "" without one.
    """

    request: str
    venue: str
    question: str
    contract: str
    leg: ContractSide
    held: float
    state: ClosingState
    sold: float = 0.0
    cash: float = 0.0
    currency: str = ""
    intent: str = ""
    why: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """Return it as one line."""
        what = f"{self.leg} of {self.question or self.contract} at {self.venue}"
        text = f"{self.sold:.2f} of {self.held:.2f} {what} sold for {self.cash:.2f} {self.currency}"
        if self.state is ClosingState.HELD:
            text = f"{self.held:.2f} {what} not sold"
        elif self.state is not ClosingState.CLOSED:
            text += f", order {self.intent}"
        return ": ".join(part for part in (self.reason, text, self.why) if part)


_CLOSING_SERIALIZER: JsonSerializer[ClosePositions] = JsonSerializer("request", ClosePositions)
_CLOSING_RESULT_SERIALIZER: JsonSerializer[ClosingResult] = JsonSerializer(
    "result of closing a position", ClosingResult
)


def request_closing(folder: Path, request: ClosePositions) -> Path:
    """Write a request for the daemon of the folder, readable only by its owner; raises StoreError."""
    return write_request(
        folder / REQUEST_FOLDER / CLOSING_FOLDER, _CLOSING_SERIALIZER.encode(request), at=request.asked_at
    )


def pending_closings(folder: Path) -> list[PendingRequest[ClosePositions]]:
    """Return the waiting requests, oldest first."""
    return list_pending(folder / REQUEST_FOLDER / CLOSING_FOLDER, _CLOSING_SERIALIZER)


def is_pending(path: Path) -> bool:
    """Return whether the request in this file still waits."""
    return path.exists()


async def record_closing_result(ledger: Ledger, result: ClosingResult, *, at: datetime, alert: str = "") -> None:
    """Record the result of closing a position, and the ``alert`` about it in the same write."""
    recorded = [(CLOSING_EVENT_KIND, _CLOSING_RESULT_SERIALIZER.encode(result))]
    await ledger.events.add_events([*recorded, *[(ALERT_EVENT, alert)] * bool(alert)], at=at)


async def read_unreported_sales(ledger: Ledger, venue: str, account: str, *, since: datetime) -> list[IntentRow]:
    """Return the orders planned since then to close positions of which no result is on record."""
    values = {"venue": venue, "account": account, "since": format_timestamp(since), "kind": CLOSING_EVENT_KIND}
    return await ledger.submissions.readers.run(
        lambda database: read_intent_rows(database, _UNREPORTED_SALES, **values)
    )


async def read_closing_results(ledger: Ledger, request: str) -> list[ClosingResult]:
    """Return the results of a request in the order of their sales."""
    recorded = [
        _CLOSING_RESULT_SERIALIZER.decode(event.text)
        for event in await ledger.events.recent(_MAX_RESULT_EVENTS, CLOSING_EVENT_KIND)
    ]
    return [result for result in reversed(recorded) if result.request == request]
