"""What accounts had, as it was read: the ground of daily loss and drawdown, and what ``foxcast portfolio`` shows.

An account on paper and the real one of the same name are two: neither counts for the other. Readings grow old: of each
hour, and later of each day, the last and the highest are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.domain.equity import EquityReading
from bot.domain.order import Account
from bot.store import usage
from bot.store.codec import Form, clean, listed, moment, stamp
from bot.store.runs import Runs

# An account that stays as it is is written down so often all the same: a reading also says that it could be read.
AT_LEAST_EVERY = timedelta(hours=1)
# Every reading is kept for so long, then those of each hour, then those of each day.
ALL_FOR, HOURLY_FOR = timedelta(days=2), timedelta(days=90)

_ACCOUNT: Form[Account] = Form("account", Account)

_LANE = "venue = :venue and account = :account and paper = :paper"
_SUMS = ("cash", "equity", "reserved", "loan", "owed", "elsewhere")
_NEWEST = f"""
select id, at, {", ".join(_SUMS)} from reading where id = (select max(id) from reading where {_LANE})
"""  # noqa: S608 - made of constants
_ADD = f"""
insert into reading (venue, account, paper, at, until, currency, body, {", ".join(_SUMS)})
values (:venue, :account, :paper, :at, :at, :currency, :body, {", ".join(f":{name}" for name in _SUMS)})
"""  # noqa: S608 - made of constants
# All that is in the account is kept of the newest reading alone; of the others the sums.
_EMPTY = f"update reading set body = '' where {_LANE} and id < :newest and body <> ''"  # noqa: S608 - constants
_REFRESH = "update reading set body = ?, until = max(until, ?) where id = ?"
_SINCE = f"""
select at, until, {", ".join(_SUMS)} from reading
where venue = ? and account = ? and paper = ? and at >= ? order by at, id
"""  # noqa: S608 - made of constants
_THIN = f"""
with old as (
  select id, row_number() over (partition by substr(at, 1, iif(at < :daily, 10, 13)) order by at desc, id desc) as last,
         row_number() over (partition by substr(at, 1, iif(at < :daily, 10, 13)) order by equity desc, id) as highest
  from reading where {_LANE} and at < :hourly
    and id <> (select min(id) from reading where {_LANE}))
delete from reading where id in (select id from old where last > 1 and highest > 1)
"""  # noqa: S608 - made of constants
_ORDERED = """
select distinct json_extract(order_body, '$.contract') from intent
where venue = :venue and account = :account and order_body is not null
  and json_extract(order_body, '$.contract') in (select value from json_each(:contracts))
"""
_SAY = """
insert into venue_gain (venue, account, contract, gain, closed, before_fees, at)
values (:venue, :account, :contract, :gain, :closed, :before_fees, :at)
on conflict do update set gain = excluded.gain, closed = excluded.closed, at = excluded.at
  where gain <> excluded.gain or closed <> excluded.closed
"""


@dataclass(frozen=True, slots=True)
class Readings:
    """Accounts over time."""

    writer: Runs
    readers: Runs

    async def add(self, venue: str, name: str, account: Account, *, paper: bool) -> bool:
        """Keep a reading; return whether it is a new one: the same sums within the hour are none."""
        lane = {"venue": venue, "account": clean(name), "paper": paper}
        return await self.writer.run(lambda database: _add(database, lane, account))

    async def last(self, venue: str, name: str, *, paper: bool) -> Account | None:
        """Return the account as it was read last, on paper or the real one."""
        return await self.readers.run(lambda database: usage.last_account(database, venue, name, paper=paper))

    async def since(self, venue: str, name: str, since: datetime, *, paper: bool) -> Sequence[EquityReading]:
        """Return the readings from that moment on, oldest first."""
        return await self.readers.run(lambda database: readings_since(database, venue, name, since, paper=paper))


def readings_since(database: Database, venue: str, name: str, since: datetime, *, paper: bool) -> list[EquityReading]:
    """Read what was read of an account from that moment on, oldest first."""
    return [
        EquityReading(at=moment(at), until=moment(until), **dict(zip(_SUMS, sums, strict=True)))
        for at, until, *sums in database.execute(_SINCE, [venue, name, paper, stamp(since)])
    ]


def _add(database: Database, lane: dict[str, Any], account: Account) -> bool:
    newest = database.execute(_NEWEST, lane).fetchone()
    body, sums = _ACCOUNT.encode(replace(account, gains=())), _sums(database, lane, account)
    if not lane["paper"]:
        _say(database, lane, account)
    if newest is not None:
        known, at, *before = newest
        if before == [*sums.values()] and account.at < moment(at) + AT_LEAST_EVERY:
            database.execute(_REFRESH, [body, stamp(account.at), known])
            return False
    values = {**lane, **sums, "at": stamp(account.at), "currency": clean(account.currency), "body": body}
    database.execute(_ADD, values)
    (added, *_) = database.execute(_NEWEST, lane).fetchone()
    database.execute(_EMPTY, {**lane, "newest": added})
    if newest is not None and _hour(moment(newest[1])) != _hour(account.at):
        _thin(database, lane, account.at)
    return True


def _sums(database: Database, lane: dict[str, Any], account: Account) -> dict[str, float]:
    contracts = {position.contract for position in account.positions}
    # A paper book holds nothing but what was ordered.
    asked = {**lane, "contracts": listed(contracts)}
    foreign = set() if lane["paper"] else contracts - {name for (name,) in database.execute(_ORDERED, asked)}
    worth = [(one, one.shares * (one.mark or 0.0)) for one in account.positions]
    return {
        "cash": float(account.cash),
        "equity": float(account.equity),
        "reserved": float(sum(order.reserves for order in account.orders)),
        "loan": float(account.loan),
        "owed": float(sum(value for one, value in worth if one.decided)),
        "elsewhere": float(sum(value for one, value in worth if one.contract in foreign and not one.decided)),
    }


def _say(database: Database, lane: dict[str, Any], account: Account) -> None:
    at = stamp(account.at)
    for one in account.gains:
        said = {"contract": one.contract, "gain": one.gain, "closed": one.closed, "before_fees": one.before_fees}
        database.execute(_SAY, {**lane, **said, "at": at})


def _thin(database: Database, lane: dict[str, Any], now: datetime) -> None:
    database.execute(_THIN, {**lane, "hourly": stamp(now - ALL_FOR), "daily": stamp(now - HOURLY_FOR)})


def _hour(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H}"
