"""What models cost, on paper: a line for each group, the total, what is left today, and who is not asked now."""

from dataclasses import dataclass, field
from datetime import date
from typing import Any

from rich.console import Console

from bot.cli.output.console import Cell, Column, Kind, heading, table
from bot.cli.output.figures import moment, number, usd
from bot.domain.step import Usage
from bot.store.calls import CostBy, CostRow
from bot.store.codec import stamp
from bot.store.conducts import Demotion
from bot.store.losses import Losses

COUNTS = (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A budget of today in US dollars: its limit (None where there is none), and what was spent or is reserved."""

    what: str
    limit_usd: float | None
    spent_usd: float

    @property
    def left_usd(self) -> float | None:
        """What may still be spent today."""
        return None if self.limit_usd is None else max(0.0, self.limit_usd - self.spent_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """How things stand today: the budgets, that of all models first, and the models that are replaced for a while."""

    left: tuple[Left, ...]
    demoted: tuple[Demotion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What was spent: its lines, ``forecasts``, how many forecasts asked models at all, and what brought no answer."""

    by: CostBy
    since: date | None
    rows: tuple[CostRow, ...]
    forecasts: int
    today: Today
    losses: Losses = field(default_factory=Losses)

    @property
    def total(self) -> CostRow:
        """All lines together."""
        answered = [(row.calls - row.failed, row.latency_s) for row in self.rows]
        count = sum(calls for calls, _ in answered)
        return CostRow(
            name="total",
            forecasts=self.forecasts,
            calls=sum(row.calls for row in self.rows),
            failed=sum(row.failed for row in self.rows),
            attempts=sum(row.attempts for row in self.rows),
            usage=sum((row.usage for row in self.rows), Usage()),
            latency_s=sum(calls * latency for calls, latency in answered) / count if count else 0.0,
        )


def print_bill(console: Console, bill: Bill) -> None:
    """Print it for a person."""
    when = "" if bill.since is None else f" since {bill.since}"
    if not bill.rows:
        console.print(f"no model was asked{when}")
    else:
        columns = (Column(bill.by.value), *(Column(name, Kind.NUMBER) for name in COUNTS))
        console.print(table(columns, [_cells(row) for row in (*bill.rows, bill.total)]))
    if bill.losses.calls:
        console.print(losses_in_words(bill.losses))
    heading(console, "Today (UTC)")
    for line in today_in_words(bill.today):
        console.print(line)


def losses_in_words(found: Losses) -> str:
    """Return what was booked for calls that brought nothing, in a line."""
    calls = "1 call" if found.calls == 1 else f"{found.calls:,} calls"
    return (
        f"of this, {found.cost_usd:.4f} USD are the worst case of {calls} that may have been billed and brought no "
        "answer: it was lost on its way, cut off, or could not be read"
    )


def today_in_words(today: Today) -> list[str]:
    """Return how things stand today, a line for each budget and each model that is replaced."""
    demoted = (
        f"{one.model}{f' as {one.role}' if one.role else ''} is replaced until {moment(one.until)} UTC, "
        f"where {'that role' if one.role else 'its role'} has a fallback: {one.why}"
        for one in today.demoted
    )
    return [*map(left_in_words, today.left), *demoted]


def left_in_words(left: Left) -> str:
    """Return how a budget stands, in a line."""
    if left.limit_usd is None or left.left_usd is None:
        return f"{left.what}: {usd(left.spent_usd)} USD spent, no limit"
    return f"{left.what}: {usd(left.spent_usd)} of {usd(left.limit_usd)} USD spent, {usd(left.left_usd)} left"


def as_plain(bill: Bill) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "by": bill.by.value,
        "since": None if bill.since is None else bill.since.isoformat(),
        "rows": [_plain(row) for row in bill.rows],
        "total": _plain(bill.total),
        "unanswered": {"calls": bill.losses.calls, "cost_usd": bill.losses.cost_usd},
        **today_as_plain(bill.today),
    }


def today_as_plain(today: Today) -> dict[str, Any]:
    """Return how things stand today as JSON values."""
    return {
        "today": [
            {"what": left.what, "spent_usd": left.spent_usd, "limit_usd": left.limit_usd, "left_usd": left.left_usd}
            for left in today.left
        ],
        "demoted": [
            {
                "model": one.model,
                "role": one.role or None,
                "at": stamp(one.at),
                "until": stamp(one.until),
                "why": one.why,
            }
            for one in today.demoted
        ],
    }


def _cells(row: CostRow) -> tuple[Cell, ...]:
    usage = row.usage
    return (
        row.name,
        str(row.forecasts),
        str(row.calls),
        str(row.failed),
        str(row.attempts),
        f"{usage.tokens_in:,}",
        f"{_cached(usage):.0%}",
        f"{usage.tokens_out:,}",
        f"{row.latency_s:.1f}",
        f"{usage.cost_usd:.4f}",
        number(_each(row), 4),
    )


def _plain(row: CostRow) -> dict[str, Any]:
    usage = row.usage
    return {
        "name": row.name,
        "forecasts": row.forecasts,
        "calls": row.calls,
        "failed": row.failed,
        "requests": row.attempts,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "cached_share": _cached(usage),
        "tokens_out": usage.tokens_out,
        "mean_latency_s": row.latency_s,
        "cost_usd": usage.cost_usd,
        "usd_per_forecast": _each(row),
    }


def _cached(usage: Usage) -> float:
    return usage.tokens_cached / usage.tokens_in if usage.tokens_in else 0.0


def _each(row: CostRow) -> float | None:
    return row.usage.cost_usd / row.forecasts if row.forecasts else None
