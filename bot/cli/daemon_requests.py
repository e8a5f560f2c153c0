"""Requests to the daemon: their author and proof, sending them, and waiting for the answer.

Privileged requests (arm, halt, approve, ...) are executed by the running daemon, or directly on the ledger.
"""

import asyncio
import os
import pwd
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from bot.config.schema import Config
from bot.config.secrets import read_api_token
from bot.core.clock import SystemClock
from bot.core.errors import AuthenticationError, RequestRejectedError, StateFolderLockedError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import (
    ClosePositions,
    ForecastQuestion,
    PrivilegedRequest,
    SignedRequest,
    UnlockQuestion,
)
from bot.core.permissions import UserRole
from bot.execution.gate.access_control import (
    REQUIRED_ROLES,
    find_token_owner,
    hash_token,
    make_request_proof,
    require_role,
)
from bot.execution.gate.execution_policy import venue_policies
from bot.execution.gate.kill_switch import STOP_FILE
from bot.plugin_system.registry import Registry
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE, open_ledger, open_ledger_read_only, state_folder
from bot.store.permissions import PrincipalRecord
from bot.store.requests import REFUSED_FOLDER, request_text, send_request

Q = TypeVar("Q", UnlockQuestion, ForecastQuestion, ClosePositions)
T = TypeVar("T", bound=SignedRequest)

POLL_EVERY_S = 0.2
# The daemon may take this long for a request, in addition to the interval at which it looks for requests.
EXTRA_WAIT_S = 10.0
MAX_EVENTS_READ = 100
MAX_ANSWER_READS = 10

TokenFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file (mode 600) with your token; default: FOXCAST_TOKEN.")
]


@dataclass(frozen=True, slots=True)
class RequestAuthor:
    """The author of a request: name, role, and the key that proves it, "" while nobody has a token."""

    name: str
    role: UserRole | None
    key: str = ""


def submit_request(
    config: Config,
    registry: Registry,
    make_request: Callable[[str, datetime], PrivilegedRequest],
    *,
    token_file: Path | None,
) -> str:
    """Make a request in the name of the caller, have it executed, and return the result as text.

    Raises AuthenticationError for a caller without the role, RequestRejectedError and NotFoundError for a request that
    cannot be executed.
    """
    return asyncio.run(_submit_request(config, registry, make_request, token_file))


async def _submit_request(
    config: Config,
    registry: Registry,
    make_request: Callable[[str, datetime], PrivilegedRequest],
    token_file: Path | None,
) -> str:
    folder, clock = state_folder(config), SystemClock()
    author = _identify_author(await _load_principals(folder), read_api_token(token_file))
    request = _add_proof(author, make_request(author.name, clock.now()))
    try:
        return await _execute_locally(config, registry, request, folder)
    except StateFolderLockedError:
        return await _send_to_daemon(config, request, folder)


async def _execute_locally(config: Config, registry: Registry, request: PrivilegedRequest, folder: Path) -> str:
    from bot.jobs.privileged_requests import PrivilegedRequestContext, handle_privileged_request

    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        context = PrivilegedRequestContext(
            ledger=ledger,
            clock=clock,
            stop_file=config.state / STOP_FILE,
            execution_policies=venue_policies(config, registry.specs_of_table),
            trading_venues=trading_venues(registry),
            withdrawal_venues=withdrawal_venues(registry),
            folder=folder,
        )
        return await handle_privileged_request(context, request)


async def _send_to_daemon(config: Config, request: PrivilegedRequest, folder: Path) -> str:
    """Send the request to the process that holds the ledger, and wait some time for its answer."""
    clock = SystemClock()
    path = send_request(folder, request, at=request.asked_at)
    if await wait_until_handled(path, limit_s=config.daemon.requests_every_s + EXTRA_WAIT_S, clock=clock):
        return await _read_daemon_answer(folder, path, clock)
    return f"{request.kind} requested; the process that uses {folder} has not handled it yet"


async def wait_until_handled(request: Path, *, limit_s: float, clock: Clock) -> bool:
    """Wait until the daemon has handled a request; return False if the request is still waiting after the limit."""
    for _ in range(int(limit_s / POLL_EVERY_S)):
        if not is_pending(request):
            return True
        await clock.sleep(POLL_EVERY_S)
    return False


def is_pending(request: Path) -> bool:
    """Return whether a request still waits for the daemon."""
    return request.exists()


async def read_refusal(folder: Path, request: Path, clock: Clock) -> str | None:
    """Return why the daemon refused a request; None if it was not refused."""
    refused = request.parent / REFUSED_FOLDER / request.name
    if not is_pending(refused):
        return None
    # The reason is recorded right after the request is moved.
    for _ in range(MAX_ANSWER_READS):
        for text in await _read_request_events(folder):
            _, found, reason = text.partition(f"{request.name}: ")
            if found:
                return reason
        await clock.sleep(POLL_EVERY_S)
    return f"no reason recorded; look into {refused}"


async def _read_daemon_answer(folder: Path, request: Path, clock: Clock) -> str:
    if (reason := await read_refusal(folder, request, clock)) is not None:
        raise RequestRejectedError(reason)
    # The answer is recorded right after the request is deleted.
    suffix = f" [{request.stem}]"
    for _ in range(MAX_ANSWER_READS):
        for text in await _read_request_events(folder):
            if text.endswith(suffix):
                return text.removesuffix(suffix)
        await clock.sleep(POLL_EVERY_S)
    return "done"


async def _read_request_events(folder: Path) -> list[str]:
    async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
        return [event.text for event in await ledger.events.recent(MAX_EVENTS_READ, "request")]


async def sign_request(folder: Path, request: Q, *, token_file: Path | None) -> Q:
    """Return a request in the name of the caller, with the proof; raises AuthenticationError without the role."""
    author = _identify_author(await _load_principals(folder), read_api_token(token_file))
    return _add_proof(author, replace(request, by=author.name, asked_at=SystemClock().now()))


def _add_proof(author: RequestAuthor, request: T) -> T:
    from bot.jobs.privileged_requests import requested_action

    action = requested_action(request)
    if REQUIRED_ROLES[action] is not None and author.role is None:
        message = f"{action} needs a token: set FOXCAST_TOKEN, or name a file with --token-file"
        raise AuthenticationError(message)
    require_role(author.role, action, who=author.name)
    return replace(request, proof=make_request_proof(author.key, request_text(request))) if author.key else request


def trading_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues that take orders."""
    return frozenset(spec.name for spec in registry.venues if spec.planner is not None)


def withdrawal_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues at which a forecast can be withdrawn."""
    return frozenset(spec.name for spec in registry.venues if spec.withdraws)


def terminal_user() -> str:
    """Return the name of the user of this system who runs the command."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


async def _load_principals(folder: Path) -> Sequence[PrincipalRecord]:
    path = folder / LEDGER_FILE
    if not path.exists():
        return ()
    async with open_ledger_read_only(path) as opened:
        return await opened.permissions.principals()


def _identify_author(principals: Sequence[PrincipalRecord], token: str | None) -> RequestAuthor:
    """Return the author of a request; while nobody has a token, the user of the terminal is an approver."""
    if not principals:
        return RequestAuthor(terminal_user(), UserRole.APPROVER)
    if token is None:
        return RequestAuthor(terminal_user(), None)
    owner = find_token_owner(token, principals)
    return RequestAuthor(owner.name, owner.role, hash_token(token, owner.salt).hash)
