"""Ways to break the program, one at a time and in a process of its own, for whoever must notice each of them.

Each replaces what a name means in this process. A name that is not what it was makes the mutant fail loudly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.domain.submission import Batch, IntentState, Receipt
from bot.domain.wire import Reply, Request
from bot.errors import Unavailable
from bot.gate.brake import Brake
from bot.net.write_client import HttpWriteClient
from bot.outbox import reading, sending
from bot.outbox.outbox import Outbox
from bot.store import audit, intents, writes

_BROKEN = 500

Send = Callable[..., Awaitable[Reply]]
Submit = Callable[..., Awaitable[list[Receipt]]]
Row = tuple[str, str, Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``breaks`` says what the program does not do any more; ``apply`` makes it so in this process."""

    breaks: str
    apply: Callable[[], None]


def named(rows: Sequence[Row]) -> Mapping[str, Mutant]:
    """Return mutants by name, from rows of name, what it breaks, and how."""
    return {name: Mutant(breaks=breaks, apply=apply) for name, breaks, apply in rows}


def put(place: Any, name: str, value: object) -> None:
    """Let a name that is there mean something else."""
    getattr(place, name)
    setattr(place, name, value)


def amend(place: Any, name: str, part: str, by: str) -> None:
    """Put something in the place of a part of a text that is there."""
    text = getattr(place, name)
    if part not in text:
        message = f"{name} is not what it was when this mutant was written: no {part!r} in it"
        raise AssertionError(message)
    put(place, name, text.replace(part, by))


def _resend() -> None:
    send: Send = HttpWriteClient.send

    async def twice(self: HttpWriteClient, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except Unavailable:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)

    put(HttpWriteClient, "send", twice)


def _no_fence() -> None:
    put(reading, "_is_proof", lambda *_: True)


def _no_reservation() -> None:
    amend(intents, "_PLAN", ":currency, :cost", ":currency, 0.0 * :cost")


def _no_brake() -> None:
    put(Brake, "holds", lambda _: None)


def _no_arm() -> None:
    async def fine(*_: object) -> None:
        return None

    put(sending, "_objection", fine)


def _error_is_refusal() -> None:
    send: Send = HttpWriteClient.send
    submitted: Submit = sending._submitted  # noqa: SLF001 - mutants reach inside
    broken: list[bool] = []

    async def noting(self: HttpWriteClient, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        reply = await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        broken.append(reply.status >= _BROKEN)
        return reply

    async def refusing(door: object, batch: Batch) -> list[Receipt]:
        broken.clear()
        receipts = await submitted(door, batch)
        unknown = IntentState.UNKNOWN if any(broken) else None
        return [replace(one, state=IntentState.REFUSED) if one.state is unknown else one for one in receipts]

    put(HttpWriteClient, "send", noting)
    put(sending, "_submitted", refusing)


def _hopeful() -> None:
    submitted: Submit = sending._submitted  # noqa: SLF001 - as above

    async def hoping(door: object, batch: Batch) -> list[Receipt]:
        receipts = await submitted(door, batch)
        return [replace(one, state=IntentState.ACKED) if one.state is IntentState.UNKNOWN else one for one in receipts]

    put(sending, "_submitted", hoping)


def _no_recovery() -> None:
    async def none(*_: object) -> int:
        return 0

    put(Outbox, "_strays", none)


def _unsent_at_start() -> None:
    async def absent(self: Outbox, account: tuple[str, str], detail: str) -> int:
        rows = await self.ledger.submissions.sending()
        for row in rows:
            at = self.clock.now()
            await self.ledger.submissions.mark(row.intent.id, IntentState.ABSENT, detail=detail, at=at)
        return len(rows)

    put(Outbox, "_strays_of", absent)


def _no_audit() -> None:
    put(audit, "append", lambda *_: None)


def _fills_twice() -> None:
    amend(writes, "_ADD_FILL", "values (?, ?", "values (?, ? || '.' || hex(randomblob(4))")


_ALL: Sequence[Row] = (
    ("resend", "a write without an answer is sent again", _resend),
    ("no-fence", "an absence is believed at once", _no_fence),
    ("no-reservation", "what an order may cost is not held back", _no_reservation),
    ("no-brake", "the STOP file is not looked at", _no_brake),
    ("no-arm", "the last look before a write is not taken", _no_arm),
    ("5xx-is-refused", "an error of the server is taken for a refusal", _error_is_refusal),
    ("hopeful", "what has no answer is taken for done", _hopeful),
    ("no-recovery", "what was on the wire is not looked for", _no_recovery),
    ("unsent-at-start", "what was on the wire at a kill is taken for absent", _unsent_at_start),
    ("fills-twice", "a fill that is read again is recorded again", _fills_twice),
    ("no-audit", "writes are not in the audit", _no_audit),
)
COMMON = named(_ALL)
