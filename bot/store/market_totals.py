"""Closed markets of accounts with their profit, and sums of them by forecaster: reports read only the open ones.

A market is open from its first order on. Some days after its question resolved and all its shares were paid it is
closed: its profit is final, and is kept as rows. A new order, fill, outcome or figure of the venue opens it again,
which triggers do. The sums follow the rows, also by triggers. All amounts are whole millionths.
"""

# ruff: noqa: S608 - statements made of the constants below

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.trading_profit import ContractProfit
from bot.store.serialization import format_timestamp

# Later than any paper book settles an outcome, so that what was corrected is settled while its market is open.
OPEN_AFTER_CHANGE = timedelta(days=8)
MARKETS_A_WRITE = 50
_SUMS = ("contracts", "bought", "sold", "paid_out", "fees", "realised")
MARKET_TABLES = (
    """create table open_market (
  venue text not null,
  account text not null,
  paper integer not null check (paper in (0, 1)),
  ref text not null,
  changed_at text not null,
  primary key (venue, account, paper, ref)
) strict, without rowid
""",
    # One row for each forecaster; what belongs to the contract as a whole is in the first of them.
    """create table closed_market (
  venue text not null,
  account text not null,
  paper integer not null check (paper in (0, 1)),
  ref text not null,
  contract text not null,
  forecaster text not null,
  option text not null,
  closed_at text not null,
  contracts integer not null check (contracts in (0, 1)),
  bought integer not null,
  sold integer not null,
  paid_out integer not null,
  fees integer not null,
  realised integer not null,
  primary key (venue, account, paper, contract, ref, forecaster)
) strict, without rowid
""",
    "create index closed_market_by_question on closed_market (ref, account)",
    "create index closed_market_by_end on closed_market (venue, account, paper, closed_at) where contracts = 1",
    """create table profit_total (
  venue text not null,
  account text not null,
  paper integer not null check (paper in (0, 1)),
  forecaster text not null,
  markets integer not null,
  contracts integer not null,
  bought integer not null,
  sold integer not null,
  paid_out integer not null,
  fees integer not null,
  realised integer not null,
  primary key (venue, account, paper, forecaster)
) strict, without rowid
""",
)
_OPEN = """
  insert into open_market (venue, account, paper, ref, changed_at)
  select i.venue, i.account, i.mode = 'paper', i.ref, new.{at} from intent i where {found} and i.order_body is not null
  on conflict do update set changed_at = max(changed_at, excluded.changed_at);"""
_OPEN_AGAIN = """
  insert into open_market (venue, account, paper, ref, changed_at)
  select venue, account, paper, ref, new.at from closed_market
  where venue = new.venue and account = new.account and paper = 0 and contract = new.contract
  on conflict do update set changed_at = max(changed_at, excluded.changed_at);"""
_IS_TOTAL = "venue = old.venue and account = old.account and paper = old.paper and forecaster = old.forecaster"
MARKET_TRIGGERS = (
    *(
        f"create trigger {name} after insert on {table} begin {_OPEN.format(at=at, found=found)} end"
        for name, table, at, found in (
            ("market_is_opened_by_order", "attempt", "started_at", "i.id = new.intent"),
            ("market_is_opened_by_fill", "fill", "at", "i.id = new.intent"),
            (
                *("market_is_opened_by_outcome", "resolution", "seen_at"),
                "i.ref = new.ref and exists (select 1 from attempt a where a.intent = i.id)",
            ),
        )
    ),
    *(
        f"create trigger market_is_opened_by_{name} after {event} on venue_gain begin {_OPEN_AGAIN} end"
        for name, event in (("figure", "insert"), ("changed_figure", "update"))
    ),
    """create trigger open_market_is_not_closed after insert on open_market
begin
  delete from closed_market
  where ref = new.ref and account = new.account and venue = new.venue and paper = new.paper;
end""",
    f"""create trigger closed_market_is_counted after insert on closed_market
begin
  insert into profit_total (venue, account, paper, forecaster, markets, {", ".join(_SUMS)})
  values (new.venue, new.account, new.paper, new.forecaster, 1, {", ".join(f"new.{name}" for name in _SUMS)})
  on conflict do update set markets = markets + 1, {", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)};
end""",
    f"""create trigger closed_market_is_no_longer_counted after delete on closed_market
begin
  update profit_total set markets = markets - 1, {", ".join(f"{name} = {name} - old.{name}" for name in _SUMS)}
  where {_IS_TOTAL};
end""",
)
_FILL_OPEN = """
insert into open_market (venue, account, paper, ref, changed_at)
select i.venue, i.account, i.mode = 'paper', i.ref, max(i.changed_at) from intent i
where i.order_body is not null and exists (select 1 from attempt a where a.intent = i.id) group by 1, 2, 3, 4
"""
_OF_ACCOUNT = "venue = :venue and account = :account and paper = :paper"
_HAS_OPEN_ORDER = """
exists (select 1 from intent i indexed by intent_by_question
  where i.ref = m.ref and i.account = m.account and i.venue = m.venue and (i.mode = 'paper') = m.paper
  and i.order_body is not null and (
    i.state in ('planned', 'ready', 'sending', 'unknown', 'absent', 'in doubt')
    or i.state = 'acked' and exists (select 1 from attempt a where a.intent = i.id and a.fence_at > :now)))
"""
_HAS_FILL = """
exists (select 1 from intent i indexed by intent_by_question cross join fill f on f.intent = i.id
  where i.ref = m.ref and i.account = m.account and i.venue = m.venue and (i.mode = 'paper') = m.paper)
"""
# Shares of an open question may still be traded; a market without a fill has no profit, and is only forgotten.
_SELECT_CLOSABLE = f"""
select ref from open_market m
where {_OF_ACCOUNT} and ref > :after and changed_at <= :before
  and (exists (select 1 from resolution r where r.ref = m.ref) or not {_HAS_FILL}) and not {_HAS_OPEN_ORDER}
order by ref limit {MARKETS_A_WRITE}
"""
_DELETE_OPEN = f"delete from open_market where {_OF_ACCOUNT} and ref = :ref"
_INSERT_CLOSED = f"""
insert into closed_market (venue, account, paper, ref, contract, forecaster, option, closed_at, {", ".join(_SUMS)})
values (:venue, :account, :paper, :ref, :contract, :forecaster, :option, :closed_at,
  {", ".join(f":{name}" for name in _SUMS)})
"""
_SELECT_TOTALS = f"select forecaster, markets, {', '.join(_SUMS)} from profit_total where {_OF_ACCOUNT} and markets > 0"
_SELECT_LAST_CLOSED = f"""
select c.ref, c.contract, c.option, c.closed_at, c.bought, c.sold, c.paid_out, c.fees,
       (select sum(realised) from closed_market o where o.venue = c.venue and o.account = c.account
          and o.paper = c.paper and o.contract = c.contract and o.ref = c.ref)
from closed_market c indexed by closed_market_by_end
where {_OF_ACCOUNT} and c.contracts = 1 order by closed_at desc limit :limit
"""
# No row in a correct ledger.
WRONG_MARKET_TOTALS = f"""
select venue, account, forecaster, sum(markets), sum(realised)
from (select venue, account, paper, forecaster, markets, {", ".join(_SUMS)} from profit_total union all
      select venue, account, paper, forecaster, -1, {", ".join(f"-{name}" for name in _SUMS)} from closed_market)
group by venue, account, paper, forecaster
having sum(markets) <> 0 or {" or ".join(f"sum({name}) <> 0" for name in _SUMS)}
union all
select venue, account, ref, 'is open and closed', null from open_market m
where exists (select 1 from closed_market c where c.ref = m.ref and c.account = m.account and c.venue = m.venue
  and c.paper = m.paper)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedMarket:
    """A contract whose profit is final, in millionths."""

    ref: str
    contract: str
    option: str
    closed_at: str
    bought: int
    sold: int
    paid_out: int
    fees: int
    realised: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedMarketTotals:
    """Sums over all closed markets of an account, in millionths; by forecaster their number and gain."""

    contracts: int = 0
    bought: int = 0
    sold: int = 0
    paid_out: int = 0
    fees: int = 0
    realised: int = 0
    forecasters: Mapping[str, tuple[int, int]]

    @property
    def cash(self) -> int:
        """The change of cash of all of them."""
        return self.sold + self.paid_out - self.bought

    def without(self, markets: Sequence[ClosedMarket]) -> ClosedMarketTotals:
        """Return the sums over the others; those by forecaster stay."""
        return ClosedMarketTotals(
            contracts=self.contracts - len(markets),
            forecasters=self.forecasters,
            **{name: getattr(self, name) - sum(getattr(one, name) for one in markets) for name in _SUMS[1:]},
        )


def fill_open_markets(database: Database) -> None:
    """Open all markets of a ledger that has some; the job that reads accounts closes those that are over."""
    database.execute(_FILL_OPEN)


def find_closable_markets(database: Database, key: Mapping[str, Any], *, after: str, now: datetime) -> list[str]:
    """Return the next questions whose markets may be closed, by what the ledger knows of orders and outcomes."""
    moments = {"before": format_timestamp(now - OPEN_AFTER_CHANGE), "now": format_timestamp(now)}
    return [ref for (ref,) in database.execute(_SELECT_CLOSABLE, {**key, **moments, "after": after})]


def store_closed_markets(database: Database, key: Mapping[str, Any], ref: str, found: Sequence[ContractProfit]) -> None:
    """Close the markets of a question, with the profit of each contract."""
    database.execute(_DELETE_OPEN, {**key, "ref": ref})
    for contract in found:
        cash = defaultdict(int, {kind.value: amount for kind, amount in contract.cash.items()})
        sums = {
            "contracts": 1,
            "bought": -cash["buy"],
            "sold": cash["sell"],
            "paid_out": cash["pairs"] + cash["payout"] + cash["refund"],
            "fees": contract.fees,
        }
        closed_at = format_timestamp(contract.closed_at)
        place = {**key, "ref": ref, "contract": contract.contract, "option": contract.option, "closed_at": closed_at}
        for forecaster, realised in sorted(contract.gains.items()):
            database.execute(_INSERT_CLOSED, {**place, **sums, "forecaster": forecaster, "realised": realised})
            sums = dict.fromkeys(sums, 0)


def read_closed_totals(database: Database, key: Mapping[str, Any]) -> ClosedMarketTotals:
    """Return the sums over all closed markets of an account."""
    rows = database.execute(_SELECT_TOTALS, {**key}).fetchall()
    sums = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)] or [0] * len(_SUMS)
    return ClosedMarketTotals(
        **dict(zip(_SUMS, sums, strict=True)), forecasters={name: (markets, row[-1]) for name, markets, *row in rows}
    )


def read_last_closed(database: Database, key: Mapping[str, Any], limit: int) -> list[ClosedMarket]:
    """Return the markets that were closed last, newest first."""
    names = ("ref", "contract", "option", "closed_at", "bought", "sold", "paid_out", "fees", "realised")
    rows = database.execute(_SELECT_LAST_CLOSED, {**key, "limit": limit}).fetchall()
    return [ClosedMarket(**dict(zip(names, row, strict=True))) for row in rows]
