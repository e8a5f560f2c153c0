"""The record: the audit of permissions and submissions, and the jobs of the daemon with alerts and events."""

from starlette.requests import Request
from starlette.responses import Response

from bot.core.redaction import redact_foreign_message
from bot.web.page_context import DashboardContext, PageRequestError
from bot.web.page_rendering import page_link

AUDIT_ROWS, ALERT_ROWS, EVENT_ROWS = 100, 40, 60


async def show_audit(context: DashboardContext, request: Request) -> Response:
    """Answer with a page of the audit, newest first."""
    permissions, text = context.state.ledger.permissions, request.query_params.get("before")
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 16):
        message = "before should be the number of a row"
        raise PageRequestError(message)
    rows = await permissions.recent_audit_rows(limit=AUDIT_ROWS + 1, before=None if text is None else int(text))
    shown = rows[:AUDIT_ROWS]
    values = {
        "rows": [(row, ", ".join(f"{name} {value}" for name, value in row.body.items() if value)) for row in shown],
        "head": await permissions.head(),
        "first_link": "/audit" if text is not None else None,
        "next_link": page_link("/audit", before=shown[-1].seq) if len(rows) > AUDIT_ROWS else None,
    }
    return await context.respond(request, "audit.html", values)


async def show_jobs(context: DashboardContext, request: Request) -> Response:
    """Answer with the jobs of the daemon, its alerts and the channels that deliver them, and the newest events."""
    ledger = context.state.ledger
    snapshot = await context.state.health.get()
    values = {
        "jobs": [
            (job, redact_foreign_message(job.last.detail), (job.last.ended_at - job.last.started_at).total_seconds())
            for job in snapshot.ledger.jobs.values()
        ],
        "open_alerts": await ledger.alerts.open_alerts(),
        "alerts": await ledger.alerts.recent(ALERT_ROWS),
        "channels": snapshot.ledger.channels,
        "events": await ledger.events.recent(EVENT_ROWS),
    }
    return await context.respond(request, "jobs.html", values, live=True)
