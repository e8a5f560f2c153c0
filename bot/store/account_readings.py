"""Readings of accounts over time: cash, equity, and what people paid in or took out.

Old readings are thinned out. The paper account and the real account of a venue are two accounts.
"""

# ruff: noqa: S608 - statements made of the constants below

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account
from bot.core.trading_profit import EquityReading
from bot.store import cap_usage
from bot.store.connections import TransactionRunner
from bot.store.serialization import JsonSerializer, format_timestamp, parse_timestamp, sanitize_text, to_json_list

# An unchanged account gets a new reading this often: a reading also shows that the account could be read.
MAX_READING_GAP = timedelta(hours=1)
# All readings are kept this long, then the last and highest of each hour, then those of each day.
KEEP_ALL_FOR, KEEP_HOURLY_FOR = timedelta(days=2), timedelta(days=90)
# Smaller changes of cash are interest and rounding.
MIN_TRANSFER = 0.01
# So long after a write of our own no change of cash is taken for a transfer, unless the write had no effect.
QUIET_BEFORE_TRANSFER = timedelta(minutes=10)
_ACCOUNT_SERIALIZER: JsonSerializer[Account] = JsonSerializer("account", Account)
_OF_ACCOUNT = "venue = :venue and account = :account and paper = :paper"
_SUM_COLUMNS = ("cash", "equity", "reserved", "loan", "owed", "elsewhere")
_NEWEST_READING = f"""
select id, at, body, transfers, unconfirmed, {", ".join(_SUM_COLUMNS)} from account_reading
where id = (select max(id) from account_reading where {_OF_ACCOUNT})
"""
_INSERT_READING = f"""
insert into account_reading (venue, account, paper, at, until, currency, body, transfers, unconfirmed,
  {", ".join(_SUM_COLUMNS)})
values (:venue, :account, :paper, :at, :at, :currency, :body, :transfers, :unconfirmed,
  {", ".join(f":{name}" for name in _SUM_COLUMNS)})
"""
# Only the newest reading keeps the full account; older readings keep the sums.
_CLEAR_OLD_BODIES = f"update account_reading set body = '' where {_OF_ACCOUNT} and id < :newest and body <> ''"
_EXTEND_READING = """
update account_reading set body = :body, until = max(until, :at), transfers = :transfers, unconfirmed = :unconfirmed
where id = :id
"""
_CONTRACTS_WRITTEN = """
select distinct json_extract(i.order_body, '$.contract') from attempt a cross join intent i on i.id = a.intent
where a.started_at > :since and a.state not in ('absent', 'refused') and i.venue = :venue and i.account = :account
  and i.mode <> 'paper'
"""
_READINGS_SINCE = f"""
select at, until, {", ".join(_SUM_COLUMNS)} from account_reading
where venue = ? and account = ? and paper = ? and at >= ? order by at, id
"""
_THIN_READINGS = f"""
with old as (
  select id, row_number() over (partition by substr(at, 1, iif(at < :daily, 10, 13)) order by at desc, id desc) as last,
         row_number() over (partition by substr(at, 1, iif(at < :daily, 10, 13)) order by
           equity - transfers - unconfirmed desc, id) as highest
  from account_reading where {_OF_ACCOUNT} and at < :hourly
    and id <> (select min(id) from account_reading where {_OF_ACCOUNT}))
delete from account_reading where id in (select id from old where last > 1 and highest > 1)
"""
_FIRST_AND_LAST_READING = tuple(
    f"""
select at, until, {", ".join(_SUM_COLUMNS)} from account_reading where {_OF_ACCOUNT} order by {order} limit 1
"""
    for order in ("at, id", "at desc, id desc")
)
_ORDERED_CONTRACTS = """
select distinct json_extract(order_body, '$.contract') from intent
where venue = :venue and account = :account and order_body is not null
  and json_extract(order_body, '$.contract') in (select value from json_each(:contracts))
"""
_UPSERT_VENUE_GAIN = """
insert into venue_gain (venue, account, contract, gain, closed, before_fees, at)
values (:venue, :account, :contract, :gain, :closed, :before_fees, :at)
on conflict do update set gain = excluded.gain, closed = excluded.closed, at = excluded.at
  where gain <> excluded.gain or closed <> excluded.closed
"""


@dataclass(frozen=True, slots=True)
class AccountReadingStore:
    """Readings of accounts over time."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def add(self, venue: str, name: str, account: Account, *, paper: bool) -> bool:
        """Store a reading; return whether it is new: within an hour, the same sums extend the last reading."""
        key = {"venue": venue, "account": sanitize_text(name), "paper": paper}
        return await self.writer.run(lambda database: _add_reading(database, key, account))

    async def last(self, venue: str, name: str, *, paper: bool) -> Account | None:
        """Return the last reading of the paper or real account."""
        return await self.readers.run(lambda database: cap_usage.read_last_account(database, venue, name, paper=paper))

    async def since(self, venue: str, name: str, since: datetime, *, paper: bool) -> Sequence[EquityReading]:
        """Return the readings since then, oldest first."""
        return await self.readers.run(lambda database: read_readings_since(database, venue, name, since, paper=paper))


def read_readings_since(
    database: Database, venue: str, name: str, since: datetime, *, paper: bool
) -> list[EquityReading]:
    """Return the readings of an account since then, oldest first."""
    rows = database.execute(_READINGS_SINCE, [venue, name, paper, format_timestamp(since)])
    return [_equity_reading(*row) for row in rows]


def read_first_and_last(database: Database, key: Mapping[str, Any]) -> list[EquityReading]:
    """Return the first and the last reading of an account: none, one that is both, or two."""
    rows = [row for sql in _FIRST_AND_LAST_READING for row in database.execute(sql, {**key})]
    return [_equity_reading(*row) for row in dict.fromkeys(rows)]


def _equity_reading(at: str, until: str, *sums: float) -> EquityReading:
    return EquityReading(
        at=parse_timestamp(at), until=parse_timestamp(until), **dict(zip(_SUM_COLUMNS, sums, strict=True))
    )


def _add_reading(database: Database, key: dict[str, Any], account: Account) -> bool:
    row = database.execute(_NEWEST_READING, key).fetchone()
    newest = None if row is None else _stored_reading(*row)
    account = _with_last_marks(account, newest)
    body, sums = _ACCOUNT_SERIALIZER.encode(replace(account, gains=())), _reading_sums(database, key, account)
    if not key["paper"]:
        _store_venue_gains(database, key, account)
    transfers = _transfers(database, key, newest, account, sums)
    values = {**key, **sums, **transfers, "body": body, "at": format_timestamp(account.at)}
    if newest is not None and newest.sums == sums and account.at < parse_timestamp(newest.at) + MAX_READING_GAP:
        database.execute(_EXTEND_READING, {**values, "id": newest.id})
        return False
    database.execute(_INSERT_READING, {**values, "currency": sanitize_text(account.currency)})
    (added, *_) = database.execute(_NEWEST_READING, key).fetchone()
    database.execute(_CLEAR_OLD_BODIES, {**key, "newest": added})
    if newest is not None and _hour_key(parse_timestamp(newest.at)) != _hour_key(account.at):
        _thin_readings(database, key, account.at)
    return True


@dataclass(frozen=True, slots=True)
class _StoredReading:
    """The newest reading: ``transfers`` since the first one, and cash that came or went last, ``unconfirmed``."""

    id: int
    at: str
    body: str
    transfers: float
    unconfirmed: float
    sums: Mapping[str, float]


def _stored_reading(
    number: int, at: str, body: str, transfers: float, unconfirmed: float, *sums: float
) -> _StoredReading:
    return _StoredReading(number, at, body, transfers, unconfirmed, dict(zip(_SUM_COLUMNS, sums, strict=True)))


def _transfers(
    database: Database, key: dict[str, Any], newest: _StoredReading | None, account: Account, sums: Mapping[str, float]
) -> dict[str, float]:
    """Return the cash that people paid in and did not take out again, up to the reading before and since then.

    Cash that changes while neither a position nor an order does is a transfer, until the reading after shows other
    positions: lists may lag behind a payout or a trade. What the program itself wrote since then explains its own
    contracts only. While it writes, nothing is taken for a transfer, but for a write that is known to have had no
    effect. Cash that goes without having come is a loss, as nobody can tell from the account where it went.
    """
    if newest is None or key["paper"]:
        return {"transfers": 0.0, "unconfirmed": 0.0}
    written = _contracts_written(database, key, newest)
    if not _has_same_holdings(newest, account, apart_from=written):
        return {"transfers": newest.transfers, "unconfirmed": 0.0}
    total = newest.transfers + newest.unconfirmed
    change = 0.0 if written else max(_own_cash(sums) - _own_cash(newest.sums), -total)
    return {"transfers": total, "unconfirmed": change if abs(change) >= MIN_TRANSFER else 0.0}


def _with_last_marks(account: Account, newest: _StoredReading | None) -> Account:
    """Return the account with the last known mark of each position whose price cannot be read now.

    A guess instead would move the value of the account, and make or hide a loss that was none.
    """
    if newest is None or not any(one.is_unpriced for one in account.positions):
        return account
    try:
        before = _ACCOUNT_SERIALIZER.decode(newest.body)
    except MalformedDataError:
        return account
    marks = {(one.contract, one.leg): one.mark for one in before.positions}
    return replace(
        account,
        positions=tuple(
            replace(one, mark=marks.get((one.contract, one.leg), one.mark)) if one.is_unpriced else one
            for one in account.positions
        ),
    )


def _own_cash(sums: Mapping[str, float]) -> float:
    return sums["cash"] + sums["reserved"] - sums["loan"]


def _has_same_holdings(newest: _StoredReading, account: Account, *, apart_from: Collection[str | None]) -> bool:
    try:
        before = _ACCOUNT_SERIALIZER.decode(newest.body)
    except MalformedDataError:
        return False
    return _holdings(before, apart_from) == _holdings(account, apart_from)


def _holdings(account: Account, apart_from: Collection[str | None]) -> set[object]:
    held = {(one.contract, one.leg, round(one.shares, 6), one.decided) for one in account.positions}
    ordered = {(one.contract, one.id, round(one.shares, 6)) for one in account.orders}
    return {one for one in (*held, *ordered) if one[0] not in apart_from}


def _contracts_written(database: Database, key: dict[str, Any], newest: _StoredReading) -> set[str | None]:
    """Return the contracts of own writes since shortly before a reading; None for a write without an order."""
    since = parse_timestamp(newest.at) - QUIET_BEFORE_TRANSFER
    return {contract for (contract,) in database.execute(_CONTRACTS_WRITTEN, {**key, "since": format_timestamp(since)})}


def _reading_sums(database: Database, key: dict[str, Any], account: Account) -> dict[str, float]:
    contracts = {position.contract for position in account.positions}
    # A paper book holds only what this program ordered.
    asked = {**key, "contracts": to_json_list(contracts)}
    foreign = set() if key["paper"] else contracts - {name for (name,) in database.execute(_ORDERED_CONTRACTS, asked)}
    worth = [(one, one.shares * (one.mark or 0.0)) for one in account.positions]
    return {
        "cash": float(account.cash),
        "equity": float(account.equity),
        "reserved": float(sum(order.reserves for order in account.orders)),
        "loan": float(account.loan),
        "owed": float(sum(value for one, value in worth if one.decided)),
        "elsewhere": float(sum(value for one, value in worth if one.contract in foreign and not one.decided)),
    }


def _store_venue_gains(database: Database, key: dict[str, Any], account: Account) -> None:
    at = format_timestamp(account.at)
    for one in account.gains:
        values = {"contract": one.contract, "gain": one.gain, "closed": one.closed, "before_fees": one.before_fees}
        database.execute(_UPSERT_VENUE_GAIN, {**key, **values, "at": at})


def _thin_readings(database: Database, key: dict[str, Any], now: datetime) -> None:
    database.execute(
        _THIN_READINGS,
        {**key, "hourly": format_timestamp(now - KEEP_ALL_FOR), "daily": format_timestamp(now - KEEP_HOURLY_FOR)},
    )


def _hour_key(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H}"
