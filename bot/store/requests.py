"""Requests on their way to the daemon: one small file each, read in the order in which they were made.

A file appears whole or not at all, and goes when it has been done; doing one twice does no more than doing it once.
"""

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from bot.domain.request import LeaveRequest, Request
from bot.errors import ContractError
from bot.ids import derive_id
from bot.store.codec import Form, stamp
from bot.store.database import make_private, sync, translated

FOLDER = "requests"
REFUSED = "refused"
# A question of somebody's own may come with it, with a long background.
MAX_BYTES = 1024 * 1024

_REQUEST: Form[Request] = Form("request", Request)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that nobody has looked at yet."""

    path: Path

    def read(self) -> Request:
        """Return what is asked; raises ContractError for a file that is no request or cannot be read."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            message = f"{self.path.name} cannot be read: {error.strerror}"
            raise ContractError(message) from error
        if len(content) > MAX_BYTES:
            message = f"{self.path.name} is larger than {MAX_BYTES} bytes"
            raise ContractError(message)
        return _REQUEST.decode(content.decode(errors="replace"))

    def done(self) -> None:
        """Take the request away."""
        self.path.unlink(missing_ok=True)

    def refuse(self) -> Path:
        """Put the request aside, where a person can look at it; return its new place."""
        aside = self.path.parent / REFUSED / self.path.name
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        return self.path.replace(aside)


def ask(state: Path, request: Request, *, at: datetime) -> Path:
    """Leave a request for the daemon of the state folder, readable by its owner alone; raises StoreError.

    Raises ContractError for one that is too large to be read.
    """
    text = _REQUEST.encode(request)
    if len(text.encode()) > MAX_BYTES:
        message = f"a request ({request.kind}) takes more than {MAX_BYTES} bytes; shorten its texts"
        raise ContractError(message)
    name = f"{stamp(at).replace(':', '')}-{derive_id('request', text)}"
    path = state / FOLDER / f"{name}.json"
    partial = path.with_suffix(".partial")
    with translated(path):
        make_private(partial)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)
    return path


def said(request: LeaveRequest) -> str:
    """Return what a request says, without its proof: the text that the proof is of."""
    return _REQUEST.encode(replace(request, proof=""))


def waiting(state: Path) -> list[Waiting]:
    """Return the requests that wait, oldest first."""
    return [Waiting(path) for path in sorted((state / FOLDER).glob("*.json"))]
