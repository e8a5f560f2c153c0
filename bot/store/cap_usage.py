"""How much of each cap is used, and how much an account lost today and since its peak.

Usage is counted in the same transaction that adds to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account
from bot.core.permissions import CapUsage, ExposureGroups
from bot.core.questions import QuestionRef
from bot.store.serialization import JsonSerializer, format_timestamp, parse_timestamp

ONE_HOUR = timedelta(hours=1)
# The stake in each unresolved question: the cost, possible or real, of its orders.
_ORDER_STAKES = """
with stake as (
  select i.ref, max(i.event) as event, max(i.creator) as creator, max(i.category) as category, total(i.cost) as cost
  from intent i
  where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.state not in ('refused', 'superseded') and i.action = 'order' and i.question_resolved = 0
  group by i.ref)
select total(cost) filter (where ref = :ref), total(cost) filter (where event = :event and :event <> ''),
       total(cost) filter (where creator = :creator and :creator <> ''),
       total(cost) filter (where category = :category and :category <> ''), total(cost)
from stake
"""
# The fees of comments on unresolved questions; no sale returns them.
_COMMENT_FEES = """
select total(cost) filter (where ref = :ref), total(cost) filter (where event = :event and :event <> ''),
       total(cost) filter (where creator = :creator and :creator <> ''),
       total(cost) filter (where category = :category and :category <> ''), total(cost)
from intent i
where venue = :venue and account = :account and (mode = 'paper') = :paper
  and state not in ('refused', 'superseded') and action = 'comment' and cost > 0
  and exists (select 1 from question q where q.ref = i.ref and q.resolved = 0)
"""
# All trades, in order, in the unresolved questions with a sale.
_TRADES_OF_SOLD = """
with sold as materialized (
  select distinct i.ref from fill f indexed by fill_sold cross join intent i on i.id = f.intent
  where f.cash > 0 and i.venue = :venue and i.account = :account and i.question_resolved = 0),
stake as (
  select i.ref, max(i.event) as event, max(i.creator) as creator, max(i.category) as category
  from intent i
  where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.state not in ('refused', 'superseded') and i.action = 'order' and i.question_resolved = 0
    and i.ref in (select ref from sold)
  group by i.ref)
select stake.ref, stake.event, stake.creator, stake.category, json_extract(i.order_body, '$.contract'),
       json_extract(i.order_body, '$.leg'), f.shares, f.cash
from stake join intent i on i.ref = stake.ref join fill f on f.intent = i.id
where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
  and i.state not in ('refused', 'superseded') and i.action = 'order' and i.question_resolved = 0
order by f.at, i.seq, f.reference
"""
_PLANNED_COSTS = """
select total(cost) filter (where planned_at >= :day and state <> 'refused'),
       total(cost) filter (where planned_at >= :since and state <> 'refused')
from intent
where venue = :venue and account = :account and (mode = 'paper') = :paper and state <> 'superseded'
  and planned_at >= :first
"""
# Each attempt counts, and each waiting intent: an order with three attempts counts three times.
_HOURLY_ATTEMPTS = """
select (
  select count(*) from attempt a indexed by attempt_by_start cross join intent i on i.id = a.intent
  where a.started_at > :hour and i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper
    and i.action <> 'comment') + (
  select count(*) from intent i
  where i.state in ('planned', 'ready', 'absent') and i.venue = :venue and i.account = :account
    and (i.mode = 'paper') = :paper and i.action <> 'comment' and i.planned_at > :hour)
"""
_UNSETTLED_COST = """
select total(cost) from intent
where venue = :venue and account = :account and state in ('planned', 'ready', 'sending', 'unknown', 'absent')
  and (mode = 'paper') = :paper
"""
_OF_ACCOUNT = "venue = :venue and account = :account and paper = :paper"
# What the account is worth without what people paid in or out.
_WORTH = "equity - transfers - unconfirmed"
# A reading with a time in the future (the clock was ahead) counts from that time on.
_NEWEST_EQUITY = (
    f"select {_WORTH} from account_reading where {_OF_ACCOUNT} and at <= :now order by at desc, id desc limit 1"  # noqa: S608
)
# The account at the start of the day, or at the last resume: the last reading before, else the first one after.
_EQUITY_BEFORE = (
    f"select {_WORTH} from account_reading where {_OF_ACCOUNT} and at <= :begin order by at desc, id desc limit 1"  # noqa: S608
)
_EQUITY_AFTER = (
    f"select {_WORTH} from account_reading where {_OF_ACCOUNT} and at > :begin and at <= :now order by at, id limit 1"  # noqa: S608
)
_HIGHEST_EQUITY = f"select max({_WORTH}) from account_reading where {_OF_ACCOUNT} and at >= :resumed and at <= :now"  # noqa: S608
_NEWEST_READING = f"""
select at, currency, cash, body from account_reading
where id = (select max(id) from account_reading where {_OF_ACCOUNT})
"""  # noqa: S608
# When a person last resumed the venue or all venues; halts that ended by themselves do not count.
LAST_MANUAL_RESUME = """
(select coalesce(max(resumed_at), '') from halt
 where venue in ('', :venue) and (end_condition = 'person' or resumed_by <> '') and resumed_at <= :now)
"""
_SELECT_LAST_RESUME = f"select {LAST_MANUAL_RESUME}"
# Of the newest open questions of a venue, how many name what a cap counts.
_NAMED_GROUPS = """
with newest as (
  select version from question where venue = :venue and (closes_at is null or closes_at > :now)
  order by rowid desc limit 1000)
select count(*), count(json_extract(v.body, '$.facts.event')), count(json_extract(v.body, '$.facts.creator')),
       count(json_extract(v.body, '$.facts.category'))
from newest join question_version v on v.version = newest.version
"""
_ACCOUNT_SERIALIZER: JsonSerializer[Account] = JsonSerializer("account", Account)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUsageScope:
    """The account and question to count for; ``since`` is when the current arm record began, None without one."""

    ref: QuestionRef
    account: str
    paper: bool
    exposure: ExposureGroups = field(default_factory=ExposureGroups)
    since: datetime | None = None


def count_named_groups(database: Database, venue: str, at: datetime) -> tuple[int, Mapping[str, int]]:
    """Return how many open questions of a venue there are, at most 1,000, and how many name each group of a cap."""
    values = {"venue": venue, "now": format_timestamp(at)}
    count, *named = database.execute(_NAMED_GROUPS, values).fetchone()
    return count, dict(zip(("event", "creator", "category"), named, strict=True))


def read_cap_usage(database: Database, counted: CapUsageScope, at: datetime) -> CapUsage:
    """Return how much of each cap is used at that time."""
    values = _query_values(counted, at)
    stakes = _subtract_returns(
        database.execute(_ORDER_STAKES, values).fetchone(), _sale_returns(database, values), values
    )
    fees = database.execute(_COMMENT_FEES, values).fetchone()
    question, event, creator, category, total = map(sum, zip(stakes, fees, strict=True))
    day, armed = database.execute(_PLANNED_COSTS, values).fetchone()
    (hour,) = database.execute(_HOURLY_ATTEMPTS, values).fetchone()
    lost_today, drawdown = read_account_losses(database, counted.ref.venue, counted.account, at, paper=counted.paper)
    return CapUsage(
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


def _sale_returns(database: Database, values: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield the cost of the shares that were sold again, with the groups of their question.

    A sale ends the stake of the bought shares that it sells. Its profit, and the proceeds of shares that were not
    bought here, do not offset a later purchase.
    """
    shares, paid = defaultdict[tuple[str, ...], float](float), defaultdict[tuple[str, ...], float](float)
    for ref, event, creator, category, contract, leg, traded, cash in database.execute(_TRADES_OF_SOLD, dict(values)):
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


def _subtract_returns(
    stakes: Sequence[float], returns: Iterable[tuple[Mapping[str, str], float]], values: Mapping[str, Any]
) -> Sequence[float]:
    left = [*stakes]
    for groups, amount in returns:
        for place, group in enumerate(("ref", "event", "creator", "category")):
            if groups[group] and groups[group] == values[group]:
                left[place] -= amount
        left[-1] -= amount
    return [max(0.0, stake) for stake in left]


def read_account_losses(
    database: Database, venue: str, account: str, at: datetime, *, paper: bool
) -> tuple[float, float]:
    """Return the losses of the paper or real account: today, and since its highest reading, without transfers.

    Both start at zero again when a person resumes.
    """
    values: dict[str, Any] = {"venue": venue, "account": account, "paper": paper, "now": format_timestamp(at)}
    (resumed,) = database.execute(_SELECT_LAST_RESUME, values).fetchone()
    values |= {"begin": max(_day_start(at), resumed), "resumed": resumed}
    newest = database.execute(_NEWEST_EQUITY, values).fetchone()
    if newest is None:
        return 0.0, 0.0
    first = database.execute(_EQUITY_BEFORE, values).fetchone() or database.execute(_EQUITY_AFTER, values).fetchone()
    (highest,) = database.execute(_HIGHEST_EQUITY, values).fetchone()
    return max(0.0, first[0] - newest[0]), max(0.0, (newest[0] if highest is None else highest) - newest[0])


def unsettled_cost(database: Database, venue: str, account: str, *, paper: bool) -> float:
    """Return the cost of paper or real intents that the account does not show yet."""
    (cost,) = database.execute(_UNSETTLED_COST, {"venue": venue, "account": account, "paper": paper}).fetchone()
    return float(cost)


def read_last_account(database: Database, venue: str, account: str, *, paper: bool) -> Account | None:
    """Return the last reading of the paper or real account; None if there is none."""
    row = database.execute(_NEWEST_READING, {"venue": venue, "account": account, "paper": paper}).fetchone()
    if row is None:
        return None
    at, currency, cash, body = row
    try:
        return _ACCOUNT_SERIALIZER.decode(body)
    except MalformedDataError:
        return Account(at=parse_timestamp(at), currency=currency, cash=cash)


def _query_values(counted: CapUsageScope, at: datetime) -> dict[str, Any]:
    day, hour = _day_start(at), format_timestamp(at - ONE_HOUR)
    since = format_timestamp(at if counted.since is None else counted.since)
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


def _day_start(at: datetime) -> str:
    return format_timestamp(at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
