"""Permissions to submit: approvals, arm records, halts and principals.

The store reads them together, and writes each change with its row of the audit.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from sqlite_utils import Database

from bot.core.errors import NotFoundError, RequestRejectedError
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account
from bot.core.permissions import ApprovalState, ArmRecord, CapUsage, SubmissionApproval, UserRole
from bot.store import audit_log
from bot.store.audit_log import AuditEvent, AuditHead, AuditRow, AuditVerification
from bot.store.cap_usage import CapUsageScope, read_account_losses, read_cap_usage, read_last_account, unsettled_cost
from bot.store.connections import TransactionRunner
from bot.store.folder_identity import read_binding
from bot.store.serialization import JsonSerializer, format_timestamp, parse_timestamp, sanitize_text

_SHOWN_SERIALIZER: JsonSerializer[Mapping[str, str]] = JsonSerializer("approval text", Mapping[str, str])
_APPROVAL_COLUMNS = "id, forecast, venue, cost, state, asked_at, expires_at, by, shown"
# One row for each forecast: a new request replaces the last one.
_UPSERT_APPROVAL = f"""
insert into approval ({_APPROVAL_COLUMNS})
values (:id, :forecast, :venue, :cost, :state, :asked_at, :expires_at, '', :shown)
on conflict (forecast) do update set
  id = excluded.id, cost = excluded.cost, state = excluded.state, asked_at = excluded.asked_at,
  expires_at = excluded.expires_at, shown = excluded.shown, by = '', answered_at = null
"""  # noqa: S608 - made of constants
_APPROVAL_OF_FORECAST = f"select {_APPROVAL_COLUMNS} from approval where forecast = ?"  # noqa: S608 - as above
_APPROVAL_BY_ID = f"select {_APPROVAL_COLUMNS} from approval where id like ? || '%' order by id limit 3"  # noqa: S608 - as above
_RECENT_APPROVALS = f"""
select {_APPROVAL_COLUMNS} from approval where :all or state = 'asked'
order by state <> 'asked', asked_at desc limit :limit
"""  # noqa: S608 - as above
_EXPIRE_APPROVALS = "update approval set state = 'expired' where state in ('asked', 'approved') and expires_at <= ?"
_ANSWER_APPROVAL = "update approval set state = :state, by = :by, answered_at = :at, expires_at = :until where id = :id"
_USE_APPROVAL = "update approval set state = 'used' where forecast = ? and state = 'approved'"
# The gate decides about the forecast again at once.
_RELEASE_HOLD = """
update decision set until = :at
where verdict = 'hold' and id = (select max(id) from decision where forecast = :forecast)
"""


def request_approval(database: Database, approval: SubmissionApproval) -> None:
    """Ask a person to approve a forecast."""
    values = {
        "id": approval.id,
        "forecast": approval.forecast,
        "venue": approval.venue,
        "cost": approval.cost,
        "state": approval.state.value,
        "asked_at": format_timestamp(approval.asked_at),
        "expires_at": format_timestamp(approval.expires_at),
        "shown": _SHOWN_SERIALIZER.encode({name: sanitize_text(text) for name, text in approval.shown.items()}),
    }
    database.execute(_UPSERT_APPROVAL, values)


def read_approval(database: Database, forecast_id: str) -> SubmissionApproval | None:
    """Return the last approval request of a forecast with its answer."""
    row = database.execute(_APPROVAL_OF_FORECAST, [forecast_id]).fetchone()
    return None if row is None else _approval_from_row(*row)


def find_approval(database: Database, name: str) -> SubmissionApproval:
    """Return the approval with this id, or with the only id that begins like this; raises NotFoundError."""
    escaped = "".join(character for character in name if character.isalnum())
    rows = database.execute(_APPROVAL_BY_ID, [escaped]).fetchall() if escaped else []
    if len(rows) != 1:
        what = "more than one request for approval begins with" if rows else "there is no request for approval called"
        message = f"{what} {name}; list them with: foxcast approvals"
        raise NotFoundError(message)
    return _approval_from_row(*rows[0])


def list_approvals(database: Database, *, everything: bool, limit: int) -> list[SubmissionApproval]:
    """Return the requests that wait for an answer, newest first; with ``everything`` also the answered ones."""
    return [
        _approval_from_row(*row) for row in database.execute(_RECENT_APPROVALS, {"all": everything, "limit": limit})
    ]


def answer_approval(database: Database, answered: SubmissionApproval, *, at: datetime) -> None:
    """Store the answer of a person, and let the gate decide about the forecast again.

    Raises NotFoundError, and RequestRejectedError for an answered or expired request.
    """
    known = find_approval(database, answered.id)
    if known.state is not ApprovalState.ASKED:
        message = f"{known.id} is {known.state} already" + (f" by {known.by}" if known.by else "")
        raise RequestRejectedError(message)
    if known.expires_at <= at:
        when = f"{known.expires_at:%Y-%m-%d %H:%M} UTC"
        message = f"{known.id} expired at {when}; it is asked again if the forecast would still be submitted"
        raise RequestRejectedError(message)
    values = {
        "id": known.id,
        "state": answered.state.value,
        "by": sanitize_text(answered.by),
        "at": format_timestamp(at),
        "until": format_timestamp(answered.expires_at),
    }
    database.execute(_ANSWER_APPROVAL, values)
    database.execute(_RELEASE_HOLD, {"at": format_timestamp(at), "forecast": known.forecast})


def expire_approvals(database: Database, at: datetime) -> int:
    """Expire requests without an answer in time, and approvals that were not used in time; return how many."""
    return database.execute(_EXPIRE_APPROVALS, [format_timestamp(at)]).rowcount


def use_approval(database: Database, forecast_id: str) -> None:
    """Mark the approval of a forecast as used: it is being submitted."""
    database.execute(_USE_APPROVAL, [forecast_id])


def _approval_from_row(*columns: object) -> SubmissionApproval:
    plain = dict(zip(_APPROVAL_COLUMNS.split(", "), columns, strict=True))
    return SubmissionApproval(
        id=str(plain["id"]),
        forecast=str(plain["forecast"]),
        venue=str(plain["venue"]),
        cost=float(str(plain["cost"])),
        state=ApprovalState(str(plain["state"])),
        asked_at=parse_timestamp(str(plain["asked_at"])),
        expires_at=parse_timestamp(str(plain["expires_at"])),
        by=str(plain["by"]),
        shown=_SHOWN_SERIALIZER.decode(str(plain["shown"])),
    )


_ARM_COLUMNS = "id, venue, account, config, by, armed_at, until, per_order, per_day, total, disarmed_at"
_INSERT_ARM = f"""
insert into arm ({_ARM_COLUMNS}, folder)
values (:id, :venue, :account, :config, :by, :armed_at, :until, :per_order, :per_day, :total, :disarmed_at, :folder)
on conflict (id) do nothing
"""  # noqa: S608 - made of constants
_NEWEST_ARM = f"""
select {_ARM_COLUMNS}, folder from arm where venue = ? and account = ? order by rowid desc limit 1
"""  # noqa: S608 - as above
# Includes expired records: the clock may be ahead.
_DISARM_VENUE = "update arm set disarmed_at = :at where disarmed_at is null and venue = :venue"


def add_arm_record(database: Database, arm: ArmRecord) -> None:
    """Store a record, bound to the identity of this ledger's folder, and end the earlier ones of its venue.

    Storing the same record again changes nothing.
    """
    if (known := newest_arm_record(database, arm.venue, arm.account)) is not None and known.id == arm.id:
        return
    disarm_venue(database, arm.venue, at=arm.armed_at)
    values = {
        "id": arm.id,
        "venue": arm.venue,
        "account": sanitize_text(arm.account),
        "config": arm.config,
        "by": sanitize_text(arm.by),
        "armed_at": format_timestamp(arm.armed_at),
        "until": format_timestamp(arm.until),
        "per_order": arm.per_order,
        "per_day": arm.per_day,
        "total": arm.total,
        "disarmed_at": format_timestamp(arm.disarmed_at),
        "folder": read_binding(database),
    }
    database.execute(_INSERT_ARM, values)


def is_known_arm_record(database: Database, arm_id: str) -> bool:
    """Return whether a record with this id exists."""
    return database.execute("select 1 from arm where id = ?", [arm_id]).fetchone() is not None


def newest_arm_record(database: Database, venue: str, account: str) -> ArmRecord | None:
    """Return the newest record of an account, active or not."""
    row = database.execute(_NEWEST_ARM, [venue, account]).fetchone()
    if row is None:
        return None
    *values, folder = row
    plain = dict(zip(_ARM_COLUMNS.split(", "), values, strict=True))
    times = {name: parse_timestamp(plain.pop(name)) for name in ("armed_at", "until", "disarmed_at")}
    return ArmRecord(**plain, **times, is_of_another_folder=folder != read_binding(database))


def disarm_venue(database: Database, venue: str, *, at: datetime) -> int:
    """Disarm all records of a venue that are not disarmed, also expired ones; return how many."""
    return database.execute(_DISARM_VENUE, {"venue": venue, "at": format_timestamp(at)}).rowcount


ALL_VENUES = ""
_INSERT_HALT = """
insert into halt (venue, at, why, by, end_condition, credentials)
select :venue, :at, :why, :by, :end_condition, :credentials
where not exists (select 1 from halt where venue = :venue and end_condition = :end_condition and resumed_at is null
                  and (why = :why or end_condition <> 'person'))
"""
_ACTIVE_HALTS = "select venue, at, why, by, end_condition, credentials from halt where resumed_at is null order by id"
_RESUME_HALTS = """
update halt set resumed_at = :at, resumed_by = :by where resumed_at is null and (:venue is null or venue = :venue)
  and (:made_by is null or at <= :made_by)
"""
_END_HALTS = """
update halt set resumed_at = :at, resumed_by = ''
where resumed_at is null and venue = :venue and end_condition = :end_condition
"""
_REQUIRE_MANUAL_RESUME = """
update halt set end_condition = 'person', why = :why
where resumed_at is null and venue = :venue and end_condition = 'settled'
"""


class HaltEndCondition(StrEnum):
    """What ends a halt besides a person who resumes: nothing, settled unknown writes, or renewed credentials."""

    PERSON = "person"
    SETTLED = "settled"
    RENEWED = "renewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionHalt:
    """A halt of one venue or of ``ALL_VENUES``; ``by`` is a person, or "" where the program stopped itself.

    ``credentials`` is a digest of the refused credentials, where they are the reason.
    """

    venue: str
    at: datetime
    why: str
    by: str = ""
    end_condition: HaltEndCondition = HaltEndCondition.PERSON
    credentials: str = ""

    def applies_to(self, venue: str) -> bool:
        """Say whether it halts the venue."""
        return self.venue in {ALL_VENUES, venue}

    @property
    def remedy(self) -> str:
        """How to end it, as text that follows ``str(halt)``."""
        resume = f"foxcast resume {self.venue}".rstrip()
        match self.end_condition:
            case HaltEndCondition.SETTLED:
                return f"it resumes by itself; at once with: {resume}"
            case HaltEndCondition.RENEWED:
                return f"renew them and start again, or ask the venue once more with: {resume}"
        return f"resume with: {resume}"

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        where = self.venue or "everything"
        return f"{where} was stopped{who} at {self.at:%Y-%m-%d %H:%M} UTC: {self.why}"


def add_halt(database: Database, halt: SubmissionHalt) -> bool:
    """Add a halt unless the same one is active; return whether it is new."""
    values = {
        "venue": halt.venue,
        "at": format_timestamp(halt.at),
        "why": sanitize_text(halt.why),
        "by": sanitize_text(halt.by),
        "end_condition": halt.end_condition.value,
        "credentials": halt.credentials,
    }
    return database.execute(_INSERT_HALT, values).rowcount > 0


def list_active_halts(database: Database) -> list[SubmissionHalt]:
    """Return the active halts, oldest first."""
    return [
        SubmissionHalt(
            venue=venue,
            at=parse_timestamp(at),
            why=why,
            by=by,
            end_condition=HaltEndCondition(end_condition),
            credentials=credentials,
        )
        for venue, at, why, by, end_condition, credentials in database.execute(_ACTIVE_HALTS)
    ]


def end_halts(database: Database, venue: str, end_condition: HaltEndCondition, *, at: datetime) -> bool:
    """End the active halts of a venue that have this end condition; return whether there were any."""
    values = {"venue": venue, "end_condition": end_condition.value, "at": format_timestamp(at)}
    return database.execute(_END_HALTS, values).rowcount > 0


def require_manual_resume(database: Database, venue: str, why: str) -> bool:
    """Make a person end the halt of a venue that waits for unknown writes; return whether there was one."""
    return database.execute(_REQUIRE_MANUAL_RESUME, {"venue": venue, "why": sanitize_text(why)}).rowcount > 0


def resume_submissions(
    database: Database, venue: str | None, *, by: str, at: datetime, made_by: datetime | None = None
) -> int:
    """Resume a venue; None ends all halts, ``ALL_VENUES`` only those of all venues. Return how many halts ended.

    Halts made after ``made_by`` stay active.
    """
    values = {"venue": venue, "by": sanitize_text(by), "at": format_timestamp(at), "made_by": format_timestamp(made_by)}
    return database.execute(_RESUME_HALTS, values).rowcount


_PRINCIPAL_COLUMNS = "name, role, salt, hash, made_at, revoked_at"
_INSERT_PRINCIPAL = (
    "insert into principal (name, role, salt, hash, made_at) values (:name, :role, :salt, :hash, :made_at)"
)
_DELETE_REVOKED = "delete from principal where name = ? and revoked_at is not null"
_ACTIVE_PRINCIPALS = f"select {_PRINCIPAL_COLUMNS} from principal where revoked_at is null order by name"  # noqa: S608 - made of constants
_REVOKE_PRINCIPAL = "update principal set revoked_at = :at where name = :name and revoked_at is null"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalRecord:
    """A person or program with a token; salt and hash are hex text and never shown."""

    name: str
    role: UserRole
    salt: str
    hash: str
    made_at: datetime
    revoked_at: datetime | None = None


def list_principals(database: Database) -> list[PrincipalRecord]:
    """Return the principals with a valid token, by name."""
    return [
        PrincipalRecord(
            name=name,
            role=UserRole(role),
            salt=salt,
            hash=hash_,
            made_at=parse_timestamp(made),
            revoked_at=parse_timestamp(revoked),
        )
        for name, role, salt, hash_, made, revoked in database.execute(_ACTIVE_PRINCIPALS)
    ]


def add_principal(database: Database, principal: PrincipalRecord) -> None:
    """Add a principal; raises RequestRejectedError for a used name, and if the first one is no approver."""
    known = list_principals(database)
    if any(one.name == principal.name for one in known):
        message = f"there is a principal {principal.name}; revoke its token first: foxcast principal revoke"
        raise RequestRejectedError(message)
    if not known and principal.role is not UserRole.APPROVER:
        message = "the first principal must be an approver: from then on only an approver may add others"
        raise RequestRejectedError(message)
    database.execute(_DELETE_REVOKED, [principal.name])
    values = {
        "name": sanitize_text(principal.name),
        "role": principal.role.value,
        "salt": principal.salt,
        "hash": principal.hash,
        "made_at": format_timestamp(principal.made_at),
    }
    database.execute(_INSERT_PRINCIPAL, values)


def revoke_principal(database: Database, name: str, *, at: datetime) -> None:
    """Revoke a token; raises NotFoundError, and RequestRejectedError for the last approver while others remain."""
    known = {one.name: one for one in list_principals(database)}
    if name not in known:
        message = f"there is no principal {name}; list them with: foxcast principal list"
        raise NotFoundError(message)
    others = [one for one in known.values() if one.name != name]
    if others and all(one.role is not UserRole.APPROVER for one in others):
        message = f"{name} is the last approver; add another one first, or revoke the tokens of the others"
        raise RequestRejectedError(message)
    database.execute(_REVOKE_PRINCIPAL, {"name": name, "at": format_timestamp(at)})


ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionStatus:
    """Halts, the newest arm record by venue, and losses (today, since the peak) by venue, at one moment."""

    halts: Sequence[SubmissionHalt] = ()
    arms: Mapping[str, ArmRecord] = field(default_factory=dict)
    losses: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PermissionStore:
    """Approvals, arm records, halts, principals and the audit."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def write(self, work: Callable[[Database], ResultT]) -> ResultT:
        """Run ``work`` in one transaction; it may run twice, so it must only use the database."""
        return await self.writer.run(work)

    async def write_with_audit(self, work: Callable[[Database], ResultT], *events: AuditEvent) -> ResultT:
        """Run ``work`` and add the events to the audit in one transaction."""
        return await self.writer.run(lambda database: _run_with_audit(database, work, events))

    async def read(self, query: Callable[[Database], ResultT]) -> ResultT:
        """Return the result of the query on one snapshot."""
        return await self.readers.run(query)

    async def read_status(
        self, accounts: Mapping[str, str], *, now: datetime, paper: Collection[str] = ()
    ) -> PermissionStatus:
        """Return the status of the venues, given the account of each and which of them are on paper."""
        return await self.readers.run(lambda database: _permission_status(database, accounts, paper, now))

    async def usage(self, counted: CapUsageScope, *, now: datetime) -> CapUsage:
        """Return the cap usage; a decision counts it again in the transaction that adds to it."""
        return await self.readers.run(lambda database: read_cap_usage(database, counted, now))

    async def unsettled_cost(self, venue: str, account: str, *, paper: bool) -> float:
        """Return the cost of paper or real intents that the account does not show yet."""
        return await self.readers.run(lambda database: unsettled_cost(database, venue, account, paper=paper))

    async def last_account(self, venue: str, account: str, *, paper: bool) -> Account | None:
        """Return the last reading of the paper or real account."""
        return await self.readers.run(lambda database: read_last_account(database, venue, account, paper=paper))

    async def approval(self, forecast_id: str) -> SubmissionApproval | None:
        """Return the last approval request of a forecast."""
        return await self.readers.run(lambda database: read_approval(database, forecast_id))

    async def approvals(self, *, everything: bool = False, limit: int = 100) -> list[SubmissionApproval]:
        """Return the requests that wait for an answer; with ``everything`` also the answered ones."""
        return await self.readers.run(lambda database: list_approvals(database, everything=everything, limit=limit))

    async def principals(self) -> list[PrincipalRecord]:
        """Return the principals with a valid token."""
        return await self.readers.run(list_principals)

    async def verify(self, known: AuditHead | None = None) -> AuditVerification:
        """Verify the chain of the audit."""
        return await self.readers.run(lambda database: audit_log.verify_audit_chain(database, known))

    async def head(self) -> AuditHead:
        """Return the newest row of the audit."""
        return await self.readers.run(audit_log.read_audit_head)

    async def recent_audit_rows(
        self, *, limit: int, kind: str | None = None, venue: str | None = None, before: int | None = None
    ) -> list[AuditRow]:
        """Return the newest rows of the audit before a number, newest first."""
        return await self.readers.run(
            lambda database: audit_log.recent_audit_rows(database, limit=limit, kind=kind, venue=venue, before=before)
        )


def _run_with_audit(database: Database, work: Callable[[Database], ResultT], events: Sequence[AuditEvent]) -> ResultT:
    result = work(database)
    for event in events:
        audit_log.append_audit_row(database, event)
    return result


def _permission_status(
    database: Database, accounts: Mapping[str, str], paper: Collection[str], now: datetime
) -> PermissionStatus:
    newest = {venue: newest_arm_record(database, venue, account) for venue, account in accounts.items()}
    return PermissionStatus(
        halts=tuple(list_active_halts(database)),
        arms={venue: arm for venue, arm in newest.items() if arm is not None},
        losses={
            venue: read_account_losses(database, venue, account, now, paper=venue in paper)
            for venue, account in accounts.items()
        },
    )
