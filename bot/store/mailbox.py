"""Small files on their way to the daemon: one for each request, read in the order in which they were made.

A file appears whole or not at all, and goes when it has been done; doing one twice does no more than doing it once.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from bot.errors import ContractError
from bot.ids import derive_id
from bot.store.codec import Form, stamp
from bot.store.database import make_private, sync, translated

REFUSED = "refused"
# A question of somebody's own may come with a request, with a long background.
MAX_BYTES = 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Waiting(Generic[T]):
    """A request that nobody has looked at yet."""

    path: Path
    form: Form[T]

    def read(self) -> T:
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
        return self.form.decode(content.decode(errors="replace"))

    def done(self) -> None:
        """Take the request away."""
        take_back(self.path)

    def refuse(self) -> Path:
        """Put the request aside, where a person can look at it; return its new place."""
        aside = self.path.parent / REFUSED / self.path.name
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        return self.path.replace(aside)


def leave(folder: Path, text: str, *, at: datetime) -> Path:
    """Leave the text of a request, readable by its owner alone; raises StoreError."""
    name = f"{stamp(at).replace(':', '')}-{derive_id('request', text)}"
    path = folder / f"{name}.json"
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


def take_back(path: Path) -> None:
    """Take a request away, where it still waits."""
    path.unlink(missing_ok=True)


def waiting_in(folder: Path, form: Form[T]) -> list[Waiting[T]]:
    """Return the requests that wait, oldest first."""
    return [Waiting(path, form) for path in sorted(folder.glob("*.json"))]
