"""What happened to the daemon itself: events for people, and the runs of its jobs."""

from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.errors import StoreError
from bot.redact import said
from bot.store.codec import clean, moment, stamp
from bot.store.runs import Runs, Writes

RUNS_KEPT = 1_000

HALTED = "halted"
RESUMED = "resumed"

NOTE = "insert into event (at, kind, text) values (?, ?, ?)"
RECENT = "select at, kind, text from event where :kind is null or kind = :kind order by id desc limit :limit"
LAST_HALT = "select at, kind, text from event where kind in (?, ?) order by id desc limit 1"
ADD_RUN = "insert into job_run (job, started_at, ended_at, outcome, detail) values (?, ?, ?, ?, ?)"
FORGET_RUNS = """
delete from job_run where job = :job
  and id <= (select id from job_run where job = :job order by id desc limit 1 offset :kept)
"""
LAST_RUNS = """
select job, started_at, ended_at, outcome, detail from job_run
where id in (select max(id) from job_run group by job) order by job
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling: what kind of thing, in words, and when."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of one job, with the line it returned or the error it raised."""

    name: str
    started_at: datetime
    ended_at: datetime
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Journal:
    """Events, kept for ever, and job runs, the last thousand of each job."""

    writer: Writes
    readers: Runs

    async def note(self, kind: str, text: str, *, at: datetime) -> None:
        """Write an event down."""
        await self.writer.run(lambda database: note(database, kind, text, at))

    async def recent(self, limit: int, kind: str | None = None) -> list[Event]:
        """Return the newest events, of one kind or of any, newest first."""
        return await self.readers.run(lambda database: _recent(database, limit, kind))

    async def halt(self, why: str, *, at: datetime) -> None:
        """Write down that nothing is written any more, and why: the one event that a halted ledger takes.

        The first write to a full disk is what gives up the ballast, the next one finds its room. Raises StoreError for
        a disk that takes nothing at all.
        """
        try:
            await self.writer.run_halted(lambda database: note(database, HALTED, why, at))
        except StoreError:
            await self.writer.run_halted(lambda database: note(database, HALTED, why, at))

    async def resume(self, *, at: datetime) -> Event | None:
        """At start, once writing works: end the halt that is on record; return it if there is one."""
        halt = await self.standing_halt()
        if halt is not None:
            await self.note(RESUMED, f"after: {halt.text}", at=at)
        return halt

    async def standing_halt(self) -> Event | None:
        """Return the halt that ended the last run, until a new one has begun."""
        return await self.readers.run(_standing_halt)

    async def job_run(self, name: str, *, started_at: datetime, ended_at: datetime, ok: bool, detail: str) -> None:
        """Write down how a run of a job ended, and forget its runs of long ago."""
        run = JobRun(name=name, started_at=started_at, ended_at=ended_at, ok=ok, detail=detail)
        await self.writer.run(lambda database: _add_run(database, run))

    async def last_runs(self) -> list[JobRun]:
        """Return the newest run of each job, by name."""
        return await self.readers.run(_last_runs)


def note(database: Database, kind: str, text: str, at: datetime) -> None:
    """Write an event within the caller's transaction."""
    database.execute(NOTE, [stamp(at), clean(kind), said(clean(text))])


def _recent(database: Database, limit: int, kind: str | None) -> list[Event]:
    rows = database.execute(RECENT, {"limit": limit, "kind": kind})
    return [Event(at=moment(at), kind=kind_, text=text) for at, kind_, text in rows]


def _standing_halt(database: Database) -> Event | None:
    row = database.execute(LAST_HALT, [HALTED, RESUMED]).fetchone()
    if row is None or row[1] == RESUMED:
        return None
    at, kind, text = row
    return Event(at=moment(at), kind=kind, text=text)


def _add_run(database: Database, run: JobRun) -> None:
    outcome = "ok" if run.ok else "failed"
    database.execute(ADD_RUN, [run.name, stamp(run.started_at), stamp(run.ended_at), outcome, said(clean(run.detail))])
    database.execute(FORGET_RUNS, {"job": run.name, "kept": RUNS_KEPT})


def _last_runs(database: Database) -> list[JobRun]:
    return [
        JobRun(name=job, started_at=moment(started_at), ended_at=moment(ended_at), ok=outcome == "ok", detail=detail)
        for job, started_at, ended_at, outcome, detail in database.execute(LAST_RUNS)
    ]
