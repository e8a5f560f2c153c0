"""What each account holds: cash, positions and profit, from paper books or the last account readings."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta

from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, OpenOrder, Position
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode
from bot.core.trading_profit import MILLIONTHS, MONEY_TOLERANCE, EquityPoint, EquityReading, equity_points
from bot.evaluation.account_profit import AccountProfit, compute_account_profit
from bot.execution.paper.paper_book import paper_book_path
from bot.execution.paper.report import PaperBookReport, read_book_report
from bot.store import submission_queries
from bot.store.accounts import AccountKey
from bot.store.ledger import ReadOnlyState


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPosition:
    """A position with its question; ``marked_at`` is the time of its price."""

    position: Position
    title: str
    event: str
    marked_at: datetime | None

    @property
    def value(self) -> float:
        """Proceeds of a sale now; 0 without a buyer."""
        return self.position.shares * (self.position.mark or 0.0)

    @property
    def gain(self) -> float:
        """Proceeds of a sale now less the cost."""
        return self.value - self.position.paid


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountHoldings:
    """The holdings of an account at a venue; without ``account`` only forecasts are submitted there.

    ``capital`` is known for paper books only. ``titles`` covers all traded questions, ``points`` is the equity over
    time, ``standing`` the number of open questions with a submitted forecast.
    """

    venue: str
    mode: ExecutionMode
    name: str
    standing: int = 0
    account: Account | None = None
    positions: tuple[HeldPosition, ...] = ()
    fees: float = 0.0
    profit: AccountProfit = field(default_factory=AccountProfit)
    points: tuple[EquityPoint, ...] = ()
    titles: Mapping[QuestionRef, str] = field(default_factory=dict)
    capital: float | None = None
    begun_at: datetime | None = None
    faults: tuple[str, ...] = ()

    @property
    def reserved(self) -> float:
        """Cash reserved for open orders."""
        return 0.0 if self.account is None else sum(order.reserves for order in self.account.orders)

    @property
    def value(self) -> float:
        """Proceeds of a sale of all positions now."""
        return sum(held.value for held in self.positions)

    @property
    def gain(self) -> float:
        """Proceeds of a sale of all positions now less their cost."""
        return sum(held.gain for held in self.positions)

    @property
    def by_event(self) -> Mapping[str, tuple[HeldPosition, ...]]:
        """The positions of each event that has several."""
        grouped: dict[str, list[HeldPosition]] = {}
        for held in self.positions:
            if held.event:
                grouped.setdefault(held.event, []).append(held)
        return {event: tuple(held) for event, held in grouped.items() if len(held) > 1}


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
# So many of the markets that were closed last are listed.
LAST_CLOSED = 50


async def load_portfolio(
    records: ReadOnlyState,
    venue: str | None,
    now: datetime,
    *,
    last_closed: int | None = LAST_CLOSED,
    history: bool = False,
) -> list[AccountHoldings]:
    """Return the holdings of the configured accounts; empty accounts are left out.

    Of closed markets only so many of the newest are listed, and of the equity the first and last point; with
    ``last_closed`` None all, which reads every fill. With ``history`` the equity over time alone is complete.
    """
    names = [name for name in records.config.venues if venue in {None, name}]
    found = [await _load_holdings(records, name, now, last_closed, history=history) for name in names]
    return [one for one in found if one is not None]


async def _load_holdings(
    records: ReadOnlyState, venue: str, now: datetime, last_closed: int | None, *, history: bool
) -> AccountHoldings | None:
    mode, name = records.config.mode_of(venue), records.config.venues[venue].account
    submissions, path = records.ledger.submissions, paper_book_path(records.folder, venue)
    standing = await submissions.readers.run(
        lambda database: submission_queries.count_standing_forecasts(database, venue, name)
    )
    report = await read_book_report(path, at=now) if mode is ExecutionMode.PAPER and path.exists() else None
    account = (
        await records.ledger.readings.last(venue, name, paper=mode is ExecutionMode.PAPER)
        if report is None
        else report.account
    )
    if account is None:
        return AccountHoldings(venue=venue, mode=mode, name=name, standing=standing) if standing else None
    key = AccountKey(venue=venue, account=name, paper=mode is ExecutionMode.PAPER)
    if history:
        redeems = await _redeems_pairs(records, key, account)
        points = await records.ledger.profits.equity_history(key, _starting_reading(report), redeems=redeems)
        return AccountHoldings(venue=venue, mode=mode, name=name, account=account, points=points)
    account = await _with_known_questions(records, venue, account)
    profit, points, titles = await _load_profit(records, key, account, report, last_closed)
    return AccountHoldings(
        venue=venue,
        mode=mode,
        name=name,
        standing=standing,
        account=account,
        positions=await _load_positions(records, account, report),
        fees=profit.fees if report is None else report.fees,
        profit=profit,
        points=points,
        titles=titles,
        capital=None if report is None else report.capital,
        begun_at=None if report is None else report.begun_at,
        faults=() if report is None else (*report.faults, *_profit_contradictions(profit, report)),
    )


async def _load_profit(
    records: ReadOnlyState,
    key: AccountKey,
    account: Account,
    report: PaperBookReport | None,
    last_closed: int | None,
) -> tuple[AccountProfit, tuple[EquityPoint, ...], Mapping[QuestionRef, str]]:
    """Return the profit of the orders of an account, its equity over time, and the titles of traded questions."""
    ledger = records.ledger
    redeems = await _redeems_pairs(records, key, account)
    if last_closed is None:
        found = await ledger.profits.record(key, _BEGINNING, redeems=redeems)
    else:
        found = await ledger.profits.open_record(key, redeems=redeems, last_closed=last_closed)
    closed = (0, 0) if found.closed is None else (found.closed.cash, found.closed.realised)
    refs = {one.ref for one in found.book.contracts} | {QuestionRef.parse(one.ref) for one in found.last_closed}
    known = await ledger.submissions.readers.run(
        lambda database: submission_queries.read_question_headings(database, refs)
    )
    points = equity_points([*_starting_reading(report), *found.readings], found.book.entries, found.fees, closed)
    profit = compute_account_profit(
        found.book,
        account,
        points,
        venue_gains=found.venue_gains,
        comment_fees=sum(fee for _, fee in found.fees) / MILLIONTHS,
        paper=key.paper,
        closed=found.closed,
        last_closed=found.last_closed,
    )
    return profit, points, {ref: subject.title for ref, subject in known.items()}


async def _redeems_pairs(records: ReadOnlyState, key: AccountKey, account: Account) -> bool:
    """Return whether pairs are redeemed; the report of a paper book lacks that, its last account reading has it."""
    last = await records.ledger.readings.last(key.venue, key.account, paper=key.paper)
    return account.redeems or (last is not None and last.redeems)


def _starting_reading(report: PaperBookReport | None) -> list[EquityReading]:
    """Return the starting capital of a paper book as a reading; a live account starts with its first reading."""
    if report is None:
        return []
    before = report.begun_at - timedelta(microseconds=1)
    return [EquityReading(at=before, until=before, cash=report.capital, equity=report.capital)]


def _profit_contradictions(profit: AccountProfit, report: PaperBookReport) -> Iterator[str]:
    """Yield a message if a paper book booked another gain than its orders add up to; pending payouts are left out."""
    waiting = {one.contract for one in report.account.positions} & {
        one.contract for one in profit.markets if one.closed_at is not None
    }
    if not waiting and abs(report.realised - profit.realised) >= MONEY_TOLERANCE:
        yield f"it realised {report.realised:+.2f}, but its orders add up to {profit.realised:+.2f}"


async def _with_known_questions(records: ReadOnlyState, venue: str, account: Account) -> Account:
    """Return the account with the questions of its contracts, for venues that report contracts only."""
    name = records.config.venues[venue].account
    held: list[Position | OpenOrder] = [*account.positions, *account.orders]
    contracts = {one.contract for one in held if one.ref is None}
    known = await records.ledger.submissions.readers.run(
        lambda database: submission_queries.read_traded_contracts(database, venue, name, contracts)
    )

    def add_question(one: Position) -> Position:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref, option=one.option or found.option)

    def add_order_question(one: OpenOrder) -> OpenOrder:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref)

    return replace(
        account,
        positions=tuple(add_question(one) for one in account.positions),
        orders=tuple(add_order_question(one) for one in account.orders),
    )


async def _load_positions(
    records: ReadOnlyState, account: Account, report: PaperBookReport | None
) -> tuple[HeldPosition, ...]:
    refs = [position.ref for position in account.positions if position.ref is not None]
    known = await records.ledger.submissions.readers.run(
        lambda database: submission_queries.read_question_headings(database, refs)
    )

    def make_held_position(position: Position) -> HeldPosition:
        subject = known.get(position.ref) if position.ref is not None else None
        key = (position.contract, position.leg.value)
        return HeldPosition(
            position=position,
            title=subject.title if subject else "",
            event=(report.events.get(key, "") if report else "") or (subject.event if subject else ""),
            marked_at=report.marked_at.get(key) if report else account.at,
        )

    return tuple(make_held_position(position) for position in account.positions)
