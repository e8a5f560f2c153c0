"""Handle privileged requests: arm, disarm, halt, resume, approve, withdraw, adopt, and manage principals.

The proof of each is checked again here, and each has its audit row.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.core.errors import AuthenticationError, NotFoundError, RequestRejectedError, StoreError
from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import (
    AddPrincipal,
    AdoptFolder,
    AdoptIntent,
    AnswerApproval,
    ArmVenue,
    ClosePositions,
    DecidePair,
    DisarmVenue,
    ForecastQuestion,
    HaltSubmissions,
    PrivilegedRequest,
    ResumeSubmissions,
    RevokePrincipal,
    SignedRequest,
    UnlockQuestion,
    WithdrawForecast,
)
from bot.core.permissions import ApprovalState, ArmRecord, SubmissionApproval, UserRole
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState
from bot.execution.gate.access_control import REQUIRED_ROLES, PrivilegedAction, require_role, verify_request_proof
from bot.execution.gate.config_digest import is_same_public_config
from bot.execution.gate.decision_context import RETRY_HOLD_AFTER
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.kill_switch import engage_kill_switch, release_kill_switch, signed_reason, was_engaged_between
from bot.execution.gate.rules import arm_objection
from bot.jobs.halts import ALL_ORDERS_FIELD
from bot.jobs.ledger_maintenance import BROKEN_AUDIT_REMEDY, verify_audit
from bot.jobs.withdrawals import withdrawal_decision
from bot.store import decisions, permissions
from bot.store.audit_log import AuditRow
from bot.store.folder_identity import ADOPT_REMEDY, check_identity, export_identity, make_identity, write_identity
from bot.store.ledger import LEDGER_FILE, Ledger
from bot.store.permissions import ALL_VENUES, HaltEndCondition, PrincipalRecord, SubmissionHalt
from bot.store.question_pairs import PairState, decide_pair
from bot.store.requests import request_text
from bot.store.submissions import OutcomeAdoption

_TOKEN_HEX = re.compile(r"(?:[0-9a-f]{2}){8,64}")
# A request that takes risk must be fresh: an old or copied one is refused.
MAX_REQUEST_AGE = timedelta(minutes=15)
# A request that waits for the next run may be older.
MAX_QUEUED_AGE = timedelta(days=1)
# As long as a season of a tournament.
MAX_ARMED_TIME = timedelta(days=120)

_LOCK_HINT = "a later forecast will be submitted again; to prevent that: foxcast lock "

# Records a person's statement about an intent; raises as the store does.
AdoptCallback = Callable[[OutcomeAdoption], Awaitable[None]]

_UNSETTLED_STATES = frozenset({IntentState.UNKNOWN, IntentState.IN_DOUBT})
_IN_FLIGHT_STATES = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.SENDING})
_ACTIONS: Mapping[type[SignedRequest], PrivilegedAction] = {
    ArmVenue: PrivilegedAction.ARM,
    DisarmVenue: PrivilegedAction.DISARM,
    HaltSubmissions: PrivilegedAction.HALT,
    ResumeSubmissions: PrivilegedAction.RESUME,
    AddPrincipal: PrivilegedAction.ADD_PRINCIPAL,
    RevokePrincipal: PrivilegedAction.REVOKE_PRINCIPAL,
    AdoptIntent: PrivilegedAction.ADOPT,
    WithdrawForecast: PrivilegedAction.WITHDRAW,
    UnlockQuestion: PrivilegedAction.UNLOCK,
    ForecastQuestion: PrivilegedAction.FORECAST,
    ClosePositions: PrivilegedAction.CLOSE,
    AdoptFolder: PrivilegedAction.ADOPT_FOLDER,
    DecidePair: PrivilegedAction.DECIDE_PAIR,
}
# Requests that only take permission away hold at any age: they may have waited while no daemon ran.
_AGELESS = frozenset({PrivilegedAction.DISARM, PrivilegedAction.REJECT, PrivilegedAction.REVOKE_PRINCIPAL})
_MAX_AGES: Mapping[PrivilegedAction, timedelta] = {
    PrivilegedAction.UNLOCK: MAX_QUEUED_AGE,
    PrivilegedAction.FORECAST: MAX_QUEUED_AGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivilegedRequestContext:
    """What privileged requests work on. ``execution_policies`` are all those of config, ``trading_venues`` take orders.

    ``is_displaced``: the folder was copied or moved before this run began, so that live venues use paper books.
    ``withdrawal_venues`` are those at which a published forecast can be withdrawn. ``folder`` is that of the ledger,
    which holds the exported head of the audit; None if there is none. ``adopt`` is the method of the outbox, if one
    is open, so that no reading back interferes. ``on_resume`` is called with a venue that a
    person resumed, None for all of them, and with the venues whose credentials stay refused.
    """

    ledger: Ledger
    clock: Clock
    stop_file: Path
    execution_policies: Mapping[str, ExecutionPolicy] = field(default_factory=dict)
    trading_venues: frozenset[str] = frozenset()
    withdrawal_venues: frozenset[str] = frozenset()
    folder: Path | None = None
    is_displaced: bool = False
    adopt: AdoptCallback | None = None
    on_resume: Callable[[str | None, Collection[str]], None] = lambda *_: None


async def handle_privileged_request(job: PrivilegedRequestContext, request: PrivilegedRequest) -> str:
    """Handle the request and return what was done.

    Raises AuthenticationError if the role or the proof is missing, RequestRejectedError for an impossible request, and
    NotFoundError.
    """
    authorize_request(request, await job.ledger.permissions.principals(), now=job.clock.now())
    return await _HANDLERS[type(request)](job, request)


def requested_action(request: SignedRequest) -> PrivilegedAction:
    """Return what is requested."""
    if isinstance(request, AnswerApproval):
        return PrivilegedAction.APPROVE if request.approved else PrivilegedAction.REJECT
    return _ACTIONS[type(request)]


def authorize_request(request: SignedRequest, known: list[PrincipalRecord], *, now: datetime) -> None:
    """Raise AuthenticationError unless the person has the role and the proof, and asked not long ago.

    A request that only takes permission away may be of any age.

    While nobody has a token, anybody who can write the state folder is an approver: they could write the ledger too.
    """
    action = requested_action(request)
    if REQUIRED_ROLES[action] is None:
        return
    if known:
        _require_proof(request, known)
    asked_at, max_age = request.asked_at, _MAX_AGES.get(action, MAX_REQUEST_AGE)
    if asked_at is not None and action not in _AGELESS and not abs(now - asked_at) <= max_age:
        when = "in the future" if asked_at > now else "too long ago"
        message = f"this {action} was asked for at {asked_at:%Y-%m-%d %H:%M} UTC, {when}; ask again"
        raise AuthenticationError(message)


def _require_proof(request: SignedRequest, known: list[PrincipalRecord]) -> None:
    action = requested_action(request)
    principal = next((one for one in known if one.name == request.by), None)
    who = request.by or "an unnamed person"
    require_role(None if principal is None else principal.role, action, who=who)
    if (
        principal is None
        or request.asked_at is None
        or not verify_request_proof(request.proof, principal.hash, request_text(request))
    ):
        message = f"this {action} does not prove that {who} asked for it"
        raise AuthenticationError(message)


async def _arm_venue(job: PrivilegedRequestContext, request: ArmVenue) -> str:
    policy, now = _execution_policy(job, request.venue), job.clock.now()
    _require_own_folder(job)
    amounts = (request.per_order, request.per_day, request.total)
    if policy.mode not in {ExecutionMode.APPROVE, ExecutionMode.LIVE}:
        message = (
            f'{policy.venue} is in mode {policy.mode}, which submits nothing; set mode = "live" in config.toml first'
        )
        raise RequestRejectedError(message)
    if not is_same_public_config(request.config, policy.config_digest) or request.account != policy.account:
        message = (
            f"the daemon was started with another configuration of {policy.venue}, or other environment variables; "
            "restart it, then arm the venue"
        )
        raise RequestRejectedError(message)
    if not now < request.until <= now + MAX_ARMED_TIME:
        message = f"an arm record must end after now and within {MAX_ARMED_TIME.days} days"
        raise RequestRejectedError(message)
    _require_amounts(policy.venue, amounts, takes_orders=policy.venue in job.trading_venues)
    arm = ArmRecord(
        id=derive_id("arm", request_text(request)),
        venue=policy.venue,
        account=policy.account,
        config=policy.config_digest,
        by=request.by,
        armed_at=now,
        until=request.until,
        per_order=request.per_order,
        per_day=request.per_day,
        total=request.total,
    )
    amount_text = " ".join(
        f"{name}={amount:g}" for name, amount in zip(("order", "day", "total"), amounts, strict=True) if amount
    )
    body = {
        "arm": arm.id,
        "account": arm.account,
        "until": arm.until.isoformat(),
        "bounds": amount_text,
        "config": arm.config,
    }

    if await job.ledger.permissions.read(lambda database: permissions.is_known_arm_record(database, arm.id)):
        # The same request again, as after a crash: its arm record stays as it is, whatever its state.
        newest = await job.ledger.permissions.read(
            lambda database: permissions.newest_arm_record(database, policy.venue, policy.account)
        )
        return f"this was done before; {arm_objection(policy, newest, now) or f'{policy.venue} is armed'}"
    work = decisions.releasing_holds(
        lambda database: permissions.add_arm_record(database, arm),
        at=now,
        by=now + RETRY_HOLD_AFTER,
        venue=policy.venue,
    )
    await job.ledger.permissions.write_with_audit(work, _audit_row(request, now, policy.venue, **body))
    return f"{policy.venue} armed until {arm.until:%Y-%m-%d %H:%M} UTC" + (f" ({amount_text})" if amount_text else "")


def _require_own_folder(job: PrivilegedRequestContext) -> None:
    """Raise RequestRejectedError in a folder that was copied or moved, and in one that was adopted in this run."""
    fault = "" if job.folder is None else check_identity(job.folder / LEDGER_FILE).fault
    if fault:
        message = f"the state folder {job.folder} {fault}, so it may not submit; {ADOPT_REMEDY}"
        raise RequestRejectedError(message)
    if job.is_displaced:
        message = "the state folder was adopted while this daemon used paper; restart it, then arm the venue"
        raise RequestRejectedError(message)


def _require_amounts(venue: str, amounts: tuple[float | None, ...], *, takes_orders: bool) -> None:
    given = [amount for amount in amounts if amount is not None]
    if takes_orders and len(given) < len(amounts):
        message = f"{venue} takes orders, so arm it with --per-order, --per-day and --total"
        raise RequestRejectedError(message)
    if not takes_orders and given:
        message = f"nothing is paid at {venue}, so arm it without amounts"
        raise RequestRejectedError(message)
    if given != sorted(given):
        message = "--per-order must not be above --per-day, nor --per-day above --total"
        raise RequestRejectedError(message)


async def _disarm_venue(job: PrivilegedRequestContext, request: DisarmVenue) -> str:
    now = job.clock.now()
    ended = await job.ledger.permissions.write_with_audit(
        lambda database: permissions.disarm_venue(database, request.venue, at=now),
        _audit_row(request, now, request.venue),
    )
    return f"{request.venue} disarmed" if ended else f"{request.venue} was not armed"


async def _halt_submissions(job: PrivilegedRequestContext, request: HaltSubmissions) -> str:
    now = job.clock.now()
    if request.venue:
        _execution_policy(job, request.venue)
    # A request may have waited while no daemon ran: a resume that was asked after it ends it too.
    began_at = min(now, request.asked_at)
    halt = SubmissionHalt(venue=request.venue, at=began_at, why=request.reason, by=request.by)
    if halt.venue == ALL_VENUES and not job.stop_file.exists():
        engage_kill_switch(job.stop_file, signed_reason(request.reason, request.by))
    order_scope = {ALL_ORDERS_FIELD: "yes"} if request.all_orders else {}
    row = _audit_row(request, now, request.venue, reason=request.reason, **order_scope)
    await job.ledger.permissions.write_with_audit(lambda database: permissions.add_halt(database, halt), row)
    return f"halted {request.venue or 'everything'}: {request.reason}"


async def _resume_submissions(job: PrivilegedRequestContext, request: ResumeSubmissions) -> str:
    now, venue = job.clock.now(), request.venue
    await _require_intact_audit(job)
    body = {"where": "all" if venue is None else venue}

    # Halts that came after this request stay: nobody has looked at them.
    work = decisions.releasing_holds(
        lambda database: permissions.resume_submissions(
            database, venue, by=request.by, at=now, made_by=request.asked_at
        ),
        at=now,
        by=now + RETRY_HOLD_AFTER,
        venue=venue,
    )
    ended = await job.ledger.permissions.write_with_audit(work, _audit_row(request, now, venue or "", **body))
    remaining_halts = [
        halt for halt in await job.ledger.permissions.read(permissions.list_active_halts) if venue in {None, halt.venue}
    ]
    job.on_resume(venue, {one.venue for one in remaining_halts if one.end_condition is HaltEndCondition.RENEWED})
    where = "everything" if venue is None else venue
    if venue is None and was_engaged_between(job.stop_file, request.asked_at, now):
        return f"{_describe_resumed(where, ended, '')}; {job.stop_file.name} was made after this request, and stays"
    released = venue is None and release_kill_switch(job.stop_file)
    suffix = f"; {'; '.join(map(str, remaining_halts))}" if remaining_halts else ""
    return _describe_resumed(where, ended, job.stop_file.name if released else "") + suffix


def _describe_resumed(where: str, ended: int, file: str) -> str:
    done = [f"{ended} halt{'s' * (ended > 1)} ended"] * (ended > 0) + [f"the file {file} is removed"] * bool(file)
    return f"{where} resumed, {' and '.join(done)}" if done else f"{where} was not halted"


async def _require_intact_audit(job: PrivilegedRequestContext) -> None:
    """Raise RequestRejectedError while the audit is broken, since it no longer shows who permitted what."""
    if job.folder is None:
        found = await job.ledger.permissions.verify()
    else:
        found = await verify_audit(job.ledger, job.folder)
    if not found.sound:
        message = f"nothing is resumed while the audit is broken: {found.why}; {BROKEN_AUDIT_REMEDY}"
        raise RequestRejectedError(message)


async def _answer_approval(job: PrivilegedRequestContext, request: AnswerApproval) -> str:
    now = job.clock.now()
    known = await job.ledger.permissions.read(lambda database: permissions.find_approval(database, request.approval))
    policy = job.execution_policies.get(known.venue)
    holds = known.expires_at if policy is None else now + policy.approval_lifetime
    answered = SubmissionApproval(
        id=known.id,
        forecast=known.forecast,
        venue=known.venue,
        cost=known.cost,
        state=ApprovalState.APPROVED if request.approved else ApprovalState.REJECTED,
        asked_at=known.asked_at,
        expires_at=holds,
        by=request.by,
    )
    body = {"approval": known.id, "forecast": known.forecast, "cost": f"{known.cost:.6f}"}
    await job.ledger.permissions.write_with_audit(
        lambda database: permissions.answer_approval(database, answered, at=now),
        _audit_row(request, now, known.venue, **body),
    )
    return f"{known.id} {answered.state} by {request.by}"


async def _add_principal(job: PrivilegedRequestContext, request: AddPrincipal) -> str:
    now = job.clock.now()
    if not (_TOKEN_HEX.fullmatch(request.salt) and _TOKEN_HEX.fullmatch(request.hash)):
        message = f"the salt and the hash of the token of {request.name} are not hexadecimal; create the token again"
        raise RequestRejectedError(message)
    principal = PrincipalRecord(
        name=request.name, role=UserRole(request.role), salt=request.salt, hash=request.hash, made_at=now
    )
    row = _audit_row(request, now, "", name=request.name, role=request.role.value)
    await job.ledger.permissions.write_with_audit(lambda database: permissions.add_principal(database, principal), row)
    return f"{request.name} is {request.role} now"


async def _revoke_principal(job: PrivilegedRequestContext, request: RevokePrincipal) -> str:
    now = job.clock.now()
    row = _audit_row(request, now, "", name=request.name)
    await job.ledger.permissions.write_with_audit(
        lambda database: permissions.revoke_principal(database, request.name, at=now), row
    )
    return f"the token of {request.name} is revoked"


async def _adopt_outcome(job: PrivilegedRequestContext, request: AdoptIntent) -> str:
    state = IntentState.ABSENT if request.absent else IntentState.ACKED
    await _require_adoptable(job, request.intent, state)
    adoption = OutcomeAdoption(
        intent=request.intent, state=state, by=request.by, why=request.reason, reference=request.reference
    )
    try:
        if job.adopt is not None:
            await job.adopt(adoption)
        else:
            await job.ledger.submissions.adopt(adoption, at=job.clock.now())
    except StoreError:
        # It may have been settled meanwhile, which is no fault of the database.
        await _require_adoptable(job, request.intent, state)
        raise
    what = "does not exist at the venue" if request.absent else f"exists at the venue as {request.reference}"
    return f"order {request.intent}: {what}, according to {request.by}"


async def _withdraw_forecast(job: PrivilegedRequestContext, request: WithdrawForecast) -> str:
    ref, now = request.ref, job.clock.now()
    policy = _execution_policy(job, ref.venue)
    if policy.venue not in job.withdrawal_venues:
        message = f"{policy.venue} has no forecasts that can be withdrawn"
        raise RequestRejectedError(message)
    if policy.mode is ExecutionMode.OFF:
        message = f"{policy.venue} is off; nothing is submitted there"
        raise RequestRejectedError(message)
    standing = await job.ledger.submissions.read_standing(ref, policy.account, paper=not policy.is_live)
    why = f"withdrawn by {request.by}" + (f": {request.reason}" if request.reason else "")
    send = withdrawal_decision(standing, policy, asked_as=request_text(request), why=why)
    row = _audit_row(request, now, policy.venue, question=str(ref), intent=send.intent.id, reason=request.reason)
    decision = await job.ledger.permissions.write_with_audit(
        lambda database: decisions.store_decision(database, send.intent.forecast, send, now), row
    )
    if isinstance(decision, HoldDecision):
        message = f"{ref} is not withdrawn yet: {decision.why}; ask again later"
        raise RequestRejectedError(message)
    return f"the withdrawal of {ref} is sent with the next pass of foxcast run, see foxcast orders; {_LOCK_HINT}{ref}"


async def _adopt_folder(job: PrivilegedRequestContext, request: AdoptFolder) -> str:
    now = job.clock.now()
    if job.folder is None:
        message = "there is no state folder to adopt"
        raise RequestRejectedError(message)
    found = check_identity(job.folder / LEDGER_FILE)
    if not found.fault:
        return f"{job.folder} is in its place already; there is nothing to adopt"
    identity = make_identity(job.folder, at=now)
    before = "" if found.identity is None else found.identity.id
    body = {"folder": identity.id, "before": before, "why": found.fault, "host": identity.place.host}
    row = _audit_row(request, now, "", **body)
    await job.ledger.permissions.write_with_audit(lambda database: write_identity(database, identity), row)
    export_identity(job.folder, identity)
    restart = "; restart the daemon to submit live" if job.is_displaced else ""
    return f"{job.folder} belongs to this machine and place now; all arm records ended{restart}"


async def _decide_pair(job: PrivilegedRequestContext, request: DecidePair) -> str:
    now, state = job.clock.now(), PairState.CONFIRMED if request.confirmed else PairState.REFUSED
    pair = await job.ledger.question_pairs.get(request.pair)
    if pair.texts != request.texts:
        message = f"a question of pair {pair.id} changed meanwhile; look at it again: foxcast pairs show {pair.id}"
        raise RequestRejectedError(message)
    row = _audit_row(request, now, pair.first.venue, pair=pair.id, state=state.value, texts=pair.texts)
    await job.ledger.permissions.write_with_audit(
        lambda database: decide_pair(database, pair, state, by=request.by, at=now), row
    )
    return f"pair {pair.id} of {pair.first} and {pair.second} is {state} by {request.by}"


async def _require_adoptable(job: PrivilegedRequestContext, intent: str, state: IntentState) -> None:
    row = await job.ledger.submissions.get(intent)
    if state is IntentState.ABSENT and await job.ledger.submissions.is_unlisted(intent):
        return
    if row.state in _IN_FLIGHT_STATES:
        message = f"order {intent} is {row.state}; foxcast run settles it first; adopt only what is unknown or in doubt"
        raise RequestRejectedError(message)
    if row.state not in _UNSETTLED_STATES:
        message = f"order {intent} is {row.state}, which is settled; there is nothing to adopt"
        raise RequestRejectedError(message)
    fences = [one.sealed.fence for one in await job.ledger.submissions.attempts([intent]) if one.sealed is not None]
    until = max((fence for fence in fences if fence is not None), default=None)
    if state is IntentState.ABSENT and until is not None and job.clock.now() < until:
        message = f"order {intent} may still take effect until {until:%Y-%m-%d %H:%M:%S} UTC; check again then"
        raise RequestRejectedError(message)


def _execution_policy(job: PrivilegedRequestContext, venue: str) -> ExecutionPolicy:
    if venue not in job.execution_policies:
        message = f"venue {venue} is not in use; these are: {', '.join(job.execution_policies) or 'none'}"
        raise NotFoundError(message)
    return job.execution_policies[venue]


def _audit_row(request: PrivilegedRequest, at: datetime, venue: str, **body: str) -> AuditRow:
    return AuditRow(at=at, kind=requested_action(request).value, venue=venue, actor=request.by, body=body)


_HANDLERS: Mapping[type[SignedRequest], Callable[[PrivilegedRequestContext, Any], Awaitable[str]]] = {
    ArmVenue: _arm_venue,
    DisarmVenue: _disarm_venue,
    HaltSubmissions: _halt_submissions,
    ResumeSubmissions: _resume_submissions,
    AnswerApproval: _answer_approval,
    AddPrincipal: _add_principal,
    RevokePrincipal: _revoke_principal,
    AdoptIntent: _adopt_outcome,
    WithdrawForecast: _withdraw_forecast,
    AdoptFolder: _adopt_folder,
    DecidePair: _decide_pair,
}
