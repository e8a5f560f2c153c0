"""The routes of the dashboard: its pages, and the files that they load, all from the package."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.core.errors import NotFoundError, StoreError
from bot.web.access import LOGIN_PATH, SessionStore
from bot.web.live_updates import UpdateStreams
from bot.web.money_pages import show_costs, show_portfolio
from bot.web.now_page import show_now
from bot.web.operator_pages import FormRefusedError, approve, halt_all, reject, show_login, sign_in, sign_out
from bot.web.page_context import EVENTS_PATH, DashboardContext, PageRequestError
from bot.web.page_rendering import PAGE_HEADERS
from bot.web.question_list_page import show_questions
from bot.web.question_page import show_question
from bot.web.record_pages import show_audit, show_jobs
from bot.web.watched_state import WatchedState

log = structlog.get_logger(__name__)

ASSET_FOLDER = Path(__file__).parent / "assets"
ASSET_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def _show_forecasters(context: DashboardContext, request: Request) -> Response:
    from bot.web.score_page import show_forecasters  # noqa: PLC0415 - numpy, which most servers never need

    return await show_forecasters(context, request)


PageHandler = Callable[[DashboardContext, Request], Awaitable[Response]]
_HANDLERS: Mapping[str, PageHandler] = {
    "/": show_now,
    "/questions": show_questions,
    "/question": show_question,
    "/forecasters": _show_forecasters,
    "/portfolio": show_portfolio,
    "/costs": show_costs,
    "/audit": show_audit,
    "/jobs": show_jobs,
    LOGIN_PATH: show_login,
}
_FORMS: Mapping[str, PageHandler] = {
    LOGIN_PATH: sign_in,
    "/logout": sign_out,
    "/halt": halt_all,
    "/approve": approve,
    "/reject": reject,
}


def dashboard_routes(
    state: WatchedState, sessions: SessionStore, streams: UpdateStreams, *, token: str | None
) -> Sequence[Route]:
    """Return the routes of all pages; ``token`` is that of the server."""
    files = {path.name: path.read_bytes() for path in sorted(ASSET_FOLDER.iterdir()) if path.suffix in ASSET_TYPES}
    context = DashboardContext(
        state=state,
        sessions=sessions,
        token=token,
        version=version("foxcast"),
        assets=sha256(b"".join(files.values())).hexdigest()[:12],
    )
    pages = [Route(path, partial(_show_page, context, handler)) for path, handler in _HANDLERS.items()]
    forms = [Route(path, partial(_show_page, context, one), methods=["POST"]) for path, one in _FORMS.items()]
    return [*pages, *forms, Route(EVENTS_PATH, streams.respond), Route("/assets/{name}", partial(_send_asset, files))]


async def _show_page(context: DashboardContext, handler: PageHandler, request: Request) -> Response:
    try:
        async with context.renderings:
            return await handler(context, request)
    except PageRequestError as error:
        return await _show_message(context, request, "This page is unknown", str(error), 400)
    except FormRefusedError as error:
        return await _show_message(context, request, "Refused", str(error), 403)
    except NotFoundError as error:
        return await _show_message(context, request, "Not found", str(error), 404)
    except StoreError as error:
        log.warning("a page cannot be shown", page=request.url.path, error=str(error))
        return await _show_message(context, request, "The ledger cannot be read", str(error), 503)


async def _show_message(context: DashboardContext, request: Request, heading: str, text: str, status: int) -> Response:
    return await context.respond(request, "message.html", {"heading": heading, "text": text}, status=status)


async def _send_asset(files: Mapping[str, bytes], request: Request) -> Response:
    name = request.path_params["name"]
    if name not in files:
        return Response("not found\n", 404, dict(PAGE_HEADERS), "text/plain")
    # The address has the digest of the content.
    headers = {**PAGE_HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    return Response(files[name], 200, headers, ASSET_TYPES[Path(name).suffix])
