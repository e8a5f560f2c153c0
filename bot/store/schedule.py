"""When each question is due to which forecaster, who holds it now, and what must not be touched.

The daemon's ticker knows nothing of questions; this table is what survives a kill. A lease that ran out is as good as
returned, and whoever held it can no longer change the row.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol, TypedDict, Unpack

from sqlite_utils import Database

from bot.domain.question import QuestionRef
from bot.store.codec import clean, listed, moment, stamp
from bot.store.journal import note
from bot.store.runs import Runs
from bot.store.schedule_queries import (
    ANSWER,
    ANSWER_APART,
    BY_CLOSE,
    BY_DUE,
    CLAIMABLE,
    COUNT_DUE,
    COUNTS,
    CROWDED,
    DUE_BY_FORECASTER,
    FREE_LEASES,
    JUDGE_WINDOWS,
    LEASE,
    LEASES,
    LOAD,
    LOCK,
    LOCK_REASON,
    LOCKS,
    MOVE_CLOSE,
    MOVE_DUE,
    MOVE_LEASE,
    PLAN,
    POSTPONE,
    RETURN_EXPIRED,
    SCHEDULED,
    UNLOCK,
)

EVERY_FORECASTER = ""
MISSED_WINDOW = "missed window"
NOBODY: Mapping[str, str] = MappingProxyType({})


class Next(Protocol):
    """When something is due again, and why."""

    @property
    def at(self) -> datetime:
        """The moment, aware."""
        ...

    @property
    def why(self) -> str:
        """The reason, for people."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The wish that a forecaster looks at a question from ``due_at`` on.

    ``answered_at`` is when the last forecast known to whoever wishes was made: a wish that a newer forecast has
    overtaken is void, so that finding and forecasting side by side never forecast twice. ``apart``: a person only wants
    to see it.
    """

    ref: QuestionRef
    forecaster: str
    due_at: datetime
    why: str
    closes_at: datetime | None = None
    answered_at: datetime | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A due question held until ``leased_until``; ``attempt`` counts from 1 since the last completed forecast.

    ``apart``: a person only wants to see the forecast, and it never leaves.
    """

    ref: QuestionRef
    forecaster: str
    why: str
    closes_at: datetime | None
    attempt: int
    leased_until: datetime
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A question that must be left alone, by one forecaster or (None) by all; ``until`` None means until unlocked."""

    ref: QuestionRef
    forecaster: str | None
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A question whose window closed before its forecast was there."""

    ref: QuestionRef
    forecaster: str
    closes_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCounts:
    """How many entries are due, leased, due but locked, and waiting for their time."""

    due: int
    leased: int
    locked: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What keeps a batch of so many ``questions``: those in work now, and the unforecast ones that are not locked.

    ``waiting`` are the unforecast ones whose turn has come, or over whose forecast nothing was decided yet; the others
    are in work or were put off.
    """

    questions: int
    busy: int
    unforecast: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """What waits for its time, since the last forecast was made; ``due_at`` None where it is not due by itself."""

    ref: QuestionRef
    forecaster: str
    due_at: datetime | None
    made_at: datetime
    closes_at: datetime | None
    as_of: datetime | None


class Passing(TypedDict, total=False):
    """What ``claim`` passes over: the forecasters in ``leave``, and those that wait for another one.

    ``behind`` holds pairs of a forecaster and one that it builds on: it waits while that one is due, or at work, on the
    same question, unless that one is locked or left.
    """

    leave: Collection[str]
    behind: Collection[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is asked of ``claim``."""

    now: str
    owner: str
    until: datetime
    limit: int
    leave: str
    behind: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Due times, leases and locks."""

    writer: Runs
    readers: Runs

    async def plan(self, entries: Sequence[Due]) -> int:
        """Enter what is not there, bring forward what is due earlier and not held; return how many that were."""
        rows = [_due_row(entry) for entry in entries]
        return await self.writer.run(lambda database: _plan(database, rows))

    async def claim(
        self, *, now: datetime, owner: str, lease: timedelta, limit: int, **passing: Unpack[Passing]
    ) -> list[Claim]:
        """Lease up to ``limit`` due and unlocked entries: open windows first, the soonest to close first of all."""
        order = _Order(
            now=stamp(now),
            owner=owner,
            until=now + lease,
            limit=limit,
            leave=listed(passing.get("leave", ())),
            behind=json.dumps([*map(list, passing.get("behind", ()))]),
        )
        return await self.writer.run(lambda database: _claim(database, order))

    async def due(self, now: datetime) -> Mapping[str, int]:
        """Return how many questions are due to each forecaster."""
        return await self.readers.run(
            lambda database: dict(database.execute(DUE_BY_FORECASTER, {"now": stamp(now)}).fetchall())
        )

    async def postpone(self, claim: Claim, *, until: datetime, why: str) -> None:
        """Give a claim back, not to be taken before ``until``; without effect if the lease was lost."""
        values = {**_held(claim), "until": stamp(until), "why": clean(why)}
        await self.writer.run(lambda database: _execute(database, POSTPONE, values))

    async def free_leases(self, *, owner_not: str | None, now: datetime) -> int:
        """Take back all leases but the living ones of ``owner_not``; return how many there were."""
        values = {"owner": owner_not, "now": stamp(now)}
        return await self.writer.run(lambda database: _execute(database, FREE_LEASES, values))

    async def scheduled(self, *, reasons: tuple[str, str], now: datetime) -> list[Scheduled]:
        """Return what waits for one of the reasons (patterns), and what is open and not due any more by itself."""
        values = {"now": stamp(now), "first": reasons[0], "second": reasons[1]}
        return await self.readers.run(lambda database: _scheduled(database, values))

    async def move(self, moves: Sequence[tuple[Scheduled, Next]]) -> int:
        """Have these due at other times, where nothing has become of them since; return how many that were."""
        return await self.writer.run(lambda database: _move(database, moves))

    async def move_leases(self, by: timedelta) -> int:
        """Move the end of each lease with a wall clock that was set; return how many there are.

        Whoever holds one can still complete the forecast, but not give the claim back before its end.
        """
        return await self.writer.run(lambda database: _move_leases(database, by))

    async def lock(
        self, ref: QuestionRef, *, forecaster: str | None, reason: str, until: datetime | None, now: datetime
    ) -> None:
        """Keep a forecaster, or all of them (None), off a question; replaces an earlier lock of the same two."""
        values = {
            "ref": str(ref),
            "forecaster": forecaster or EVERY_FORECASTER,
            "reason": clean(reason),
            "until": stamp(until),
            "now": stamp(now),
        }
        await self.writer.run(lambda database: _execute(database, LOCK, values))

    async def unlock(self, ref: QuestionRef, *, forecaster: str | None) -> bool:
        """Lift the lock of this question and forecaster; say whether there was one."""
        values = {"ref": str(ref), "forecaster": forecaster or EVERY_FORECASTER}
        return await self.writer.run(lambda database: _execute(database, UNLOCK, values)) > 0

    async def locks(self, now: datetime) -> list[Lock]:
        """Return the locks that hold now."""
        return await self.readers.run(lambda database: [_lock(*row) for row in database.execute(LOCKS, [stamp(now)])])

    async def missed(self, now: datetime) -> list[Missed]:
        """Return the questions whose window closed without a forecast, each once; each is noted as an event.

        Questions that were already closed when they were found are no misses.
        """
        return await self.writer.run(lambda database: _missed(database, now))

    async def counts(self, now: datetime) -> ScheduleCounts:
        """Return how the schedule stands."""
        leased, due, locked, waiting = await self.readers.run(
            lambda database: database.execute(COUNTS, {"now": stamp(now)}).fetchone()
        )
        return ScheduleCounts(due=due, leased=leased, locked=locked, waiting=waiting)

    async def load(
        self, venue: str, batch: str, forecaster: str, *, now: datetime, others: Mapping[str, str] = NOBODY
    ) -> Load:
        """Return what a batch still waits for from a forecaster; locked questions are not waited for.

        ``others`` names the forecasters of the questions that have another one, by reference.
        """
        values = {"venue": venue, "batch": batch, "forecaster": forecaster, "now": stamp(now)}
        values["others"] = json.dumps(dict(others))
        questions, busy, unforecast, waiting = await self.readers.run(
            lambda database: database.execute(LOAD, values).fetchone()
        )
        return Load(questions=questions, busy=busy, unforecast=unforecast, waiting=waiting)


def answer(
    database: Database, ref: QuestionRef, forecaster: str, made_at: datetime | None, following: Next | None
) -> None:
    """Mark a question as forecast and due again then, within the transaction that completes the forecast.

    Without ``made_at`` it was a forecast apart, which ends nothing but the wish for it.
    """
    values = {
        "ref": str(ref),
        "forecaster": forecaster,
        "made_at": stamp(made_at),
        "due_at": None if following is None else stamp(following.at),
        "why": "forecast made" if following is None else clean(following.why),
    }
    database.execute(ANSWER_APART if made_at is None else ANSWER, values)


def _execute(database: Database, sql: str, values: dict[str, Any]) -> int:
    return database.execute(sql, values).rowcount


def _due_row(entry: Due) -> dict[str, Any]:
    return {
        "ref": str(entry.ref),
        "forecaster": entry.forecaster,
        "due_at": stamp(entry.due_at),
        "why": clean(entry.why),
        "closes_at": stamp(entry.closes_at),
        "answered_at": stamp(entry.answered_at),
        "apart": entry.apart,
    }


def _plan(database: Database, rows: Sequence[Mapping[str, Any]]) -> int:
    planned = database.conn.executemany(PLAN, rows).rowcount
    database.conn.executemany(MOVE_CLOSE, rows)
    return max(planned, 0)


def _claim(database: Database, order: "_Order") -> list[Claim]:
    database.execute(RETURN_EXPIRED, {"now": order.now})
    (due,) = database.execute(COUNT_DUE, {"now": order.now, "crowded": CROWDED}).fetchone()
    index = BY_CLOSE if due == CROWDED else BY_DUE
    claims: list[Claim] = []
    for window in CLAIMABLE:
        values = {"now": order.now, "limit": order.limit - len(claims), "leave": order.leave, "behind": order.behind}
        rows = database.execute(window[index], values).fetchall()
        claims += [_lease(database, ref, forecaster, order) for ref, forecaster in rows]
    return claims


def _lease(database: Database, ref: str, forecaster: str, order: "_Order") -> Claim:
    values = {"ref": ref, "forecaster": forecaster, "owner": order.owner, "until": stamp(order.until)}
    ((why, closes_at, attempt, apart),) = database.execute(LEASE, values).fetchall()
    return Claim(
        ref=QuestionRef.parse(ref),
        forecaster=forecaster,
        why=why,
        closes_at=moment(closes_at),
        attempt=attempt,
        leased_until=order.until,
        apart=bool(apart),
    )


def _scheduled(database: Database, values: Mapping[str, str | None]) -> list[Scheduled]:
    return [
        Scheduled(
            ref=QuestionRef.parse(ref),
            forecaster=forecaster,
            due_at=moment(due_at),
            made_at=moment(made_at),
            closes_at=moment(closes_at),
            as_of=moment(as_of),
        )
        for ref, forecaster, due_at, made_at, closes_at, as_of in database.execute(SCHEDULED, dict(values))
    ]


def _move(database: Database, moves: Sequence[tuple[Scheduled, Next]]) -> int:
    rows = [
        {
            "ref": str(one.ref),
            "forecaster": one.forecaster,
            "before": stamp(one.due_at),
            "due_at": stamp(following.at),
            "why": clean(following.why),
        }
        for one, following in moves
    ]
    return max(database.conn.executemany(MOVE_DUE, rows).rowcount, 0)


def _held(claim: Claim) -> dict[str, str]:
    return {"ref": str(claim.ref), "forecaster": claim.forecaster, "leased_until": stamp(claim.leased_until)}


def _move_leases(database: Database, by: timedelta) -> int:
    leases = database.execute(LEASES).fetchall()
    moved = [(stamp(moment(until) + by), ref, forecaster) for until, ref, forecaster in leases]
    database.conn.executemany(MOVE_LEASE, moved)
    return len(moved)


def _lock(ref: str, forecaster: str, reason: str, until: str | None) -> Lock:
    return Lock(ref=QuestionRef.parse(ref), forecaster=forecaster or None, reason=reason, until=moment(until))


def lock_reason(database: Database, ref: QuestionRef, forecaster: str, *, now: datetime) -> str | None:
    """Read why the question is locked now, for all or for this forecaster; None if it is not."""
    values = {"ref": str(ref), "forecaster": forecaster, "now": stamp(now)}
    row = database.execute(LOCK_REASON, values).fetchone()
    return None if row is None else str(row[0])


def _missed(database: Database, now: datetime) -> list[Missed]:
    judged = database.execute(JUDGE_WINDOWS, {"now": stamp(now)}).fetchall()
    missed = [
        Missed(ref=QuestionRef.parse(ref), forecaster=forecaster, closes_at=datetime.fromisoformat(closes_at))
        for ref, forecaster, closes_at, window in judged
        if window == "missed"
    ]
    for miss in missed:
        note(database, MISSED_WINDOW, f"{miss.ref}: no forecast of {miss.forecaster} by {miss.closes_at}", now)
    return sorted(missed, key=lambda miss: (miss.closes_at, miss.ref, miss.forecaster))
