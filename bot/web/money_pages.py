"""Money: what each account holds and gained with the caps in use, and what models cost."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from bot.config.venue_schema import CapsSection
from bot.core.permissions import CapUsage
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode
from bot.core.trading_profit import EquityReading
from bot.evaluation.account_holdings import AccountHoldings, load_portfolio
from bot.evaluation.cost_report import BudgetStatus, load_today_costs
from bot.evaluation.value_text import format_number, format_usd
from bot.store.cap_usage import CapUsageScope
from bot.store.cost_totals import CostGrouping, CostRow
from bot.web.page_context import DashboardContext
from bot.web.question_list_page import parse_choice
from bot.web.svg_charts import ChartSeries, draw_bars, draw_chart, draw_meter, number_axis, time_axis

MAX_POSITIONS, MAX_MARKETS, MAX_GROUPS = 100, 30, 15
MAX_POINTS = 600
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
PORTFOLIO_KEPT_S, COSTS_KEPT_S = 20.0, 60.0


class CostPeriod(StrEnum):
    """The days whose calls count."""

    WEEK = "7"
    MONTH = "30"
    QUARTER = "90"
    ALL = "all"


async def show_portfolio(context: DashboardContext, request: Request) -> Response:
    """Answer with the holdings of all accounts."""
    now = context.state.clock.now()
    held = await context.keep(
        ("portfolio",), lambda: load_portfolio(context.records, None, now), kept_s=PORTFOLIO_KEPT_S
    )
    values = {"accounts": [await _account_values(context, one) for one in held]}
    return await context.respond(request, "portfolio.html", values, live=True)


async def _account_values(context: DashboardContext, one: AccountHoldings) -> Mapping[str, Any]:
    config, now = context.state.config, context.state.clock.now()
    paper = one.mode is ExecutionMode.PAPER
    scope = CapUsageScope(ref=QuestionRef(one.venue, "-"), account=one.name, paper=paper)
    usage = await context.state.ledger.permissions.usage(scope, now=now)
    readings = await context.state.ledger.readings.since(one.venue, one.name, _BEGINNING, paper=paper)
    markets = sorted(one.profit.markets, key=lambda market: -abs(market.gain))
    return {
        "held": one,
        "currency": "" if one.account is None else one.account.currency,
        "chart": _draw_equity(one, readings),
        "caps": [*_cap_rows(config.venues[one.venue].caps, usage)],
        "positions": sorted(one.positions, key=lambda held: -held.position.paid)[:MAX_POSITIONS],
        "markets": [(market, one.titles.get(market.ref, "")) for market in markets[:MAX_MARKETS]],
    }


def _draw_equity(one: AccountHoldings, readings: Sequence[EquityReading]) -> Markup | None:
    # A paper book begins with its capital, before its first reading.
    known = [*((point.at, point.equity) for point in one.points[:1]), *((point.at, point.equity) for point in readings)]
    if len(known) < 2:
        return None
    step = -(-len(known) // MAX_POINTS)
    points = [*known[::step], known[-1]]
    series = ChartSeries(name="equity", points=[(at.timestamp(), equity) for at, equity in points], style="s1")
    return draw_chart(
        [series],
        label=f"Equity at {one.venue} over time",
        x_axis=time_axis([at for at, _ in points]),
        y_axis=number_axis([equity for _, equity in points]),
        height=180,
    )


def _cap_rows(caps: CapsSection, usage: CapUsage) -> Iterator[Mapping[str, Any]]:
    used = {
        "total": ("at stake", usage.total),
        "per_day": ("ordered today", usage.day),
        "orders_per_hour": ("orders in the last hour", float(usage.hour)),
        "daily_loss": ("lost today", usage.lost_today),
        "drawdown": ("below the highest value", usage.drawdown),
    }
    for name, (text, amount) in used.items():
        limit = getattr(caps, name)
        if limit is None:
            continue
        share = amount / limit if limit else float(amount > 0)
        yield {
            "name": text,
            "text": f"{format_number(amount)} of {format_number(float(limit))}",
            "meter": draw_meter(share, label=f"{share:.0%} of {name} is used"),
        }


async def show_costs(context: DashboardContext, request: Request) -> Response:
    """Answer with what models cost, by day and by group."""
    period = parse_choice(CostPeriod, request.query_params.get("days")) or CostPeriod.MONTH
    calls, now = context.state.ledger.calls, context.state.clock.now()
    since = None if period is CostPeriod.ALL else now - timedelta(days=int(period))

    async def load() -> Mapping[CostGrouping, Sequence[CostRow]]:
        shown = (CostGrouping.DAY, CostGrouping.MODEL, CostGrouping.FORECASTER, CostGrouping.VENUE, CostGrouping.ROLE)
        return {by: await calls.costs(by, since=since) for by in shown}

    found = await context.keep(("costs", period), load, kept_s=COSTS_KEPT_S)
    days = found[CostGrouping.DAY]
    today = await load_today_costs(context.records, now)
    values = {
        "period": period.value,
        "periods": [(one.value, "All" if one is CostPeriod.ALL else f"{one.value} days") for one in CostPeriod],
        "total": sum(row.usage.cost_usd for row in days),
        "calls": sum(row.calls for row in days),
        "failed": sum(row.failed for row in days),
        "tokens": sum(row.usage.tokens_in + row.usage.tokens_out for row in days),
        "chart": draw_bars(
            [(row.name, row.usage.cost_usd) for row in days[-90:]], label="US dollars of model calls by day"
        ),
        "groups": [
            (by.value, [*rows[:MAX_GROUPS]], len(rows) - MAX_GROUPS)
            for by, rows in found.items()
            if by is not CostGrouping.DAY
        ],
        "budgets": [budget_row(one) for one in today.budgets],
        "demoted": today.demoted,
    }
    return await context.respond(request, "costs.html", values)


def budget_row(budget: BudgetStatus) -> Mapping[str, Any]:
    """Return what was spent of a budget of today, with a meter where it has a limit."""
    if budget.limit_usd is None:
        return {"what": budget.what, "text": f"{format_usd(budget.spent_usd)} USD, no limit", "meter": None}
    text = f"{format_usd(budget.spent_usd)} of {format_usd(budget.limit_usd)} USD"
    share = budget.spent_usd / budget.limit_usd if budget.limit_usd else 1.0
    meter = draw_meter(share, label=f"{share:.0%} of the budget of {budget.what} is used")
    return {"what": budget.what, "text": text, "meter": meter}
