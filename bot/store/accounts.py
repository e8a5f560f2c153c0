"""Accounts over time: readings of cash and equity, and the fills, payouts and fees that profit is computed from.

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
from bot.core.orders import Account, ContractSide, Position, UnpaidOutcome, VenueReportedGain
from bot.core.outcomes import Outcome
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.core.trading_profit import (
    MILLIONTHS,
    ContractProfit,
    EquityReading,
    SharePayout,
    TradeFill,
    TradingBook,
    build_trading_book,
)
from bot.store import cap_usage, documents
from bot.store.connections import TransactionRunner
from bot.store.market_totals import (
    ClosedMarket,
    ClosedMarketTotals,
    find_closable_markets,
    read_closed_totals,
    read_last_closed,
    store_closed_markets,
)
from bot.store.serialization import (
    OUTCOME,
    JsonSerializer,
    format_timestamp,
    parse_timestamp,
    sanitize_text,
    to_json_list,
)

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


_INTENT_OF_ACCOUNT = "i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper"
_INTENTS_OF_OPEN_MARKETS = """
from open_market m cross join intent i indexed by intent_by_question
  on m.venue = :venue and m.account = :account and m.paper = :paper and i.ref = m.ref
"""
_FILL_COLUMNS = """
select f.at, json_extract(i.order_body, '$.contract'), json_extract(i.order_body, '$.leg'),
       json_extract(i.order_body, '$.side'), coalesce(json_extract(i.order_body, '$.option'), ''), i.ref,
       f.shares, f.cash, f.fee, p.forecaster
"""
_SELECT_FILLS = f"""
{_FILL_COLUMNS} from fill f join intent i on i.id = f.intent join forecast p on p.id = i.forecast
where {_INTENT_OF_ACCOUNT}
order by f.at, i.seq, f.reference
"""
_SELECT_OPEN_FILLS, _SELECT_FILLS_OF_REFS = (
    f"""
{_FILL_COLUMNS} {intents}
  cross join fill f on f.intent = i.id cross join forecast p on p.id = i.forecast
where {_INTENT_OF_ACCOUNT}
order by f.at, i.seq, f.reference
"""
    for intents in (
        _INTENTS_OF_OPEN_MARKETS,
        "from json_each(:refs) m cross join intent i indexed by intent_by_question on i.ref = m.value",
    )
)
_SELECT_COMMENT_FEES = f"""
select i.changed_at, i.cost from intent i
where {_INTENT_OF_ACCOUNT} and i.action = 'comment' and i.state = 'acked' and i.cost > 0
"""
_SELECT_PAYOUTS = """
select at, contract, leg, price from payout where venue = :venue and account = :account and paper = :paper
"""
_PAYOUTS_OF_CONTRACTS = f"{_SELECT_PAYOUTS} and contract in (select value from json_each(:contracts))"
_SELECT_VENUE_GAINS = (
    "select contract, gain, closed, before_fees from venue_gain where venue = :venue and account = :account"
)
_GAINS_OF_CONTRACTS = f"{_SELECT_VENUE_GAINS} and contract in (select value from json_each(:contracts))"
_FIRST_AND_LAST_READING = tuple(
    f"""
select at, until, {", ".join(_SUM_COLUMNS)} from account_reading where {_OF_ACCOUNT} order by {order} limit 1
"""
    for order in ("at, id", "at desc, id desc")
)
# Traded contracts whose question has an outcome that no stored payout is based on.
_SELECT_UNPAID = f"""
select distinct json_extract(i.order_body, '$.contract') as contract, json_extract(i.order_body, '$.leg') as leg,
       coalesce(json_extract(i.order_body, '$.option'), '') as option, i.ref, r.id, r.body, r.resolved_at,
       max(i.seq) as newest
{_INTENTS_OF_OPEN_MARKETS} cross join current_resolution r on r.ref = i.ref
where {_INTENT_OF_ACCOUNT} and i.order_body is not null and exists (select 1 from fill f where f.intent = i.id)
  and r.target = coalesce((select key from json_each(i.predictions) limit 1), :single)
  and not exists (
    select 1 from payout p where p.venue = :venue and p.account = :account and p.paper = :paper
      and p.contract = json_extract(i.order_body, '$.contract') and p.leg = json_extract(i.order_body, '$.leg')
      and p.resolution = r.id)
group by 1, 2, 3, 4, 5
"""
_SELECT_MARKET_STATE = """
select d.market from decision d join intent i on i.id = d.intent
where i.seq = ? and d.market is not null order by d.id desc limit 1
"""
_UPSERT_PAYOUT = """
insert or replace into payout (venue, account, paper, contract, leg, price, at, resolution)
values (:venue, :account, :paper, :contract, :leg, :price, :at, :resolution)
"""
_DELETE_PAYOUT = """
delete from payout
where venue = :venue and account = :account and paper = :paper and contract = :contract and leg = :leg
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """An account of a venue: the real one, or the paper one."""

    venue: str
    account: str
    paper: bool

    @property
    def values(self) -> dict[str, Any]:
        """The values for its columns."""
        return {"venue": self.venue, "account": self.account, "paper": self.paper}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpaidShare:
    """A traded side of a contract whose outcome has no payout yet; ``state`` is the market state at the last order."""

    position: Position
    outcome: Outcome
    at: datetime
    resolution: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitRecord:
    """Everything in the ledger from which the profit of one account is computed.

    ``fees`` are the fees of comments; ``venue_gains`` are the gains that the venue itself reports. ``closed`` are sums
    over markets that are not in the ``book``, of which ``last_closed`` are the newest.
    """

    book: TradingBook
    readings: Sequence[EquityReading]
    fees: Sequence[tuple[datetime, int]]
    venue_gains: Sequence[VenueReportedGain]
    closed: ClosedMarketTotals | None = None
    last_closed: Sequence[ClosedMarket] = ()


@dataclass(frozen=True, slots=True)
class ProfitStore:
    """Fills, payouts and gains of accounts."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def record(self, key: AccountKey, since: datetime, *, redeems: bool) -> ProfitRecord:
        """Return the profit record of an account, with its readings since then."""
        return await self.readers.run(lambda database: read_profit_record(database, key, since, redeems=redeems))

    async def open_record(self, key: AccountKey, *, redeems: bool, last_closed: int) -> ProfitRecord:
        """Return the record of the open markets of an account, with its first and last reading and what is closed."""
        return await self.readers.run(
            lambda database: read_open_record(database, key, redeems=redeems, last_closed=last_closed)
        )

    async def close_markets(self, key: AccountKey, *, now: datetime, redeems: bool) -> int:
        """Close the markets whose profit is final; return how many questions. A few at once, so that others write."""
        count, after = 0, ""
        while refs := await self.readers.run(
            lambda database, after=after: find_closable_markets(database, key.values, after=after, now=now)  # type: ignore[misc]
        ):
            count += await self.writer.run(
                lambda database, refs=refs: _close_markets(database, key, refs, redeems=redeems)  # type: ignore[misc]
            )
            after = refs[-1]
        return count

    async def decided(self, key: AccountKey) -> Sequence[UnpaidShare]:
        """Return the traded shares whose payout must be stored, changed or deleted, by the current outcomes."""
        return await self.readers.run(lambda database: list_unpaid_shares(database, key))

    async def pay(self, key: AccountKey, found: Sequence[tuple[UnpaidShare, float | UnpaidOutcome]]) -> None:
        """Store what shares pay."""
        await self.writer.run(lambda database: _store_payouts(database, key, found))


def _store_payouts(
    database: Database, key: AccountKey, found: Sequence[tuple[UnpaidShare, float | UnpaidOutcome]]
) -> None:
    for share, pays in found:
        store_payout(database, key, share, pays)


def read_profit_record(database: Database, key: AccountKey, since: datetime, *, redeems: bool) -> ProfitRecord:
    """Read the profit record of an account, with its readings since then."""
    return ProfitRecord(
        book=read_trading_book(database, key, redeems=redeems),
        readings=read_readings_since(database, key.venue, key.account, since, paper=key.paper),
        fees=_comment_fees(database, key),
        venue_gains=[] if key.paper else _venue_gains(database, _SELECT_VENUE_GAINS, key.values),
    )


def read_open_record(database: Database, key: AccountKey, *, redeems: bool, last_closed: int) -> ProfitRecord:
    """Read the record of the open markets of an account: what it reads does not grow with what is closed."""
    book = build_trading_book(*_open_trades(database, key), redeems=redeems, returns_losses=not key.paper)
    contracts = {**key.values, "contracts": to_json_list([one.contract for one in book.contracts])}
    rows = [row for sql in _FIRST_AND_LAST_READING for row in database.execute(sql, key.values)]
    return ProfitRecord(
        book=book,
        readings=[_equity_reading(*row) for row in dict.fromkeys(rows)],
        fees=_comment_fees(database, key),
        venue_gains=[] if key.paper else _venue_gains(database, _GAINS_OF_CONTRACTS, contracts),
        closed=read_closed_totals(database, key.values),
        last_closed=read_last_closed(database, key.values, last_closed),
    )


def read_trading_book(database: Database, key: AccountKey, *, redeems: bool) -> TradingBook:
    """Build the trading book of an account from its fills and payouts."""
    payouts = [_share_payout(*row) for row in database.execute(_SELECT_PAYOUTS, key.values)]
    fills = [_trade_fill(*row) for row in database.execute(_SELECT_FILLS, key.values)]
    # Only a real account may have to return a payout.
    return build_trading_book(fills, payouts, redeems=redeems, returns_losses=not key.paper)


def _open_trades(
    database: Database, key: AccountKey, refs: Sequence[str] | None = None
) -> tuple[list[TradeFill], list[SharePayout]]:
    """Return the fills and payouts of the open markets of an account, or of those of some questions."""
    sql = _SELECT_OPEN_FILLS if refs is None else _SELECT_FILLS_OF_REFS
    values = {**key.values, "refs": to_json_list(refs or ())}
    fills = [_trade_fill(*row) for row in database.execute(sql, values)]
    asked = {**key.values, "contracts": to_json_list({one.contract for one in fills})}
    return fills, [_share_payout(*row) for row in database.execute(_PAYOUTS_OF_CONTRACTS, asked)]


def _close_markets(database: Database, key: AccountKey, refs: Sequence[str], *, redeems: bool) -> int:
    """Close those of the markets whose profit is final, and that the venue does not report otherwise."""
    fills, payouts = _open_trades(database, key, refs)
    book = build_trading_book(fills, payouts, redeems=redeems, returns_losses=not key.paper)
    names = {**key.values, "contracts": to_json_list([one.contract for one in book.contracts])}
    reported = [] if key.paper else _venue_gains(database, _GAINS_OF_CONTRACTS, names)
    gains = {one.contract: one for one in reported if one.closed}
    first, last = (database.execute(sql, key.values).fetchone() for sql in _FIRST_AND_LAST_READING)
    # Equity is counted from the first reading to the last: what happened before or after is read as it is.
    outside = {
        str(one.ref)
        for one in fills
        if last is None or not (key.paper or one.at > parse_timestamp(first[0])) or one.at > parse_timestamp(last[0])
    }
    by_ref: dict[str, list[ContractProfit]] = {}
    for contract in book.contracts:
        by_ref.setdefault(str(contract.ref), []).append(contract)

    def is_final(contract: ContractProfit) -> bool:
        ended = contract.closed_at is not None and contract.closed_at <= parse_timestamp(last[0])
        return ended and not contract.is_disputed(gains.get(contract.contract))

    closed = [ref for ref in refs if ref not in outside and all(map(is_final, by_ref.get(ref, ())))]
    for ref in closed:
        store_closed_markets(database, key.values, ref, by_ref.get(ref, ()))
    return len(closed)


def list_unpaid_shares(database: Database, key: AccountKey) -> list[UnpaidShare]:
    """Read the traded shares whose payout must be stored, changed or deleted, by the current outcomes."""
    rows = database.execute(_SELECT_UNPAID, {**key.values, "single": SINGLE_TARGET}).fetchall()
    return [
        UnpaidShare(
            position=Position(
                contract=contract,
                leg=ContractSide(leg),
                shares=1.0,
                paid=0.0,
                ref=QuestionRef.parse(ref),
                option=option,
            ),
            outcome=OUTCOME.decode(body),
            at=parse_timestamp(resolved_at),
            resolution=resolution,
            state=_market_state(database, newest),
        )
        for contract, leg, option, ref, resolution, body, resolved_at, newest in rows
    ]


def store_payout(database: Database, key: AccountKey, share: UnpaidShare, pays: float | UnpaidOutcome) -> None:
    """Store what a share pays; delete its stored payout where the outcome is open again."""
    place = {**key.values, "contract": share.position.contract, "leg": share.position.leg.value}
    if pays is UnpaidOutcome.OPEN:
        database.execute(_DELETE_PAYOUT, place)
        return
    price = None if pays is UnpaidOutcome.REFUND else float(pays)
    database.execute(
        _UPSERT_PAYOUT, {**place, "price": price, "at": format_timestamp(share.at), "resolution": share.resolution}
    )


def _trade_fill(*columns: Any) -> TradeFill:  # noqa: ANN401 - a database row
    at, contract, leg, side, option, ref, shares, cash, fee, forecaster = columns
    return TradeFill(
        at=parse_timestamp(at),
        contract=contract,
        leg=ContractSide(leg),
        shares=_to_millionths(shares) * (-1 if side == "sell" else 1),
        cash=_to_millionths(cash),
        fee=_to_millionths(fee),
        ref=QuestionRef.parse(ref),
        option=option,
        forecaster=forecaster,
    )


def _share_payout(at: str, contract: str, leg: str, price: float | None) -> SharePayout:
    return SharePayout(at=parse_timestamp(at), contract=contract, leg=ContractSide(leg), price=price)


def _comment_fees(database: Database, key: AccountKey) -> list[tuple[datetime, int]]:
    rows = database.execute(_SELECT_COMMENT_FEES, key.values)
    return [(parse_timestamp(at), _to_millionths(cost)) for at, cost in rows]


def _venue_gains(database: Database, sql: str, values: dict[str, Any]) -> list[VenueReportedGain]:
    return [
        VenueReportedGain(contract=contract, gain=gain, closed=bool(closed), before_fees=bool(before_fees))
        for contract, gain, closed, before_fees in database.execute(sql, values)
    ]


def _market_state(database: Database, seq: int) -> str:
    row = database.execute(_SELECT_MARKET_STATE, [seq]).fetchone()
    return "" if row is None else documents.get_document(database, row[0]).content.decode()


def _to_millionths(amount: float) -> int:
    return round(amount * MILLIONTHS)
