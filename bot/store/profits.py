"""What the profit of an account is worked out from: its fills by forecaster, what its shares pay, its other fees.

Reads and writes within the transaction or snapshot of its caller. An account on paper and the real one are two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.equity import EquityReading
from bot.domain.order import Instead, Leg, Position, VenueGain
from bot.domain.profit import ONE, SharePayout, TradeFill, TradingBook, keep_book
from bot.domain.question import SINGLE_TARGET, QuestionRef
from bot.domain.resolution import Outcome
from bot.store import documents
from bot.store.codec import OUTCOME, moment, stamp
from bot.store.readings import readings_since
from bot.store.runs import Runs

_LANE = "i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper"
_FILLS = f"""
select f.at, json_extract(i.order_body, '$.contract'), json_extract(i.order_body, '$.leg'),
       json_extract(i.order_body, '$.side'), coalesce(json_extract(i.order_body, '$.option'), ''), i.ref,
       f.shares, f.cash, f.fee, p.forecaster
from fill f join intent i on i.id = f.intent join forecast p on p.id = i.forecast
where {_LANE}
order by f.at, i.seq, f.reference
"""  # noqa: S608 - made of constants
_COMMENTS = f"""
select i.changed_at, i.cost from intent i where {_LANE} and i.action = 'comment' and i.state = 'acked' and i.cost > 0
"""  # noqa: S608 - made of constants
_PAYOUTS = """
select at, contract, leg, price from payout where venue = :venue and account = :account and paper = :paper
"""
_GAINS = "select contract, gain, closed, before_fees from venue_gain where venue = :venue and account = :account"
# What was traded of questions with an outcome that is not the one by which it was paid.
_DECIDED = f"""
select distinct json_extract(i.order_body, '$.contract') as contract, json_extract(i.order_body, '$.leg') as leg,
       coalesce(json_extract(i.order_body, '$.option'), '') as option, i.ref, r.id, r.body, r.resolved_at,
       max(i.seq) as newest
from current_resolution r join intent i on i.ref = r.ref
where {_LANE} and i.order_body is not null and exists (select 1 from fill f where f.intent = i.id)
  and r.target = coalesce((select key from json_each(i.predictions) limit 1), :single)
  and not exists (
    select 1 from payout p where p.venue = :venue and p.account = :account and p.paper = :paper
      and p.contract = json_extract(i.order_body, '$.contract') and p.leg = json_extract(i.order_body, '$.leg')
      and p.resolution = r.id)
group by 1, 2, 3, 4, 5
"""  # noqa: S608 - made of constants
_STATE = """
select d.market from decision d join intent i on i.id = d.intent
where i.seq = ? and d.market is not null order by d.id desc limit 1
"""
_PAY = """
insert or replace into payout (venue, account, paper, contract, leg, price, at, resolution)
values (:venue, :account, :paper, :contract, :leg, :price, :at, :resolution)
"""
_TAKE_BACK = """
delete from payout
where venue = :venue and account = :account and paper = :paper and contract = :contract and leg = :leg
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLane:
    """Which account: the real one of a venue, or the one on paper."""

    venue: str
    account: str
    paper: bool

    @property
    def values(self) -> dict[str, Any]:
        """Its columns."""
        return {"venue": self.venue, "account": self.account, "paper": self.paper}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedShare:
    """One side of a contract that was traded, with an outcome by which it was not paid yet; ``state`` as in pays."""

    position: Position
    outcome: Outcome
    at: datetime
    resolution: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitRecord:
    """All that the ledger has of one account; ``fees`` are those of comments, ``said`` what the venue says itself."""

    book: TradingBook
    readings: Sequence[EquityReading]
    fees: Sequence[tuple[datetime, int]]
    said: Sequence[VenueGain]


@dataclass(frozen=True, slots=True)
class Profits:
    """What accounts gained."""

    writer: Runs
    readers: Runs

    async def record(self, lane: AccountLane, since: datetime, *, redeems: bool) -> ProfitRecord:
        """Return all that the ledger has of an account; its readings from that moment on."""
        return await self.readers.run(lambda database: profit_record(database, lane, since, redeems=redeems))

    async def decided(self, lane: AccountLane) -> Sequence[DecidedShare]:
        """Return what is to be paid, paid otherwise, or taken back, by the outcomes in force."""
        return await self.readers.run(lambda database: decided_shares(database, lane))

    async def pay(self, lane: AccountLane, found: Sequence[tuple[DecidedShare, float | Instead]]) -> None:
        """Keep what shares pay."""
        await self.writer.run(lambda database: _pay_all(database, lane, found))


def _pay_all(database: Database, lane: AccountLane, found: Sequence[tuple[DecidedShare, float | Instead]]) -> None:
    for share, pays in found:
        pay_share(database, lane, share, pays)


def profit_record(database: Database, lane: AccountLane, since: datetime, *, redeems: bool) -> ProfitRecord:
    """Read an account; its readings from that moment on."""
    return ProfitRecord(
        book=trading_book(database, lane, redeems=redeems),
        readings=readings_since(database, lane.venue, lane.account, since, paper=lane.paper),
        fees=[(moment(at), _micros(cost)) for at, cost in database.execute(_COMMENTS, lane.values)],
        said=[] if lane.paper else _said(database, lane),
    )


def trading_book(database: Database, lane: AccountLane, *, redeems: bool) -> TradingBook:
    """Work out what the fills and payouts of an account come to."""
    payouts = [
        SharePayout(at=moment(at), contract=contract, leg=Leg(leg), price=price)
        for at, contract, leg, price in database.execute(_PAYOUTS, lane.values)
    ]
    fills = [_fill(*row) for row in database.execute(_FILLS, lane.values)]
    # A paper book never takes back more than it paid for.
    return keep_book(fills, payouts, redeems=redeems, returns_losses=not lane.paper)


def decided_shares(database: Database, lane: AccountLane) -> list[DecidedShare]:
    """Read what is to be paid, paid otherwise, or taken back, by the outcomes in force."""
    rows = database.execute(_DECIDED, {**lane.values, "single": SINGLE_TARGET}).fetchall()
    return [
        DecidedShare(
            position=Position(
                contract=contract, leg=Leg(leg), shares=1.0, paid=0.0, ref=QuestionRef.parse(ref), option=option
            ),
            outcome=OUTCOME.decode(body),
            at=moment(resolved_at),
            resolution=resolution,
            state=_state(database, newest),
        )
        for contract, leg, option, ref, resolution, body, resolved_at, newest in rows
    ]


def pay_share(database: Database, lane: AccountLane, share: DecidedShare, pays: float | Instead) -> None:
    """Keep what a share pays; where nothing is final, what was kept of an earlier outcome goes."""
    place = {**lane.values, "contract": share.position.contract, "leg": share.position.leg.value}
    if pays is Instead.OPEN:
        database.execute(_TAKE_BACK, place)
        return
    price = None if pays is Instead.REFUND else float(pays)
    database.execute(_PAY, {**place, "price": price, "at": stamp(share.at), "resolution": share.resolution})


def _fill(*columns: Any) -> TradeFill:  # noqa: ANN401 - a row of _FILLS
    at, contract, leg, side, option, ref, shares, cash, fee, forecaster = columns
    return TradeFill(
        at=moment(at),
        contract=contract,
        leg=Leg(leg),
        shares=_micros(shares) * (-1 if side == "sell" else 1),
        cash=_micros(cash),
        fee=_micros(fee),
        ref=QuestionRef.parse(ref),
        option=option,
        forecaster=forecaster,
    )


def _said(database: Database, lane: AccountLane) -> list[VenueGain]:
    values = {"venue": lane.venue, "account": lane.account}
    return [
        VenueGain(contract=contract, gain=gain, closed=bool(closed), before_fees=bool(before_fees))
        for contract, gain, closed, before_fees in database.execute(_GAINS, values)
    ]


def _state(database: Database, seq: int) -> str:
    row = database.execute(_STATE, [seq]).fetchone()
    return "" if row is None else documents.get(database, row[0]).content.decode()


def _micros(amount: float) -> int:
    return round(amount * ONE)
