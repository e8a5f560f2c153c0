"""The form in which table modules reach the database: closures go in, values come out."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlite_utils import Database

from bot.errors import StoreError

T = TypeVar("T")


class Runs(Protocol):
    """Runs a closure on a connection: the writer's in a transaction, a reader's on one snapshot."""

    async def run(self, work: Callable[[Database], T], /) -> T:
        """Return what the closure returns; raises what it raises, and StoreError."""
        ...


class Writes(Runs, Protocol):
    """What writes, until the disk does not take it any more."""

    async def run_halted(self, work: Callable[[Database], T], /) -> T:
        """Write although halted: the note that says why, nothing else; raises StoreError."""
        ...


class Sealed:
    """Stands where the writer would be in a ledger that was opened for reading."""

    async def run(self, work: Callable[[Database], T], /) -> T:
        """Refuse, always."""
        message = "the ledger is open for reading only; the daemon alone writes to it"
        raise StoreError(message)

    run_halted = run
