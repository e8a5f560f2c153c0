"""Requests to close positions, on their way to the daemon, and what became of each position."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from bot.domain.order import Leg
from bot.domain.request import ClosePositions
from bot.store.codec import Form
from bot.store.ledger import Ledger
from bot.store.mailbox import REFUSED, Waiting, leave, waiting_in
from bot.store.requests import FOLDER

CLOSINGS = "closings"
KIND = "close"
# Results are looked for among so many of the newest.
_NEWEST = 10_000


class ClosingState(StrEnum):
    """How the sale of a position ended: all of it is sold, a part, not known yet, or nothing was sold."""

    CLOSED = "closed"
    PART = "part"
    PENDING = "pending"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingResult:
    """What became of one position: ``sold`` of the shares that were ``held``, and the ``cash`` that they brought.

    ``request`` names what a person asked, ``reason`` is that of a policy; ``intent`` is the order, "" where none was
    made.
    """

    request: str
    venue: str
    question: str
    contract: str
    leg: Leg
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
        told = f"{self.sold:.2f} of {self.held:.2f} {what} sold for {self.cash:.2f} {self.currency}"
        if self.state is ClosingState.HELD:
            told = f"{self.held:.2f} {what} not sold"
        elif self.state is not ClosingState.CLOSED:
            told += f", order {self.intent}"
        return ": ".join(text for text in (self.reason, told, self.why) if text)


_REQUEST: Form[ClosePositions] = Form("request", ClosePositions)
_RESULT: Form[ClosingResult] = Form("result of closing a position", ClosingResult)


def ask(folder: Path, request: ClosePositions) -> Path:
    """Leave a request for the daemon of the folder, readable by its owner alone; raises StoreError."""
    return leave(folder / FOLDER / CLOSINGS, _REQUEST.encode(request), at=request.asked_at)


def waiting(folder: Path) -> list[Waiting[ClosePositions]]:
    """Return the requests that wait, oldest first."""
    return waiting_in(folder / FOLDER / CLOSINGS, _REQUEST)


def waits(path: Path) -> bool:
    """Say whether nobody has taken up the request in that file yet."""
    return path.exists()


def refused(folder: Path) -> frozenset[str]:
    """Return the names of the files of requests that were put aside."""
    return frozenset(path.name for path in (folder / FOLDER / CLOSINGS / REFUSED).glob("*.json"))


async def keep(ledger: Ledger, result: ClosingResult, *, at: datetime) -> None:
    """Note what became of a position."""
    await ledger.journal.note(KIND, _RESULT.encode(result), at=at)


async def results_of(ledger: Ledger, request: str) -> list[ClosingResult]:
    """Return what became of the positions of a request, in the order in which they were sold."""
    noted = [_RESULT.decode(event.text) for event in await ledger.journal.recent(_NEWEST, KIND)]
    return [result for result in reversed(noted) if result.request == request]
