"""`foxcast portfolio`: cash, positions and profit of each account, from paper books or the last account readings."""

from collections.abc import Sequence
from datetime import datetime
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
from bot.core.orders import Account
from bot.core.redaction import redact_known_secrets
from bot.core.submissions import ExecutionMode
from bot.evaluation.account_holdings import LAST_CLOSED, AccountHoldings, HeldPosition, load_portfolio
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import NO_VALUE, format_age, format_day, format_number
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


# A table with so many columns is unreadable on a narrower terminal.
MIN_TABLE_WIDTH = 110


def print_holdings(console: Console, holdings: AccountHoldings, now: datetime, limit: int | None = None) -> None:
    """Print it for a person."""
    account = holdings.account
    print_heading(console, f"{holdings.venue}: {holdings.mode}, account {holdings.name}")
    if holdings.standing:
        console.print(f"submitted forecasts on {holdings.standing} open questions")
    if account is None:
        return
    if holdings.mode is not ExecutionMode.PAPER:
        console.print(f"account read {format_age(now - account.at)}")
    for fault in holdings.faults:
        console.print(f"the book is inconsistent: {fault}")
    console.print(make_table(SUM_COLUMNS, _sum_rows(holdings, account)))
    if account.orders:
        console.print(f"{len(account.orders)} open orders; list them with: foxcast orders --open")
    if holdings.positions:
        _print_positions(console, holdings, now, limit)
        _print_events(console, holdings)
    else:
        console.print("no positions")
    print_profit(console, holdings.profit, holdings.titles, limit)


def holdings_to_json(holdings: AccountHoldings) -> dict[str, Any]:
    """Return it as JSON values."""
    account = holdings.account
    return {
        "venue": holdings.venue,
        "mode": holdings.mode.value,
        "account": holdings.name,
        "standing_forecasts": holdings.standing,
        "currency": None if account is None else account.currency,
        "at": None if account is None else format_timestamp(account.at),
        "begun_at": format_timestamp(holdings.begun_at),
        "capital": holdings.capital,
        "cash": None if account is None else account.cash,
        "reserved": holdings.reserved,
        "value": holdings.value,
        "gain": holdings.gain,
        "realised": None if account is None else holdings.profit.realised,
        "fees": holdings.fees,
        **profit_to_json(holdings.profit, holdings.titles),
        "equity": None if account is None else account.equity,
        "faults": [*holdings.faults],
        "positions": [_position_to_json(held) for held in holdings.positions],
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
        "events": {event: {"gain": sum(h.gain for h in held)} for event, held in holdings.by_event.items()},
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


def _sum_rows(holdings: AccountHoldings, account: Account) -> list[tuple[str, str]]:
    rows = [
        ("cash, free", format_number(account.cash)),
        ("reserved for orders", format_number(holdings.reserved)),
        ("positions, if sold now", format_number(holdings.value)),
        (f"equity, {account.currency}", format_number(account.equity)),
        ("gain of positions", f"{holdings.gain:+z.2f}"),
        *profit_sums(holdings.profit),
        ("fees paid", format_number(holdings.fees)),
    ]
    if holdings.capital is not None:
        rows.append((f"started {format_day(holdings.begun_at)} with", format_number(holdings.capital)))
    return rows


def _print_positions(console: Console, holdings: AccountHoldings, now: datetime, limit: int | None) -> None:
    print_heading(console, f"Positions ({len(holdings.positions)})")
    largest = sorted(holdings.positions, key=lambda held: -held.position.paid)[:limit]
    rows = [_position_cells(held, now) for held in largest]
    if console.width >= MIN_TABLE_WIDTH:
        console.print(make_table(POSITION_COLUMNS, rows))
        rows = []
    for name, title, side, shares, cost, mark, value, gain, marked in rows:
        console.print(name)
        if title:
            print_indented(console, title)
        print_indented(console, f"{shares} {side} for {cost}")
        print_indented(console, f"mark {mark} ({marked}), value {value}, gain {gain}")
    if more := len(holdings.positions) - len(largest):
        console.print(f"and {more} smaller ones: foxcast portfolio --all")


def _print_events(console: Console, holdings: AccountHoldings) -> None:
    if not holdings.by_event:
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
        for event, held in holdings.by_event.items()
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


@app.command()
def portfolio(
    ctx: typer.Context,
    *,
    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this venue.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show equity and profit over time instead.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the markets, or the history, to a CSV file.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="The largest number of positions, and of closed markets.")
    ] = LAST_CLOSED,
    show_all: Annotated[bool, typer.Option("--all", help="Show all, without a limit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show positions and profit of each account, paper and live, by market and forecaster.

    --history and --csv have everything.
    """
    config, now = load_command_config(ctx), SystemClock().now()
    if venue is not None:
        require_configured_venue(config, venue)
    shown = None if show_all or csv_file is not None else limit
    found = query_ledger(
        config, lambda records: load_portfolio(records, venue, now, last_closed=shown, history=history)
    )
    count = 0
    if csv_file is not None:
        count = _write_csv(csv_file, found, history=history)
    if as_json:
        print_json([_history_to_json(one) for one in found] if history else [holdings_to_json(one) for one in found])
    elif csv_file is not None:
        stdout_console().print(f"{count} rows written to {csv_file}")
    else:
        _print_portfolio(found, now, shown, history=history)


def _print_portfolio(found: Sequence[AccountHoldings], now: datetime, limit: int | None, *, history: bool) -> None:
    console = stdout_console()
    if not found:
        console.print("no account holds anything yet, and no forecast is submitted; start with: foxcast run --once")
    for one in found:
        if not history:
            print_holdings(console, one, now, limit)
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
    """Write a row for each market or each reading and return their number; raises ConfigError for a failed file."""
    rows = [
        {**_account_to_json(one), **row} if history else market_csv_row(row, _account_to_json(one))
        for one in found
        for row in (equity_points_to_json(one.points) if history else holdings_to_json(one)["markets"])
    ]
    text = to_csv(rows, EQUITY_CSV_COLUMNS if history else MARKET_CSV_COLUMNS)
    try:
        path.write_text(redact_known_secrets(text), encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror}); name a file in an existing folder"
        raise ConfigError(message) from error
    return len(rows)
