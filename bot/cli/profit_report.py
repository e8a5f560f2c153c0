"""Profit of accounts by market and forecaster, and equity over time, as tables, CSV and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from rich.console import Console

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.core.questions import QuestionRef
from bot.core.trading_profit import EquityPoint
from bot.evaluation.account_profit import AccountProfit, MarketProfit
from bot.evaluation.value_text import NO_VALUE, format_day, format_minute, format_number
from bot.store.serialization import format_timestamp

MARKET_TABLE_COLUMNS = (
    TableColumn("market", ColumnKind.TEXT),
    TableColumn("title", ColumnKind.TITLE),
    TableColumn("bought", ColumnKind.NUMBER),
    TableColumn("sold", ColumnKind.NUMBER),
    TableColumn("paid out", ColumnKind.NUMBER),
    TableColumn("fees", ColumnKind.NUMBER),
    TableColumn("realised", ColumnKind.NUMBER),
    TableColumn("unrealised", ColumnKind.NUMBER),
    TableColumn("closed"),
)
FORECASTER_TABLE_COLUMNS = (
    TableColumn("forecaster"),
    TableColumn("markets", ColumnKind.NUMBER),
    TableColumn("realised", ColumnKind.NUMBER),
    TableColumn("unrealised", ColumnKind.NUMBER),
    TableColumn("gain", ColumnKind.NUMBER),
)
HISTORY_TABLE_COLUMNS = (
    TableColumn("at"),
    TableColumn("equity", ColumnKind.NUMBER),
    TableColumn("cash", ColumnKind.NUMBER),
    TableColumn("loan", ColumnKind.NUMBER),
    TableColumn("not from orders", ColumnKind.NUMBER),
    TableColumn("gain", ColumnKind.NUMBER),
    TableColumn("realised", ColumnKind.NUMBER),
)
# More differences would hide the rest.
MAX_DIFFERENCES_SHOWN = 5
_MARKET_KEYS = ("bought", "sold", "paid_out", "fees", "realised", "unrealised", "gain", "cost", "value")
_POINT_KEYS = ("equity", "cash", "reserved", "loan", "transfers", "gain", "realised")


def profit_sums(profit: AccountProfit) -> list[tuple[str, str]]:
    """Return the rows about profit for the table of sums."""
    rows = [("realised", format_signed(profit.realised))]
    if profit.paid_out:
        rows.append(("paid out by outcomes and pairs", format_number(profit.paid_out)))
    if profit.comment_fees:
        rows.append(("fees of comments", format_number(profit.comment_fees)))
    rows.append(("gain of orders", format_signed(profit.gain)))
    if profit.loan:
        rows.append(("loan of the venue, included in cash", format_number(profit.loan)))
    if profit.transfers is not None:
        rows.append(("not from orders: deposits, bonuses, trades by hand", format_signed(profit.transfers)))
    if profit.begun is not None:
        rows.append((f"equity when first read, {format_day(profit.begun.at)}", format_number(profit.begun.equity)))
    return rows


def print_profit(
    console: Console, profit: AccountProfit, titles: Mapping[QuestionRef, str], limit: int | None = None
) -> None:
    """Print the profit of markets and forecasters, and differences to the figures of the venue.

    ``limit`` is the largest number of open and of closed markets, newest first.
    """
    if not profit.markets:
        return
    count = len(profit.markets) + profit.earlier.contracts
    print_heading(console, f"Markets ({count})")
    newest = sorted(profit.markets, key=lambda one: (one.closed_at is not None, -_closing_time(one)))
    open_ = [one for one in newest if one.closed_at is None]
    shown = [*open_[:limit], *newest[len(open_) :][:limit]]
    console.print(make_table(MARKET_TABLE_COLUMNS, [_market_cells(one, titles) for one in shown]))
    if more := count - len(shown):
        console.print(f"and {more} more: foxcast portfolio --all")
    print_heading(console, "By forecaster")
    rows = [
        (
            one.forecaster,
            str(one.markets),
            format_signed(one.realised),
            format_signed(one.unrealised),
            format_signed(one.realised + one.unrealised),
        )
        for one in profit.forecasters
    ]
    console.print(make_table(FORECASTER_TABLE_COLUMNS, rows))
    for line in profit_remarks(profit):
        console.print(line)


def profit_remarks(profit: AccountProfit) -> list[str]:
    """Return where figures of the venue, or positions of the account, differ from the sum of the orders."""
    lines = []
    compared = [one for one in profit.markets if one.venue_gain is not None]
    if compared and not profit.disputed_markets and not profit.earlier.contracts:
        lines.append(f"the venue reports the same gains for all {len(compared)} closed markets that it reports")
    for one in profit.disputed_markets[:MAX_DIFFERENCES_SHOWN]:
        own = (one.venue_gain or 0.0) - (one.venue_difference or 0.0)
        reported = f"the venue reports {format_signed(one.venue_gain)}"
        lines.append(f"{one.contract}: {reported}, its orders add up to {format_signed(own)}")
    if more := len(profit.disputed_markets) - MAX_DIFFERENCES_SHOWN:
        lines += [f"and {more} more markets with another figure of the venue"] if more > 0 else []
    unknown = sum(one.unknown for one in profit.markets)
    if unknown:
        lines.append(f"{unknown} positions are gone and their outcome is not known yet: counted at cost")
    return [*lines, *profit.position_differences[:MAX_DIFFERENCES_SHOWN]]


def print_equity_history(console: Console, points: Sequence[EquityPoint]) -> None:
    """Print the last reading of each day."""
    shown = list({point.at.astimezone(UTC).date(): point for point in points}.values())
    console.print(make_table(HISTORY_TABLE_COLUMNS, [_equity_point_cells(point) for point in shown]))
    if len(shown) < len(points):
        console.print(f"the last reading of each day, of {len(points)} readings; --csv FILE or --json has all")


def profit_to_json(profit: AccountProfit, titles: Mapping[QuestionRef, str]) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "gain_of_orders": profit.gain,
        "unrealised": profit.unrealised,
        "paid_out": profit.paid_out,
        "comment_fees": profit.comment_fees,
        "loan": profit.loan,
        "not_from_orders": profit.transfers,
        "remarks": profit_remarks(profit),
        "markets": [market_to_json(one, titles) for one in profit.markets],
        "markets_left_out": profit.earlier.contracts,
        "forecasters": [
            {
                "forecaster": one.forecaster,
                "markets": one.markets,
                "realised": one.realised,
                "unrealised": one.unrealised,
            }
            for one in profit.forecasters
        ],
    }


def market_to_json(one: MarketProfit, titles: Mapping[QuestionRef, str]) -> dict[str, Any]:
    """Return one market as JSON values."""
    return {
        "question": str(one.ref),
        "title": titles.get(one.ref, ""),
        "contract": one.contract,
        "option": one.option or None,
        **{key: getattr(one, key) for key in _MARKET_KEYS},
        "shares": {leg.value: count for leg, count in one.shares.items()},
        "closed_at": format_timestamp(one.closed_at),
        "venue_says": one.venue_gain,
        "venue_differs": one.venue_difference,
    }


def equity_points_to_json(points: Sequence[EquityPoint]) -> list[dict[str, Any]]:
    """Return equity over time as JSON values."""
    return [{"at": format_timestamp(point.at), **{key: getattr(point, key) for key in _POINT_KEYS}} for point in points]


def to_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV, amounts to the millionth."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_csv_cell(row[name]) for name in columns] for row in rows])
    return text.getvalue()


MARKET_CSV_COLUMNS = (
    *("venue", "mode", "account", "currency", "question", "title", "contract", "option"),
    *(*_MARKET_KEYS, "yes_shares", "no_shares", "closed_at", "venue_says"),
)
EQUITY_CSV_COLUMNS = ("venue", "mode", "account", "currency", "at", *_POINT_KEYS)


def format_signed(value: float | None) -> str:
    """Return an amount to the cent with its sign; zero is never negative."""
    if value is None:
        return NO_VALUE
    return f"{value:+z.2f}"


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return f"{0.0 if abs(value) < 5e-7 else value:.6f}"
    # A spreadsheet would run it as a formula.
    if isinstance(value, str) and value[:1] in "=+-@":
        return f"'{value}"
    return "" if value is None else value


def _market_cells(one: MarketProfit, titles: Mapping[QuestionRef, str]) -> tuple[str, ...]:
    name = str(one.ref)
    return (
        f"{name} ({one.option})" if one.option else name,
        titles.get(one.ref, ""),
        format_number(one.bought),
        format_number(one.sold),
        format_number(one.paid_out),
        format_number(one.fees),
        format_signed(one.realised),
        format_signed(one.unrealised) if one.shares else NO_VALUE,
        format_minute(one.closed_at),
    )


def _equity_point_cells(point: EquityPoint) -> tuple[str, ...]:
    return (
        format_minute(point.at),
        format_number(point.equity),
        format_number(point.cash),
        format_number(point.loan),
        format_signed(point.transfers),
        format_signed(point.gain),
        format_signed(point.realised),
    )


def _closing_time(one: MarketProfit) -> float:
    return 0.0 if one.closed_at is None else one.closed_at.timestamp()


def market_csv_row(one: Mapping[str, Any], account: Mapping[str, Any]) -> dict[str, Any]:
    """Return a market with its account, as a row of CSV."""
    shares = one["shares"]
    return {**account, **one, "yes_shares": shares.get("yes", 0.0), "no_shares": shares.get("no", 0.0)}
