"""The fills, payouts and fees of accounts, and the profit that is computed from them.

The paper account and the real account of a venue are two accounts.
"""

# ruff: noqa: S608 - statements made of the constants below

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Position, UnpaidOutcome, VenueReportedGain
from bot.core.outcomes import Outcome
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.core.trading_profit import (
    MILLIONTHS,
    ContractProfit,
    EquityPoint,
    EquityReading,
    ProfitEntry,
    SharePayout,
    TradeFill,
    TradingBook,
    build_trading_book,
    equity_points,
)
from bot.store import documents
from bot.store.account_readings import read_first_and_last, read_readings_since
from bot.store.connections import TransactionRunner
from bot.store.market_totals import (
    ClosedMarket,
    ClosedMarketTotals,
    find_closable_markets,
    read_closed_totals,
    read_last_closed,
    store_closed_markets,
)
from bot.store.serialization import OUTCOME, format_timestamp, parse_timestamp, to_json_list

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
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
_SELECT_FILLS, _SELECT_FILLS_BY_CONTRACT = (
    f"""
{_FILL_COLUMNS} from fill f join intent i on i.id = f.intent join forecast p on p.id = i.forecast
where {_INTENT_OF_ACCOUNT}
order by {order} f.at, i.seq, f.reference
"""
    for order in ("", "2,")
)
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
_PAYOUTS_OF_CONTRACT = f"{_SELECT_PAYOUTS} and contract = :contract"
_PAYOUTS_OF_CONTRACTS = f"{_SELECT_PAYOUTS} and contract in (select value from json_each(:contracts))"
_SELECT_VENUE_GAINS = (
    "select contract, gain, closed, before_fees from venue_gain where venue = :venue and account = :account"
)
_GAINS_OF_CONTRACTS = f"{_SELECT_VENUE_GAINS} and contract in (select value from json_each(:contracts))"
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

    async def equity_history(
        self, key: AccountKey, starting: Sequence[EquityReading], *, redeems: bool
    ) -> tuple[EquityPoint, ...]:
        """Return the equity at each reading, after some of before; all fills are read, and few kept."""
        return await self.readers.run(
            lambda database: equity_points(
                [*starting, *read_readings_since(database, key.venue, key.account, _BEGINNING, paper=key.paper)],
                _profit_entries(database, key, redeems=redeems),
                _comment_fees(database, key),
            )
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
    return ProfitRecord(
        book=book,
        readings=read_first_and_last(database, key.values),
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


def _profit_entries(database: Database, key: AccountKey, *, redeems: bool) -> Iterator[ProfitEntry]:
    """Yield the movements of cash of an account, contract by contract."""
    fills = (_trade_fill(*row) for row in database.execute(_SELECT_FILLS_BY_CONTRACT, key.values))
    for contract, found in groupby(fills, lambda one: one.contract):
        rows = database.execute(_PAYOUTS_OF_CONTRACT, {**key.values, "contract": contract})
        payouts = [_share_payout(*row) for row in rows]
        yield from build_trading_book([*found], payouts, redeems=redeems, returns_losses=not key.paper).entries


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
    readings = read_first_and_last(database, key.values)
    # Equity is counted from the first reading to the last: what happened before or after is read as it is.
    outside = {
        str(one.ref)
        for one in fills
        if not readings or not (key.paper or one.at > readings[0].at) or one.at > readings[-1].at
    }
    by_ref: dict[str, list[ContractProfit]] = {}
    for contract in book.contracts:
        by_ref.setdefault(str(contract.ref), []).append(contract)

    def is_final(contract: ContractProfit) -> bool:
        ended = contract.closed_at is not None and contract.closed_at <= readings[-1].at
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
