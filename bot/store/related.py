"""What the ledger knew of questions before a moment: others like one, the past of one, and why a forecast was begun.

Nothing that was written down at that moment or later is told: not a text, a price or an outcome, and not that a
question was there at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef
from bot.store.codec import listed, moment, stamp, unpack_prediction
from bot.store.runs import Runs
from bot.store.setups import foreseeing
from bot.store.versions import stated

# A question that was stated anew since then is told as it was stated then. Versions are found by their targets, which
# have an index by question.
_KNOWN = """
with old as (
  select q.ref, v.version, v.body, max(v.seen_at)
  from question q join target t on t.ref = q.ref join question_version v on v.version = t.version
  where q.first_seen_at < :before and q.changed_at >= :before and v.seen_at < :before
  group by q.ref
), known as (
  select ref, version, title, closes_at from question where changed_at < :before
  union all
  select ref, version, json_extract(body, '$.title'), json_extract(body, '$.closes_at') from old
), found as (
  select k.*,
         (select count(*) from json_each(:words) where k.title like value escape '\\') as hits
  from known k
  where k.ref <> :ref and (k.closes_at is null or k.closes_at > :before)
), chosen as (
  select * from found f
  where hits > 0
    and exists (select 1 from target t where t.version = f.version and not exists (
      select 1 from resolution r where r.ref = t.ref and r.target = t.target and r.seen_at < :before))
  order by hits desc, closes_at is null, closes_at, ref limit :limit
)
select c.ref, c.title, c.closes_at, p.at, p.probability, p.body
from chosen c
left join price p on p.id = (select max(id) from price where ref = c.ref and at < :before and seen_at < :before)
order by c.hits desc, c.closes_at is null, c.closes_at, c.ref
"""
_ANY = "select exists (select 1 from question where ref <> :ref and first_seen_at < :before)"
_VERSIONS = """
select version, seen_at from question_version
where version in (select version from target where ref = :ref) and seen_at < :before order by seen_at, version
"""
_PRICES = """
select at, probability, body from price where ref = :ref and at < :before and seen_at < :before order by id
"""
_MOVED = """
select exists (
    select 1 from price where ref = :ref and at < :before and seen_at < :before limit 1 offset 1)
  or exists (
    select 1 from question_version
    where version in (select version from target where ref = :ref) and seen_at < :before limit 1 offset 1)
"""
_WHY = "select why from forecast where id = ?"
_SETUPS = "select id, setup from forecast where ref = ? and setup is not null"
_CROWD_OF = """
select p.probability, p.body from forecast f join price p on p.id = f.price where f.id = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A question as it was known: its title, when it closes, and the crowd's newest view with its moment."""

    ref: QuestionRef
    title: str
    closes_at: datetime | None
    crowd: Prediction | None
    crowd_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How a question was stated, and how the crowd saw it, each with its moment, oldest first."""

    versions: Sequence[tuple[datetime, Question]]
    crowds: Sequence[tuple[datetime, Prediction]]


@dataclass(frozen=True, slots=True)
class Related:
    """Reads questions as they were known before a moment."""

    readers: Runs

    async def alone(self, ref: QuestionRef, *, before: datetime) -> bool:
        """Say whether no other question was known."""
        values = {"ref": str(ref), "before": stamp(before)}
        return not await self.readers.run(lambda database: database.execute(_ANY, values).fetchone()[0])

    async def open(self, ref: QuestionRef, words: Sequence[str], *, before: datetime, limit: int) -> list[Known]:
        """Return other questions that were open with any of the words in their title, those with most words first."""
        found = [f"%{_escaped(word)}%" for word in words]
        values = {"ref": str(ref), "before": stamp(before), "words": listed(found), "limit": limit}
        return await self.readers.run(lambda database: [_known(*row) for row in database.execute(_KNOWN, values)])

    async def moved(self, ref: QuestionRef, *, before: datetime) -> bool:
        """Say whether a question has a past: another text than its first, or another price."""
        values = {"ref": str(ref), "before": stamp(before)}
        return bool(await self.readers.run(lambda database: database.execute(_MOVED, values).fetchone()[0]))

    async def past(self, ref: QuestionRef, *, before: datetime) -> Past:
        """Return the past of a question; empty where it was not known."""
        values = {"ref": str(ref), "before": stamp(before)}
        return await self.readers.run(lambda database: _past(database, values))

    async def why(self, forecast: str) -> str:
        """Return why a forecast was begun; empty for one that is none of the ledger's."""
        row = await self.readers.run(lambda database: database.execute(_WHY, [forecast]).fetchone())
        return str(row[0]) if row else ""

    async def crowd_of(self, forecast: str) -> Prediction | None:
        """Return the crowd's view that a forecast began with, if it had one."""
        row = await self.readers.run(lambda database: database.execute(_CROWD_OF, [forecast]).fetchone())
        return unpack_prediction(*row) if row else None

    async def foreseen(self, ref: QuestionRef) -> frozenset[str]:
        """Return the forecasts of a question that were made by one who might see the future; no trial is told them."""
        return await self.readers.run(lambda database: _foreseen(database, str(ref)))


def _foreseen(database: Database, ref: str) -> frozenset[str]:
    rows = database.execute(_SETUPS, [ref]).fetchall()
    clairvoyant = foreseeing(database, (setup for _, setup in rows))
    return frozenset(forecast for forecast, setup in rows if setup in clairvoyant)


def _escaped(word: str) -> str:
    return "".join(f"\\{character}" if character in "\\%_" else character for character in word)


def _known(*columns: Any) -> Known:  # noqa: ANN401 - a row of _KNOWN
    ref, title, closes_at, at, probability, body = columns
    return Known(
        ref=QuestionRef.parse(ref),
        title=title,
        closes_at=moment(closes_at),
        crowd=None if at is None else unpack_prediction(probability, body),
        crowd_at=moment(at),
    )


def _past(database: Database, values: dict[str, Any]) -> Past:
    versions = database.execute(_VERSIONS, values).fetchall()
    crowds = database.execute(_PRICES, values).fetchall()
    return Past(
        versions=[(moment(seen_at), stated(database, version, price=None)) for version, seen_at in versions],
        crowds=[(moment(at), unpack_prediction(*said)) for at, *said in crowds],
    )
