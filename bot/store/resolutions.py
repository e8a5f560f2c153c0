"""What happened, as it became known: append-only, the newest row of a target is the one in force."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from sqlite_utils import Database

from bot.domain.question import QuestionRef
from bot.domain.resolution import Happened, Landed, Outcome, Resolution
from bot.store.codec import OUTCOME, listed, moment, stamp
from bot.store.questions import Recorded
from bot.store.runs import Runs

CHUNK = 2_000

_TARGETS = "select distinct ref, target from target where ref in (select value from json_each(?))"
_KNOWN = """
select ref, target, body, resolved_at from current_resolution where ref in (select value from json_each(?))
"""
_ADD = """
insert into resolution (ref, target, kind, value, body, resolved_at, seen_at)
values (:ref, :target, :kind, :value, :body, :resolved_at, :seen_at)
"""
_SCORE_ANEW = "update prediction set scored_against = null where ref = :ref and target = :target"
_CURRENT = "select target, body, resolved_at from current_resolution where ref = ? order by target"
# Outcomes in force of the batches that the given questions belong to.
_OF_THEIR_BATCHES = """
select r.ref, r.target from current_resolution r join question q on q.ref = r.ref
where r.kind <> 'void' and q.venue = :venue and q.batch in (
  select batch from question where ref in (select value from json_each(:refs)))
"""
_HISTORY = "select target, body, resolved_at from resolution where ref = ? order by id"


@dataclass(frozen=True, slots=True)
class Resolutions:
    """Outcomes of targets."""

    writer: Runs
    readers: Runs

    async def record(self, resolutions: Sequence[Resolution], *, seen_at: datetime) -> Recorded:
        """Keep what is new: a row is added where outcome or moment differ from the one in force.

        Outcomes of targets that no version of a question on record has are left out and named in ``unknown``.
        """
        total = Recorded()
        remaining = iter(resolutions)
        while chunk := list(islice(remaining, CHUNK)):
            total += await self._record_chunk(chunk, seen_at)
        return total

    async def _record_chunk(self, chunk: Sequence[Resolution], seen_at: datetime) -> Recorded:
        return await self.writer.run(lambda database: _record(database, chunk, stamp(seen_at)))

    async def current(self, ref: QuestionRef) -> tuple[Resolution, ...]:
        """Return the outcomes in force, by target."""
        return await self.readers.run(lambda database: _resolutions(database, _CURRENT, ref))

    async def beside(self, venue: str, refs: Collection[QuestionRef]) -> set[tuple[QuestionRef, str]]:
        """Return the targets with an outcome in force in the batches of the given questions; void ones are left out."""
        values = {"venue": venue, "refs": listed(refs)}
        rows = await self.readers.run(lambda database: database.execute(_OF_THEIR_BATCHES, values).fetchall())
        return {(QuestionRef.parse(ref), target) for ref, target in rows}

    async def history(self, ref: QuestionRef) -> tuple[Resolution, ...]:
        """Return every outcome ever seen, oldest first."""
        return await self.readers.run(lambda database: _resolutions(database, _HISTORY, ref))


def _record(database: Database, resolutions: Sequence[Resolution], seen_at: str) -> Recorded:
    refs = listed({resolution.ref for resolution in resolutions})
    targets = set(database.execute(_TARGETS, [refs]).fetchall())
    known = {(ref, target): tuple(row) for ref, target, *row in database.execute(_KNOWN, [refs])}
    fresh, unknown, new = [], [], 0
    for resolution in resolutions:
        place = (str(resolution.ref), resolution.target)
        row = _row(resolution, seen_at)
        stated = (row["body"], row["resolved_at"])
        if place not in targets:
            unknown.append(f"{resolution.ref} {resolution.target}")
        elif known.get(place) != stated:
            new += place not in known
            fresh.append(row)
            known[place] = stated
    database.conn.executemany(_ADD, fresh)
    database.conn.executemany(_SCORE_ANEW, fresh)
    changed = len(fresh) - new
    same = len(resolutions) - len(fresh) - len(unknown)
    return Recorded(new=new, changed=changed, same=same, unknown=tuple(unknown))


def _row(resolution: Resolution, seen_at: str) -> dict[str, Any]:
    return {
        "ref": str(resolution.ref),
        "target": resolution.target,
        "kind": resolution.outcome.kind,
        "value": _value(resolution.outcome),
        "body": OUTCOME.encode(resolution.outcome),
        "resolved_at": stamp(resolution.resolved_at),
        "seen_at": seen_at,
    }


def _value(outcome: Outcome) -> float | None:
    return float(outcome.value) if isinstance(outcome, Happened | Landed) else None


def _resolutions(database: Database, sql: str, ref: QuestionRef) -> tuple[Resolution, ...]:
    return tuple(
        Resolution(ref=ref, target=target, outcome=OUTCOME.decode(body), resolved_at=moment(resolved_at))
        for target, body, resolved_at in database.execute(sql, [str(ref)])
    )
