"""Does what only some people may ask for: arm, disarm, halt, resume, approve, reject, tokens; each has its audit row.

The daemon does it when it finds the request; a command does it itself while no daemon runs. Who asks is proved here
again, whatever the command said.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from bot.domain.permission import Approval, ApprovalState, Arm, Role
from bot.domain.request import (
    AddPrincipal,
    AdoptIntent,
    AnswerApproval,
    ArmVenue,
    ClosePositions,
    DisarmVenue,
    ForecastQuestion,
    Halt,
    LeaveRequest,
    Resume,
    RevokePrincipal,
    SignedRequest,
    UnlockQuestion,
    WithdrawForecast,
)
from bot.domain.submission import Hold, IntentState, Mode
from bot.errors import NotFound, Rejected, StoreError, Unauthorized
from bot.gate.armed import same_but_secrets, unarmed
from bot.gate.brake import made_between, pull, release, signed
from bot.gate.case import ASK_AGAIN, Lane
from bot.gate.roles import NEEDED, Act, require
from bot.gate.tokens import proves
from bot.ids import derive_id
from bot.jobs.audited import REMEDY, verified
from bot.jobs.halted import ALL_ORDERS
from bot.jobs.withdraw import withdrawal_of
from bot.ports import Clock
from bot.store import approvals, arms, decisions, holds, principals, stops
from bot.store.audit import AuditRow
from bot.store.ledger import Ledger
from bot.store.principals import Principal
from bot.store.requests import said
from bot.store.stops import EVERYWHERE, Stop
from bot.store.submissions import Adoption

_HEX = re.compile(r"(?:[0-9a-f]{2}){8,64}")
# A request that takes risk must be fresh: one that was left behind long ago, or copied, is none any more.
FRESH = timedelta(minutes=15)
# What waits for the next run may wait longer.
PATIENT = timedelta(days=1)
# A season of a tournament.
LONGEST = timedelta(days=120)

_LEAVE_ALONE = "a later forecast stands there again, unless you say: foxcast lock "

# Takes a person's word for an intent; raises as the store does.
Adopt = Callable[[Adoption], Awaitable[None]]

_UNSURE = frozenset({IntentState.UNKNOWN, IntentState.IN_DOUBT})
_UNDER_WAY = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.SENDING})
_ACTS: Mapping[type[SignedRequest], Act] = {
    ArmVenue: Act.ARM,
    DisarmVenue: Act.DISARM,
    Halt: Act.HALT,
    Resume: Act.RESUME,
    AddPrincipal: Act.ADD_PRINCIPAL,
    RevokePrincipal: Act.REVOKE_PRINCIPAL,
    AdoptIntent: Act.ADOPT,
    WithdrawForecast: Act.WITHDRAW,
    UnlockQuestion: Act.UNLOCK,
    ForecastQuestion: Act.FORECAST,
    ClosePositions: Act.CLOSE,
}
_FRESH: Mapping[Act, timedelta] = {Act.UNLOCK: PATIENT, Act.FORECAST: PATIENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitting:
    """Whose ledger and stop file; ``lanes`` are all ways out in config, ``trading`` those that take orders.

    ``withdrawing`` are those at which a forecast that stands can be taken back.

    ``folder`` is that of the ledger, in which the head of the audit lies; None where there is none to compare with.
    ``adopt`` is the outbox's, where one is open: what it reads back at that moment must not come between.
    ``resumed`` is told of a venue that a person let go on, of None where that is all of them.
    """

    ledger: Ledger
    clock: Clock
    stop_file: Path
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    trading: frozenset[str] = frozenset()
    withdrawing: frozenset[str] = frozenset()
    folder: Path | None = None
    adopt: Adopt | None = None
    resumed: Callable[[str | None], None] = lambda _: None


async def permit(parts: Permitting, request: LeaveRequest) -> str:
    """Do what is asked and return what was done.

    Raises Unauthorized for somebody who may not or proves nothing, Rejected for what makes no sense, NotFound.
    """
    require_allowed(request, await parts.ledger.leave.principals(), now=parts.clock.now())
    match request:
        case ArmVenue():
            done = await _arm(parts, request)
        case DisarmVenue():
            done = await _disarm(parts, request)
        case Halt():
            done = await _halt(parts, request)
        case Resume():
            done = await _resume(parts, request)
        case AnswerApproval():
            done = await _answer(parts, request)
        case AddPrincipal():
            done = await _add(parts, request)
        case RevokePrincipal():
            done = await _revoke(parts, request)
        case AdoptIntent():
            done = await _adopt(parts, request)
        case WithdrawForecast():
            done = await _withdraw(parts, request)
    return done


def act_of(request: SignedRequest) -> Act:
    """Return what is asked for."""
    if isinstance(request, AnswerApproval):
        return Act.APPROVE if request.approved else Act.REJECT
    return _ACTS[type(request)]


def require_allowed(request: SignedRequest, known: list[Principal], *, now: datetime) -> None:
    """Raise Unauthorized unless whoever asks may, is who they say, and asked not long ago.

    While nobody has a token, whoever can write the state folder is an approver: they could write the ledger too.
    """
    act = act_of(request)
    if NEEDED[act] is None:
        return
    if known:
        _require_proof(request, known)
    asked_at, lasting = request.asked_at, _FRESH.get(act, FRESH)
    if asked_at is not None and not abs(now - asked_at) <= lasting:
        when = "after now" if asked_at > now else "too long ago"
        message = f"this {act} was asked for at {asked_at:%Y-%m-%d %H:%M} UTC, {when}; ask again"
        raise Unauthorized(message)


def _require_proof(request: SignedRequest, known: list[Principal]) -> None:
    act = act_of(request)
    asker = next((one for one in known if one.name == request.by), None)
    who = request.by or "whoever asks"
    require(None if asker is None else asker.role, act, who=who)
    if asker is None or request.asked_at is None or not proves(request.proof, asker.hash, said(request)):
        message = f"this {act} does not prove that {who} asked for it"
        raise Unauthorized(message)


async def _arm(parts: Permitting, request: ArmVenue) -> str:
    lane, now = _lane(parts, request.venue), parts.clock.now()
    amounts = (request.per_order, request.per_day, request.total)
    if lane.mode not in {Mode.APPROVE, Mode.LIVE}:
        message = (
            f'{lane.venue} is in mode {lane.mode}, where nothing real leaves; set mode = "live" in config.toml first'
        )
        raise Rejected(message)
    if not same_but_secrets(request.config, lane.digest) or request.account != lane.account:
        message = (
            f"what runs was started with another configuration of {lane.venue}, or other variables in its environment; "
            "start it again, then arm it"
        )
        raise Rejected(message)
    if not now < request.until <= now + LONGEST:
        message = f"an arm record must end after now and within {LONGEST.days} days"
        raise Rejected(message)
    _require_amounts(lane.venue, amounts, trades=lane.venue in parts.trading)
    arm = Arm(
        id=derive_id("arm", said(request)),
        venue=lane.venue,
        account=lane.account,
        config=lane.digest,
        by=request.by,
        armed_at=now,
        until=request.until,
        per_order=request.per_order,
        per_day=request.per_day,
        total=request.total,
    )
    bounds = " ".join(
        f"{name}={amount:g}" for name, amount in zip(("order", "day", "total"), amounts, strict=True) if amount
    )
    body = {
        "arm": arm.id,
        "account": arm.account,
        "until": arm.until.isoformat(),
        "bounds": bounds,
        "config": arm.config,
    }

    if await parts.ledger.leave.read(lambda database: arms.is_known(database, arm.id)):
        # The same request again, as after a crash: whatever became of its record stays.
        newest = await parts.ledger.leave.read(lambda database: arms.newest(database, lane.venue, lane.account))
        return f"this was done before; {unarmed(lane, newest, now) or f'{lane.venue} is armed'}"
    work = holds.freeing(lambda database: arms.add(database, arm), at=now, by=now + ASK_AGAIN, venue=lane.venue)
    await parts.ledger.leave.act(work, _row(request, now, lane.venue, **body))
    return f"{lane.venue} armed until {arm.until:%Y-%m-%d %H:%M} UTC" + (f" ({bounds})" if bounds else "")


def _require_amounts(venue: str, amounts: tuple[float | None, ...], *, trades: bool) -> None:
    given = [amount for amount in amounts if amount is not None]
    if trades and len(given) < len(amounts):
        message = f"{venue} takes orders, so it is armed with --per-order, --per-day and --total"
        raise Rejected(message)
    if not trades and given:
        message = f"nothing is paid at {venue}, so it is armed without amounts"
        raise Rejected(message)
    if given != sorted(given):
        message = "--per-order must not be above --per-day, nor --per-day above --total"
        raise Rejected(message)


async def _disarm(parts: Permitting, request: DisarmVenue) -> str:
    now = parts.clock.now()
    ended = await parts.ledger.leave.act(
        lambda database: arms.disarm(database, request.venue, at=now), _row(request, now, request.venue)
    )
    return f"{request.venue} disarmed" if ended else f"{request.venue} was not armed"


async def _halt(parts: Permitting, request: Halt) -> str:
    now = parts.clock.now()
    if request.venue:
        _lane(parts, request.venue)
    stop = Stop(venue=request.venue, at=now, why=request.reason, by=request.by)
    if stop.venue == EVERYWHERE and not parts.stop_file.exists():
        pull(parts.stop_file, signed(request.reason, request.by))
    wider = {ALL_ORDERS: "yes"} if request.all_orders else {}
    row = _row(request, now, request.venue, reason=request.reason, **wider)
    await parts.ledger.leave.act(lambda database: stops.add(database, stop), row)
    return f"halted {request.venue or 'everything'}: {request.reason}"


async def _resume(parts: Permitting, request: Resume) -> str:
    now, venue = parts.clock.now(), request.venue
    await _require_whole(parts)
    body = {"where": "all" if venue is None else venue}

    # What was stopped after this was asked, nobody has looked at.
    work = holds.freeing(
        lambda database: stops.resume(database, venue, by=request.by, at=now, made_by=request.asked_at),
        at=now,
        by=now + ASK_AGAIN,
        venue=venue,
    )
    ended = await parts.ledger.leave.act(work, _row(request, now, venue or "", **body))
    parts.resumed(venue)
    where = "everything" if venue is None else venue
    if venue is None and made_between(parts.stop_file, request.asked_at, now):
        return f"{_resumed(where, ended, '')}; {parts.stop_file.name} was made after this was asked, and stays"
    freed = venue is None and release(parts.stop_file)
    left = [str(stop) for stop in await parts.ledger.leave.read(stops.standing) if venue in {None, stop.venue}]
    still = f"; {'; '.join(left)}" if left else ""
    return _resumed(where, ended, parts.stop_file.name if freed else "") + still


def _resumed(where: str, ended: int, file: str) -> str:
    done = [f"{ended} stop{'s' * (ended > 1)} ended"] * (ended > 0) + [f"the file {file} is taken away"] * bool(file)
    return f"{where} resumed, {' and '.join(done)}" if done else f"{where} was not stopped"


async def _require_whole(parts: Permitting) -> None:
    """Raise Rejected while the audit is broken: whatever stopped, nobody can tell any more who let what go."""
    if parts.folder is None:
        found = await parts.ledger.leave.verify()
    else:
        found = await verified(parts.ledger, parts.folder)
    if not found.sound:
        message = f"nothing is resumed while the audit is broken: {found.why}; {REMEDY}"
        raise Rejected(message)


async def _answer(parts: Permitting, request: AnswerApproval) -> str:
    now = parts.clock.now()
    known = await parts.ledger.leave.read(lambda database: approvals.named(database, request.approval))
    lane = parts.lanes.get(known.venue)
    holds = known.expires_at if lane is None else now + lane.approval
    answered = Approval(
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
    await parts.ledger.leave.act(
        lambda database: approvals.answer(database, answered, at=now), _row(request, now, known.venue, **body)
    )
    return f"{known.id} {answered.state} by {request.by}"


async def _add(parts: Permitting, request: AddPrincipal) -> str:
    now = parts.clock.now()
    if not (_HEX.fullmatch(request.salt) and _HEX.fullmatch(request.hash)):
        message = f"the salt and the hash of the token of {request.name} are not in hex; nobody could use it"
        raise Rejected(message)
    principal = Principal(name=request.name, role=Role(request.role), salt=request.salt, hash=request.hash, made_at=now)
    row = _row(request, now, "", name=request.name, role=request.role.value)
    await parts.ledger.leave.act(lambda database: principals.add(database, principal), row)
    return f"{request.name} is {request.role} now"


async def _revoke(parts: Permitting, request: RevokePrincipal) -> str:
    now = parts.clock.now()
    row = _row(request, now, "", name=request.name)
    await parts.ledger.leave.act(lambda database: principals.revoke(database, request.name, at=now), row)
    return f"the token of {request.name} holds no more"


async def _adopt(parts: Permitting, request: AdoptIntent) -> str:
    state = IntentState.ABSENT if request.absent else IntentState.ACKED
    await _require_adoptable(parts, request.intent, state)
    adoption = Adoption(
        intent=request.intent, state=state, by=request.by, why=request.reason, reference=request.reference
    )
    try:
        if parts.adopt is not None:
            await parts.adopt(adoption)
        else:
            await parts.ledger.submissions.adopt(adoption, at=parts.clock.now())
    except StoreError:
        # It may have been settled meanwhile, which is no fault of the database.
        await _require_adoptable(parts, request.intent, state)
        raise
    what = "does not stand at the venue" if request.absent else f"stands at the venue as {request.reference}"
    return f"order {request.intent}: {what}, {request.by} says so"


async def _withdraw(parts: Permitting, request: WithdrawForecast) -> str:
    ref, now = request.ref, parts.clock.now()
    lane = _lane(parts, ref.venue)
    if lane.venue not in parts.withdrawing:
        message = f"{lane.venue} has no forecasts that stand until they are withdrawn"
        raise Rejected(message)
    if lane.mode is Mode.OFF:
        message = f"{lane.venue} is off; nothing leaves there"
        raise Rejected(message)
    standing = await parts.ledger.submissions.standing(ref, lane.account, paper=not lane.live)
    why = f"withdrawn by {request.by}" + (f": {request.reason}" if request.reason else "")
    send = withdrawal_of(standing, lane, asked_as=said(request), why=why)
    row = _row(request, now, lane.venue, question=str(ref), intent=send.intent.id, reason=request.reason)
    decision = await parts.ledger.leave.act(
        lambda database: decisions.decide(database, send.intent.forecast, send, now), row
    )
    if isinstance(decision, Hold):
        message = f"{ref} is not withdrawn yet: {decision.why}; ask again then"
        raise Rejected(message)
    return f"the withdrawal of {ref} leaves with the next pass of foxcast run, see foxcast orders; {_LEAVE_ALONE}{ref}"


async def _require_adoptable(parts: Permitting, intent: str, state: IntentState) -> None:
    row = await parts.ledger.submissions.get(intent)
    if row.state in _UNDER_WAY:
        message = f"order {intent} is {row.state}; foxcast run settles it first, adopt only what is unknown or in doubt"
        raise Rejected(message)
    if row.state not in _UNSURE:
        message = f"order {intent} is {row.state}, which is settled; there is nothing to say about it"
        raise Rejected(message)
    fences = [one.sealed.fence for one in await parts.ledger.submissions.attempts([intent]) if one.sealed is not None]
    until = max((fence for fence in fences if fence is not None), default=None)
    if state is IntentState.ABSENT and until is not None and parts.clock.now() < until:
        message = f"order {intent} may still take effect until {until:%Y-%m-%d %H:%M:%S} UTC; look again then"
        raise Rejected(message)


def _lane(parts: Permitting, venue: str) -> Lane:
    if venue not in parts.lanes:
        message = f"there is no venue {venue} in use; those are: {', '.join(parts.lanes) or 'none'}"
        raise NotFound(message)
    return parts.lanes[venue]


def _row(request: LeaveRequest, at: datetime, venue: str, **body: str) -> AuditRow:
    return AuditRow(at=at, kind=act_of(request).value, venue=venue, actor=request.by, body=body)
