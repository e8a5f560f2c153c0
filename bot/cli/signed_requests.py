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

from bot.app import LEDGER_FILE, folder_of
from bot.clock import SystemClock
from bot.config.schema import Config
from bot.config.secrets import read_api_token
from bot.domain.permission import Role
from bot.domain.request import ClosePositions, ForecastQuestion, LeaveRequest, SignedRequest, UnlockQuestion
from bot.errors import InstanceLocked, Rejected, Unauthorized
from bot.gate.brake import STOP_FILE
from bot.gate.lanes import lanes_in
from bot.gate.roles import NEEDED, require
from bot.gate.tokens import hashed, owner_of, proof_of
from bot.jobs.permit import Permitting, act_of, permit
from bot.registry import Registry
from bot.specs import Can
from bot.store.ledger import open_ledger, read_ledger
from bot.store.lock import instance_lock
from bot.store.mailbox import REFUSED
from bot.store.principals import Principal
from bot.store.requests import ask, said

Q = TypeVar("Q", UnlockQuestion, ForecastQuestion, ClosePositions)
T = TypeVar("T", bound=SignedRequest)

POLL_EVERY_S = 0.2
# Beyond how often the daemon looks for requests, so long it may take over one.
EXTRA_WAIT_S = 10.0
MAX_NOTES_READ = 100

TokenFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file (mode 600) with your token; else FOXCAST_TOKEN.")
]


@dataclass(frozen=True, slots=True)
class RequestAuthor:
    """Who asks: a name, the role it has, and the key that proves it, "" while nobody has a token."""

    name: str
    role: Role | None
    key: str = ""


def submit_request(
    config: Config, registry: Registry, make: Callable[[str, datetime], LeaveRequest], *, token_file: Path | None
) -> str:
    """Have done what ``make`` asks for, given who asks and when; return what was done.

    Raises Unauthorized for somebody who may not, Rejected and NotFound for what cannot be done.
    """
    return asyncio.run(_submit(config, registry, make, token_file))


async def _submit(
    config: Config, registry: Registry, make: Callable[[str, datetime], LeaveRequest], token_file: Path | None
) -> str:
    folder, clock = folder_of(config), SystemClock()
    asker = _identify_author(await _load_principals(folder), read_api_token(token_file))
    request = _add_proof(asker, make(asker.name, clock.now()))
    try:
        return await _execute_locally(config, registry, request, folder)
    except InstanceLocked:
        return await _send_to_daemon(config, request, folder)


async def _execute_locally(config: Config, registry: Registry, request: LeaveRequest, folder: Path) -> str:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        parts = Permitting(
            ledger=ledger,
            clock=clock,
            stop_file=config.state / STOP_FILE,
            lanes=lanes_in(config, registry.configurable),
            trading=trading_venues(registry),
            withdrawing=withdrawal_venues(registry),
            folder=folder,
        )
        return await permit(parts, request)


async def _send_to_daemon(config: Config, request: LeaveRequest, folder: Path) -> str:
    """Leave the request for the process that holds the ledger, and wait a while for what it says."""
    clock = SystemClock()
    path, limit = ask(folder, request, at=request.asked_at), config.daemon.attend_every_s + EXTRA_WAIT_S
    for _ in range(int(limit / POLL_EVERY_S)):
        if not path.exists():
            return await _read_daemon_answer(folder, path)
        await clock.sleep(POLL_EVERY_S)
    return f"{request.kind} asked for; the process that uses {folder} does it when it comes to it"


async def _read_daemon_answer(folder: Path, path: Path) -> str:
    # What was said is written right after the file went.
    clock, refused = SystemClock(), (path.parent / REFUSED / path.name).exists()
    for _ in range(10):
        async with read_ledger(folder / LEDGER_FILE) as ledger:
            notes = await ledger.journal.recent(MAX_NOTES_READ, "request")
        if mine := [note.text for note in notes if path.stem in note.text]:
            if refused:
                raise Rejected(mine[0].partition(": ")[2])
            return mine[0].removesuffix(f" [{path.stem}]")
        await clock.sleep(POLL_EVERY_S)
    if refused:
        message = f"the daemon refused it; look into {path.parent / REFUSED / path.name}"
        raise Rejected(message)
    return "done"


async def sign_request(folder: Path, request: Q, *, token_file: Path | None) -> Q:
    """Return a request in the name of who asks, with the proof; raises Unauthorized for somebody who may not."""
    asker = _identify_author(await _load_principals(folder), read_api_token(token_file))
    return _add_proof(asker, replace(request, by=asker.name, asked_at=SystemClock().now()))


def _add_proof(asker: RequestAuthor, request: T) -> T:
    act = act_of(request)
    if NEEDED[act] is not None and asker.role is None:
        message = f"{act} needs a token: set FOXCAST_TOKEN, or name a file with --token-file"
        raise Unauthorized(message)
    require(asker.role, act, who=asker.name)
    return replace(request, proof=proof_of(asker.key, said(request))) if asker.key else request


def trading_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues that take orders."""
    return frozenset(spec.name for spec in registry.venues if spec.planner is not None)


def withdrawal_venues(registry: Registry) -> frozenset[str]:
    """Return the enabled venues at which a forecast can be withdrawn."""
    return frozenset(spec.name for spec in registry.venues if Can.WITHDRAW in spec.abilities)


def terminal_user() -> str:
    """Return the name of the user of this system who calls."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


async def _load_principals(folder: Path) -> Sequence[Principal]:
    path = folder / LEDGER_FILE
    if not path.exists():
        return ()
    async with read_ledger(path) as opened:
        return await opened.leave.principals()


def _identify_author(known: Sequence[Principal], token: str | None) -> RequestAuthor:
    """Return who calls; while nobody has a token, whoever sits at the terminal is an approver."""
    if not known:
        return RequestAuthor(terminal_user(), Role.APPROVER)
    if token is None:
        return RequestAuthor(terminal_user(), None)
    owner = owner_of(token, known)
    return RequestAuthor(owner.name, owner.role, hashed(token, owner.salt).hash)
