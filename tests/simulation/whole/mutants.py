"""Ways to break the program, one at a time and in a process of its own; the simulation must notice each of them.

Each replaces what a name means in this process. A name that is not what it was makes the mutant fail loudly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from bot import redact
from bot.domain.question import SINGLE_TARGET, QuestionRef
from bot.domain.resolution import Happened, Resolution
from bot.domain.submission import Batch, IntentState, Receipt
from bot.domain.wire import Reply, Request
from bot.errors import Unavailable
from bot.gate.brake import Brake
from bot.outbox import reading, sending
from bot.outbox.outbox import Outbox
from bot.store import audit, intents, schedule, writes
from bot.wire import HttpWire
from plugins.metaculus import resolve as metaculus_resolve
from plugins.metaculus import venue as metaculus_venue

_BROKEN = 500

Send = Callable[..., Awaitable[Reply]]
Submit = Callable[..., Awaitable[list[Receipt]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``breaks`` says what the program does not do any more; ``apply`` makes it so in this process."""

    breaks: str
    apply: Callable[[], None]


def _set(place: Any, name: str, value: object) -> None:
    getattr(place, name)
    setattr(place, name, value)


def _replace(place: Any, name: str, part: str, by: str) -> None:
    text = getattr(place, name)
    if part not in text:
        message = f"{name} is not what it was when this mutant was written: no {part!r} in it"
        raise AssertionError(message)
    _set(place, name, text.replace(part, by))


def _resend() -> None:
    send: Send = HttpWire.send

    async def twice(self: HttpWire, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except Unavailable:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)

    _set(HttpWire, "send", twice)


def _no_fence() -> None:
    _set(reading, "_is_proof", lambda *_: True)


def _no_reservation() -> None:
    _replace(intents, "_PLAN", ":currency, :cost", ":currency, 0.0 * :cost")


def _no_brake() -> None:
    _set(Brake, "holds", lambda _: None)


def _no_arm() -> None:
    async def fine(*_: object) -> None:
        return None

    _set(sending, "_objection", fine)


def _error_is_refusal() -> None:
    send: Send = HttpWire.send
    submitted: Submit = sending._submitted  # noqa: SLF001 - mutants reach inside
    broken: list[bool] = []

    async def noting(self: HttpWire, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        reply = await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        broken.append(reply.status >= _BROKEN)
        return reply

    async def refusing(door: object, batch: Batch) -> list[Receipt]:
        broken.clear()
        receipts = await submitted(door, batch)
        unknown = IntentState.UNKNOWN if any(broken) else None
        return [replace(one, state=IntentState.REFUSED) if one.state is unknown else one for one in receipts]

    _set(HttpWire, "send", noting)
    _set(sending, "_submitted", refusing)


def _hopeful() -> None:
    submitted: Submit = sending._submitted  # noqa: SLF001 - as above

    async def hoping(door: object, batch: Batch) -> list[Receipt]:
        receipts = await submitted(door, batch)
        return [replace(one, state=IntentState.ACKED) if one.state is IntentState.UNKNOWN else one for one in receipts]

    _set(sending, "_submitted", hoping)


def _no_recovery() -> None:
    async def none(*_: object) -> int:
        return 0

    _set(Outbox, "_strays", none)


def _unsent_at_start() -> None:
    async def absent(self: Outbox, account: tuple[str, str], detail: str) -> int:
        rows = await self.ledger.submissions.sending()
        for row in rows:
            at = self.clock.now()
            await self.ledger.submissions.mark(row.intent.id, IntentState.ABSENT, detail=detail, at=at)
        return len(rows)

    _set(Outbox, "_strays_of", absent)


def _no_audit() -> None:
    _set(audit, "append", lambda *_: None)


def _fills_twice() -> None:
    _replace(writes, "_ADD_FILL", "values (?, ?", "values (?, ? || '.' || hex(randomblob(4))")


def _resolved_early() -> None:
    known: Callable[..., Resolution | None] = metaculus_resolve.resolution_of

    def guessed(asked: Any, ref: QuestionRef) -> Resolution | None:
        found = known(asked, ref)
        if found is None and asked.status == "closed" and asked.type == "binary":
            return Resolution(
                ref=ref, target=SINGLE_TARGET, outcome=Happened(0.0), resolved_at=asked.scheduled_close_time
            )
        return found

    _set(metaculus_venue, "resolution_of", guessed)


def _leases_for_ever() -> None:
    async def none(*_: object, **__: object) -> int:
        return 0

    _set(schedule.Schedule, "free_leases", none)
    _replace(schedule, "RETURN_EXPIRED", "leased_until <= :now", "leased_until <= :now and 0")


def _tells_secrets() -> None:
    send: Send = HttpWire.send

    async def telling(self: HttpWire, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except Unavailable as error:
            message = f"{error}: {dict(request.headers)}"
            raise Unavailable(message) from error

    _set(HttpWire, "send", telling)
    # What is written down hides secrets once more.
    _set(redact.Redactor, "hide", lambda _, text: text)


_ALL: Sequence[tuple[str, str, Callable[[], None]]] = (
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
    ("resolved-early", "a question that closed is taken for resolved", _resolved_early),
    ("leases-for-ever", "what a dead process had taken on is never taken up again", _leases_for_ever),
    ("tells-secrets", "an error tells the headers of its request, and nothing hides them", _tells_secrets),
)
MUTANTS: Mapping[str, Mutant] = {name: Mutant(breaks=breaks, apply=apply) for name, breaks, apply in _ALL}


@cache
def broken(name: str) -> Mutant:
    """Break this process in that way, once, and return how."""
    MUTANTS[name].apply()
    return MUTANTS[name]
