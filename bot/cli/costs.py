"""`foxcast costs`: model costs by question, model, day, venue, forecaster or role, and today's budgets."""

import asyncio
import sys
from datetime import date, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_setup import load_command_config
from bot.cli.options import options_from_dataclass, parse_date
from bot.cli.output.console import (
    ColumnKind,
    TableCell,
    TableColumn,
    make_table,
    print_heading,
    print_json,
    stdout_console,
)
from bot.config.schema import Config
from bot.core.beliefs import ModelUsage
from bot.core.clock import SystemClock
from bot.core.errors import NotFoundError
from bot.core.light_dataclass import dataclass
from bot.evaluation.cost_report import BudgetStatus, CostReport, TodayCosts, load_cost_report
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_minute, format_number, format_usd
from bot.store.cost_totals import CostGrouping, CostRow, UnansweredCallCosts
from bot.store.ledger import LAB_FOLDER, LEDGER_FILE, ReadOnlyState, open_ledger_read_only
from bot.store.serialization import format_timestamp

# Costs by question are not summed: without another wish only newer calls are read.
QUESTION_PERIOD = timedelta(days=30)
COUNT_COLUMNS = (
    "forecasts",
    "calls",
    "failed",
    "requests",
    "tokens in",
    "cached",
    "out",
    "mean s",
    "USD",
    "USD a forecast",
)


def print_cost_report(console: Console, report: CostReport) -> None:
    """Print it for a person."""
    when = "" if report.since is None else f" since {report.since}"
    if not report.rows:
        console.print(f"no model was called{when}")
    else:
        columns = (TableColumn(report.by.value), *(TableColumn(name, ColumnKind.NUMBER) for name in COUNT_COLUMNS))
        console.print(make_table(columns, [_cost_cells(row) for row in (*report.rows, report.total)]))
    if report.losses.calls:
        console.print(unanswered_costs_text(report.losses))
    print_heading(console, "Today (UTC)")
    for line in today_lines(report.today):
        console.print(line)


def unanswered_costs_text(found: UnansweredCallCosts) -> str:
    """Return the amount booked for calls without an answer, in a line."""
    calls = "1 call" if found.calls == 1 else f"{found.calls:,} calls"
    return (
        f"of this, {found.cost_usd:.4f} USD are the maximum cost of {calls} that may have been billed without a "
        "usable answer: it was lost, interrupted or unreadable"
    )


def today_lines(today: TodayCosts) -> list[str]:
    """Return a line for each budget of today and each replaced model."""
    demoted = (
        f"{one.model}{f' as {one.role}' if one.role else ''} is replaced until {format_minute(one.until)} UTC, "
        f"where {'that role' if one.role else 'its role'} has a fallback: {one.why}"
        for one in today.demoted
    )
    return [*map(budget_text, today.budgets), *demoted]


def budget_text(budget: BudgetStatus) -> str:
    """Return the state of a budget in a line."""
    if budget.limit_usd is None or budget.left_usd is None:
        return f"{budget.what}: {format_usd(budget.spent_usd)} USD spent, no limit"
    spent = f"{format_usd(budget.spent_usd)} of {format_usd(budget.limit_usd)} USD spent"
    return f"{budget.what}: {spent}, {format_usd(budget.left_usd)} left"


def cost_report_to_json(report: CostReport) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "by": report.by.value,
        "since": None if report.since is None else report.since.isoformat(),
        "rows": [_cost_row_to_json(row) for row in report.rows],
        "has_more": report.has_more,
        "total": _cost_row_to_json(report.total),
        "unanswered": {"calls": report.losses.calls, "cost_usd": report.losses.cost_usd},
        **today_to_json(report.today),
    }


def today_to_json(today: TodayCosts) -> dict[str, Any]:
    """Return the costs of today as JSON values."""
    return {
        "today": [
            {"what": one.what, "spent_usd": one.spent_usd, "limit_usd": one.limit_usd, "left_usd": one.left_usd}
            for one in today.budgets
        ],
        "demoted": [
            {
                "model": one.model,
                "role": one.role or None,
                "at": format_timestamp(one.at),
                "until": format_timestamp(one.until),
                "why": one.why,
            }
            for one in today.demoted
        ],
    }


def _cost_cells(row: CostRow) -> tuple[TableCell, ...]:
    usage = row.usage
    return (
        row.name,
        str(row.forecasts),
        str(row.calls),
        str(row.failed),
        str(row.attempts),
        f"{usage.tokens_in:,}",
        f"{_cached_share(usage):.0%}",
        f"{usage.tokens_out:,}",
        f"{row.latency_s:.1f}",
        f"{usage.cost_usd:.4f}",
        format_number(_usd_per_forecast(row), 4),
    )


def _cost_row_to_json(row: CostRow) -> dict[str, Any]:
    usage = row.usage
    return {
        "name": row.name,
        "forecasts": row.forecasts,
        "calls": row.calls,
        "failed": row.failed,
        "requests": row.attempts,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "cached_share": _cached_share(usage),
        "tokens_out": usage.tokens_out,
        "mean_latency_s": row.latency_s,
        "cost_usd": usage.cost_usd,
        "usd_per_forecast": _usd_per_forecast(row),
    }


def _cached_share(usage: ModelUsage) -> float:
    return usage.tokens_cached / usage.tokens_in if usage.tokens_in else 0.0


def _usd_per_forecast(row: CostRow) -> float | None:
    return row.usage.cost_usd / row.forecasts if row.forecasts else None


app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsOptions:
    """Which costs are added up, and how."""

    by: Annotated[CostGrouping, typer.Option("--by", help="Group costs by this.")] = CostGrouping.MODEL
    since: Annotated[
        date | None,
        typer.Option(parser=parse_date, metavar="DATE", help="Only calls since this day (UTC)."),
    ] = None
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="The largest number of rows: the most expensive, or the last days.")
    ] = 50
    show_all: Annotated[bool, typer.Option("--all", help="Show all, without a limit.")] = False
    lab: Annotated[
        bool, typer.Option("--lab", help="Show costs of backtests, which have their own ledger and budgets.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@app.command()
@options_from_dataclass(CostsOptions)
def costs(ctx: typer.Context, options: CostsOptions) -> None:
    """Show model costs and what remains of today's budgets.

    --by question reads each call: those of the last 30 days, unless --since or --all says otherwise.
    """
    now, config = SystemClock().now(), load_command_config(ctx)
    limit, since = None if options.show_all else options.limit, options.since
    if options.by is CostGrouping.QUESTION and since is None and not options.show_all:
        since = now.date() - QUESTION_PERIOD
    if options.lab:
        report = asyncio.run(load_backtest_costs(config, options.by, since, now, limit=limit))
    else:
        report = query_ledger(config, lambda records: load_cost_report(records, options.by, since, now, limit=limit))
    if report.has_more:
        # On stderr, so that JSON on stdout stays valid.
        which = "earlier days" if options.by is CostGrouping.DAY else f"cheaper {options.by}s"
        sys.stderr.write(f"{which} are only in the total; see: foxcast costs --by {options.by} --all\n")
    if options.as_json:
        print_json(cost_report_to_json(report))
    else:
        print_cost_report(stdout_console(), report)


async def load_backtest_costs(
    config: Config, by: CostGrouping, since: date | None, now: datetime, *, limit: int | None = None
) -> CostReport:
    """Load the costs of backtests; raises NotFoundError if none of them called a model yet."""
    folder = config.state / LAB_FOLDER
    if not (folder / LEDGER_FILE).exists():
        message = f"there is no ledger at {folder / LEDGER_FILE} yet; no backtest has called a model"
        raise NotFoundError(message)
    async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
        records = ReadOnlyState(config=config, folder=folder, ledger=ledger)
        return await load_cost_report(records, by, since, now, limit=limit)
