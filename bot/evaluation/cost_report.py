"""Costs of models by group, and today's budgets."""

from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, date, datetime, time

from bot.config.schema import Config
from bot.core.beliefs import ModelUsage
from bot.core.light_dataclass import dataclass
from bot.store.cost_totals import CostGrouping, CostRow, UnansweredCallCosts
from bot.store.ledger import ReadOnlyState
from bot.store.model_calls import ModelDemotion, ScopeSpending


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """A budget of today in US dollars: its limit, None for no limit, and the amount spent or reserved."""

    what: str
    limit_usd: float | None
    spent_usd: float

    @property
    def left_usd(self) -> float | None:
        """The amount that may still be spent today; None without a limit."""
        return None if self.limit_usd is None else max(0.0, self.limit_usd - self.spent_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayCosts:
    """Today's budgets, that of all models first, and the models that are replaced for some time."""

    budgets: tuple[BudgetStatus, ...]
    demoted: tuple[ModelDemotion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Costs by group; ``total`` includes groups that a limit left out, ``losses`` counts calls without an answer."""

    by: CostGrouping
    since: date | None
    rows: tuple[CostRow, ...]
    has_more: bool
    total: CostRow
    today: TodayCosts
    losses: UnansweredCallCosts = field(default_factory=UnansweredCallCosts)


async def load_cost_report(
    records: ReadOnlyState, by: CostGrouping, since: date | None, now: datetime, *, limit: int | None = None
) -> CostReport:
    """Load the costs since a day, of the most expensive groups or the last days up to a limit, and those of today."""
    calls, start = records.ledger.calls, None if since is None else start_of_day(since)
    found = await calls.costs(by, since=start, limit=None if limit is None else limit + 1)
    has_more = limit is not None and len(found) > limit
    rows = found[1:] if by is CostGrouping.DAY else found[:-1]
    return CostReport(
        by=by,
        since=since,
        rows=tuple(rows if has_more else found),
        has_more=has_more,
        # A forecast may use several models on two days: it is in several rows, and counts once.
        total=_sum_rows(await calls.costs(CostGrouping.MODEL, since=start), await calls.count_forecasts(since=start)),
        today=await load_today_costs(records, now),
        losses=await calls.unanswered_costs(since=start),
    )


def _sum_rows(rows: Sequence[CostRow], forecasts: int) -> CostRow:
    answered = [(row.calls - row.failed, row.latency_s) for row in rows]
    count = sum(calls for calls, _ in answered)
    return CostRow(
        name="total",
        forecasts=forecasts,
        calls=sum(row.calls for row in rows),
        failed=sum(row.failed for row in rows),
        attempts=sum(row.attempts for row in rows),
        usage=sum((row.usage for row in rows), ModelUsage()),
        latency_s=sum(calls * latency for calls, latency in answered) / count if count else 0.0,
    )


async def load_today_costs(records: ReadOnlyState, now: datetime) -> TodayCosts:
    """Load the budgets of today, and the replaced models."""
    spent = await records.ledger.calls.spent(since=start_of_day(now.astimezone(UTC).date()))
    return TodayCosts(
        budgets=tuple(budget_statuses(records.config, spent)),
        demoted=tuple(await records.ledger.model_performance.demotions(now=now)),
    )


def budget_statuses(config: Config, spent: Sequence[ScopeSpending]) -> list[BudgetStatus]:
    """Return today's budgets with the amounts spent: that of all models, and those of providers that have one."""
    total = BudgetStatus(
        what="all models", limit_usd=config.llm.budget.day_usd, spent_usd=sum(one.cost_usd for one in spent)
    )
    providers = [
        BudgetStatus(
            what=name, limit_usd=section.day_usd, spent_usd=sum(o.cost_usd for o in spent if o.provider == name)
        )
        for name, section in sorted(config.llm.providers.items())
        if section.day_usd is not None
    ]
    return [total, *providers]


def start_of_day(on: date) -> datetime:
    """Return when a day begins in UTC."""
    return datetime.combine(on, time(), UTC)
