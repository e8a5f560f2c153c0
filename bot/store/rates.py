"""What each rate had used: one row under its name, replaced before a request leaves."""

import json
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.errors import StoreError
from bot.net.rate_limit import RateUsage
from bot.store.codec import moment, stamp
from bot.store.runs import Runs

KEEP = """
insert into rate (name, free_at, body) values (?, ?, ?)
on conflict (name) do update set free_at = excluded.free_at, body = excluded.body
"""
LOAD = "select body from rate where name = ?"
FREE_AT = "select name, free_at from rate order by name"


@dataclass(frozen=True, slots=True)
class RateStates:
    """Implements ``bot.net.rate_limit.RateUsageStore`` in the ledger; writes that wait for the disk share a commit."""

    writer: Runs
    readers: Runs

    async def load(self, name: str) -> RateUsage | None:
        """Return what was kept last under the name; raises StoreError for a row that is none of ours."""
        body = await self.readers.run(lambda database: _load(database, name))
        return None if body is None else spent_in(name, body)

    async def save(self, name: str, spent: RateUsage, *, free_at: datetime) -> None:
        """Replace what is kept under the name."""
        row = (name, stamp(free_at), spent_text(spent))
        await self.writer.run(lambda database: _keep(database, row))

    async def free_at(self) -> dict[str, datetime]:
        """Return when each rate allows its next request, as far as that was known at its last note."""
        rows = await self.readers.run(lambda database: database.execute(FREE_AT).fetchall())
        return {name: moment(at) for name, at in rows}


def _load(database: Database, name: str) -> str | None:
    row = database.execute(LOAD, [name]).fetchone()
    return None if row is None else str(row[0])


def _keep(database: Database, row: tuple[str, str | None, str]) -> None:
    # The connection's own execute: sqlite-utils adds bookkeeping, and this is written before every request.
    database.conn.execute(KEEP, row)


def spent_text(spent: RateUsage) -> str:
    """Return what was used as JSON text."""
    plain = {
        "at": stamp(spent.at),
        "monotonic_s": spent.monotonic_s,
        "out": spent.out,
        "past": spent.past,
        "paused_s": spent.paused_s,
        "spacing_s": spent.spacing_s,
    }
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def spent_in(name: str, body: str) -> RateUsage:
    """Read what ``spent_text`` wrote; raises StoreError."""
    try:
        plain = json.loads(body)
        return RateUsage(
            at=moment(plain["at"]),
            monotonic_s=float(plain["monotonic_s"]),
            out=int(plain["out"]),
            past=tuple((float(age), int(count)) for age, count in plain["past"]),
            paused_s=float(plain["paused_s"]),
            spacing_s=float(plain["spacing_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"what the rate {name} had used cannot be read ({error!r}); wait a day, then delete its row from rate"
        raise StoreError(message) from error
