"""What accounts had, as it was read: the ground of daily loss and drawdown, and what ``foxcast portfolio`` shows.

An account on paper and the real one of the same name are two: neither counts for the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Account
from bot.store import usage
from bot.store.codec import Form, clean, moment, stamp
from bot.store.runs import Runs

# An account that stays as it is is written down so often all the same: a reading also says that it could be read.
AT_LEAST_EVERY = timedelta(hours=1)

_ACCOUNT: Form[Account] = Form("account", Account)

_NEWEST = """
select id, at, cash, equity from reading where id = (
  select max(id) from reading where venue = :venue and account = :account and paper = :paper)
"""
_ADD = """
insert into reading (venue, account, paper, at, currency, cash, equity, body)
values (:venue, :account, :paper, :at, :currency, :cash, :equity, :body)
"""
# All that is in the account is kept of the newest reading alone; of the others the sums.
_EMPTY = """
update reading set body = ''
where venue = :venue and account = :account and paper = :paper and id < :newest and body <> ''
"""
_REFRESH = "update reading set body = ? where id = ?"
_SINCE = """
select at, cash, equity from reading
where venue = ? and account = ? and paper = ? and at >= ? order by at, id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The sums of an account at a moment, in its currency."""

    at: datetime
    cash: float
    equity: float


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

    async def since(self, venue: str, name: str, since: datetime, *, paper: bool) -> Sequence[Reading]:
        """Return the readings from that moment on, oldest first."""
        return await self.readers.run(
            lambda database: [
                Reading(at=moment(at), cash=cash, equity=equity)
                for at, cash, equity in database.execute(_SINCE, [venue, name, paper, stamp(since)])
            ]
        )


def _add(database: Database, lane: dict[str, Any], account: Account) -> bool:
    newest = database.execute(_NEWEST, lane).fetchone()
    body, cash, equity = _ACCOUNT.encode(account), float(account.cash), float(account.equity)
    if newest is not None:
        known, at, *sums = newest
        if sums == [cash, equity] and account.at < moment(at) + AT_LEAST_EVERY:
            database.execute(_REFRESH, [body, known])
            return False
    values = {
        **lane,
        "at": stamp(account.at),
        "currency": clean(account.currency),
        "cash": cash,
        "equity": equity,
        "body": body,
    }
    database.execute(_ADD, values)
    (added, *_) = database.execute(_NEWEST, lane).fetchone()
    database.execute(_EMPTY, {**lane, "newest": added})
    return True
