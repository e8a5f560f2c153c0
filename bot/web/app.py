"""The application that the server runs: the dashboard, `/healthz`, `/healthz/live`, `/healthz/ready` and `/metrics`.

``bot.web.access`` decides who may read what.
"""

from collections.abc import Collection, Sequence

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.alerts.conditions import find_degradations
from bot.alerts.health_snapshot import HealthSnapshot
from bot.core.errors import StoreError
from bot.core.redaction import redact_foreign_message
from bot.store.heartbeat import DaemonCondition
from bot.web.access import AccessGate, SessionStore
from bot.web.api import JsonApi
from bot.web.dashboard import dashboard_routes
from bot.web.live_updates import UpdateStreams
from bot.web.watched_state import WatchedState

log = structlog.get_logger(__name__)

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def create_web_app(
    state: WatchedState, *, token: str | None, hosts: Collection[str] = (), api: JsonApi | None = None
) -> Starlette:
    """Return the application; ``token`` is what every request must carry, None for any program of this machine.

    ``hosts`` are further names of the server. The ``api`` checks the tokens of its callers itself.
    ``state.close_streams`` of the application is to be called before the server ends: pages that follow the daemon
    would keep it waiting.
    """
    sessions, streams = SessionStore(state.clock), UpdateStreams(state.folder, state.config.state, state.clock)
    gate = Middleware(AccessGate, token=token, sessions=sessions, hosts=frozenset(hosts))
    pages = dashboard_routes(state, sessions, streams, token=token)
    app = Starlette(routes=[*(api.routes() if api else ()), *health_routes(state), *pages], middleware=[gate])
    app.state.close_streams = streams.close
    return app


def health_routes(state: WatchedState) -> Sequence[Route]:
    """Return the routes of health and metrics."""

    async def show_ready(_: Request) -> Response:
        return await _respond_ready(state)

    async def show_live(_: Request) -> Response:
        return await _respond_live(state)

    async def show_metrics(_: Request) -> Response:
        from bot.web.metrics import CONTENT_TYPE, render_metrics  # noqa: PLC0415 - loaded with the first request

        return Response(render_metrics(await state.metrics.get()), media_type=CONTENT_TYPE, headers=_HEADERS)

    return (
        Route("/healthz", show_ready),
        Route("/healthz/ready", show_ready),
        Route("/healthz/live", show_live),
        Route("/metrics", show_metrics),
    )


async def _respond_ready(state: WatchedState) -> Response:
    """Answer 200 if all is well, 503 with the reasons if not."""
    try:
        snapshot = await state.health.get()
    except StoreError as error:
        return _json({"status": "degraded", "problems": [{"condition": "ledger", "text": str(error)}]}, 503)
    problems = [
        {
            "condition": one.rule.name,
            "subject": one.finding.subject,
            "level": one.rule.level.value,
            "text": redact_foreign_message(one.text),
        }
        for one in find_degradations(snapshot)
    ]
    if snapshot.daemon.condition is DaemonCondition.ONCE:
        return _json({"status": "starting", "problems": problems}, 503)
    return _json({"status": "degraded" if problems else "healthy", "problems": problems}, 503 if problems else 200)


async def _respond_live(state: WatchedState) -> Response:
    """Answer 200 while the daemon works at all: a supervisor may restart one that does not."""
    try:
        snapshot = await state.health.get()
    except StoreError as error:
        log.warning("health cannot be read", error=str(error))
        return _json({"status": "live"}, 200)
    live = snapshot.daemon.condition in {DaemonCondition.RUNNING, DaemonCondition.ONCE}
    return _json({"status": "live" if live else "silent", **_heartbeat_fields(snapshot)}, 200 if live else 503)


def _heartbeat_fields(snapshot: HealthSnapshot) -> dict[str, float]:
    beat = snapshot.daemon.heartbeat
    return {} if beat is None else {"heartbeat_age_s": round((snapshot.now - beat.at).total_seconds(), 1)}


def _json(content: dict[str, object], status: int) -> JSONResponse:
    return JSONResponse(content, status, _HEADERS)
