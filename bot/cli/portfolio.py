"""`foxcast portfolio`: cash.

Positions and profit of each account, from paper books or the last reading of a live account.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_setup import load_command_config
from bot.cli.lookup import require_configured_venue
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    stdout_console,
)
from bot.cli.output.formatting import NO_VALUE, format_age, format_day, format_number
from bot.cli.profit_report import (
    EQUITY_CSV_COLUMNS,
    MARKET_CSV_COLUMNS,
    equity_points_to_json,
    market_csv_row,
    print_equity_history,
    print_profit,
    profit_sums,
    profit_to_json,
    to_csv,
)
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.core.orders import Account, OpenOrder, Position
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode
from bot.core.trading_profit import MILLIONTHS, EquityPoint, EquityReading, equity_points
from bot.evaluation.account_profit import MONEY_TOLERANCE, AccountProfit, compute_account_profit
from bot.evaluation.lookup import query_ledger
from bot.execution.paper.paper_book import paper_book_path
from bot.execution.paper.report import PaperBookReport, read_book_report
from bot.store import submission_queries
from bot.store.accounts import AccountKey
from bot.store.ledger import ReadOnlyState
from bot.store.serialization import format_timestamp

SUM_COLUMNS = (TableColumn("sum"), TableColumn("amount", ColumnKind.NUMBER))


POSITION_COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("title", ColumnKind.TITLE),
    TableColumn("side", ColumnKind.TEXT),
    TableColumn("shares", ColumnKind.NUMBER),
    TableColumn("cost", ColumnKind.NUMBER),
    TableColumn("mark", ColumnKind.NUMBER),
    TableColumn("value", ColumnKind.NUMBER),
    TableColumn("gain", ColumnKind.NUMBER),
    TableColumn("marked"),
)


EVENT_COLUMNS = (
    TableColumn("event", ColumnKind.TEXT),
    TableColumn("positions", ColumnKind.NUMBER),
    TableColumn("cost", ColumnKind.NUMBER),
    TableColumn("value", ColumnKind.NUMBER),
    TableColumn("gain", ColumnKind.NUMBER),
)


# Narrower than this a table of so many columns says nothing.
MIN_TABLE_WIDTH = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPosition:
    """A position with its question; ``marked_at`` is when its price was looked at."""

    position: Position
    title: str
    event: str
    marked_at: datetime | None

    @property
    def value(self) -> float:
        """What it would bring now, 0 where nobody buys."""
        return self.position.shares * (self.position.mark or 0.0)

    @property
    def gain(self) -> float:
        """What it would bring beyond what it cost."""
        return self.value - self.position.paid


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountHoldings:
    """What an account of a venue has; without ``account`` nothing is traded there, and forecasts stand.

    ``capital`` is known of paper books alone. ``titles`` are those of all questions that were traded, ``points`` the
    equity over time.
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
        """What open orders hold back."""
        return 0.0 if self.account is None else sum(order.reserves for order in self.account.orders)

    @property
    def value(self) -> float:
        """What all positions would bring now."""
        return sum(held.value for held in self.positions)

    @property
    def gain(self) -> float:
        """What all positions would bring beyond what they cost."""
        return sum(held.gain for held in self.positions)

    @property
    def by_event(self) -> Mapping[str, tuple[HeldPosition, ...]]:
        """The positions of each event that has several."""
        grouped: dict[str, list[HeldPosition]] = {}
        for held in self.positions:
            if held.event:
                grouped.setdefault(held.event, []).append(held)
        return {event: tuple(held) for event, held in grouped.items() if len(held) > 1}


def print_holdings(console: Console, one: AccountHoldings, now: datetime) -> None:
    """Print it for a person."""
    account = one.account
    print_heading(console, f"{one.venue}: {one.mode}, account {one.name}")
    if one.standing:
        console.print(f"forecasts stand on {one.standing} open questions")
    if account is None:
        return
    if one.mode is not ExecutionMode.PAPER:
        console.print(f"as it was read {format_age(now - account.at)}")
    for fault in one.faults:
        console.print(f"the book does not agree with itself: {fault}")
    console.print(make_table(SUM_COLUMNS, _sum_rows(one, account)))
    if account.orders:
        console.print(f"{len(account.orders)} orders open; look at them with: foxcast orders --open")
    if one.positions:
        _print_positions(console, one, now)
        _print_events(console, one)
    else:
        console.print("no positions")
    print_profit(console, one.profit, one.titles)


def holdings_to_json(one: AccountHoldings) -> dict[str, Any]:
    """Return it as JSON values."""
    account = one.account
    return {
        "venue": one.venue,
        "mode": one.mode.value,
        "account": one.name,
        "standing_forecasts": one.standing,
        "currency": None if account is None else account.currency,
        "at": None if account is None else format_timestamp(account.at),
        "begun_at": format_timestamp(one.begun_at),
        "capital": one.capital,
        "cash": None if account is None else account.cash,
        "reserved": one.reserved,
        "value": one.value,
        "gain": one.gain,
        "realised": None if account is None else one.profit.realised,
        "fees": one.fees,
        **profit_to_json(one.profit, one.titles),
        "equity": None if account is None else account.equity,
        "faults": [*one.faults],
        "positions": [_position_to_json(held) for held in one.positions],
        "orders": [
            {
                "id": order.id,
                "question": None if order.ref is None else str(order.ref),
                "contract": order.contract,
                "leg": order.leg.value,
                "side": order.side.value,
                "limit": order.limit,
                "shares": order.shares,
                "reserves": order.reserves,
                "expires_at": format_timestamp(order.expires_at),
            }
            for order in (account.orders if account else ())
        ],
        "events": {event: {"gain": sum(h.gain for h in held)} for event, held in one.by_event.items()},
    }


def _position_to_json(held: HeldPosition) -> dict[str, Any]:
    position = held.position
    return {
        "question": None if position.ref is None else str(position.ref),
        "title": held.title,
        "event": held.event or None,
        "contract": position.contract,
        "option": position.option or None,
        "leg": position.leg.value,
        "shares": position.shares,
        "cost": position.paid,
        "mark": position.mark,
        "marked_at": format_timestamp(held.marked_at),
        "value": held.value,
        "gain": held.gain,
    }


def _sum_rows(one: AccountHoldings, account: Account) -> list[tuple[str, str]]:
    rows = [
        ("cash, free", format_number(account.cash)),
        ("held back by orders", format_number(one.reserved)),
        ("positions, if sold now", format_number(one.value)),
        (f"equity, {account.currency}", format_number(account.equity)),
        ("gain of positions", f"{one.gain:+z.2f}"),
        *profit_sums(one.profit),
        ("fees paid", format_number(one.fees)),
    ]
    if one.capital is not None:
        rows.append((f"begun {format_day(one.begun_at)} with", format_number(one.capital)))
    return rows


def _print_positions(console: Console, one: AccountHoldings, now: datetime) -> None:
    print_heading(console, f"Positions ({len(one.positions)})")
    rows = [_position_cells(held, now) for held in sorted(one.positions, key=lambda held: -held.position.paid)]
    if console.width >= MIN_TABLE_WIDTH:
        console.print(make_table(POSITION_COLUMNS, rows))
        return
    for name, title, side, shares, cost, mark, value, gain, marked in rows:
        console.print(name)
        if title:
            print_indented(console, title)
        print_indented(console, f"{shares} {side} for {cost}")
        print_indented(console, f"mark {mark} ({marked}), value {value}, gain {gain}")


def _print_events(console: Console, one: AccountHoldings) -> None:
    if not one.by_event:
        return
    print_heading(console, "By event")
    rows = [
        (
            event,
            str(len(held)),
            format_number(sum(one.position.paid for one in held)),
            format_number(sum(one.value for one in held)),
            f"{sum(one.gain for one in held):+z.2f}",
        )
        for event, held in one.by_event.items()
    ]
    if console.width >= MIN_TABLE_WIDTH:
        console.print(make_table(EVENT_COLUMNS, rows))
        return
    for event, count, cost, value, gain in rows:
        console.print(event)
        print_indented(console, f"{count} positions, cost {cost}, value {value}, gain {gain}")


def _position_cells(held: HeldPosition, now: datetime) -> tuple[str, ...]:
    position = held.position
    return (
        position.contract if position.ref is None else str(position.ref),
        held.title,
        f"{position.leg} ({position.option})" if position.option else position.leg.value,
        format_number(position.shares),
        format_number(position.paid),
        format_number(position.mark, 3),
        format_number(held.value),
        f"{held.gain:+z.2f}",
        NO_VALUE if held.marked_at is None else format_age(now - held.marked_at),
    )


app = typer.Typer(add_completion=False)


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@app.command()
def portfolio(
    ctx: typer.Context,
    *,
    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show equity and profit over time instead.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the markets, or the history, to a CSV file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show positions and profit of each account, paper and live, by market and forecaster."""
    config, now = load_command_config(ctx), SystemClock().now()
    if venue is not None:
        require_configured_venue(config, venue)
    found = query_ledger(config, lambda records: load_portfolio(records, venue, now))
    count = 0
    if csv_file is not None:
        count = _write_csv(csv_file, found, history=history)
    if as_json:
        print_json([_history_to_json(one) for one in found] if history else [holdings_to_json(one) for one in found])
    elif csv_file is not None:
        stdout_console().print(f"{count} rows written to {csv_file}")
    else:
        _print_portfolio(found, now, history=history)


def _print_portfolio(found: Sequence[AccountHoldings], now: datetime, *, history: bool) -> None:
    console = stdout_console()
    if not found:
        console.print("no account has anything yet, and no forecast stands; foxcast run --once begins")
    for one in found:
        if not history:
            print_holdings(console, one, now)
        elif one.points:
            print_heading(console, f"{one.venue}: {one.mode}, account {one.name}")
            print_equity_history(console, one.points)
        else:
            console.print(f"{one.venue}: {one.mode}, account {one.name} was never read")


def _history_to_json(one: AccountHoldings) -> dict[str, Any]:
    return {**_account_to_json(one), "history": equity_points_to_json(one.points)}


def _account_to_json(one: AccountHoldings) -> dict[str, Any]:
    currency = None if one.account is None else one.account.currency
    return {"venue": one.venue, "mode": one.mode.value, "account": one.name, "currency": currency}


def _write_csv(path: Path, found: Sequence[AccountHoldings], *, history: bool) -> int:
    """Write a row for each market, or each reading; return how many. Raises ConfigError for a file that cannot be."""
    rows = [
        {**_account_to_json(one), **row} if history else market_csv_row(row, _account_to_json(one))
        for one in found
        for row in (equity_points_to_json(one.points) if history else holdings_to_json(one)["markets"])
    ]
    text = to_csv(rows, EQUITY_CSV_COLUMNS if history else MARKET_CSV_COLUMNS)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}); name a file in a folder that is there"
        raise ConfigError(message) from error
    return len(rows)


async def load_portfolio(records: ReadOnlyState, venue: str | None, now: datetime) -> list[AccountHoldings]:
    """Return what the accounts of the venues in config have, those without anything left out."""
    found = [await _load_holdings(records, name, now) for name in records.config.venues if venue in {None, name}]
    return [one for one in found if one is not None]


async def _load_holdings(records: ReadOnlyState, venue: str, now: datetime) -> AccountHoldings | None:
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
    account = await _with_known_questions(records, venue, account)
    fees = await submissions.readers.run(lambda database: submission_queries.total_fees(database, venue, name))
    profit, points, titles = await _load_profit(
        records, AccountKey(venue=venue, account=name, paper=mode is ExecutionMode.PAPER), account, report
    )
    return AccountHoldings(
        venue=venue,
        mode=mode,
        name=name,
        standing=standing,
        account=account,
        positions=await _load_positions(records, account, report),
        fees=fees if report is None else report.fees,
        profit=profit,
        points=points,
        titles=titles,
        capital=None if report is None else report.capital,
        begun_at=None if report is None else report.begun_at,
        faults=() if report is None else (*report.faults, *_profit_contradictions(profit, report)),
    )


async def _load_profit(
    records: ReadOnlyState, lane: AccountKey, account: Account, report: PaperBookReport | None
) -> tuple[AccountProfit, tuple[EquityPoint, ...], Mapping[QuestionRef, str]]:
    """Return what the orders of an account gained, its equity over time, and the titles of what was traded."""
    ledger = records.ledger
    # What a paper book says of itself has no word of pairs; what was read of it has.
    last = await ledger.readings.last(lane.venue, lane.account, paper=lane.paper)
    redeems = account.redeems or (last is not None and last.redeems)
    found = await ledger.profits.record(lane, _BEGINNING, redeems=redeems)
    refs = {one.ref for one in found.book.contracts}
    known = await ledger.submissions.readers.run(
        lambda database: submission_queries.read_question_headings(database, refs)
    )
    points = equity_points([*_starting_reading(report), *found.readings], found.book, found.fees)
    profit = compute_account_profit(
        found.book,
        account,
        points,
        venue_gains=found.venue_gains,
        comment_fees=sum(fee for _, fee in found.fees) / MILLIONTHS,
        paper=lane.paper,
    )
    return profit, points, {ref: subject.title for ref, subject in known.items()}


def _starting_reading(report: PaperBookReport | None) -> list[EquityReading]:
    """Return what a paper book began with as a reading; a live account begins with the first that there is."""
    if report is None:
        return []
    before = report.begun_at - timedelta(microseconds=1)
    return [EquityReading(at=before, until=before, cash=report.capital, equity=report.capital)]


def _profit_contradictions(profit: AccountProfit, report: PaperBookReport) -> Iterator[str]:
    """Say where a paper book booked other gains than its orders come to; what waits for its payout is left out."""
    waiting = {one.contract for one in report.account.positions} & {
        one.contract for one in profit.markets if one.closed_at is not None
    }
    if not waiting and abs(report.realised - profit.realised) >= MONEY_TOLERANCE:
        yield f"it realised {report.realised:+.2f}, and its orders come to {profit.realised:+.2f}"


async def _with_known_questions(records: ReadOnlyState, venue: str, account: Account) -> Account:
    """Return the account with the questions of what was bought here where the venue knows contracts alone."""
    name = records.config.venues[venue].account
    held: list[Position | OpenOrder] = [*account.positions, *account.orders]
    contracts = {one.contract for one in held if one.ref is None}
    known = await records.ledger.submissions.readers.run(
        lambda database: submission_queries.read_traded_contracts(database, venue, name, contracts)
    )

    def position(one: Position) -> Position:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref, option=one.option or found.option)

    def order(one: OpenOrder) -> OpenOrder:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref)

    return replace(
        account,
        positions=tuple(position(one) for one in account.positions),
        orders=tuple(order(one) for one in account.orders),
    )


async def _load_positions(
    records: ReadOnlyState, account: Account, report: PaperBookReport | None
) -> tuple[HeldPosition, ...]:
    refs = [position.ref for position in account.positions if position.ref is not None]
    known = await records.ledger.submissions.readers.run(
        lambda database: submission_queries.read_question_headings(database, refs)
    )

    def held(position: Position) -> HeldPosition:
        subject = known.get(position.ref) if position.ref is not None else None
        key = (position.contract, position.leg.value)
        return HeldPosition(
            position=position,
            title=subject.title if subject else "",
            event=(report.events.get(key, "") if report else "") or (subject.event if subject else ""),
            marked_at=report.marked_at.get(key) if report else account.at,
        )

    return tuple(held(position) for position in account.positions)
