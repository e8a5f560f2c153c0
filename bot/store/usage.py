"""What is at stake in one lane, counted in the transaction that adds to it.

Every function works within the transaction or snapshot of its caller. An intent counts from the moment it is planned
until it is refused, superseded, or its question has resolved; what is unknown or in doubt counts as sent.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Account
from bot.domain.permission import Exposure, Usage
from bot.domain.question import QuestionRef
from bot.errors import ContractError
from bot.store.codec import Form, moment, stamp

HOUR = timedelta(hours=1)

# What was put into a question less what sales brought back: money at work, which is never below nothing.
_STAKES = """
with stake as (
  select i.ref, max(i.event) as event, max(i.creator) as creator, max(i.category) as category,
         max(0.0, total(i.cost) - total((select total(f.cash) from fill f where f.intent = i.id and f.cash > 0))) as net
  from intent i
  where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.state not in ('refused', 'superseded') and i.order_body is not null
    and exists (
      select 1 from question q join target t on t.version = q.version
      where q.ref = i.ref and not exists (
        select 1 from current_resolution r where r.ref = q.ref and r.target = t.target))
  group by i.ref)
select total(net) filter (where ref = :ref), total(net) filter (where event = :event and :event <> ''),
       total(net) filter (where creator = :creator and :creator <> ''),
       total(net) filter (where category = :category and :category <> ''), total(net)
from stake
"""
_FLOWS = """
select total(cost) filter (where planned_at >= :day and state <> 'refused'),
       total(cost) filter (where planned_at >= :since and state <> 'refused'),
       count(*) filter (where planned_at > :hour and action <> 'comment')
from intent
where venue = :venue and account = :account and (mode = 'paper') = :paper and state <> 'superseded'
  and planned_at >= :first
"""
_WAITING = """
select total(cost) from intent
where venue = ? and account = ? and state in ('planned', 'ready', 'sending', 'unknown', 'absent')
"""
_NEWEST = "select equity from reading where venue = :venue and account = :account order by at desc, id desc limit 1"
# The account as the day began, or as a person let it go on: the last reading before, else the first one after.
_BEFORE = """
select equity from reading where venue = :venue and account = :account and at <= :begin
order by at desc, id desc limit 1
"""
_AFTER = """
select equity from reading where venue = :venue and account = :account and at > :begin order by at, id limit 1
"""
_READING = """
select at, currency, cash, body from reading where venue = ? and account = ? order by at desc, id desc limit 1
"""
_HIGHEST = "select max(equity) from reading where venue = :venue and account = :account and at >= :resumed"
_RESUMED = "select coalesce(max(resumed_at), '') from stop where venue in ('', ?)"

_ACCOUNT: Form[Account] = Form("account", Account)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """In which lane is counted, and for what; ``since`` is when the arm record in use began, None without one."""

    ref: QuestionRef
    account: str
    paper: bool
    exposure: Exposure = field(default_factory=Exposure)
    since: datetime | None = None


def usage(database: Database, counted: Counted, at: datetime) -> Usage:
    """Return what is at stake at the moment."""
    values = _values(counted, at)
    question, event, creator, category, total = database.execute(_STAKES, values).fetchone()
    day, armed, hour = database.execute(_FLOWS, values).fetchone()
    lost_today, drawdown = losses(database, counted.ref.venue, counted.account, at)
    return Usage(
        question=question,
        event=event,
        creator=creator,
        category=category,
        total=total,
        day=day,
        armed=armed if counted.since is not None else 0.0,
        hour=hour,
        lost_today=lost_today,
        drawdown=drawdown,
    )


def losses(database: Database, venue: str, account: str, at: datetime) -> tuple[float, float]:
    """Return what the account lost today, and since its highest reading; both begin anew when a person resumes."""
    (resumed,) = database.execute(_RESUMED, [venue]).fetchone()
    begin = max(_midnight(at), resumed)
    values = {"venue": venue, "account": account, "begin": begin, "resumed": resumed}
    newest = database.execute(_NEWEST, values).fetchone()
    if newest is None:
        return 0.0, 0.0
    first = database.execute(_BEFORE, values).fetchone() or database.execute(_AFTER, values).fetchone()
    (highest,) = database.execute(_HIGHEST, values).fetchone()
    lost = 0.0 if first is None else first[0] - newest[0]
    return max(0.0, lost), max(0.0, (newest[0] if highest is None else highest) - newest[0])


def waiting(database: Database, venue: str, account: str) -> float:
    """Return what intents may still take from the account that it does not show yet."""
    (cost,) = database.execute(_WAITING, [venue, account]).fetchone()
    return float(cost)


def last_account(database: Database, venue: str, account: str) -> Account | None:
    """Read the account as it was read last; None where it never was."""
    row = database.execute(_READING, [venue, account]).fetchone()
    if row is None:
        return None
    at, currency, cash, body = row
    try:
        return _ACCOUNT.decode(body)
    except ContractError:
        return Account(at=moment(at), currency=currency, cash=cash)


def _values(counted: Counted, at: datetime) -> dict[str, Any]:
    day, hour = _midnight(at), stamp(at - HOUR)
    since = stamp(at if counted.since is None else counted.since)
    return {
        "ref": str(counted.ref),
        "venue": counted.ref.venue,
        "account": counted.account,
        "paper": counted.paper,
        "event": counted.exposure.event,
        "creator": counted.exposure.creator,
        "category": counted.exposure.category,
        "day": day,
        "since": since,
        "hour": hour,
        "first": min(day, hour, since),
    }


def _midnight(at: datetime) -> str:
    return stamp(at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
