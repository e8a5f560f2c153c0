"""``foxcast portfolio``: what each account has. Paper books are read as they are, live accounts as read last."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from bot.app import Records
from bot.cli.arm import require_venue
from bot.cli.output.console import emit, stdout
from bot.cli.output.portfolio import Held, Holdings, as_plain, print_portfolio
from bot.cli.records import read
from bot.cli.session import configured
from bot.clock import SystemClock
from bot.domain.order import Account, OpenOrder, Position
from bot.domain.submission import Mode
from bot.paper.book import book_path
from bot.paper.report import BookReport, read_report
from bot.store import orders

app = typer.Typer(add_completion=False)


@app.command()
def portfolio(
    ctx: typer.Context,
    *,
    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what each account has, on paper and live: cash, positions, gains."""
    config, now = configured(ctx), SystemClock().now()
    if venue is not None:
        require_venue(config, venue)
    found = read(config, lambda records: gathered(records, venue, now))
    if as_json:
        emit([as_plain(one) for one in found])
        return
    console = stdout()
    if not found:
        console.print("no account has anything yet, and no forecast stands; foxcast run --once begins")
    for one in found:
        print_portfolio(console, one, now)


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
    return Holdings(
        venue=venue,
        mode=mode,
        name=name,
        standing=standing,
        account=account,
        positions=await _positions(records, account, report),
        fees=fees if report is None else report.fees,
        realised=None if report is None else report.realised,
        capital=None if report is None else report.capital,
        begun_at=None if report is None else report.begun_at,
        faults=() if report is None else tuple(report.faults),
    )


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
