"""Attempts to submit intents: the request, recorded before it is sent, the answer, and the fills."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.core.errors import MalformedDataError, StoreError
from bot.core.ids import derive_id, sha256_hex
from bot.core.light_dataclass import dataclass
from bot.core.orders import Fill
from bot.core.submissions import (
    ExecutionMode,
    Intent,
    IntentAction,
    IntentState,
    ListedWrite,
    SealedRequest,
    WriteReceipt,
)
from bot.store import documents, intents
from bot.store.cap_usage import LAST_MANUAL_RESUME
from bot.store.intents import SELECT_INTENT, IntentRow
from bot.store.serialization import format_timestamp, parse_timestamp, question_version, sanitize_text, to_json_list

REQUEST_MEDIA_TYPE = "text/plain"
ANSWERED_STATES = frozenset(
    {IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT, IntentState.IN_DOUBT}
)
# How far fills may exceed the expected cost, as a share of the cost or of one unit, if that is more.
COST_TOLERANCE = 1e-6
_COUNT_ATTEMPTS = "select count(*) from attempt where intent = ?"
_INSERT_ATTEMPT = """
insert into attempt (id, intent, number, started_at, state, tag, request, fence_at, version)
values (:id, :intent, :number, :at, 'sending', :tag, :request, :fence, :version)
"""
_SETTLE_ATTEMPT = """
update attempt set state = :state, settled_at = :at, reference = coalesce(nullif(:reference, ''), reference),
                   detail = :detail
where intent = :id and number = (select max(number) from attempt where intent = :id)
"""
_INTENT_WITH_TAG = """
select a.intent from attempt a join intent i on i.id = a.intent join intent mine on mine.id = :intent
where a.tag = :tag and a.intent <> :intent and i.venue = mine.venue and i.account = mine.account limit 1
"""
_ATTEMPTS_OF_INTENTS = """
select intent, number, started_at, settled_at, state, reference, detail, tag, request, fence_at, version from attempt
where intent in (select value from json_each(?)) order by rowid desc
"""
_INSERT_FILL = """
insert into fill (intent, reference, at, shares, price, fee, cash)
values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing
"""
_SELECT_FILLS = "select reference, at, shares, price, fee, cash from fill where intent = ? order by at, reference"
_SPENT_ON_INTENT = "select coalesce(-sum(cash), 0) from fill where intent = ?"
_RAISE_COST = "update intent set cost = max(cost, :spent) where id = :intent"
_FIX_COST = "update intent set cost = :spent where id = :intent"
_SET_READ_AT = """
update attempt set settled_at = :at
where intent = :intent and number = (select max(number) from attempt where intent = :intent)
"""
_COUNT_ABSENT = """
select count(*) from attempt a join intent i on i.id = a.intent
where i.forecast = ? and i.action = 'order' and a.state = 'absent'
"""
# Live writes since the last manual resume of the venue whose outcome is unknown. Intents without their own request were
# sent with their batch. Orders, and comments with a fee, cost money.
_COUNT_UNSETTLED = f"""
select count(distinct iif(costs or not parked, request, null)), count(distinct iif(parked, null, request)),
       count(distinct iif(costs and parked, request, null))
from (
  select iif(a.tag = '', i.account || ' ' || i.batch, a.tag) as request,
         i.action = 'order' or i.cost > 0 as costs, i.state = 'in doubt' as parked
  from intent i
  join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
  where i.venue = :venue and i.mode <> 'paper' and i.state in ('sending', 'unknown', 'in doubt')
    and a.started_at > {LAST_MANUAL_RESUME})
"""  # noqa: S608 - made of constants
# What the venue lists and no attempt of the account knows, except on contracts where a write has no known outcome yet.
_FOREIGN_WRITES = """
select w.value ->> 'reference' from json_each(:writes) w
where not exists (select 1 from attempt a join intent i on i.id = a.intent
                  where a.reference = w.value ->> 'reference' and a.reference <> '' and i.venue = :venue)
  and not exists (select 1 from attempt a join intent i on i.id = a.intent
                  where a.tag = w.value ->> 'reference' and a.tag <> '' and i.venue = :venue)
  and not exists (select 1 from intent i
                  where i.state in ('sending', 'unknown', 'in doubt') and i.venue = :venue
                    and i.order_body ->> 'contract' = w.value ->> 'contract')
"""
# When a person last looked at the account of the venue: resumed it, or restored the ledger.
_LAST_LOOK = f"""
select max({LAST_MANUAL_RESUME}, coalesce((select at from event where kind = 'restored' order by id desc limit 1), ''))
"""  # noqa: S608 - made of constants
# Acknowledged orders that may still be filled: they were not read back since their fence.
SELECT_RESTING_ORDERS = f"""
{SELECT_INTENT} join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.action = 'order' and i.state = 'acked' and a.fence_at is not null and a.settled_at < a.fence_at
order by a.fence_at, i.seq
"""  # noqa: S608 - made of constants
# An accepted order that was read for the last time and reserves more than it spent: the venue lists it no more.
_IS_UNLISTED = """
select 1 from intent i
join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.id = ? and i.action = 'order' and i.state = 'acked' and a.settled_at >= a.fence_at
  and i.cost > max(0.0, (select coalesce(-sum(cash), 0.0) from fill where intent = i.id)) + 1e-9
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt to send an intent; ``sealed`` is its request, if it was built before sending.

    ``version`` is the digest of the question as the writer read it for this request, if it did.
    """

    intent: str
    number: int
    started_at: datetime
    settled_at: datetime | None
    state: IntentState
    reference: str
    detail: str
    sealed: SealedRequest | None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAuditEvent:
    """An audit event of a write: one before it is sent, and one after its outcome is known or reported by a person."""

    at: datetime
    kind: str
    venue: str
    actor: str
    body: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsettledWrites:
    """Writes at one venue whose outcome is unknown.

    ``unread`` must still be read back. ``lost`` cost money, and no reading showed their outcome. ``blocking`` counts
    both: too many halt the venue. A write that costs nothing no longer blocks once readings cannot settle it.
    """

    blocking: int
    unread: int
    lost: int


WriteAuditor = Callable[[Database, WriteAuditEvent], None]


def begin_attempt(database: Database, intent_id: str, sealed: SealedRequest | None, at: datetime) -> AttemptRow:
    """Record that an intent is being sent, with its request; raises StoreError for one that does not wait.

    Raises MalformedDataError for a tag that another intent of the account has.
    """
    state = intents.read_intent_state(database, intent_id)
    if state not in intents.STEPS_TO_SENDING:
        message = f"intent {intent_id} is {state} and cannot be sent"
        raise StoreError(message)
    for step in intents.STEPS_TO_SENDING[state]:
        intents.move_intent(database, intent_id, step, at=format_timestamp(at))
    number = database.execute(_COUNT_ATTEMPTS, [intent_id]).fetchone()[0] + 1
    values = {
        "id": derive_id("attempt", intent_id, str(number)),
        "intent": intent_id,
        "number": number,
        "at": format_timestamp(at),
        **_request_columns(database, intent_id, sealed),
    }
    database.execute(_INSERT_ATTEMPT, values)
    return read_attempts(database, [intent_id])[0]


def settle_attempt(database: Database, receipt: WriteReceipt, at: str) -> None:
    """Store the answer in the newest attempt of the intent."""
    values = {
        "id": receipt.intent,
        "state": receipt.state.value,
        "reference": sanitize_text(receipt.reference),
        "detail": sanitize_text(receipt.detail),
        "at": at,
    }
    database.execute(_SETTLE_ATTEMPT, values)


def add_fills(database: Database, intent_id: str, fills: Iterable[Fill]) -> None:
    """Store fills, each once; the intent costs at least the sum of its fills."""
    rows = [
        (intent_id, sanitize_text(one.reference), format_timestamp(one.at), one.shares, one.price, one.fee, one.cash)
        for one in fills
    ]
    if rows:
        database.conn.executemany(_INSERT_FILL, rows)
        database.execute(_RAISE_COST, {"intent": intent_id, "spent": spent_on_intent(database, intent_id)})


def finish_order(database: Database, intent_id: str, at: str) -> None:
    """Record that an order can no longer be filled: its cost is the sum of its fills."""
    database.execute(_FIX_COST, {"intent": intent_id, "spent": spent_on_intent(database, intent_id)})
    record_order_read(database, intent_id, at)


def is_unlisted_order(database: Database, intent_id: str) -> bool:
    """Return whether it is an accepted order that its venue lists no more, so that its cost stays reserved."""
    return database.execute(_IS_UNLISTED, [intent_id]).fetchone() is not None


def record_order_read(database: Database, intent_id: str, at: str) -> None:
    """Record when an order was read back."""
    database.execute(_SET_READ_AT, {"intent": intent_id, "at": at})


def schedule_order_read(database: Database, intent_id: str, at: datetime) -> None:
    """Schedule one more read of an order that a person reported as acknowledged, even after its fence."""
    newest = read_attempts(database, [intent_id])[0].sealed
    if newest is not None and newest.fence is not None and at >= newest.fence:
        record_order_read(database, intent_id, format_timestamp(newest.fence - timedelta(microseconds=1)))


def spent_on_intent(database: Database, intent_id: str) -> float:
    """Return how much cash the fills of an intent cost, 0 if they brought cash."""
    (spent,) = database.execute(_SPENT_ON_INTENT, [intent_id]).fetchone()
    return max(float(spent), 0.0)


def read_fills(database: Database, intent_id: str) -> list[Fill]:
    """Return the fills of an intent, oldest first."""
    return [
        Fill(reference=reference, at=parse_timestamp(at), shares=shares, price=price, fee=fee, cash=cash)
        for reference, at, shares, price, fee, cash in database.execute(_SELECT_FILLS, [intent_id])
    ]


def read_attempts(database: Database, intent_ids: Sequence[str]) -> list[AttemptRow]:
    """Return the attempts of the intents, newest first."""
    return [
        AttemptRow(
            intent=intent,
            number=number,
            started_at=parse_timestamp(started_at),
            settled_at=parse_timestamp(settled_at),
            state=IntentState(state),
            reference=reference,
            detail=detail,
            sealed=None
            if request is None
            else SealedRequest(
                intent=intent,
                tag=tag,
                body=documents.get_document(database, request).content.decode(),
                fence=parse_timestamp(fence_at),
            ),
            version=version,
        )
        for (
            intent,
            number,
            started_at,
            settled_at,
            state,
            reference,
            detail,
            tag,
            request,
            fence_at,
            version,
        ) in database.execute(_ATTEMPTS_OF_INTENTS, [to_json_list(intent_ids)]).fetchall()
    ]


def read_resting_orders(database: Database) -> list[IntentRow]:
    """Return the orders that may still be filled, first to end first."""
    return intents.read_intent_rows(database, SELECT_RESTING_ORDERS)


def count_unsettled_writes(database: Database, venue: str, now: datetime) -> UnsettledWrites:
    """Count the live writes at a venue with an unknown outcome since a person last resumed it."""
    blocking, unread, lost = database.execute(
        _COUNT_UNSETTLED, {"venue": venue, "now": format_timestamp(now)}
    ).fetchone()
    return UnsettledWrites(blocking=int(blocking), unread=int(unread), lost=int(lost))


def find_foreign_writes(database: Database, venue: str, listed: Sequence[ListedWrite]) -> list[ListedWrite]:
    """Return the listed writes that this ledger did not make, oldest first.

    A write on a contract where an own write has no known outcome may be that one, so it is left out until then.
    """
    writes = json.dumps([{"reference": one.reference, "contract": one.contract} for one in listed])
    rows = database.execute(_FOREIGN_WRITES, {"writes": writes, "venue": venue})
    foreign = {reference for (reference,) in rows}
    return sorted((one for one in listed if one.reference in foreign), key=lambda one: one.at)


def read_last_look(database: Database, venue: str, now: datetime) -> datetime | None:
    """Return when a person last resumed the venue or restored the ledger, so knew what the account had done."""
    (at,) = database.execute(_LAST_LOOK, {"venue": venue, "now": format_timestamp(now)}).fetchone()
    return parse_timestamp(at or None)


def is_valid_fill(one: Fill) -> bool:
    """Return whether a fill is valid: finite numbers, a positive amount of shares, and a price from 0 to 1."""
    numbers = (one.shares, one.price, one.fee, one.cash)
    return all(map(math.isfinite, numbers)) and one.shares > 0 <= one.fee and 0.0 <= one.price <= 1.0


def count_absent_attempts(database: Database, forecast_id: str) -> int:
    """Count the attempts of orders of a forecast that are proved absent."""
    (count,) = database.execute(_COUNT_ABSENT, [forecast_id]).fetchone()
    return int(count)


def refusal_audit_event(receipt: WriteReceipt, venue: str, at: datetime) -> WriteAuditEvent:
    """Return the audit event of an intent that was refused before it was sent."""
    body = {"intent": receipt.intent, "detail": sanitize_text(receipt.detail)}
    return WriteAuditEvent(at=at, kind="refused", venue=venue, actor="", body=body)


def write_audit_event(row: AttemptRow, intent: Intent, mode: ExecutionMode, at: datetime) -> WriteAuditEvent:
    """Return the audit event of a write, before it is sent."""
    body = {
        "intent": intent.id,
        "attempt": str(row.number),
        "action": intent.action.value,
        "mode": mode.value,
        "question": str(intent.ref),
        "account": intent.account,
    }
    if intent.action is IntentAction.ORDER and intent.order is not None:
        body["order"] = intents.ORDER_SERIALIZER.encode(intent.order)
    if row.sealed is not None:
        body |= {"tag": row.sealed.tag, "request": sha256_hex(row.sealed.body.encode())}
    if row.version is not None:
        body["version"] = row.version
    return WriteAuditEvent(at=at, kind="write", venue=intent.ref.venue, actor="", body=body)


def answer_audit_event(receipt: WriteReceipt, venue: str, at: datetime) -> WriteAuditEvent:
    """Return the audit event of an answer, or of a missing answer."""
    body = {
        "intent": receipt.intent,
        "state": receipt.state.value,
        "reference": sanitize_text(receipt.reference),
        "detail": sanitize_text(receipt.detail),
        "fills": str(len(receipt.fills)),
    }
    if receipt.other_writes:
        body["also"] = sanitize_text("; ".join(receipt.other_writes))
    return WriteAuditEvent(at=at, kind="answer", venue=venue, actor="", body=body)


def _request_columns(database: Database, intent_id: str, sealed: SealedRequest | None) -> dict[str, str | None]:
    if sealed is None:
        return {"tag": "", "request": None, "fence": None, "version": None}
    if other := database.execute(_INTENT_WITH_TAG, {"intent": intent_id, "tag": sealed.tag}).fetchone():
        message = f"the tag {sealed.tag!r} of intent {intent_id} belongs to intent {other[0]} too"
        raise MalformedDataError(message)
    document = documents.compress_document(sanitize_text(sealed.body).encode(), REQUEST_MEDIA_TYPE)
    documents.put_document(database, document)
    version = None if sealed.question is None else question_version(sealed.question)
    return {"tag": sealed.tag, "request": document.digest, "fence": format_timestamp(sealed.fence), "version": version}
