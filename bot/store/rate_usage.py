"""How much of each rate limit is used: in the ledger for restarts, and in files shared by running programs.

The files belong to one state folder.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.net.rate_limit import RateUsage
from bot.store.connections import TransactionRunner
from bot.store.database import translate_errors
from bot.store.private_files import open_private_file, read_private_file, write_private_file
from bot.store.serialization import format_timestamp, parse_timestamp

_UPSERT_RATE_USAGE = """
insert into rate_usage (name, free_at, body) values (?, ?, ?)
on conflict (name) do update set free_at = excluded.free_at, body = excluded.body
"""
_SELECT_RATE_USAGE = "select body from rate_usage where name = ?"
_SELECT_FREE_AT = "select name, free_at from rate_usage order by name"


@dataclass(frozen=True, slots=True)
class LedgerRateUsageStore:
    """Implements ``bot.net.rate_limit.RateUsageStore`` in the ledger; writes that wait for the disk share a commit."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def load(self, name: str) -> RateUsage | None:
        """Return the last stored usage of a rate; raises StoreError for an unreadable row."""
        body = await self.readers.run(lambda database: _load_usage(database, name))
        return None if body is None else rate_usage_from_text(name, body)

    async def save(self, name: str, usage: RateUsage, *, free_at: datetime) -> None:
        """Replace the stored usage of a rate."""
        row = (name, format_timestamp(free_at), rate_usage_to_text(usage))
        await self.writer.run(lambda database: _save_usage(database, row))

    async def free_at(self) -> dict[str, datetime]:
        """Return when each rate allows its next request, as known when it was last saved."""
        rows = await self.readers.run(lambda database: database.execute(_SELECT_FREE_AT).fetchall())
        return {name: parse_timestamp(at) for name, at in rows}


def _load_usage(database: Database, name: str) -> str | None:
    row = database.execute(_SELECT_RATE_USAGE, [name]).fetchone()
    return None if row is None else str(row[0])


def _save_usage(database: Database, row: tuple[str, str | None, str]) -> None:
    # The connection's own execute: sqlite-utils adds bookkeeping, and this is written before every request.
    database.conn.execute(_UPSERT_RATE_USAGE, row)


def rate_usage_to_text(usage: RateUsage) -> str:
    """Return the usage as JSON text."""
    plain = {
        "at": format_timestamp(usage.at),
        "monotonic_s": usage.monotonic_s,
        "in_flight": usage.in_flight,
        "responses": usage.responses,
        "paused_s": usage.paused_s,
        "spacing_s": usage.spacing_s,
    }
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def rate_usage_from_text(name: str, body: str) -> RateUsage:
    """Read what ``rate_usage_to_text`` wrote; raises StoreError."""
    try:
        plain = json.loads(body)
        return RateUsage(
            at=parse_timestamp(plain["at"]),
            monotonic_s=float(plain["monotonic_s"]),
            in_flight=int(plain["in_flight"]),
            responses=tuple((float(age), int(count)) for age, count in plain["responses"]),
            paused_s=float(plain["paused_s"]),
            spacing_s=float(plain["spacing_s"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        message = (
            f"the usage of the rate limit {name} cannot be read ({error!r}); wait a day, then delete its row of "
            "rate_usage"
        )
        raise StoreError(message) from error


RATE_USAGE_FOLDER = "rates"
# The name of the process with the state folder; its successor uses the same file.
LOCK_HOLDER_NAME = "holder"
# Older usage is outside of the window of every rate limit.
MAX_USAGE_AGE = timedelta(hours=1)
# Process ids do not repeat within the window of a rate limit.
_instance_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRateUsageFiles:
    """Implements ``bot.net.rate_limit.SharedRateUsage``; ``name`` identifies this program."""

    folder: Path
    name: str = field(default_factory=lambda: f"{os.getpid()}-{next(_instance_numbers)}")

    @contextmanager
    def try_lock(self, rate: str) -> Iterator[bool]:
        """Lock a rate and yield True, or yield False if another program holds the lock; raises StoreError."""
        place = self._place(rate)
        with translate_errors(place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = open_private_file(place / "lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    def other_usage(self, rate: str, *, now: datetime) -> Sequence[RateUsage]:
        """Return the last saved usage of the other programs; deletes old files."""
        found = []
        for file in self._place(rate).glob("*.json"):
            if file.stem == self.name:
                continue
            with suppress(OSError, StoreError):
                usage = rate_usage_from_text(rate, read_private_file(file).decode())
                if now - usage.at <= MAX_USAGE_AGE:
                    found.append(usage)
                elif file.stem != LOCK_HOLDER_NAME:
                    file.unlink()
        return found

    def save(self, rate: str, usage: RateUsage) -> None:
        """Save the usage of this program; raises StoreError."""
        file = self._place(rate) / f"{self.name}.json"
        with translate_errors(file):
            partial = file.with_suffix(".new")
            write_private_file(partial, rate_usage_to_text(usage).encode(), durable=False)
            partial.replace(file)

    def knows_holder(self, rate: str) -> bool:
        """Return whether the holder of the state folder has saved usage of this rate."""
        return (self._place(rate) / f"{LOCK_HOLDER_NAME}.json").exists()

    def _place(self, rate: str) -> Path:
        return self.folder / re.sub(r"[^A-Za-z0-9]+", "-", rate)
