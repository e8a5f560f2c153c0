"""Questions as the venues state them now, and lists of them; their past is in ``versions``.

An unchanged question costs no write.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from sqlite_utils import Database

from bot.domain.question import Crowd, Question, QuestionRef
from bot.errors import NotFound
from bot.store.codec import listed, moment, stamp, version_of
from bot.store.runs import Runs
from bot.store.schema_lanes import IS_TAKEN_BACK
from bot.store.versions import (
    STATED,
    labels_of,
    question_from,
    store_crowds,
    store_labels,
    store_prices,
    store_versions,
)

CHUNK = 500

KNOWN = "select ref, version, labels, read_at from question where ref in (select value from json_each(?))"
VERSIONS = "select version from question_version where version in (select value from json_each(?))"
READ_BY_WRITER = "update question set read_at = ? where ref in (select value from json_each(?))"
# A list, a cache of a venue or of its reader, may show an earlier text for so long after its writer read a newer one.
LISTS_LAG = timedelta(hours=1)
NEWEST_PRICE = "left join price p on p.id = (select max(id) from price where ref = v.ref)"
CURRENT = f"{STATED} join question q on q.ref = v.ref and q.version = v.version {NEWEST_PRICE} where q.ref = ?"
IN_BATCH = f"""
{STATED} join question q on q.ref = v.ref and q.version = v.version {NEWEST_PRICE}
where q.venue = ? and q.batch = ? order by q.ref
"""
CURRENT_VERSION = "select version from question where ref = ?"
COUNT = "select count(*) from question"
REFS_OF_VENUE = "select ref from question where venue = ? limit 5000"
# An outcome that was taken back is none: its question is open again.
_HAS_OUTCOME = f"""exists (
    select 1 from current_resolution r where r.ref = t.ref and r.target = t.target and not {IS_TAKEN_BACK})"""  # noqa: S608 - constants
WATCHED = f"""
select distinct f.ref
from forecast f join question q on q.ref = f.ref join target t on t.version = f.version
where q.venue = :venue and f.state = 'done'
  and not exists (
    select 1 from current_resolution r
    where r.ref = t.ref and r.target = t.target and r.seen_at < :since and not {IS_TAKEN_BACK})
order by f.ref
"""  # noqa: S608 - made of constants
# The questions whose prices matter: open, and forecast at least once; the soonest to close first.
PRICED = f"""
select q.ref from question q
where q.venue = :venue and (q.closes_at is null or q.closes_at > :now)
  and exists (select 1 from forecast f where f.ref = q.ref and f.state = 'done')
  and exists (select 1 from target t where t.version = q.version and not {_HAS_OUTCOME})
order by q.closes_at is null, q.closes_at, q.ref limit :limit
"""  # noqa: S608 - made of constants
ROWS = f"""
select q.ref, q.version, q.title, q.source, q.family, q.batch, q.closes_at,
       (select probability from price where id = (select max(id) from price where ref = q.ref)),
       (select count(*) from target t where t.version = q.version),
       (select count(*) from target t where t.version = q.version and {_HAS_OUTCOME})
from question q
"""  # noqa: S608 - made of constants
FILTERED = """
where (:venue is null or q.venue = :venue) and (:source is null or q.source = :source) {state}
order by q.closes_at is null, q.closes_at, q.ref limit :limit
"""
MATCHING = """
where q.ref like :start escape '\\' or q.key like :start escape '\\' or q.key like :part escape '\\'
   or not exists (select 1 from json_each(:words) where q.title not like value escape '\\')
order by q.ref not like :start escape '\\', q.key not like :start escape '\\', q.ref limit :limit
"""


class QuestionState(StrEnum):
    """Where a question stands: open to forecasts, closed, or closed with every target resolved."""

    OPEN = "open"
    CLOSED = "closed"
    RESOLVED = "resolved"


_ALL_RESOLVED = f"not exists (select 1 from target t where t.version = q.version and not {_HAS_OUTCOME})"  # noqa: S608 - constants
_IN_STATE = {
    None: "",
    QuestionState.OPEN: f"and (q.closes_at is null or q.closes_at > :now) and not ({_ALL_RESOLVED})",
    QuestionState.CLOSED: f"and q.closes_at <= :now and not ({_ALL_RESOLVED})",
    QuestionState.RESOLVED: f"and {_ALL_RESOLVED}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How many items were new, different from before, or already on record as they are.

    ``unknown`` names items that belong to nothing in the ledger and were left out; ``outdated`` questions that are on
    record by a fresher reading, which stays.
    """

    new: int = 0
    changed: int = 0
    same: int = 0
    unknown: tuple[str, ...] = ()
    outdated: frozenset[QuestionRef] = frozenset()

    def __add__(self, other: "Recorded") -> "Recorded":
        return Recorded(
            new=self.new + other.new,
            changed=self.changed + other.changed,
            same=self.same + other.same,
            unknown=self.unknown + other.unknown,
            outdated=self.outdated | other.outdated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFilter:
    """Which questions to list; None means any."""

    venue: str | None = None
    state: QuestionState | None = None
    source: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """One line about a question: ``crowd`` is the newest probability, ``resolved`` counts targets with an outcome."""

    ref: QuestionRef
    version: str
    title: str
    source: str
    family: str
    batch: str | None
    closes_at: datetime | None
    crowd: float | None
    targets: int
    resolved: int

    def state(self, now: datetime) -> QuestionState:
        """Return where the question stands at the moment."""
        if self.resolved == self.targets:
            return QuestionState.RESOLVED
        if self.closes_at is not None and self.closes_at <= now:
            return QuestionState.CLOSED
        return QuestionState.OPEN


@dataclass(frozen=True, slots=True)
class Questions:
    """Every question ever seen, with its past."""

    writer: Runs
    readers: Runs

    async def record(self, questions: Sequence[Question], *, seen_at: datetime, by_writer: bool = False) -> Recorded:
        """Keep the questions as they are now; a price is added when it differs from the last one.

        What the writer of a venue read just before a write is fresher than lists: an earlier version that a list still
        shows for a while does not come back.
        """
        total = Recorded()
        remaining = iter(questions)
        while chunk := list(islice(remaining, CHUNK)):
            total += await self._record_chunk(chunk, seen_at, by_writer=by_writer)
        return total

    async def _record_chunk(self, chunk: Sequence[Question], seen_at: datetime, *, by_writer: bool) -> Recorded:
        return await self.writer.run(lambda database: _record(database, chunk, seen_at, by_writer=by_writer))

    async def reprice(self, crowds: Sequence[tuple[QuestionRef, Crowd]], *, seen_at: datetime) -> int:
        """Keep newer views of the crowd of known questions, their texts untouched; return how many differ."""
        return await self.writer.run(lambda database: store_crowds(database, crowds, stamp(seen_at)))

    async def priced(self, venue: str, *, now: datetime, limit: int) -> list[QuestionRef]:
        """Return the open questions of a venue that were forecast, the soonest to close first."""
        values = {"venue": venue, "now": stamp(now), "limit": limit}
        rows = await self.readers.run(lambda database: database.execute(PRICED, values).fetchall())
        return [QuestionRef.parse(ref) for (ref,) in rows]

    async def get(self, ref: QuestionRef) -> Question:
        """Return the question in its current version with its newest crowd; raises NotFound naming near ones."""
        return await self.readers.run(lambda database: current(database, ref))

    async def current_version(self, ref: QuestionRef) -> str:
        """Return the digest of the current version; raises NotFound naming near questions."""
        return await self.readers.run(lambda database: _current_version(database, ref))

    async def search(self, text: str, *, limit: int = 20) -> list[QuestionRow]:
        """Return questions whose id starts with the text, whose key has it in it, or whose title has all its words."""
        return await self.readers.run(lambda database: _search(database, text, limit))

    async def rows(self, chosen: QuestionFilter, *, now: datetime) -> list[QuestionRow]:
        """Return the chosen questions, soonest close first."""
        return await self.readers.run(lambda database: _rows(database, chosen, now))

    async def in_batch(self, venue: str, batch: str) -> list[Question]:
        """Return all questions of a batch in their current versions, by reference."""
        return await self.readers.run(lambda database: _in_batch(database, venue, batch))

    async def watched(self, venue: str, *, since: datetime) -> list[QuestionRef]:
        """Return the forecast questions that wait for an outcome, or whose outcome is new enough to be corrected."""
        return await self.readers.run(lambda database: _watched(database, venue, stamp(since)))

    async def count(self) -> int:
        """Return how many questions were ever seen."""
        return await self.readers.run(_count)


def current(database: Database, ref: QuestionRef) -> Question:
    """Read the current version with its newest crowd; raises NotFound."""
    row = database.execute(CURRENT, [str(ref)]).fetchone()
    if row is None:
        raise _not_found(database, ref)
    return question_from(row)


def _record(database: Database, questions: Sequence[Question], at: datetime, *, by_writer: bool) -> Recorded:
    seen_at = stamp(at)
    refs = listed(question.ref for question in questions)
    rows = database.execute(KNOWN, [refs]).fetchall()
    before: dict[str, str] = {ref: version for ref, version, _, _ in rows}
    filed: dict[str, str] = {ref: labels for ref, _, labels, _ in rows}
    fresh = {ref for ref, _, _, read_at in rows if read_at and at < moment(read_at) + LISTS_LAG and not by_writer}
    outdated = _outdated(database, [one for one in questions if str(one.ref) in fresh], before)
    new = changed = 0
    restated: list[tuple[Question, str]] = []
    for question in questions:
        ref, version = str(question.ref), version_of(question)
        if question.ref not in outdated and before.get(ref) != version:
            new, changed = (new + 1, changed) if ref not in before else (new, changed + 1)
            restated.append((question, version))
            before[ref] = version
    store_versions(database, restated, seen_at)
    if by_writer:
        database.execute(READ_BY_WRITER, [seen_at, listed(question.ref for question, _ in restated)])
    store_labels(database, [one for one in questions if filed.get(str(one.ref), labels_of(one)) != labels_of(one)])
    store_prices(database, [one for one in questions if one.ref not in outdated], seen_at)
    return Recorded(new=new, changed=changed, same=len(questions) - new - changed, outdated=outdated)


def _outdated(
    database: Database, questions: Sequence[Question], current_versions: Mapping[str, str]
) -> frozenset[QuestionRef]:
    """Return those that say again what was said before the version on record."""
    versions = {question.ref: version_of(question) for question in questions}
    known = {version for (version,) in database.execute(VERSIONS, [listed(versions.values())])}
    return frozenset(ref for ref, one in versions.items() if one in known and one != current_versions[str(ref)])


def _in_batch(database: Database, venue: str, batch: str) -> list[Question]:
    return [question_from(row) for row in database.execute(IN_BATCH, [venue, batch])]


def _watched(database: Database, venue: str, since: str | None) -> list[QuestionRef]:
    rows = database.execute(WATCHED, {"venue": venue, "since": since})
    return [QuestionRef.parse(ref) for (ref,) in rows]


def _count(database: Database) -> int:
    return int(database.execute(COUNT).fetchone()[0])


def _current_version(database: Database, ref: QuestionRef) -> str:
    row = database.execute(CURRENT_VERSION, [str(ref)]).fetchone()
    if row is None:
        raise _not_found(database, ref)
    return str(row[0])


def _not_found(database: Database, ref: QuestionRef) -> NotFound:
    refs = [known for (known,) in database.execute(REFS_OF_VENUE, [ref.venue])]
    near = difflib.get_close_matches(str(ref), refs, n=3)
    hint = f"; near it: {', '.join(near)}" if near else ""
    return NotFound(f"no question {ref} in the ledger{hint}")


def _rows(database: Database, chosen: QuestionFilter, now: datetime) -> list[QuestionRow]:
    sql = ROWS + FILTERED.format(state=_IN_STATE[chosen.state])
    values = {"venue": chosen.venue, "source": chosen.source, "limit": chosen.limit, "now": stamp(now)}
    return [_row(*row) for row in database.execute(sql, values)]


def _search(database: Database, text: str, limit: int) -> list[QuestionRow]:
    escaped = _escaped(text)
    words = listed(f"%{_escaped(word)}%" for word in text.split())
    values = {"start": f"{escaped}%", "part": f"%{escaped}%", "words": words, "limit": limit}
    return [_row(*row) for row in database.execute(ROWS + MATCHING, values)]


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\%_" else character for character in text)


def _row(*columns: Any) -> QuestionRow:  # noqa: ANN401 - a row of ROWS
    ref, version, title, source, family, batch, closes_at, crowd, targets, resolved = columns
    return QuestionRow(
        ref=QuestionRef.parse(ref),
        version=version,
        title=title,
        source=source,
        family=family,
        batch=batch,
        closes_at=moment(closes_at),
        crowd=crowd,
        targets=targets,
        resolved=resolved,
    )
