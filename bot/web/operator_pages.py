"""Signing in, and the three things that a person may do here: halt everything, approve, and reject.

A request goes to the daemon as it does from the commands: as a signed file in the state folder. The halt is first the
stop file, which holds without a daemon too.
"""

import asyncio
from dataclasses import replace
from typing import TypeVar
from urllib.parse import parse_qs

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bot.core.errors import NotFoundError, StoreError
from bot.core.operator_requests import AnswerApproval, HaltSubmissions
from bot.core.redaction import redact_message
from bot.execution.gate.access_control import PrivilegedAction, make_request_proof
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch, signed_reason
from bot.store.database import find_running_holder
from bot.store.permissions import find_approval
from bot.store.requests import request_text, send_request
from bot.web.access import (
    LOGIN_PATH,
    SESSION_S,
    WebSession,
    cookie_name,
    form_objection,
    origin_objection,
)
from bot.web.page_context import DashboardContext, may_act
from bot.web.page_rendering import PAGE_HEADERS

log = structlog.get_logger(__name__)

MAX_FORM_BYTES = 10_000
MAX_REASON_CHARS = 200
# The daemon is given this long before the page says that the request waits.
ANSWER_WAIT_S, POLL_S = 3.0, 0.1
RequestT = TypeVar("RequestT", HaltSubmissions, AnswerApproval)


class FormRefusedError(Exception):
    """A form is refused; the message says why."""


async def show_login(context: DashboardContext, request: Request) -> Response:
    """Answer with the form for signing in."""
    return await context.respond(request, "login.html", {"fault": ""})


async def sign_in(context: DashboardContext, request: Request) -> Response:
    """Begin a session for a known token and answer with the first page, or with the form again."""
    if reason := origin_objection(request):
        raise FormRefusedError(reason)
    form = await _read_form(request)
    given = form.get("token", "").strip()
    cookie = await context.sessions.sign_in(given, server_token=context.token, ledger=context.state.ledger)
    if cookie is None:
        fault = "The token is unknown: it was mistyped or revoked."
        return await context.respond(request, "login.html", {"fault": fault}, status=403)
    response = RedirectResponse("/", 303, dict(PAGE_HEADERS))
    response.set_cookie(
        cookie_name(request),
        cookie,
        max_age=int(SESSION_S),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


async def sign_out(context: DashboardContext, request: Request) -> Response:
    """End the session."""
    await _require_form(context, request)
    context.sessions.sign_out(request.cookies.get(cookie_name(request)))
    response = RedirectResponse("/", 303, dict(PAGE_HEADERS))
    response.delete_cookie(cookie_name(request), path="/")
    return response


async def halt_all(context: DashboardContext, request: Request) -> Response:
    """Halt all submissions: by the stop file at once, and by a request that cancels resting orders."""
    session, form = await _require_form(context, request)
    # A command on this machine needs no token for a halt; a page that others can reach does.
    _require_role(session, PrivilegedAction.REJECT)
    reason = redact_message(" ".join(form.get("reason", "").split()))[:MAX_REASON_CHARS]
    if not reason:
        message = "give a reason in a few words"
        raise FormRefusedError(message)
    await asyncio.to_thread(
        engage_kill_switch, context.state.config.state / STOP_FILE, signed_reason(reason, session.name)
    )
    now = context.state.clock.now()
    try:
        await _send(context, HaltSubmissions(by=session.name, asked_at=now, reason=reason))
    except StoreError as error:
        log.warning("a halt was not recorded", error=str(error))
    context.state.health.forget()
    session.notice = ("Everything is halted. Resume with: foxcast resume", "bad")
    return RedirectResponse("/", 303, dict(PAGE_HEADERS))


async def approve(context: DashboardContext, request: Request) -> Response:
    """Approve a submission that waits for it."""
    return await _answer(context, request, approved=True)


async def reject(context: DashboardContext, request: Request) -> Response:
    """Reject a submission that waits for approval."""
    return await _answer(context, request, approved=False)


async def _answer(context: DashboardContext, request: Request, *, approved: bool) -> Response:
    session, form = await _require_form(context, request)
    _require_role(session, PrivilegedAction.APPROVE if approved else PrivilegedAction.REJECT)
    if find_running_holder(context.state.folder) is None:
        message = "no daemon runs that could handle it; start it with: foxcast run"
        raise FormRefusedError(message)
    given = form.get("approval", "")
    found = await context.state.ledger.permissions.read(lambda database: find_approval(database, given))
    if found.id != given:
        message = f"no approval {given}"
        raise NotFoundError(message)
    now = context.state.clock.now()
    answer = AnswerApproval(by=session.name, asked_at=now, approval=given, approved=approved)
    handled = await _send(context, replace(answer, proof=make_request_proof(session.key, request_text(answer))))
    context.state.health.forget()
    word = "approved" if approved else "rejected"
    session.notice = (handled or f"The submission will be {word}: the daemon has the request.", "")
    return RedirectResponse("/", 303, dict(PAGE_HEADERS))


async def _send(context: DashboardContext, request: RequestT) -> str:
    """Send a request to the daemon and return what it answered in time, "" if it has not handled it yet.

    Raises FormRefusedError with the reason of the daemon.
    """
    folder, clock = context.state.folder, context.state.clock
    path = await asyncio.to_thread(send_request, folder, request, at=request.asked_at)
    for _ in range(int(ANSWER_WAIT_S / POLL_S)):
        for event in await context.state.ledger.events.recent(20, "request"):
            _, is_refused, reason = event.text.partition(f"{path.name}: ")
            if is_refused:
                raise FormRefusedError(reason)
            if event.text.endswith(f" [{path.stem}]"):
                return event.text.removesuffix(f" [{path.stem}]")
        await clock.sleep(POLL_S)
    return ""


async def _require_form(context: DashboardContext, request: Request) -> tuple[WebSession, dict[str, str]]:
    form, session = await _read_form(request), await context.find_session(request)
    reason = form_objection(request, session, form.get("csrf", ""))
    if reason is not None or session is None:
        raise FormRefusedError(reason or "sign in first")
    return session, form


def _require_role(session: WebSession, action: PrivilegedAction) -> None:
    if not may_act(session, action):
        message = f"{action} needs the token of an operator or approver; sign in at {LOGIN_PATH}"
        raise FormRefusedError(message)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form by name; raises FormRefusedError for a body that is none, or too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        message = "this is not one of our forms"
        raise FormRefusedError(message)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            message = "the form is too long"
            raise FormRefusedError(message)
    try:
        fields = parse_qs(bytes(body).decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict")
    except ValueError as error:
        message = "the form cannot be read"
        raise FormRefusedError(message) from error
    return {name: values[-1] for name, values in fields.items()}
