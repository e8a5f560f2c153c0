"""Handle the requests that people made of the daemon.

Forecasts, locks, and the privileged ones of ``privileged_requests``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from bot.core.errors import RequestRejectedError, StoreError, describe_error
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import (
    ClosePositions,
    ForecastQuestion,
    HaltSubmissions,
    LockQuestion,
    OperatorRequest,
    PrivilegedRequest,
    UnlockQuestion,
)
from bot.core.outcomes import RESOLUTION_UNDONE, VoidOutcome, is_withdrawn_outcome
from bot.core.plain_text import suggest_names
from bot.core.questions import Question
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import REQUESTED_REASON, ConfiguredForecaster
from bot.forecasting.trial_tools import question_cutoff
from bot.jobs.privileged_requests import PrivilegedRequestContext, authorize_request, handle_privileged_request
from bot.store.ledger import Ledger
from bot.store.requests import PendingRequest, pending_requests
from bot.store.schedule import DueEntry
from bot.store.serialization import question_version

log = structlog.get_logger(__name__)


def _do_not_wake(_: Sequence[DueEntry]) -> None:
    """Do nothing: the next pass handles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequestContext:
    """What the request job works with: the folder of the requests, the ledger, and the open forecasters.

    ``cost_check`` says what may be spent without approval. ``wake`` is called with forecasts that were made due, for
    which a person waits. ``privileged_requests`` is set if permissions are managed here.
    """

    folder: Path
    ledger: Ledger
    clock: Clock
    forecasters: Mapping[str, ConfiguredForecaster] = field(default_factory=dict)
    cost_check: CostCheck = field(default_factory=CostCheck)
    wake: Callable[[Sequence[DueEntry]], None] = _do_not_wake
    privileged_requests: PrivilegedRequestContext | None = None


async def handle_requests(job: OperatorRequestContext) -> str:
    """Handle each waiting request, record it, and remove it; put aside an unreadable or impossible one.

    Halts come first. A fault in one request does not stop the handling of the others.
    """
    done = refused = 0
    for request in sorted(pending_requests(job.folder), key=_is_halt, reverse=True):
        try:
            note = await _handle_request(job, request.read())
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - people drop files, and a halt may wait behind an invalid one
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {describe_error(error)}"
            log.warning("request refused", request=request.path.name, why=describe_error(error))
        else:
            done += 1
            # The person who asked finds the answer by the name of the request.
            note = f"{note} [{request.path.stem}]"
            request.done()
        await job.ledger.events.add_event("request", note, at=job.clock.now())
    return f"{done} requests done" + (f", {refused} refused" if refused else "")


def _is_halt(request: PendingRequest[OperatorRequest]) -> bool:
    try:
        return isinstance(request.read(), HaltSubmissions)
    except Exception:  # noqa: BLE001 - it is put aside when its turn comes
        return False


async def record_open_question(ledger: Ledger, question: Question, *, now: datetime) -> None:
    """Record a question as its venue shows it now, open to forecasts: an outcome that it had was withdrawn."""
    await ledger.questions.record([question], seen_at=now)
    if question.as_of is not None:
        return
    known = await ledger.resolutions.current(question.ref)
    undone = [
        replace(found, outcome=VoidOutcome(RESOLUTION_UNDONE), resolved_at=now)
        for found in known
        if not is_withdrawn_outcome(found.outcome)
    ]
    await ledger.resolutions.record(undone, seen_at=now)


async def is_closed_or_resolved(ledger: Ledger, question: Question, *, now: datetime) -> bool:
    """Return whether a question has closed, or all its targets have resolved, according to the ledger."""
    return is_closed(question, now=now) or await _is_resolved(ledger, question)


def is_closed(question: Question, *, now: datetime) -> bool:
    """Return whether a question has closed at the cutoff of a forecast made now."""
    return question.closes_at is not None and question.closes_at <= question_cutoff(question, now)


async def _is_resolved(ledger: Ledger, question: Question) -> bool:
    resolutions = await ledger.resolutions.current(question.ref)
    resolved = {found.target for found in resolutions if not is_withdrawn_outcome(found.outcome)}
    return resolved.issuperset(target.key for target in question.targets)


async def require_open_question(ledger: Ledger, question: Question, forecaster: str, *, now: datetime) -> None:
    """Raise RequestRejectedError, with what can be done, for a question that is closed, has resolved, or is locked.

    A question that its venue dates is forecast with what was known at that date, even after it has resolved.
    """
    ref = question.ref
    if question.closes_at is not None and is_closed(question, now=now):
        message = f"{ref} closed at {_format_moment(question.closes_at)}, so there is nothing left to forecast"
        raise RequestRejectedError(message)
    if question.as_of is None and await _is_resolved(ledger, question):
        message = f"{ref} has resolved; see its forecasts with: foxcast show {ref}"
        raise RequestRejectedError(message)
    for lock in await ledger.schedule.locks(now):
        if lock.ref == ref and lock.forecaster in {None, forecaster}:
            message = f"{ref} is locked: {lock.reason}; unlock it with: foxcast unlock {ref}"
            raise RequestRejectedError(message)


async def _handle_request(job: OperatorRequestContext, request: OperatorRequest) -> str:
    if isinstance(request, PrivilegedRequest):
        return await _handle_privileged(job, request)
    if not isinstance(request, LockQuestion):
        authorize_request(request, await job.ledger.permissions.principals(), now=job.clock.now())
    if isinstance(request, ForecastQuestion):
        return await _schedule_forecast(job, request)
    if isinstance(request, ClosePositions):
        message = "closing requests are kept in another folder; ask with: foxcast close"
        raise RequestRejectedError(message)
    await job.ledger.questions.current_version(request.ref)
    whose = request.forecaster or "every forecaster"
    match request:
        case LockQuestion():
            await job.ledger.schedule.lock(
                request.ref,
                forecaster=request.forecaster,
                reason=request.reason,
                until=request.until,
                now=job.clock.now(),
            )
            until = "until it is unlocked" if request.until is None else f"until {_format_moment(request.until)}"
            return f"{request.ref} locked for {whose} {until}: {request.reason}"
        case UnlockQuestion():
            was_locked = await job.ledger.schedule.unlock(request.ref, forecaster=request.forecaster)
            return f"{request.ref} unlocked for {whose}" if was_locked else f"{request.ref} was not locked for {whose}"


async def _handle_privileged(job: OperatorRequestContext, request: PrivilegedRequest) -> str:
    if job.privileged_requests is None:
        message = f"permission to submit is not managed here, so {request.kind} is refused"
        raise RequestRejectedError(message)
    return await handle_privileged_request(job.privileged_requests, request)


async def _schedule_forecast(job: OperatorRequestContext, request: ForecastQuestion) -> str:
    ledger, name, now = job.ledger, request.forecaster, job.clock.now()
    if name not in job.forecasters:
        message = (
            f"the forecaster {name} is not running here ({suggest_names(name, job.forecasters)}); to use it, name it "
            "among the forecasters of a venue and start the daemon again, or ask while no daemon runs"
        )
        raise RequestRejectedError(message)
    if request.question is not None:
        await record_open_question(ledger, request.question, now=now)
    question = await ledger.questions.get(request.ref)
    await require_open_question(ledger, question, name, now=now)
    members = await _members_to_forecast(job, question, name)
    await _require_affordable(job, [*(member.forecaster for member in members), name], now)
    newest = (await ledger.forecasts.read_bases([request.ref], name)).get(request.ref)
    due = DueEntry(
        ref=request.ref,
        forecaster=name,
        due_at=now,
        why=REQUESTED_REASON,
        closes_at=question.closes_at,
        answered_at=newest.made_at if newest else None,
        forecast_only=not request.submit,
    )
    entries = [*(replace(one, forecast_only=not request.submit) for one in members), due]
    if request.submit:
        # It may wait for another attempt because somebody only wanted to see it.
        await ledger.schedule.submit_looks(entries)
    await ledger.schedule.plan(entries)
    job.wake(entries)
    return f"forecast of {request.ref} by {name} {REQUESTED_REASON}"


async def _members_to_forecast(job: OperatorRequestContext, question: Question, name: str) -> list[DueEntry]:
    """Return the requests for forecasts that the requested one builds on and that are missing."""
    found: list[DueEntry] = []
    for member in job.forecasters[name].members:
        newest = await job.ledger.forecasts.latest(question.ref, member)
        if newest is not None and newest.version == question_version(question):
            continue
        found += await _members_to_forecast(job, question, member)
        counted = (await job.ledger.forecasts.read_bases([question.ref], member)).get(question.ref)
        found.append(
            DueEntry(
                ref=question.ref,
                forecaster=member,
                due_at=job.clock.now(),
                why=f"{name} builds on it",
                closes_at=question.closes_at,
                answered_at=counted.made_at if counted else None,
            )
        )
    return found


async def _require_affordable(job: OperatorRequestContext, names: Sequence[str], now: datetime) -> None:
    """Refuse a forecast that the forecast job would put on hold, where it would wait without a message."""
    due = {**await job.ledger.schedule.count_due(now)}
    for name in names:
        due[name] = due.get(name, 0) + 1
    held = await job.cost_check.forecasters_on_hold(job.forecasters, due, now=job.clock.now())
    if costly := [name for name in names if name in held]:
        message = (
            f"the due forecasts by {', '.join(costly)} are expected to cost more than llm.budget.ask_above_usd = "
            f"{job.cost_check.ask_above_usd:g}; start the daemon with foxcast run --yes, or raise that"
        )
        raise RequestRejectedError(message)


def _format_moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
