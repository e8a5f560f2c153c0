"""Do what people asked of the daemon."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from bot.core.nearest_names import suggest_names
from bot.desk.desk import cutoff_of
from bot.domain.question import Question
from bot.domain.request import (
    ClosePositions,
    ForecastQuestion,
    Halt,
    LeaveRequest,
    LockQuestion,
    Request,
    UnlockQuestion,
)
from bot.domain.resolution import UNDONE, Void, is_taken_back
from bot.errors import Rejected, StoreError, told
from bot.jobs.permit import Permitting, permit, require_allowed
from bot.jobs.sitting import ASKED_FOR, Seat
from bot.jobs.spending import Spending
from bot.ports import Clock
from bot.store.codec import version_of
from bot.store.ledger import Ledger
from bot.store.mailbox import Waiting
from bot.store.requests import waiting
from bot.store.schedule import Due

log = structlog.get_logger(__name__)


def _nobody() -> None:
    """Wake nobody: the next pass takes it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending:
    """Whose requests are read, the ledger they change, and the open forecasters with what they may cost unasked.

    ``wake`` is called where a forecast was made due: a person waits for it. ``permitting`` is there where leave to
    submit is given.
    """

    folder: Path
    ledger: Ledger
    clock: Clock
    seats: Mapping[str, Seat] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    wake: Callable[[], None] = _nobody
    permitting: Permitting | None = None


async def attend(parts: Attending) -> str:
    """Do each waiting request, note it, and take it away; put aside one that cannot be read or makes no sense.

    Halts come first. Whatever is wrong with one request keeps none behind it from being done.
    """
    done = refused = 0
    for request in sorted(waiting(parts.folder), key=_is_halt, reverse=True):
        try:
            note = await _do(parts, request.read())
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - people drop files, and a halt may wait behind an odd one
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {told(error)}"
            log.warning("request refused", request=request.path.name, why=told(error))
        else:
            done += 1
            # Who asked finds the answer by the name.
            note = f"{note} [{request.path.stem}]"
            request.done()
        await parts.ledger.journal.note("request", note, at=parts.clock.now())
    return f"{done} requests done" + (f", {refused} refused" if refused else "")


def _is_halt(request: Waiting[Request]) -> bool:
    try:
        return isinstance(request.read(), Halt)
    except Exception:  # noqa: BLE001 - it is put aside when its turn comes
        return False


async def record_open(ledger: Ledger, question: Question, *, now: datetime) -> None:
    """Record a question as its venue shows it now, open to forecasts: an outcome that it had was taken back."""
    await ledger.questions.record([question], seen_at=now)
    if question.as_of is not None:
        return
    known = await ledger.resolutions.current(question.ref)
    undone = [
        replace(found, outcome=Void(UNDONE), resolved_at=now) for found in known if not is_taken_back(found.outcome)
    ]
    await ledger.resolutions.record(undone, seen_at=now)


async def require_open(ledger: Ledger, question: Question, forecaster: str, *, now: datetime) -> None:
    """Raise Rejected, with what can be done, for a question that is closed, has resolved, or is locked.

    A question that its venue dates is forecast with what was known then, also when all is over.
    """
    ref = question.ref
    if question.closes_at is not None and question.closes_at <= cutoff_of(question, now):
        message = f"{ref} closed at {_moment(question.closes_at)}, so there is nothing left to forecast"
        raise Rejected(message)
    resolved = {found.target for found in await ledger.resolutions.current(ref) if not is_taken_back(found.outcome)}
    if question.as_of is None and resolved.issuperset(target.key for target in question.targets):
        message = f"{ref} has resolved; look at what was forecast with: foxcast show {ref}"
        raise Rejected(message)
    for lock in await ledger.schedule.locks(now):
        if lock.ref == ref and lock.forecaster in {None, forecaster}:
            message = f"{ref} is locked: {lock.reason}; take the lock off with: foxcast unlock {ref}"
            raise Rejected(message)


async def _do(parts: Attending, request: Request) -> str:
    if isinstance(request, LeaveRequest):
        return await _permit(parts, request)
    if not isinstance(request, LockQuestion):
        require_allowed(request, await parts.ledger.leave.principals(), now=parts.clock.now())
    if isinstance(request, ForecastQuestion):
        return await _make_due(parts, request)
    if isinstance(request, ClosePositions):
        message = "what is to be closed waits in another folder; ask with: foxcast close"
        raise Rejected(message)
    await parts.ledger.questions.current_version(request.ref)
    whose = request.forecaster or "every forecaster"
    match request:
        case LockQuestion():
            await parts.ledger.schedule.lock(
                request.ref,
                forecaster=request.forecaster,
                reason=request.reason,
                until=request.until,
                now=parts.clock.now(),
            )
            until = "until it is unlocked" if request.until is None else f"until {_moment(request.until)}"
            return f"{request.ref} locked for {whose} {until}: {request.reason}"
        case UnlockQuestion():
            there = await parts.ledger.schedule.unlock(request.ref, forecaster=request.forecaster)
            return f"{request.ref} unlocked for {whose}" if there else f"{request.ref} was not locked for {whose}"


async def _permit(parts: Attending, request: LeaveRequest) -> str:
    if parts.permitting is None:
        message = f"leave to submit is not given here, so no {request.kind} is done"
        raise Rejected(message)
    return await permit(parts.permitting, request)


async def _make_due(parts: Attending, request: ForecastQuestion) -> str:
    ledger, name, now = parts.ledger, request.forecaster, parts.clock.now()
    if name not in parts.seats:
        message = (
            f"the forecaster {name} is not open here ({suggest_names(name, parts.seats)}); to use it, name it among "
            "the forecasters of a venue and start the daemon again, or ask while no daemon runs"
        )
        raise Rejected(message)
    if request.question is not None:
        await record_open(ledger, request.question, now=now)
    question = await ledger.questions.get(request.ref)
    await require_open(ledger, question, name, now=now)
    members = await _members_due(parts, question, name)
    await _require_affordable(parts, [*(member.forecaster for member in members), name], now)
    newest = (await ledger.forecasts.bases([request.ref], name)).get(request.ref)
    due = Due(
        ref=request.ref,
        forecaster=name,
        due_at=now,
        why=ASKED_FOR,
        closes_at=question.closes_at,
        answered_at=newest.made_at if newest else None,
        apart=not request.submit,
    )
    await ledger.schedule.plan([replace(one, apart=not request.submit) for one in members] + [due])
    parts.wake()
    return f"forecast of {request.ref} by {name} {ASKED_FOR}"


async def _members_due(parts: Attending, question: Question, name: str) -> list[Due]:
    """Return the wishes for forecasts that the one asked for builds on and that are not there."""
    found: list[Due] = []
    for member in parts.seats[name].members:
        newest = await parts.ledger.forecasts.latest(question.ref, member)
        if newest is not None and newest.version == version_of(question):
            continue
        found += await _members_due(parts, question, member)
        counted = (await parts.ledger.forecasts.bases([question.ref], member)).get(question.ref)
        found.append(
            Due(
                ref=question.ref,
                forecaster=member,
                due_at=parts.clock.now(),
                why=f"{name} builds on it",
                closes_at=question.closes_at,
                answered_at=counted.made_at if counted else None,
            )
        )
    return found


async def _require_affordable(parts: Attending, names: Sequence[str], now: datetime) -> None:
    """Refuse what the forecast job would hold; it would wait there without a word."""
    due = {**await parts.ledger.schedule.due(now)}
    for name in names:
        due[name] = due.get(name, 0) + 1
    held = await parts.spending.held(parts.seats, due, now=parts.clock.now())
    if dear := [name for name in names if name in held]:
        message = (
            f"what is due to {', '.join(dear)} is expected to cost more than llm.budget.ask_above_usd = "
            f"{parts.spending.ask_above_usd:g}; start the daemon with foxcast run --yes, or raise that"
        )
        raise Rejected(message)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
