"""Questions in their current versions, lists of them, and their resolutions.

Resolutions are append-only: the newest row of a target is the current one.
"""

# ruff: noqa: S608 - statements made of the constants below

import difflib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from sqlite_utils import Database

from bot.core.errors import NotFoundError
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome, NumericOutcome, Outcome, Resolution
from bot.core.questions import CrowdForecast, Question, QuestionRef
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.database import escape_like, text_condition, text_pattern
from bot.store.question_history import (
    SELECT_QUESTION_VERSION,
    question_from_row,
    question_labels,
    store_crowd_prices,
    store_labels,
    store_prices,
    store_versions,
)
from bot.store.schema_views import IS_WITHDRAWN
from bot.store.score_totals import kept_score_totals
from bot.store.serialization import OUTCOME, format_timestamp, parse_timestamp, question_version, to_json_list

QUESTION_CHUNK = 500
_KNOWN_QUESTIONS = "select ref, version, labels, read_at from question where ref in (select value from json_each(?))"
_EXISTING_VERSIONS = "select version from question_version where version in (select value from json_each(?))"
_SET_READ_BY_WRITER = "update question set read_at = ? where ref in (select value from json_each(?))"
# A list may come from a cache: it may show an older version this long after the writer read a newer one.
MAX_LIST_LAG = timedelta(hours=1)
_JOIN_NEWEST_PRICE = "left join price p on p.id = (select max(id) from price where ref = v.ref)"
_CURRENT_QUESTION = f"""
{SELECT_QUESTION_VERSION} join question q on q.ref = v.ref and q.version = v.version {_JOIN_NEWEST_PRICE}
where q.ref = ?
"""
_QUESTIONS_IN_BATCH = f"""
{SELECT_QUESTION_VERSION} join question q on q.ref = v.ref and q.version = v.version {_JOIN_NEWEST_PRICE}
where q.venue = ? and q.batch = ? order by q.ref
"""
_CURRENT_VERSION = "select version from question where ref = ?"
_COUNT_QUESTIONS = "select coalesce(sum(count), 0) from tally where name = 'questions'"
_REFS_OF_VENUE = "select ref from question where venue = ? limit 5000"
# A withdrawn outcome does not count: its question is open again.
_HAS_OUTCOME = f"""exists (
    select 1 from current_resolution r where r.ref = t.ref and r.target = t.target and not {IS_WITHDRAWN})"""
_LAST_OUTCOME_BEFORE = "select id from resolution where seen_at < ? order by id desc limit 1"
# Starts from the few that may wait: without a score, with an outcome since then, or void.
_AWAITING_OUTCOME = f"""
with candidate as (
  select ref from prediction indexed by prediction_unscored where scored_against is null
  union select ref from resolution
    where id > :before
  union select ref from resolution indexed by resolution_void where kind = 'void')
select c.ref from candidate c cross join question q on q.ref = c.ref
where q.venue = :venue and exists (
  select 1 from forecast f join target t on t.version = f.version
  where f.ref = c.ref and f.state = 'done' and not exists (
    select 1 from current_resolution r
    where r.ref = t.ref and r.target = t.target and r.seen_at < :since and not {IS_WITHDRAWN}))
order by c.ref
"""
# The questions whose prices matter: open and forecast at least once, soonest close first.
_FORECAST_AND_OPEN = """
select q.ref from question q indexed by question_unresolved
where q.venue = :venue and (q.closes_at is null or q.closes_at > :now) and q.resolved = 0
  and exists (select 1 from forecast f where f.ref = q.ref and f.state = 'done')
order by q.closes_at is null, q.closes_at, q.ref limit :limit
"""
_IS_CHOSEN = "(:venue is null or q.venue = :venue) and (:source is null or q.source = :source) and ({fits})"
SELECT_QUESTION_ROWS = f"""
select q.ref, q.version, q.title, q.source, q.family, q.batch, q.closes_at,
       (select probability from price where id = (select max(id) from price where ref = q.ref)),
       (select count(*) from target t where t.version = q.version),
       (select count(*) from target t where t.version = q.version and {_HAS_OUTCOME})
from question q
"""
# Each half is read in the order of its index until the limit.
_SELECT_FILTERED = f"""
select * from ({SELECT_QUESTION_ROWS} indexed by {{index}} where q.closes_at is not null {{dated}} and {_IS_CHOSEN}
               order by q.closes_at, q.ref limit :limit)
union all
select * from ({SELECT_QUESTION_ROWS} indexed by {{index}} where q.closes_at is null {{undated}} and {_IS_CHOSEN}
               order by q.ref limit :limit)
limit :limit
"""
_WHERE_MATCHING = """
where q.ref like :start escape '\\' or q.key like :start escape '\\' or q.key like :part escape '\\'
   or not exists (select 1 from json_each(:words) where q.title not like value escape '\\')
order by q.ref not like :start escape '\\', q.key not like :start escape '\\', q.ref limit :limit
"""


class QuestionState(StrEnum):
    """The state of a question: open to forecasts, closed, or closed with every target resolved."""

    OPEN = "open"
    CLOSED = "closed"
    RESOLVED = "resolved"


# True for an open question q.
IS_OPEN_QUESTION = "(q.closes_at is null or q.closes_at > :now) and q.resolved = 0"
# What a search reads of all questions: half a second for a million of them.
_SEARCHED = ("q.title", "q.ref", "q.source", "q.batch")
# The index that is read, and the conditions for questions with and without a time of closing.
_IN_STATE = {
    None: ("question_by_close", "", ""),
    QuestionState.OPEN: ("question_unresolved", "and q.resolved = 0 and q.closes_at > :now", "and q.resolved = 0"),
    QuestionState.CLOSED: (
        "question_unresolved",
        "and q.resolved = 0 and q.closes_at <= :now",
        "and q.resolved = 0 and false",
    ),
    QuestionState.RESOLVED: ("question_by_close", "and q.resolved = 1", "and q.resolved = 1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """How many items were new, changed, or the same as before.

    ``unknown`` names the skipped items that belong to nothing in the ledger; ``outdated`` names the questions of which
    the ledger keeps a newer version.
    """

    new: int = 0
    changed: int = 0
    same: int = 0
    unknown: tuple[str, ...] = ()
    outdated: frozenset[QuestionRef] = frozenset()

    def __add__(self, other: "UpsertResult") -> "UpsertResult":
        return UpsertResult(
            new=self.new + other.new,
            changed=self.changed + other.changed,
            same=self.same + other.same,
            unknown=self.unknown + other.unknown,
            outdated=self.outdated | other.outdated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFilter:
    """Which questions to list; None means any. ``text``: which their title, names or batch contain in any case."""

    venue: str | None = None
    state: QuestionState | None = None
    source: str | None = None
    text: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """A question in a list: ``crowd`` is the newest probability, ``resolved`` counts targets with an outcome."""

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
        """Return the state of the question at that time."""
        if self.resolved == self.targets:
            return QuestionState.RESOLVED
        if self.closes_at is not None and self.closes_at <= now:
            return QuestionState.CLOSED
        return QuestionState.OPEN


@dataclass(frozen=True, slots=True)
class QuestionStore:
    """All questions ever seen, with their history."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def record(
        self, questions: Sequence[Question], *, seen_at: datetime, by_writer: bool = False
    ) -> UpsertResult:
        """Store the questions as they are now; a price is added if it differs from the last one.

        A version that the writer of a venue read (``by_writer``) is newer than lists: for a while, an older version
        from a list does not replace it.
        """
        total = UpsertResult()
        remaining = iter(questions)
        while chunk := list(islice(remaining, QUESTION_CHUNK)):
            total += await self._record_chunk(chunk, seen_at, by_writer=by_writer)
        return total

    async def _record_chunk(self, chunk: Sequence[Question], seen_at: datetime, *, by_writer: bool) -> UpsertResult:
        return await self.writer.run(lambda database: _record_questions(database, chunk, seen_at, by_writer=by_writer))

    async def record_crowd_prices(
        self, crowds: Sequence[tuple[QuestionRef, CrowdForecast]], *, seen_at: datetime
    ) -> int:
        """Store new prices of known questions without changing their text; return how many differ."""
        return await self.writer.run(lambda database: store_crowd_prices(database, crowds, format_timestamp(seen_at)))

    async def open_forecast_questions(self, venue: str, *, now: datetime, limit: int) -> list[QuestionRef]:
        """Return the open questions of a venue that were forecast, soonest close first."""
        values = {"venue": venue, "now": format_timestamp(now), "limit": limit}
        rows = await self.readers.run(lambda database: database.execute(_FORECAST_AND_OPEN, values).fetchall())
        return [QuestionRef.parse(ref) for (ref,) in rows]

    async def get(self, ref: QuestionRef) -> Question:
        """Return the current version of a question with its newest crowd; raises NotFoundError with similar ones."""
        rows = await self.readers.lookup_rows(_CURRENT_QUESTION, [str(ref)])
        if not rows:
            raise await self.readers.run(lambda database: _question_not_found(database, ref))
        return question_from_row(rows[0])

    async def current_version(self, ref: QuestionRef) -> str:
        """Return the digest of the current version; raises NotFoundError with similar ones."""
        rows = await self.readers.lookup_rows(_CURRENT_VERSION, [str(ref)])
        if not rows:
            raise await self.readers.run(lambda database: _question_not_found(database, ref))
        return str(rows[0][0])

    async def search(self, text: str, *, limit: int = 20) -> list[QuestionRow]:
        """Return questions whose id starts with the text, whose key contains it, or whose title has all its words."""
        return await self.readers.run(lambda database: _search_questions(database, text, limit))

    async def rows(self, chosen: QuestionFilter, *, now: datetime) -> list[QuestionRow]:
        """Return the questions of the filter, soonest close first."""
        return await self.readers.run(lambda database: _list_questions(database, chosen, now))

    async def in_batch(self, venue: str, batch: str) -> list[Question]:
        """Return all questions of a batch in their current versions, by reference."""
        return await self.readers.run(lambda database: _questions_in_batch(database, venue, batch))

    async def awaiting_outcome(self, venue: str, *, since: datetime) -> list[QuestionRef]:
        """Return the forecast questions without an outcome, or with one seen since then, which may be corrected."""
        return await self.readers.run(lambda database: _awaiting_outcome(database, venue, format_timestamp(since)))

    async def count(self) -> int:
        """Return the number of questions ever seen."""
        return await self.readers.run(_count_questions)


def read_current_question(database: Database, ref: QuestionRef) -> Question:
    """Read the current version with its newest crowd; raises NotFoundError."""
    row = database.execute(_CURRENT_QUESTION, [str(ref)]).fetchone()
    if row is None:
        raise _question_not_found(database, ref)
    return question_from_row(row)


def _record_questions(
    database: Database, questions: Sequence[Question], at: datetime, *, by_writer: bool
) -> UpsertResult:
    seen_at = format_timestamp(at)
    refs = to_json_list(question.ref for question in questions)
    rows = database.execute(_KNOWN_QUESTIONS, [refs]).fetchall()
    before: dict[str, str] = {ref: version for ref, version, _, _ in rows}
    labels: dict[str, str] = {ref: stored for ref, _, stored, _ in rows}
    fresh = {
        ref for ref, _, _, read_at in rows if read_at and at < parse_timestamp(read_at) + MAX_LIST_LAG and not by_writer
    }
    outdated = _outdated_questions(database, [one for one in questions if str(one.ref) in fresh], before)
    new = changed = 0
    changed_versions: list[tuple[Question, str]] = []
    for question in questions:
        ref, version = str(question.ref), question_version(question)
        if question.ref not in outdated and before.get(ref) != version:
            new, changed = (new + 1, changed) if ref not in before else (new, changed + 1)
            changed_versions.append((question, version))
            before[ref] = version
    with kept_score_totals(database, {question.ref for question, _ in changed_versions}):
        store_versions(database, changed_versions, seen_at)
    if by_writer:
        # Also where a list had shown this version before: another list may be older.
        database.execute(_SET_READ_BY_WRITER, [seen_at, refs])
    store_labels(
        database, [one for one in questions if labels.get(str(one.ref), question_labels(one)) != question_labels(one)]
    )
    store_prices(database, [one for one in questions if one.ref not in outdated], seen_at)
    return UpsertResult(new=new, changed=changed, same=len(questions) - new - changed, outdated=outdated)


def _outdated_questions(
    database: Database, questions: Sequence[Question], current_versions: Mapping[str, str]
) -> frozenset[QuestionRef]:
    """Return the questions that show a version older than the stored one."""
    versions = {question.ref: question_version(question) for question in questions}
    known = {version for (version,) in database.execute(_EXISTING_VERSIONS, [to_json_list(versions.values())])}
    return frozenset(ref for ref, one in versions.items() if one in known and one != current_versions[str(ref)])


def _questions_in_batch(database: Database, venue: str, batch: str) -> list[Question]:
    return [question_from_row(row) for row in database.execute(_QUESTIONS_IN_BATCH, [venue, batch])]


def _awaiting_outcome(database: Database, venue: str, since: str | None) -> list[QuestionRef]:
    (before,) = database.execute(_LAST_OUTCOME_BEFORE, [since]).fetchone() or (0,)
    rows = database.execute(_AWAITING_OUTCOME, {"venue": venue, "since": since, "before": before})
    return [QuestionRef.parse(ref) for (ref,) in rows]


def _count_questions(database: Database) -> int:
    return int(database.execute(_COUNT_QUESTIONS).fetchone()[0])


def _question_not_found(database: Database, ref: QuestionRef) -> NotFoundError:
    refs = [known for (known,) in database.execute(_REFS_OF_VENUE, [ref.venue])]
    near = difflib.get_close_matches(str(ref), refs, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return NotFoundError(f"no question {ref} in the ledger{hint}")


def _list_questions(database: Database, chosen: QuestionFilter, now: datetime) -> list[QuestionRow]:
    index, dated, undated = _IN_STATE[chosen.state]
    values = {"venue": chosen.venue, "source": chosen.source, "limit": chosen.limit, "now": format_timestamp(now)}
    fits = "true"
    if chosen.text is not None:
        fits, values["text"] = text_condition(database, _SEARCHED, chosen.text), text_pattern(chosen.text)
    sql = _SELECT_FILTERED.format(index=index, dated=dated, undated=undated, fits=fits)
    return [question_list_row(*row) for row in database.execute(sql, values)]


def _search_questions(database: Database, text: str, limit: int) -> list[QuestionRow]:
    # A full reference needs no search through all questions.
    if exact := database.execute(f"{SELECT_QUESTION_ROWS} where q.ref = ?", [text]).fetchall():
        return [question_list_row(*row) for row in exact]
    escaped = escape_like(text)
    words = to_json_list(f"%{escape_like(word)}%" for word in text.split())
    values = {"start": f"{escaped}%", "part": f"%{escaped}%", "words": words, "limit": limit}
    return [question_list_row(*row) for row in database.execute(SELECT_QUESTION_ROWS + _WHERE_MATCHING, values)]


def question_list_row(*columns: Any) -> QuestionRow:  # noqa: ANN401 - a database row
    """Read a row of ``SELECT_QUESTION_ROWS``."""
    ref, version, title, source, family, batch, closes_at, crowd, targets, resolved = columns
    return QuestionRow(
        ref=QuestionRef.parse(ref),
        version=version,
        title=title,
        source=source,
        family=family,
        batch=batch,
        closes_at=parse_timestamp(closes_at),
        crowd=crowd,
        targets=targets,
        resolved=resolved,
    )


RESOLUTION_CHUNK = 2_000
_KNOWN_TARGETS = "select distinct ref, target from target where ref in (select value from json_each(?))"
_KNOWN_RESOLUTIONS = """
select ref, target, body, resolved_at, seen_at from current_resolution where ref in (select value from json_each(?))
"""
_INSERT_RESOLUTION = """
insert into resolution (ref, target, kind, value, body, resolved_at, seen_at)
values (:ref, :target, :kind, :value, :body, :resolved_at, :seen_at)
"""
_CLEAR_SCORED = "update prediction set scored_against = null where ref = :ref and target = :target"
_CURRENT_RESOLUTIONS = "select target, body, resolved_at from current_resolution where ref = ? order by target"
# The current outcomes in the batches of the given questions.
_RESOLVED_IN_BATCHES = """
select r.ref, r.target from current_resolution r join question q on q.ref = r.ref
where r.kind <> 'void' and q.venue = :venue and q.batch in (
  select batch from question where ref in (select value from json_each(:refs)))
"""
_RESOLUTION_HISTORY = "select target, body, resolved_at from resolution where ref = ? order by id"


@dataclass(frozen=True, slots=True)
class ResolutionStore:
    """Outcomes of targets."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def record(self, resolutions: Sequence[Resolution], *, seen_at: datetime) -> UpsertResult:
        """Store new resolutions: a row is added if outcome or time differ from the current one.

        An outcome that is on record does not become known later, so a later time changes nothing.

        Resolutions of unknown targets are skipped and named in ``unknown``.
        """
        total = UpsertResult()
        remaining = iter(resolutions)
        while chunk := list(islice(remaining, RESOLUTION_CHUNK)):
            total += await self._record_chunk(chunk, seen_at)
        return total

    async def _record_chunk(self, chunk: Sequence[Resolution], seen_at: datetime) -> UpsertResult:
        return await self.writer.run(lambda database: _record_resolutions(database, chunk, format_timestamp(seen_at)))

    async def current(self, ref: QuestionRef) -> tuple[Resolution, ...]:
        """Return the current resolutions, by target."""
        return await self.readers.lookup(lambda database: _read_resolutions(database, _CURRENT_RESOLUTIONS, ref))

    async def resolved_in_batches(self, venue: str, refs: Collection[QuestionRef]) -> set[tuple[QuestionRef, str]]:
        """Return the targets with a current outcome, void ones excluded, in the batches of the given questions."""
        values = {"venue": venue, "refs": to_json_list(refs)}
        rows = await self.readers.run(lambda database: database.execute(_RESOLVED_IN_BATCHES, values).fetchall())
        return {(QuestionRef.parse(ref), target) for ref, target in rows}

    async def history(self, ref: QuestionRef) -> tuple[Resolution, ...]:
        """Return every resolution ever seen, oldest first."""
        return await self.readers.run(lambda database: _read_resolutions(database, _RESOLUTION_HISTORY, ref))


def _record_resolutions(database: Database, resolutions: Sequence[Resolution], seen_at: str) -> UpsertResult:
    refs = to_json_list({resolution.ref for resolution in resolutions})
    targets = set(database.execute(_KNOWN_TARGETS, [refs]).fetchall())
    known = {(ref, target): tuple(row) for ref, target, *row in database.execute(_KNOWN_RESOLUTIONS, [refs])}
    fresh, unknown, new = [], [], 0
    for resolution in resolutions:
        place = (str(resolution.ref), resolution.target)
        row = _resolution_row(resolution, seen_at)
        if place not in targets:
            unknown.append(f"{resolution.ref} {resolution.target}")
        elif place not in known or not _is_known_outcome(row, *known[place]):
            new += place not in known
            fresh.append(row)
            known[place] = (row["body"], row["resolved_at"], seen_at)
    with kept_score_totals(database, {row["ref"] for row in fresh}):
        database.conn.executemany(_INSERT_RESOLUTION, fresh)
        database.conn.executemany(_CLEAR_SCORED, fresh)
    changed = len(fresh) - new
    same = len(resolutions) - len(fresh) - len(unknown)
    return UpsertResult(new=new, changed=changed, same=same, unknown=tuple(unknown))


def _is_known_outcome(row: Mapping[str, Any], body: str, resolved_at: str, seen_at: str) -> bool:
    """Return whether a row repeats a known outcome, which cannot have become known after it was first seen.

    A reader whose venue gives no time has the time of each reading.
    """
    is_later = resolved_at <= seen_at < row["resolved_at"]
    return bool(row["body"] == body and (is_later or row["resolved_at"] == resolved_at))


def _resolution_row(resolution: Resolution, seen_at: str) -> dict[str, Any]:
    return {
        "ref": str(resolution.ref),
        "target": resolution.target,
        "kind": resolution.outcome.kind,
        "value": _outcome_value(resolution.outcome),
        "body": OUTCOME.encode(resolution.outcome),
        "resolved_at": format_timestamp(resolution.resolved_at),
        "seen_at": seen_at,
    }


def _outcome_value(outcome: Outcome) -> float | None:
    return float(outcome.value) if isinstance(outcome, BinaryOutcome | NumericOutcome) else None


def _read_resolutions(database: Database, sql: str, ref: QuestionRef) -> tuple[Resolution, ...]:
    return tuple(
        Resolution(ref=ref, target=target, outcome=OUTCOME.decode(body), resolved_at=parse_timestamp(resolved_at))
        for target, body, resolved_at in database.execute(sql, [str(ref)])
    )
