"""Ways to break the program on purpose.

One at a time and in a process of its own, for the campaigns that must notice each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.core.errors import ServiceUnavailableError
from bot.core.submissions import IntentState, SubmissionBatch, WriteReceipt
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox import batch_submission, outbox
from bot.execution.outbox.outbox import Outbox
from bot.net.write_client import HttpWriteClient
from bot.store import audit_log, intents, submission_attempts

_BROKEN = 500

Send = Callable[..., Awaitable[HttpResponse]]
Submit = Callable[..., Awaitable[list[WriteReceipt]]]
Row = tuple[str, str, Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMutant:
    """``description`` says what the program does not do any more; ``apply`` makes it so in this process."""

    description: str
    apply: Callable[[], None]


def mutants_by_name(rows: Sequence[Row]) -> Mapping[str, ProgramMutant]:
    """Return mutants by name, from rows of name, what it breaks, and how."""
    return {name: ProgramMutant(description=breaks, apply=apply) for name, breaks, apply in rows}


def replace_attribute(place: Any, name: str, value: object) -> None:
    """Let a name that is there mean something else."""
    getattr(place, name)
    setattr(place, name, value)


def replace_text(place: Any, name: str, part: str, by: str) -> None:
    """Put something in the place of a part of a text that is there."""
    text = getattr(place, name)
    if part not in text:
        message = f"{name} is not what it was when this mutant was written: no {part!r} in it"
        raise AssertionError(message)
    replace_attribute(place, name, text.replace(part, by))


def _resend() -> None:
    send: Send = HttpWriteClient.send

    async def twice(self: HttpWriteClient, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        try:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        except ServiceUnavailableError:
            return await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)

    replace_attribute(HttpWriteClient, "send", twice)


def _no_fence() -> None:
    replace_attribute(outbox, "_is_proven_absent", lambda *_: True)


def _no_reservation() -> None:
    replace_text(intents, "_INSERT_INTENT", ":currency, :cost", ":currency, 0.0 * :cost")


def _no_brake() -> None:
    replace_attribute(KillSwitch, "halt_reason", lambda _: None)


def _no_arm() -> None:
    async def fine(*_: object) -> None:
        return None

    replace_attribute(batch_submission, "_intent_objection", fine)


def _error_is_refusal() -> None:
    send: Send = HttpWriteClient.send
    submitted: Submit = batch_submission._submit_once  # noqa: SLF001 - mutants reach inside
    broken: list[bool] = []

    async def noting(self: HttpWriteClient, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        reply = await send(self, request, max_bytes=max_bytes, deadline_s=deadline_s)
        broken.append(reply.status >= _BROKEN)
        return reply

    async def refusing(door: object, batch: SubmissionBatch) -> list[WriteReceipt]:
        broken.clear()
        receipts = await submitted(door, batch)
        unknown = IntentState.UNKNOWN if any(broken) else None
        return [replace(one, state=IntentState.REFUSED) if one.state is unknown else one for one in receipts]

    replace_attribute(HttpWriteClient, "send", noting)
    replace_attribute(batch_submission, "_submit_once", refusing)


def _assume_success() -> None:
    submitted: Submit = batch_submission._submit_once  # noqa: SLF001 - as above

    async def hoping(door: object, batch: SubmissionBatch) -> list[WriteReceipt]:
        receipts = await submitted(door, batch)
        return [replace(one, state=IntentState.ACKED) if one.state is IntentState.UNKNOWN else one for one in receipts]

    replace_attribute(batch_submission, "_submit_once", hoping)


def _no_recovery() -> None:
    async def none(*_: object) -> int:
        return 0

    replace_attribute(Outbox, "_mark_interrupted", none)


def _unsent_at_start() -> None:
    async def absent(self: Outbox, account: tuple[str, str], detail: str) -> int:
        rows = await self.ledger.submissions.sending()
        for row in rows:
            at = self.clock.now()
            await self.ledger.submissions.move_intent(row.intent.id, IntentState.ABSENT, detail=detail, at=at)
        return len(rows)

    replace_attribute(Outbox, "_mark_account_interrupted", absent)


def _no_audit() -> None:
    replace_attribute(audit_log, "append_audit_row", lambda *_: None)


def _fills_twice() -> None:
    replace_text(submission_attempts, "_INSERT_FILL", "values (?, ?", "values (?, ? || '.' || hex(randomblob(4))")


_COMMON_ROWS: Sequence[Row] = (
    ("resend", "a write without an answer is sent again", _resend),
    ("no-fence", "an absence is believed at once", _no_fence),
    ("no-reservation", "what an order may cost is not held back", _no_reservation),
    ("no-brake", "the STOP file is not looked at", _no_brake),
    ("no-arm", "the last look before a write is not taken", _no_arm),
    ("5xx-is-refused", "an error of the server is taken for a refusal", _error_is_refusal),
    ("hopeful", "what has no answer is taken for done", _assume_success),
    ("no-recovery", "what was on the wire is not looked for", _no_recovery),
    ("unsent-at-start", "what was on the wire at a kill is taken for absent", _unsent_at_start),
    ("fills-twice", "a fill that is read again is recorded again", _fills_twice),
    ("no-audit", "writes are not in the audit", _no_audit),
)
COMMON_MUTANTS = mutants_by_name(_COMMON_ROWS)
