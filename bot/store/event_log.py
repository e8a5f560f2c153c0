"""The log of the daemon: events for people, and runs of jobs."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_message
from bot.store.connections import LedgerWriter, TransactionRunner
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text

MAX_RUNS_PER_JOB = 1_000
LEDGER_HALTED = "halted"
LEDGER_RESUMED = "resumed"
# The last daemon was killed, or gave up.
CRASH_EVENT = "crash"
# Something that a person should know, at the moment when it happened.
ALERT_EVENT = "alert"
_INSERT_EVENT = "insert into event (at, kind, text) values (?, ?, ?)"
_RECENT_EVENTS = "select at, kind, text from event order by id desc limit :limit"
_RECENT_EVENTS_OF_KIND = "select at, kind, text from event where kind = :kind order by id desc limit :limit"
_LAST_HALT = "select at, kind, text from event where kind in (?, ?) order by id desc limit 1"
_INSERT_RUN = "insert into job_run (job, started_at, ended_at, outcome, detail) values (?, ?, ?, ?, ?)"
_DELETE_OLD_RUNS = """
delete from job_run where job = :job
  and id <= (select id from job_run where job = :job order by id desc limit 1 offset :kept)
"""
_LAST_RUNS = """
select job, started_at, ended_at, outcome, detail from job_run
where id in (select max(id) from job_run group by job) order by job
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEvent:
    """An event: its time, kind and text."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunRow:
    """One run of a job, with the line that it returned or the error that it raised."""

    name: str
    started_at: datetime
    ended_at: datetime
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class EventLog:
    """All events, and the last thousand runs of each job."""

    writer: LedgerWriter
    readers: TransactionRunner

    async def add_event(self, kind: str, text: str, *, at: datetime) -> None:
        """Record an event."""
        await self.add_events([(kind, text)], at=at)

    async def add_events(self, events: Sequence[tuple[str, str]], *, at: datetime) -> None:
        """Record events, each with its kind and text: all or none of them."""

        def add_all(database: Database) -> None:
            for kind, text in events:
                add_event(database, kind, text, at)

        await self.writer.run(add_all)

    async def recent(self, limit: int, kind: str | None = None) -> list[LedgerEvent]:
        """Return the newest events of one kind, or of any, newest first."""
        return await self.readers.run(lambda database: recent_events(database, limit, kind))

    async def halt(self, why: str, *, at: datetime) -> None:
        """Record that writing has halted, and why: the only event that a halted ledger takes.

        On a full disk the first write releases the disk reserve, and the second one uses its space. Raises StoreError
        if the disk accepts no write at all.
        """
        try:
            await self.writer.run_halted(lambda database: add_event(database, LEDGER_HALTED, why, at))
        except StoreError:
            await self.writer.run_halted(lambda database: add_event(database, LEDGER_HALTED, why, at))

    async def resume(self, *, at: datetime) -> LedgerEvent | None:
        """End the recorded halt and return it, None without one; call it at start, once writing works."""
        halt = await self.unresolved_halt()
        if halt is not None:
            await self.add_event(LEDGER_RESUMED, f"after: {halt.text}", at=at)
        return halt

    async def unresolved_halt(self) -> LedgerEvent | None:
        """Return the halt that ended the last run, None after a resume."""
        return await self.readers.run(unresolved_halt)

    async def job_run(self, name: str, *, started_at: datetime, ended_at: datetime, ok: bool, detail: str) -> None:
        """Record how a run of a job ended, and delete its oldest runs."""
        run = JobRunRow(name=name, started_at=started_at, ended_at=ended_at, ok=ok, detail=detail)
        await self.writer.run(lambda database: _add_run(database, run))

    async def last_runs(self) -> list[JobRunRow]:
        """Return the newest run of each job, by name."""
        return await self.readers.run(last_job_runs)


def add_event(database: Database, kind: str, text: str, at: datetime) -> None:
    """Write an event within the caller's transaction."""
    database.execute(_INSERT_EVENT, [format_timestamp(at), sanitize_text(kind), redact_message(sanitize_text(text))])


def recent_events(database: Database, limit: int, kind: str | None) -> list[LedgerEvent]:
    """Return the newest events of one kind, or of any, newest first."""
    statement = _RECENT_EVENTS if kind is None else _RECENT_EVENTS_OF_KIND
    rows = database.execute(statement, {"limit": limit, "kind": kind})
    return [LedgerEvent(at=parse_timestamp(at), kind=kind_, text=text) for at, kind_, text in rows]


def unresolved_halt(database: Database) -> LedgerEvent | None:
    """Return the halt that ended the last run, None after a resume."""
    row = database.execute(_LAST_HALT, [LEDGER_HALTED, LEDGER_RESUMED]).fetchone()
    if row is None or row[1] == LEDGER_RESUMED:
        return None
    at, kind, text = row
    return LedgerEvent(at=parse_timestamp(at), kind=kind, text=text)


def _add_run(database: Database, run: JobRunRow) -> None:
    outcome = "ok" if run.ok else "failed"
    database.execute(
        _INSERT_RUN,
        [
            run.name,
            format_timestamp(run.started_at),
            format_timestamp(run.ended_at),
            outcome,
            redact_message(sanitize_text(run.detail)),
        ],
    )
    database.execute(_DELETE_OLD_RUNS, {"job": run.name, "kept": MAX_RUNS_PER_JOB})


def last_job_runs(database: Database) -> list[JobRunRow]:
    """Return the newest run of each job, by name."""
    return [
        JobRunRow(
            name=job,
            started_at=parse_timestamp(started_at),
            ended_at=parse_timestamp(ended_at),
            ok=outcome == "ok",
            detail=detail,
        )
        for job, started_at, ended_at, outcome, detail in database.execute(_LAST_RUNS)
    ]
