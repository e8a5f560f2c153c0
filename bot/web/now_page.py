"""The first page: what runs and is due, what was forecast and held, health of venues and models, and spend today."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bot.alerts.conditions import DISCOVERY_PREFIX, BrokenCondition, find_conditions
from bot.alerts.health_snapshot import HealthSnapshot
from bot.core.redaction import redact_foreign_message
from bot.core.submissions import ExecutionMode
from bot.evaluation.cost_report import load_today_costs
from bot.evaluation.value_text import format_percent
from bot.store.heartbeat import DaemonCondition
from bot.store.metrics_queries import CallMetrics, read_call_metrics
from bot.store.overview_queries import ROWS_SHOWN, read_work_overview
from bot.store.question_pages import QuestionPageRequest, read_question_page
from bot.web.money_pages import budget_row
from bot.web.page_context import DashboardContext
from bot.web.page_rendering import describe_distance
from bot.web.question_cells import question_cells

MODEL_PERIOD = timedelta(days=1)
_RUNS = {DaemonCondition.RUNNING, DaemonCondition.ONCE}


async def show_now(context: DashboardContext, request: Request) -> Response:
    """Answer with the page."""
    ledger, now = context.state.ledger, context.state.clock.now()
    readers = ledger.events.readers
    snapshot = await context.state.health.get()
    work = await readers.run(read_work_overview)
    made = await readers.run(
        lambda database: read_question_page(database, QuestionPageRequest(now=now, limit=ROWS_SHOWN))
    )
    calls = await readers.run(lambda database: read_call_metrics(database, now - MODEL_PERIOD))
    today = await load_today_costs(context.records, now)
    conditions = find_conditions(snapshot)
    problems = [one for one in conditions if one.rule.degrades]
    values = {
        "level": "bad" if problems else "good" if snapshot.daemon.condition in _RUNS else "",
        "daemon_text": _daemon_text(snapshot),
        "problems": [_redacted(one) for one in problems],
        "questions": await ledger.questions.count(),
        "forecasts": await ledger.forecasts.count(),
        "schedule": await ledger.schedule.counts(now),
        "approvals": [one for one in snapshot.ledger.approvals if one.expires_at > now],
        "work": work,
        "made": [question_cells(context, one) for one in made.questions],
        "venues": [*_venue_rows(snapshot, conditions)],
        "models": [*_model_rows(calls, snapshot)],
        "budgets": [budget_row(one) for one in today.budgets],
        "stop_reason": snapshot.stop_file,
    }
    return await context.respond(request, "now.html", values, live=True)


def _daemon_text(snapshot: HealthSnapshot) -> str:
    daemon = snapshot.daemon
    beat = daemon.heartbeat
    match daemon.condition:
        case DaemonCondition.RUNNING | DaemonCondition.ONCE if snapshot.running_since is not None:
            started = describe_distance(snapshot.running_since, snapshot.now)
            return f"{daemon.condition.value.capitalize()}, started {started}"
        case _:
            last = "" if beat is None else f", last sign of life {describe_distance(beat.at, snapshot.now)}"
            return f"{daemon.condition.value.capitalize()}{last}"


def _redacted(one: BrokenCondition) -> Mapping[str, Any]:
    return {"rule": one.rule, "text": redact_foreign_message(one.text)}


def _venue_rows(snapshot: HealthSnapshot, conditions: Sequence[BrokenCondition]) -> Iterator[Mapping[str, str]]:
    broken = {one.finding.subject for one in conditions if one.rule.name == "venue"}
    for name in snapshot.config.venues:
        mode = snapshot.config.mode_of(name)
        job = snapshot.ledger.jobs.get(f"{DISCOVERY_PREFIX}{name}")
        level, text = "calm", "not read yet"
        if mode is ExecutionMode.OFF:
            text = "off"
        elif job is not None:
            level = "bad" if name in broken or not job.last.ok else "good"
            read = (
                "never read"
                if job.last_success is None
                else f"read {describe_distance(job.last_success, snapshot.now)}"
            )
            text = read if level == "good" else f"{read}; {redact_foreign_message(job.last.detail)[:120]}"
        yield {"name": name, "mode": mode.value, "level": level, "text": text}


def _model_rows(calls: Sequence[CallMetrics], snapshot: HealthSnapshot) -> Iterator[Mapping[str, str]]:
    demoted = {one.model for one in snapshot.ledger.demotions}
    for name in sorted({one.model for one in calls}):
        own = [one for one in calls if one.model == name]
        count = sum(one.calls for one in own)
        failed = sum(one.calls for one in own if one.state in {"failed", "lost"})
        timed = sum(one.timed for one in own)
        mean_s = sum(one.latency_s for one in own) / timed if timed else 0.0
        share = failed / count
        level = "bad" if name in demoted or share > 0.5 else "warm" if share > 0.1 else "good"
        text = f"{count:,} calls, {format_percent(share)} failed, {mean_s:.1f} s"
        yield {"name": name, "level": level, "text": f"{text}, replaced for now" if name in demoted else text}
