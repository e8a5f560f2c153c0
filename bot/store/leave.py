"""Leave to submit, on disk: arm records, approvals, stops, principals, the audit, and what is at stake.

The table modules beside it work within a transaction, so that a change and its row in the audit are one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from sqlite_utils import Database

from bot.domain.order import Account
from bot.domain.permission import Approval, Arm, Usage
from bot.store import approvals, arms, audit, principals, stops
from bot.store.audit import AuditRow, Head, Told, Verdict
from bot.store.principals import Principal
from bot.store.runs import Runs
from bot.store.stops import Stop
from bot.store.usage import Counted, last_account, losses, usage, waiting

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """How things stand in all lanes at one moment: stops, the newest arm record by venue, and losses by venue."""

    stops: Sequence[Stop] = ()
    arms: Mapping[str, Arm] = field(default_factory=dict)
    losses: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leave:
    """Who let what go."""

    writer: Runs
    readers: Runs

    async def write(self, work: Callable[[Database], T]) -> T:
        """Do all of the work in one transaction; it may run twice, and does nothing but use the database."""
        return await self.writer.run(work)

    async def act(self, work: Callable[[Database], T], *told: Told) -> T:
        """Do all of the work, and tell the audit, in one transaction."""
        return await self.writer.run(lambda database: _act(database, work, told))

    async def read(self, query: Callable[[Database], T]) -> T:
        """Return what the query makes of one snapshot."""
        return await self.readers.run(query)

    async def standing(self, accounts: Mapping[str, str], *, now: datetime, paper: Collection[str] = ()) -> Leaves:
        """Return how things stand at the venues, given the account used at each, and which of them are on paper."""
        return await self.readers.run(lambda database: _standing(database, accounts, paper, now))

    async def usage(self, counted: Counted, *, now: datetime) -> Usage:
        """Return what is at stake; what is decided by it is counted again in the transaction that adds to it."""
        return await self.readers.run(lambda database: usage(database, counted, now))

    async def waiting(self, venue: str, account: str, *, paper: bool) -> float:
        """Return what intents, on paper or real ones, may still take that the account does not show yet."""
        return await self.readers.run(lambda database: waiting(database, venue, account, paper=paper))

    async def last_account(self, venue: str, account: str, *, paper: bool) -> Account | None:
        """Return the account, on paper or the real one, as it was read last."""
        return await self.readers.run(lambda database: last_account(database, venue, account, paper=paper))

    async def approval(self, forecast_id: str) -> Approval | None:
        """Return what was asked about a forecast last."""
        return await self.readers.run(lambda database: approvals.of_forecast(database, forecast_id))

    async def approvals(self, *, everything: bool = False, limit: int = 100) -> list[Approval]:
        """Return what waits for an answer; with ``everything`` also what was answered."""
        return await self.readers.run(lambda database: approvals.listed(database, everything=everything, limit=limit))

    async def principals(self) -> list[Principal]:
        """Return those whose tokens hold."""
        return await self.readers.run(principals.living)

    async def verify(self, known: Head | None = None) -> Verdict:
        """Recompute the chain of the audit."""
        return await self.readers.run(lambda database: audit.verify(database, known))

    async def head(self) -> Head:
        """Return the newest row of the audit."""
        return await self.readers.run(audit.head_of)

    async def audited(self, *, limit: int, kind: str | None = None, venue: str | None = None) -> list[AuditRow]:
        """Return the newest rows of the audit, newest first."""
        return await self.readers.run(lambda database: audit.recent(database, limit=limit, kind=kind, venue=venue))


def _act(database: Database, work: Callable[[Database], T], told: Sequence[Told]) -> T:
    done = work(database)
    for row in told:
        audit.append(database, row)
    return done


def _standing(database: Database, accounts: Mapping[str, str], paper: Collection[str], now: datetime) -> Leaves:
    newest = {venue: arms.newest(database, venue, account) for venue, account in accounts.items()}
    return Leaves(
        stops=tuple(stops.standing(database)),
        arms={venue: arm for venue, arm in newest.items() if arm is not None},
        losses={
            venue: losses(database, venue, account, now, paper=venue in paper) for venue, account in accounts.items()
        },
    )
