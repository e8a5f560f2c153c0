"""What is at stake in one lane, counted in the transaction that adds to it.

Every function works within the transaction or snapshot of its caller. An intent counts from the moment it is planned
until it is refused, superseded, or its question has resolved; what is unknown or in doubt counts as sent.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Account
from bot.domain.permission import Exposure, Usage
from bot.domain.question import QuestionRef
from bot.errors import ContractError
from bot.store.codec import Form, moment, stamp
from bot.store.schema_lanes import SETTLED
from bot.store.stops import RESUMED_BY_A_PERSON

HOUR = timedelta(hours=1)

# What may have been put into each question that has no outcome: all that its orders may cost, or took.
STAKES = """
with stake as (
  select i.ref, max(i.event) as event, max(i.creator) as creator, max(i.category) as category, total(i.cost) as cost
  from intent i
  where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.state not in ('refused', 'superseded') and i.action = 'order' and i.settled = 0
  group by i.ref)
select total(cost) filter (where ref = :ref), total(cost) filter (where event = :event and :event <> ''),
       total(cost) filter (where creator = :creator and :creator <> ''),
       total(cost) filter (where category = :category and :category <> ''), total(cost)
from stake
"""
# What was charged for comments on questions that have no outcome; no sale brings that back.
FEES = f"""
select total(cost) filter (where ref = :ref), total(cost) filter (where event = :event and :event <> ''),
       total(cost) filter (where creator = :creator and :creator <> ''),
       total(cost) filter (where category = :category and :category <> ''), total(cost)
from intent i
where venue = :venue and account = :account and (mode = 'paper') = :paper
  and state not in ('refused', 'superseded') and action = 'comment' and cost > 0
  and not ({SETTLED.format(ref="i.ref")})
"""  # noqa: S608 - made of constants
# All that was traded in those of them where anything was sold, in order.
SALES = """
with sold as materialized (
  select distinct i.ref from fill f indexed by fill_sold cross join intent i on i.id = f.intent
  where f.cash > 0 and i.venue = :venue and i.account = :account and i.settled = 0),
stake as (
  select i.ref, max(i.event) as event, max(i.creator) as creator, max(i.category) as category
  from intent i
  where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.state not in ('refused', 'superseded') and i.action = 'order' and i.settled = 0
    and i.ref in (select ref from sold)
  group by i.ref)
select stake.ref, stake.event, stake.creator, stake.category, json_extract(i.order_body, '$.contract'),
       json_extract(i.order_body, '$.leg'), f.shares, f.cash
from stake join intent i on i.ref = stake.ref join fill f on f.intent = i.id
where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
  and i.state not in ('refused', 'superseded') and i.action = 'order' and i.settled = 0
order by f.at, i.seq, f.reference
"""
FLOWS = """
select total(cost) filter (where planned_at >= :day and state <> 'refused'),
       total(cost) filter (where planned_at >= :since and state <> 'refused')
from intent
where venue = :venue and account = :account and (mode = 'paper') = :paper and state <> 'superseded'
  and planned_at >= :first
"""
# Each attempt is one: an order that is tried again and again is many. So is what has not been tried yet.
TRIED = """
select (
  select count(*) from attempt a indexed by attempt_by_start cross join intent i on i.id = a.intent
  where a.started_at > :hour and i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.action <> 'comment') + (
  select count(*) from intent i
  where i.state in ('planned', 'ready', 'absent') and i.venue = :venue and i.account = :account
    and (i.mode = 'paper') = :paper and i.action <> 'comment' and i.planned_at > :hour)
"""
WAITING = """
select total(cost) from intent
where venue = :venue and account = :account and state in ('planned', 'ready', 'sending', 'unknown', 'absent')
  and (mode = 'paper') = :paper
"""
_LANE = "venue = :venue and account = :account and paper = :paper"
# What a clock that was ahead wrote down counts when its time has come.
NEWEST = f"select equity from reading where {_LANE} and at <= :now order by at desc, id desc limit 1"  # noqa: S608
# The account as the day began, or as a person let it go on: the last reading before, else the first one after.
BEFORE = f"select equity from reading where {_LANE} and at <= :begin order by at desc, id desc limit 1"  # noqa: S608
AFTER = f"select equity from reading where {_LANE} and at > :begin and at <= :now order by at, id limit 1"  # noqa: S608
HIGHEST = f"select max(equity) from reading where {_LANE} and at >= :resumed and at <= :now"  # noqa: S608
READING = f"""
select at, currency, cash, body from reading where id = (select max(id) from reading where {_LANE})
"""  # noqa: S608
_RESUMED = f"select {RESUMED_BY_A_PERSON}"

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
    stakes = _less(database.execute(STAKES, values).fetchone(), _brought_back(database, values), values)
    fees = database.execute(FEES, values).fetchone()
    question, event, creator, category, total = map(sum, zip(stakes, fees, strict=True))
    day, armed = database.execute(FLOWS, values).fetchone()
    (hour,) = database.execute(TRIED, values).fetchone()
    lost_today, drawdown = losses(database, counted.ref.venue, counted.account, at, paper=counted.paper)
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


def _brought_back(database: Database, values: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield what sales gave back of what their shares had cost, with the groups of their question.

    A sale ends the stake of the shares that it sold, bought before; what it brought beyond that, or for shares that
    were not bought here, pays for no later purchase.
    """
    shares, paid = defaultdict[tuple[str, ...], float](float), defaultdict[tuple[str, ...], float](float)
    for ref, event, creator, category, contract, leg, traded, cash in database.execute(SALES, dict(values)):
        place = (contract, leg)
        if cash <= 0:
            shares[place] += traded
            paid[place] -= cash
        elif shares[place] > 0:
            part = min(1.0, traded / shares[place])
            groups = {"ref": ref, "event": event, "creator": creator, "category": category}
            yield groups, part * paid[place]
            shares[place] -= part * shares[place]
            paid[place] -= part * paid[place]


def _less(
    stakes: Sequence[float], given_back: Iterable[tuple[Mapping[str, str], float]], values: Mapping[str, Any]
) -> Sequence[float]:
    left = [*stakes]
    for groups, amount in given_back:
        for place, group in enumerate(("ref", "event", "creator", "category")):
            if groups[group] and groups[group] == values[group]:
                left[place] -= amount
        left[-1] -= amount
    return [max(0.0, stake) for stake in left]


def losses(database: Database, venue: str, account: str, at: datetime, *, paper: bool) -> tuple[float, float]:
    """Return what the account, on paper or the real one, lost today, and since its highest reading.

    Both begin anew when a person resumes.
    """
    values: dict[str, Any] = {"venue": venue, "account": account, "paper": paper, "now": stamp(at)}
    (resumed,) = database.execute(_RESUMED, values).fetchone()
    values |= {"begin": max(_midnight(at), resumed), "resumed": resumed}
    newest = database.execute(NEWEST, values).fetchone()
    if newest is None:
        return 0.0, 0.0
    first = database.execute(BEFORE, values).fetchone() or database.execute(AFTER, values).fetchone()
    (highest,) = database.execute(HIGHEST, values).fetchone()
    lost = 0.0 if first is None else first[0] - newest[0]
    return max(0.0, lost), max(0.0, (newest[0] if highest is None else highest) - newest[0])


def waiting(database: Database, venue: str, account: str, *, paper: bool) -> float:
    """Return what intents, on paper or real ones, may still take that the account does not show yet."""
    (cost,) = database.execute(WAITING, {"venue": venue, "account": account, "paper": paper}).fetchone()
    return float(cost)


def last_account(database: Database, venue: str, account: str, *, paper: bool) -> Account | None:
    """Read the account, on paper or the real one, as it was read last; None where it never was."""
    row = database.execute(READING, {"venue": venue, "account": account, "paper": paper}).fetchone()
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
        "first": min(day, since),
    }


def _midnight(at: datetime) -> str:
    return stamp(at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
