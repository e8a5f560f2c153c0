"""What accounts gained: a line per market and per forecaster, equity over time, and the same as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.figures import NOTHING, day, moment, number
from bot.domain.account_profit import AccountProfit, MarketProfit
from bot.domain.equity import EquityPoint
from bot.domain.question import QuestionRef
from bot.store.codec import stamp

MARKETS = (
    Column("market", Kind.TEXT),
    Column("title", Kind.TITLE),
    Column("bought", Kind.NUMBER),
    Column("sold", Kind.NUMBER),
    Column("paid out", Kind.NUMBER),
    Column("fees", Kind.NUMBER),
    Column("realised", Kind.NUMBER),
    Column("unrealised", Kind.NUMBER),
    Column("closed"),
)
FORECASTERS = (
    Column("forecaster"),
    Column("markets", Kind.NUMBER),
    Column("realised", Kind.NUMBER),
    Column("unrealised", Kind.NUMBER),
    Column("gain", Kind.NUMBER),
)
HISTORY = (
    Column("at"),
    Column("equity", Kind.NUMBER),
    Column("cash", Kind.NUMBER),
    Column("lent", Kind.NUMBER),
    Column("not from orders", Kind.NUMBER),
    Column("gain", Kind.NUMBER),
    Column("realised", Kind.NUMBER),
)
# More of what differs would hide the rest.
DIFFERENCES = 5
_MARKET_KEYS = ("bought", "sold", "paid_out", "fees", "realised", "unrealised", "gain", "cost", "value")
_POINT_KEYS = ("equity", "cash", "reserved", "loan", "moved", "gain", "realised")


def sums_of(profit: AccountProfit) -> list[tuple[str, str]]:
    """Return the rows about gain for the table of sums."""
    rows = [("realised", signed(profit.realised))]
    if profit.paid_out:
        rows.append(("paid out by outcomes and pairs", number(profit.paid_out)))
    if profit.comment_fees:
        rows.append(("fees of comments", number(profit.comment_fees)))
    rows.append(("gain of orders", signed(profit.gain)))
    if profit.loan:
        rows.append(("lent by the venue, in the cash", number(profit.loan)))
    if profit.moved is not None:
        rows.append(("not from orders: deposits, bonuses, trades by hand", signed(profit.moved)))
    if profit.begun is not None:
        rows.append((f"equity when first read, {day(profit.begun.at)}", number(profit.begun.equity)))
    return rows


def print_profit(console: Console, profit: AccountProfit, titles: Mapping[QuestionRef, str]) -> None:
    """Print what each market and each forecaster brought, and where the venue says otherwise."""
    if not profit.markets:
        return
    heading(console, f"Markets ({len(profit.markets)})")
    newest = sorted(profit.markets, key=lambda one: (one.closed_at is not None, -_age(one)))
    console.print(table(MARKETS, [_market_cells(one, titles) for one in newest]))
    heading(console, "By forecaster")
    rows = [
        (
            one.forecaster,
            str(one.markets),
            signed(one.realised),
            signed(one.unrealised),
            signed(one.realised + one.unrealised),
        )
        for one in profit.forecasters
    ]
    console.print(table(FORECASTERS, rows))
    for line in remarks(profit):
        console.print(line)


def remarks(profit: AccountProfit) -> list[str]:
    """Say where the figures of the venue, or what the account holds, are not what orders come to."""
    lines = []
    compared = [one for one in profit.markets if one.said is not None]
    if compared and not profit.differing:
        lines.append(f"the venue says the same of all {len(compared)} closed markets that it tells of")
    for one in profit.differing[:DIFFERENCES]:
        own = (one.said or 0.0) - (one.differs or 0.0)
        lines.append(f"{one.contract}: the venue says {signed(one.said)}, by its orders it is {signed(own)}")
    if more := len(profit.differing) - DIFFERENCES:
        lines += [f"and {more} more markets of which the venue says otherwise"] if more > 0 else []
    unknown = sum(one.unknown for one in profit.markets)
    if unknown:
        lines.append(f"{unknown} positions are gone and their outcome is not known yet: counted at what they cost")
    return [*lines, *profit.elsewhere[:DIFFERENCES]]


def print_history(console: Console, points: Sequence[EquityPoint]) -> None:
    """Print the last reading of each day."""
    shown = list({point.at.astimezone(UTC).date(): point for point in points}.values())
    console.print(table(HISTORY, [_point_cells(point) for point in shown]))
    if len(shown) < len(points):
        console.print(f"the last of each day, of {len(points)} readings; --csv FILE or --json has all")


def plain_profit(profit: AccountProfit, titles: Mapping[QuestionRef, str]) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "gain_of_orders": profit.gain,
        "unrealised": profit.unrealised,
        "paid_out": profit.paid_out,
        "comment_fees": profit.comment_fees,
        "loan": profit.loan,
        "not_from_orders": profit.moved,
        "remarks": remarks(profit),
        "markets": [plain_market(one, titles) for one in profit.markets],
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


def plain_market(one: MarketProfit, titles: Mapping[QuestionRef, str]) -> dict[str, Any]:
    """Return one market as JSON values."""
    return {
        "question": str(one.ref),
        "title": titles.get(one.ref, ""),
        "contract": one.contract,
        "option": one.option or None,
        **{key: getattr(one, key) for key in _MARKET_KEYS},
        "shares": {leg.value: count for leg, count in one.shares.items()},
        "closed_at": stamp(one.closed_at),
        "venue_says": one.said,
        "venue_differs": one.differs,
    }


def plain_points(points: Sequence[EquityPoint]) -> list[dict[str, Any]]:
    """Return equity over time as JSON values."""
    return [{"at": stamp(point.at), **{key: getattr(point, key) for key in _POINT_KEYS}} for point in points]


def as_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as CSV, amounts to the millionth."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_csv_cell(row[name]) for name in columns] for row in rows])
    return text.getvalue()


MARKET_COLUMNS = (
    *("venue", "mode", "account", "currency", "question", "title", "contract", "option"),
    *(*_MARKET_KEYS, "yes_shares", "no_shares", "closed_at", "venue_says"),
)
POINT_COLUMNS = ("venue", "mode", "account", "currency", "at", *_POINT_KEYS)


def signed(value: float | None) -> str:
    """Return an amount to the cent with its sign; what rounds to nothing has none of below."""
    if value is None:
        return NOTHING
    return f"{value:+z.2f}"


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return f"{0.0 if abs(value) < 5e-7 else value:.6f}"
    # A spreadsheet would run it.
    if isinstance(value, str) and value[:1] in "=+-@":
        return f"'{value}"
    return "" if value is None else value


def _market_cells(one: MarketProfit, titles: Mapping[QuestionRef, str]) -> tuple[str, ...]:
    name = str(one.ref)
    return (
        f"{name} ({one.option})" if one.option else name,
        titles.get(one.ref, ""),
        number(one.bought),
        number(one.sold),
        number(one.paid_out),
        number(one.fees),
        signed(one.realised),
        signed(one.unrealised) if one.shares else NOTHING,
        moment(one.closed_at),
    )


def _point_cells(point: EquityPoint) -> tuple[str, ...]:
    return (
        moment(point.at),
        number(point.equity),
        number(point.cash),
        number(point.loan),
        signed(point.moved),
        signed(point.gain),
        signed(point.realised),
    )


def _age(one: MarketProfit) -> float:
    return 0.0 if one.closed_at is None else one.closed_at.timestamp()


def csv_market(one: Mapping[str, Any], account: Mapping[str, Any]) -> dict[str, Any]:
    """Return a market with its account, as a row of CSV."""
    shares = one["shares"]
    return {**account, **one, "yes_shares": shares.get("yes", 0.0), "no_shares": shares.get("no", 0.0)}
