"""Requests to take orders back, on their way to the daemon: one small file each, done and then taken away."""

import os
from dataclasses import dataclass
from pathlib import Path

from bot.domain.request import CancelOrder
from bot.errors import ContractError
from bot.ids import derive_id
from bot.store.codec import Form, stamp
from bot.store.database import make_private, sync, translated
from bot.store.requests import FOLDER, MAX_BYTES, REFUSED

ORDERS = "orders"

_FORM: Form[CancelOrder] = Form("request", CancelOrder)


@dataclass(frozen=True, slots=True)
class WaitingCancel:
    """A request that nobody has looked at yet."""

    path: Path

    def read(self) -> CancelOrder:
        """Return what is asked; raises ContractError for a file that is no such request or cannot be read."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_BYTES)
        except OSError as error:
            message = f"{self.path.name} cannot be read: {error.strerror}"
            raise ContractError(message) from error
        return _FORM.decode(content.decode(errors="replace"))

    def done(self) -> None:
        """Take the request away."""
        self.path.unlink(missing_ok=True)

    def refuse(self) -> Path:
        """Put the request aside, where a person can look at it; return its new place."""
        aside = self.path.parent / REFUSED / self.path.name
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        return self.path.replace(aside)


def ask(folder: Path, request: CancelOrder) -> Path:
    """Leave a request for the daemon of the folder, readable by its owner alone; raises StoreError."""
    text = _FORM.encode(request)
    name = f"{stamp(request.asked_at).replace(':', '')}-{derive_id('request', text)}"
    path = folder / FOLDER / ORDERS / f"{name}.json"
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


def waiting(folder: Path) -> list[WaitingCancel]:
    """Return the requests that wait, oldest first."""
    return [WaitingCancel(path) for path in sorted((folder / FOLDER / ORDERS).glob("*.json"))]
