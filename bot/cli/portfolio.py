"""``foxcast portfolio``: what each account has and gained.

Paper books are read as they are, live accounts as read last. What was gained is worked out of the ledger for both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.app import Records
from bot.cli.arm import require_venue
from bot.cli.output.console import emit, heading, stdout
from bot.cli.output.portfolio import Held, Holdings, as_plain, print_portfolio
from bot.cli.output.profit import MARKET_COLUMNS, POINT_COLUMNS, as_csv, csv_market, plain_points, print_history
from bot.cli.records import read
from bot.cli.session import configured
from bot.clock import SystemClock
from bot.domain.account_profit import CENT, AccountProfit, account_profit
from bot.domain.equity import EquityPoint, EquityReading, equity_points
from bot.domain.order import Account, OpenOrder, Position
from bot.domain.profit import ONE
from bot.domain.question import QuestionRef
from bot.domain.submission import Mode
from bot.errors import ConfigError
from bot.paper.book import book_path
from bot.paper.report import BookReport, read_report
from bot.store import orders
from bot.store.profits import AccountLane

app = typer.Typer(add_completion=False)

_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@app.command()
def portfolio(
    ctx: typer.Context,
    *,
    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show equity and gain over time instead.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the markets, or the history, to a CSV file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what each account has and gained, on paper and live, per market and forecaster."""
    config, now = configured(ctx), SystemClock().now()
    if venue is not None:
        require_venue(config, venue)
    found = read(config, lambda records: gathered(records, venue, now))
    count = 0
    if csv_file is not None:
        count = _write_csv(csv_file, found, history=history)
    if as_json:
        emit([_plain_history(one) for one in found] if history else [as_plain(one) for one in found])
    elif csv_file is not None:
        stdout().print(f"{count} rows written to {csv_file}")
    else:
        _print(found, now, history=history)


def _print(found: Sequence[Holdings], now: datetime, *, history: bool) -> None:
    console = stdout()
    if not found:
        console.print("no account has anything yet, and no forecast stands; foxcast run --once begins")
    for one in found:
        if not history:
            print_portfolio(console, one, now)
        elif one.points:
            heading(console, f"{one.venue}: {one.mode}, account {one.name}")
            print_history(console, one.points)
        else:
            console.print(f"{one.venue}: {one.mode}, account {one.name} was never read")


def _plain_history(one: Holdings) -> dict[str, Any]:
    return {**_named_account(one), "history": plain_points(one.points)}


def _named_account(one: Holdings) -> dict[str, Any]:
    currency = None if one.account is None else one.account.currency
    return {"venue": one.venue, "mode": one.mode.value, "account": one.name, "currency": currency}


def _write_csv(path: Path, found: Sequence[Holdings], *, history: bool) -> int:
    """Write a row for each market, or each reading; return how many. Raises ConfigError for a file that cannot be."""
    rows = [
        {**_named_account(one), **row} if history else csv_market(row, _named_account(one))
        for one in found
        for row in (plain_points(one.points) if history else as_plain(one)["markets"])
    ]
    text = as_csv(rows, POINT_COLUMNS if history else MARKET_COLUMNS)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}); name a file in a folder that is there"
        raise ConfigError(message) from error
    return len(rows)


async def gathered(records: Records, venue: str | None, now: datetime) -> list[Holdings]:
    """Return what the accounts of the venues in config have, those without anything left out."""
    found = [await _of(records, name, now) for name in records.config.venues if venue in {None, name}]
    return [one for one in found if one is not None]


async def _of(records: Records, venue: str, now: datetime) -> Holdings | None:
    mode, name = records.config.mode_of(venue), records.config.venues[venue].account
    submissions, path = records.ledger.submissions, book_path(records.folder, venue)
    standing = await submissions.readers.run(lambda database: orders.standing_forecasts(database, venue, name))
    report = await read_report(path, at=now) if mode is Mode.PAPER and path.exists() else None
    account = (
        await records.ledger.readings.last(venue, name, paper=mode is Mode.PAPER) if report is None else report.account
    )
    if account is None:
        return Holdings(venue=venue, mode=mode, name=name, standing=standing) if standing else None
    account = await _named(records, venue, account)
    fees = await submissions.readers.run(lambda database: orders.fees(database, venue, name))
    profit, points, titles = await _profit(
        records, AccountLane(venue=venue, account=name, paper=mode is Mode.PAPER), account, report
    )
    return Holdings(
        venue=venue,
        mode=mode,
        name=name,
        standing=standing,
        account=account,
        positions=await _positions(records, account, report),
        fees=fees if report is None else report.fees,
        profit=profit,
        points=points,
        titles=titles,
        capital=None if report is None else report.capital,
        begun_at=None if report is None else report.begun_at,
        faults=() if report is None else (*report.faults, *_contradictions(profit, report)),
    )


async def _profit(
    records: Records, lane: AccountLane, account: Account, report: BookReport | None
) -> tuple[AccountProfit, tuple[EquityPoint, ...], Mapping[QuestionRef, str]]:
    """Return what the orders of an account gained, its equity over time, and the titles of what was traded."""
    ledger = records.ledger
    # What a paper book says of itself has no word of pairs; what was read of it has.
    last = await ledger.readings.last(lane.venue, lane.account, paper=lane.paper)
    redeems = account.redeems or (last is not None and last.redeems)
    found = await ledger.profits.record(lane, _EVER, redeems=redeems)
    refs = {one.ref for one in found.book.contracts}
    known = await ledger.submissions.readers.run(lambda database: orders.subjects(database, refs))
    points = equity_points([*_begun(report), *found.readings], found.book, found.fees)
    profit = account_profit(
        found.book,
        account,
        points,
        said=found.said,
        comment_fees=sum(fee for _, fee in found.fees) / ONE,
        paper=lane.paper,
    )
    return profit, points, {ref: subject.title for ref, subject in known.items()}


def _begun(report: BookReport | None) -> list[EquityReading]:
    """Return what a paper book began with as a reading; a live account begins with the first that there is."""
    if report is None:
        return []
    before = report.begun_at - timedelta(microseconds=1)
    return [EquityReading(at=before, until=before, cash=report.capital, equity=report.capital)]


def _contradictions(profit: AccountProfit, report: BookReport) -> Iterator[str]:
    """Say where a paper book booked other gains than its orders come to; what waits for its payout is left out."""
    waiting = {one.contract for one in report.account.positions} & {
        one.contract for one in profit.markets if one.closed_at is not None
    }
    if not waiting and abs(report.realised - profit.realised) >= CENT:
        yield f"it realised {report.realised:+.2f}, and its orders come to {profit.realised:+.2f}"


async def _named(records: Records, venue: str, account: Account) -> Account:
    """Return the account with the questions of what was bought here where the venue knows contracts alone."""
    name = records.config.venues[venue].account
    held: list[Position | OpenOrder] = [*account.positions, *account.orders]
    contracts = {one.contract for one in held if one.ref is None}
    known = await records.ledger.submissions.readers.run(
        lambda database: orders.traded(database, venue, name, contracts)
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


async def _positions(records: Records, account: Account, report: BookReport | None) -> tuple[Held, ...]:
    refs = [position.ref for position in account.positions if position.ref is not None]
    known = await records.ledger.submissions.readers.run(lambda database: orders.subjects(database, refs))

    def held(position: Position) -> Held:
        subject = known.get(position.ref) if position.ref is not None else None
        key = (position.contract, position.leg.value)
        return Held(
            position=position,
            title=subject.title if subject else "",
            event=(report.events.get(key, "") if report else "") or (subject.event if subject else ""),
            marked_at=report.marked_at.get(key) if report else account.at,
        )

    return tuple(held(position) for position in account.positions)
