"""The requests that would be written, made and not sent: the writer that makes them holds a wire that takes nothing."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

import structlog

from bot.domain.step import Json
from bot.domain.submission import Batch, Sealed, Send
from bot.domain.wire import Reply, Request
from bot.errors import FoxcastError, Rejected, StoreError
from bot.gate.case import Case
from bot.gate.remark import remark
from bot.net.rate_limit import RateLimiter
from bot.ports import Sealer, Submitter, Wire
from bot.redact import hide
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

LEFT_OUT = "(left out)"
# Names of fields whose values are of use to whoever reads them.
_SECRET_NAME = re.compile(r"(?i)signature|secret|passphrase|password|private_?key|api_?key|authorization|^owner$")


class NoWire:
    """Implements ``bot.ports.Wire``, and sends nothing: whatever is given to it is refused before it leaves.

    A writer that must ask another process for a signature leaves it out where ``sends`` is false.
    """

    sends: ClassVar[bool] = False

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        """Raise Rejected: nothing left this machine."""
        del max_bytes, deadline_s
        message = f"a preflight sends nothing, so this {request.method} was not sent"
        raise Rejected(message)


@asynccontextmanager
async def no_wire(*, rates: RateLimiter) -> AsyncIterator[Wire]:
    """Open a wire that sends nothing; the rates are not used."""
    del rates
    yield NoWire()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What would be written for one intent, or ``why`` its request cannot be made; and what would be said after it."""

    sealed: Sealed | None = None
    why: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsing:
    """Whose requests are made: ``writer`` is None where none is written by a request; ``comments``: they go as well."""

    ledger: Ledger
    writer: Submitter | None
    comments: bool = False


async def rehearse(parts: Rehearsing, sends: Sequence[tuple[Case, Send]]) -> Mapping[str, Rehearsal]:
    """Return what would be written, by intent, without secrets; each is made by itself, as a venue takes it."""
    return {send.intent.id: await _rehearsed(parts, case, send) for case, send in sends}


async def _rehearsed(parts: Rehearsing, case: Case, send: Send) -> Rehearsal:
    comment = await _comment(parts, case) if parts.comments else ""
    if not isinstance(parts.writer, Sealer):
        return Rehearsal(comment=comment)
    batch = Batch(key=send.intent.batch, intents=(send.intent,), questions=(case.question,))
    try:
        made = await parts.writer.seal(batch)
    except StoreError:
        raise
    except FoxcastError as error:
        return Rehearsal(why=str(error), comment=comment)
    except Exception as error:
        log.exception("a request cannot be made", question=str(send.intent.ref))
        return Rehearsal(why=f"the writer failed: {type(error).__name__}", comment=comment)
    if not made or not made[0].body:
        return Rehearsal(why="the writer made no request: the question may have changed just now", comment=comment)
    body = without_secrets(made[0].body)
    sealed = Sealed(intent=send.intent.id, tag=made[0].tag, body=body, fence=made[0].fence)
    return Rehearsal(sealed=sealed, comment=comment)


async def _comment(parts: Rehearsing, case: Case) -> str:
    trace = await parts.ledger.forecasts.trace(case.forecast.id)
    trials = [record.trial for record in trace.trials if record.trial is not None]
    return remark(case.question, case.forecast, trials, order=case.order, template=case.lane.template)


def without_secrets(body: str) -> str:
    """Return a request's body with known secrets, and fields that are named like secrets, left out."""
    hidden = hide(body)
    try:
        plain = json.loads(hidden)
    except ValueError:
        return hidden
    kept = _without(plain)
    # Byte for byte as it would be sent, where nothing had to go.
    return hidden if kept == plain else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _without(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: LEFT_OUT if _SECRET_NAME.search(name) else _without(one) for name, one in value.items()}
    return [_without(one) for one in value] if isinstance(value, list) else value
