"""Privileged requests (arm, halt, approve, ...).

Who makes them, the proof that goes with them, and how they are carried out: by the running daemon, else at once on
the ledger.
"""

import asyncio
import os
import pwd
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from bot.config.schema import Config
from bot.config.secrets import read_api_token
from bot.core.clock import SystemClock
from bot.core.errors import AuthenticationError, RequestRejectedError, StateFolderLockedError
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
from bot.jobs.privileged_requests import PrivilegedRequestContext, handle_privileged_request, requested_action
from bot.plugin_system.registry import Registry
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE, open_ledger, open_ledger_read_only, state_folder
from bot.store.permissions import PrincipalRecord
from bot.store.requests import REFUSED_FOLDER, request_text, send_request

Q = TypeVar("Q", UnlockQuestion, ForecastQuestion, ClosePositions)
T = TypeVar("T", bound=SignedRequest)

POLL_EVERY_S = 0.2
# Beyond how often the daemon looks for requests, so long it may take over one.
EXTRA_WAIT_S = 10.0
MAX_NOTES_READ = 100

TokenFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file (mode 600) with your token; default: FOXCAST_TOKEN.")
]


@dataclass(frozen=True, slots=True)
class RequestAuthor:
    """Who asks: a name, the role it has, and the key that proves it, "" while nobody has a token."""

    name: str
    role: UserRole | None
    key: str = ""


def submit_request(
    config: Config, registry: Registry, make: Callable[[str, datetime], PrivilegedRequest], *, token_file: Path | None
) -> str:
    """Have done what ``make`` asks for, given who asks and when; return what was done.

    Raises Unauthorized for somebody who may not, Rejected and NotFound for what cannot be done.
    """
    return asyncio.run(_submit(config, registry, make, token_file))


async def _submit(
    config: Config, registry: Registry, make: Callable[[str, datetime], PrivilegedRequest], token_file: Path | None
) -> str:
    folder, clock = state_folder(config), SystemClock()
    asker = _identify_author(await _load_principals(folder), read_api_token(token_file))
    request = _add_proof(asker, make(asker.name, clock.now()))
    try:
        return await _execute_locally(config, registry, request, folder)
    except StateFolderLockedError:
        return await _send_to_daemon(config, request, folder)


async def _execute_locally(config: Config, registry: Registry, request: PrivilegedRequest, folder: Path) -> str:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        parts = PrivilegedRequestContext(
            ledger=ledger,
            clock=clock,
            stop_file=config.state / STOP_FILE,
            execution_policies=venue_policies(config, registry.specs_of_table),
            trading_venues=trading_venues(registry),
            withdrawal_venues=withdrawal_venues(registry),
            folder=folder,
        )
        return await handle_privileged_request(parts, request)


async def _send_to_daemon(config: Config, request: PrivilegedRequest, folder: Path) -> str:
    """Leave the request for the process that holds the ledger, and wait a while for what it says."""
    clock = SystemClock()
    path, limit = send_request(folder, request, at=request.asked_at), config.daemon.requests_every_s + EXTRA_WAIT_S
    for _ in range(int(limit / POLL_EVERY_S)):
        if not path.exists():
            return await _read_daemon_answer(folder, path)
        await clock.sleep(POLL_EVERY_S)
    return f"{request.kind} asked for; the process that uses {folder} does it when it comes to it"


async def _read_daemon_answer(folder: Path, path: Path) -> str:
    # What was said is written right after the file went.
    clock, refused = SystemClock(), (path.parent / REFUSED_FOLDER / path.name).exists()
    for _ in range(10):
        async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
            notes = await ledger.events.recent(MAX_NOTES_READ, "request")
        if mine := [note.text for note in notes if path.stem in note.text]:
            if refused:
                raise RequestRejectedError(mine[0].partition(": ")[2])
            return mine[0].removesuffix(f" [{path.stem}]")
        await clock.sleep(POLL_EVERY_S)
    if refused:
        message = f"the daemon refused it; look into {path.parent / REFUSED_FOLDER / path.name}"
        raise RequestRejectedError(message)
    return "done"


async def sign_request(folder: Path, request: Q, *, token_file: Path | None) -> Q:
    """Return a request in the name of who asks, with the proof; raises Unauthorized for somebody who may not."""
    asker = _identify_author(await _load_principals(folder), read_api_token(token_file))
    return _add_proof(asker, replace(request, by=asker.name, asked_at=SystemClock().now()))


def _add_proof(asker: RequestAuthor, request: T) -> T:
    act = requested_action(request)
    if REQUIRED_ROLES[act] is not None and asker.role is None:
        message = f"{act} needs a token: set FOXCAST_TOKEN, or name a file with --token-file"
        raise AuthenticationError(message)
    require_role(asker.role, act, who=asker.name)
    return replace(request, proof=make_request_proof(asker.key, request_text(request))) if asker.key else request


def trading_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues that take orders."""
    return frozenset(spec.name for spec in registry.venues if spec.planner is not None)


def withdrawal_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues at which a forecast can be withdrawn."""
    return frozenset(spec.name for spec in registry.venues if spec.withdraws)


def terminal_user() -> str:
    """Return the name of the user of this system who calls."""
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


def _identify_author(known: Sequence[PrincipalRecord], token: str | None) -> RequestAuthor:
    """Return who calls; while nobody has a token, whoever sits at the terminal is an approver."""
    if not known:
        return RequestAuthor(terminal_user(), UserRole.APPROVER)
    if token is None:
        return RequestAuthor(terminal_user(), None)
    owner = find_token_owner(token, known)
    return RequestAuthor(owner.name, owner.role, hash_token(token, owner.salt).hash)
