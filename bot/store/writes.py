"""What went over the wire: attempts at intents, the sealed request of each, and the fills that came of it.

An attempt is committed before the wire is touched, with its request, so that a kill at any moment leaves enough to find
out what became of it. Each one leaves a row in the audit before it and one after.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.domain.order import Fill
from bot.domain.submission import Intent, IntentAction, IntentState, Mode, Receipt, Sealed
from bot.errors import ContractError, StoreError
from bot.ids import derive_id, digest
from bot.store import documents, intents
from bot.store.codec import clean, listed, moment, stamp, version_of
from bot.store.intents import INTENT, IntentRow
from bot.store.stops import RESUMED_BY_A_PERSON

REQUEST_TYPE = "text/plain"
ANSWERS = frozenset(
    {IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT, IntentState.IN_DOUBT}
)
# What fills may exceed the arithmetic by, in parts of the cost, and of one unit where it is less.
ROUNDING = 1e-6

_ATTEMPTS = "select count(*) from attempt where intent = ?"
_BEGIN = """
insert into attempt (id, intent, number, started_at, state, tag, request, fence_at, version)
values (:id, :intent, :number, :at, 'sending', :tag, :request, :fence, :version)
"""
_SETTLE = """
update attempt set state = :state, settled_at = :at, reference = coalesce(nullif(:reference, ''), reference),
                   detail = :detail
where intent = :id and number = (select max(number) from attempt where intent = :id)
"""
_SAME_TAG = """
select a.intent from attempt a join intent i on i.id = a.intent join intent mine on mine.id = :intent
where a.tag = :tag and a.intent <> :intent and i.venue = mine.venue and i.account = mine.account limit 1
"""
_OF_INTENTS = """
select intent, number, started_at, settled_at, state, reference, detail, tag, request, fence_at, version from attempt
where intent in (select value from json_each(?)) order by rowid desc
"""
_ADD_FILL = """
insert into fill (intent, reference, at, shares, price, fee, cash)
values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing
"""
_FILLS = "select reference, at, shares, price, fee, cash from fill where intent = ? order by at, reference"
_SPENT = "select coalesce(-sum(cash), 0) from fill where intent = ?"
_RAISE_COST = "update intent set cost = max(cost, :spent) where id = :intent"
_FIX_COST = "update intent set cost = :spent where id = :intent"
_READ_AGAIN = """
update attempt set settled_at = :at
where intent = :intent and number = (select max(number) from attempt where intent = :intent)
"""
_MISSES = """
select count(*) from attempt a join intent i on i.id = a.intent
where i.forecast = ? and i.action = 'order' and a.state = 'absent'
"""
# Live writes, begun since a person last resumed the venue, whose outcome is not known. Intents that went without a
# request of their own went in the one of their batch. What costs money is an order, or a comment with a fee.
_DOUBTS = f"""
select count(distinct iif(costs or not parked, request, null)), count(distinct iif(parked, null, request)),
       count(distinct iif(costs and parked, request, null))
from (
  select iif(a.tag = '', i.account || ' ' || i.batch, a.tag) as request,
         i.action = 'order' or i.cost > 0 as costs, i.state = 'in doubt' as parked
  from intent i
  join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
  where i.venue = :venue and i.mode <> 'paper' and i.state in ('sending', 'unknown', 'in doubt')
    and a.started_at > {RESUMED_BY_A_PERSON})
"""  # noqa: S608 - made of constants
# Orders that were taken and may still be filled: they were not read back since they can rest no more.
RESTING = f"""
{INTENT} join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.action = 'order' and i.state = 'acked' and a.fence_at is not null and a.settled_at < a.fence_at
order by a.fence_at, i.seq
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt at an intent; ``sealed`` is its request as it was written, where it was made beforehand.

    ``version`` is the digest of the question as the writer read it for that request, where it told.
    """

    intent: str
    number: int
    started_at: datetime
    settled_at: datetime | None
    state: IntentState
    reference: str
    detail: str
    sealed: Sealed | None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What the audit is told of a write, or of what a person said became of it: a row before it and a row after."""

    at: datetime
    kind: str
    venue: str
    actor: str
    body: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Writes at one venue whose outcome is not known.

    ``unread`` are still to be read back, ``lost`` are those with money at stake of which no reading told what became
    of them. ``holding`` are both: too many of them hold the venue back. One that costs nothing holds nothing back any
    more once no reading settles it.
    """

    holding: int
    unread: int
    lost: int


Auditor = Callable[[Database, Trail], None]


def begin(database: Database, intent_id: str, sealed: Sealed | None, at: datetime) -> AttemptRow:
    """Put an intent on the wire in the record, with its request; raises StoreError for one that does not wait.

    Raises ContractError for a tag under which another intent of the account would be found.
    """
    state = intents.state_of(database, intent_id)
    if state not in intents.TO_WIRE:
        message = f"intent {intent_id} is {state} and cannot be sent"
        raise StoreError(message)
    for step in intents.TO_WIRE[state]:
        intents.move(database, intent_id, step, at=stamp(at))
    number = database.execute(_ATTEMPTS, [intent_id]).fetchone()[0] + 1
    values = {
        "id": derive_id("attempt", intent_id, str(number)),
        "intent": intent_id,
        "number": number,
        "at": stamp(at),
        **_request(database, intent_id, sealed),
    }
    database.execute(_BEGIN, values)
    return attempts_of(database, [intent_id])[0]


def settle(database: Database, receipt: Receipt, at: str) -> None:
    """Write the answer into the newest attempt of the intent."""
    values = {
        "id": receipt.intent,
        "state": receipt.state.value,
        "reference": clean(receipt.reference),
        "detail": clean(receipt.detail),
        "at": at,
    }
    database.execute(_SETTLE, values)


def fill(database: Database, intent_id: str, fills: Iterable[Fill]) -> None:
    """Record fills, each once; the intent costs at least what they took."""
    rows = [(intent_id, clean(one.reference), stamp(one.at), one.shares, one.price, one.fee, one.cash) for one in fills]
    if rows:
        database.conn.executemany(_ADD_FILL, rows)
        database.execute(_RAISE_COST, {"intent": intent_id, "spent": spent(database, intent_id)})


def finish(database: Database, intent_id: str, at: str) -> None:
    """Record that an order rests no more: it cost what its fills took, and holds back nothing else."""
    database.execute(_FIX_COST, {"intent": intent_id, "spent": spent(database, intent_id)})
    read_again(database, intent_id, at)


def read_again(database: Database, intent_id: str, at: str) -> None:
    """Record when an order was read back."""
    database.execute(_READ_AGAIN, {"intent": intent_id, "at": at})


def look_again(database: Database, intent_id: str, at: datetime) -> None:
    """Have an order that a person said was taken read back once more for its fills, even where its fence is over."""
    newest = attempts_of(database, [intent_id])[0].sealed
    if newest is not None and newest.fence is not None and at >= newest.fence:
        read_again(database, intent_id, stamp(newest.fence - timedelta(microseconds=1)))


def spent(database: Database, intent_id: str) -> float:
    """Return what the fills of an intent took from the account, 0 where they brought something."""
    (taken,) = database.execute(_SPENT, [intent_id]).fetchone()
    return max(float(taken), 0.0)


def fills_of(database: Database, intent_id: str) -> list[Fill]:
    """Read the fills of an intent, oldest first."""
    return [
        Fill(reference=reference, at=moment(at), shares=shares, price=price, fee=fee, cash=cash)
        for reference, at, shares, price, fee, cash in database.execute(_FILLS, [intent_id])
    ]


def attempts_of(database: Database, intent_ids: Sequence[str]) -> list[AttemptRow]:
    """Read the attempts at the intents, newest first."""
    return [
        AttemptRow(
            intent=intent,
            number=number,
            started_at=moment(started_at),
            settled_at=moment(settled_at),
            state=IntentState(state),
            reference=reference,
            detail=detail,
            sealed=None
            if request is None
            else Sealed(
                intent=intent,
                tag=tag,
                body=documents.get(database, request).content.decode(),
                fence=moment(fence_at),
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
        ) in database.execute(_OF_INTENTS, [listed(intent_ids)]).fetchall()
    ]


def resting(database: Database) -> list[IntentRow]:
    """Read the orders that may still be filled, the first to end first."""
    return intents.rows_of(database, RESTING)


def doubts(database: Database, venue: str, now: datetime) -> Doubts:
    """Count the live writes at a venue whose outcome is not known, begun since a person resumed it last."""
    holding, unread, lost = database.execute(_DOUBTS, {"venue": venue, "now": stamp(now)}).fetchone()
    return Doubts(holding=int(holding), unread=int(unread), lost=int(lost))


def is_sound(one: Fill) -> bool:
    """Say whether a fill can be kept: real amounts of shares, and a price that a share can have."""
    numbers = (one.shares, one.price, one.fee, one.cash)
    return all(map(math.isfinite, numbers)) and one.shares > 0 <= one.fee and 0.0 <= one.price <= 1.0


def misses(database: Database, forecast_id: str) -> int:
    """Count the attempts at orders of a forecast that are proved absent."""
    (count,) = database.execute(_MISSES, [forecast_id]).fetchone()
    return int(count)


def unwritten(receipt: Receipt, venue: str, at: datetime) -> Trail:
    """Return what the audit is told of an intent that was refused before anything was written."""
    body = {"intent": receipt.intent, "detail": clean(receipt.detail)}
    return Trail(at=at, kind="refused", venue=venue, actor="", body=body)


def before(row: AttemptRow, intent: Intent, mode: Mode, at: datetime) -> Trail:
    """Return what the audit is told before the wire is touched."""
    body = {
        "intent": intent.id,
        "attempt": str(row.number),
        "action": intent.action.value,
        "mode": mode.value,
        "question": str(intent.ref),
        "account": intent.account,
    }
    if intent.action is IntentAction.ORDER and intent.order is not None:
        body["order"] = intents.ORDER.encode(intent.order)
    if row.sealed is not None:
        body |= {"tag": row.sealed.tag, "request": digest(row.sealed.body.encode())}
    if row.version is not None:
        body["version"] = row.version
    return Trail(at=at, kind="write", venue=intent.ref.venue, actor="", body=body)


def after(receipt: Receipt, venue: str, at: datetime) -> Trail:
    """Return what the audit is told once an answer, or its lack, is known."""
    body = {
        "intent": receipt.intent,
        "state": receipt.state.value,
        "reference": clean(receipt.reference),
        "detail": clean(receipt.detail),
        "fills": str(len(receipt.fills)),
    }
    if receipt.also:
        body["also"] = clean("; ".join(receipt.also))
    return Trail(at=at, kind="answer", venue=venue, actor="", body=body)


def _request(database: Database, intent_id: str, sealed: Sealed | None) -> dict[str, str | None]:
    if sealed is None:
        return {"tag": "", "request": None, "fence": None, "version": None}
    if other := database.execute(_SAME_TAG, {"intent": intent_id, "tag": sealed.tag}).fetchone():
        message = f"the tag {sealed.tag!r} of intent {intent_id} is that of intent {other[0]}; neither could be told"
        raise ContractError(message)
    document = documents.pack(clean(sealed.body).encode(), REQUEST_TYPE)
    documents.put(database, document)
    version = None if sealed.question is None else version_of(sealed.question)
    return {"tag": sealed.tag, "request": document.digest, "fence": stamp(sealed.fence), "version": version}
