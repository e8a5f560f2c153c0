"""Checks of a ledger: of the file (quick at each start, full on a copy), and of its invariants.

An invariant is a query that returns no row in a correct ledger.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Protocol

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.store.cost_totals import WRONG_COST_TOTALS
from bot.store.database import WAL_LIMIT_BYTES, open_reader, translate_errors
from bot.store.market_totals import WRONG_MARKET_TOTALS
from bot.store.schema_views import IS_RESOLVED
from bot.store.score_totals import WRONG_SCORE_TOTALS


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInvariant:
    """A named query; each row that it returns is a fault, and ``meaning`` says what is wrong."""

    name: str
    sql: str
    meaning: str


_QUESTION_INVARIANTS = (
    LedgerInvariant(
        name="question_has_its_version",
        sql="""
select ref, version from question q
where not exists (select 1 from question_version v where v.version = q.version and v.ref = q.ref)
""",
        meaning="a question whose current version is not recorded",
    ),
    LedgerInvariant(
        name="version_has_targets",
        sql="select version from question_version where version not in (select version from target)",
        meaning="a version of a question without any target",
    ),
    LedgerInvariant(
        name="probability_is_one",
        sql="""
select 'prediction', forecast, probability from prediction
where not coalesce(probability, 0) between 0 and 1 or not coalesce(raw_probability, 0) between 0 and 1
union all select 'price', id, probability from price where not coalesce(probability, 0) between 0 and 1
""",
        meaning="a probability outside [0, 1]",
    ),
)
_JSON_COLUMNS = (
    ("question_version", "body"),
    ("price", "body"),
    ("prediction", "body"),
    ("prediction", "raw_body"),
    ("trial", "body"),
    ("intent", "predictions"),
    ("intent", "order_body"),
    ("resolution", "body"),
    ("fitted_parameters", "provenance"),
)
# A check constraint cannot do this: SQLite before 3.42 trusts no JSON function in a schema.
_JSON_INVARIANT = LedgerInvariant(
    name="json_is_json",
    sql="union all ".join(
        f"select '{table}.{column}', {column} from {table} where {column} is not null and not json_valid({column}) "  # noqa: S608 - constants
        for table, column in _JSON_COLUMNS
    ),
    meaning="text that should be JSON and is not",
)
_FORECAST_INVARIANTS = (
    LedgerInvariant(
        name="forecast_is_complete",
        sql="""
select f.id, t.target from forecast f join target t on t.version = f.version
where f.state = 'done'
  and not exists (select 1 from prediction p where p.forecast = f.id and p.target = t.target)
""",
        meaning="a completed forecast without a prediction for one of its targets",
    ),
    LedgerInvariant(
        name="prediction_has_a_target",
        sql="""
select p.forecast, p.target from prediction p join forecast f on f.id = p.forecast
where f.state <> 'done' or p.ref <> f.ref
  or not exists (select 1 from target t where t.version = f.version and t.target = p.target)
""",
        meaning="a prediction of an unknown target, or of a forecast that was not completed",
    ),
    LedgerInvariant(
        name="forecast_is_not_doubled",
        sql="""
select ref, forecaster, revision from forecast
where state = 'done' group by ref, forecaster, revision having count(*) > 1
""",
        meaning="the same revision completed twice",
    ),
    LedgerInvariant(
        name="revisions_have_no_gap",
        sql="""
select ref, forecaster from forecast group by ref, forecaster having min(revision) <> 1 or max(revision) <> count(*)
""",
        meaning="a revision of a forecast is missing",
    ),
    LedgerInvariant(
        name="cutoff_is_before_the_answer",
        sql="select id, cutoff, made_at from forecast where cutoff > made_at",
        meaning="a forecast whose cutoff is after its answer",
    ),
    LedgerInvariant(
        name="learned_before_the_cutoff",
        sql="""
select f.id, l.before, f.cutoff from forecast f join fitted_parameters l on l.digest in (f.fitted, f.calibration)
where l.before > f.cutoff
""",
        meaning="a forecast made or calibrated with parameters from after its cutoff",
    ),
)
_SCHEDULE_INVARIANTS = (
    LedgerInvariant(
        name="lease_has_an_owner",
        sql="select ref, forecaster from schedule where (owner is null) <> (leased_until is null)",
        meaning="a lease without an owner, or an owner without a lease",
    ),
    LedgerInvariant(
        name="lease_has_an_attempt",
        sql="select ref, forecaster from schedule where owner is not null and attempt = 0",
        meaning="a question still leased after its forecast was completed",
    ),
    LedgerInvariant(
        name="answer_is_in_the_schedule",
        sql="""
select ref, forecaster from schedule s
where answered_at is not null and not exists (
  select 1 from forecast f where f.ref = s.ref and f.forecaster = s.forecaster and f.state = 'done')
""",
        meaning="the schedule has a forecast that is not recorded",
    ),
)
_SUBMISSION_INVARIANTS = (
    LedgerInvariant(
        name="intent_was_decided",
        sql="""
select id from intent i
where not exists (select 1 from decision d where d.intent = i.id and d.verdict = 'send' and d.forecast = i.forecast)
""",
        meaning="an intent without a decision to send it",
    ),
    LedgerInvariant(
        name="intent_is_of_its_forecast",
        sql="""
select i.id from intent i join forecast f on f.id = i.forecast where f.state <> 'done' or f.ref <> i.ref
""",
        meaning="an intent of an unfinished forecast, or of a forecast of another question",
    ),
    LedgerInvariant(
        name="sent_intent_has_an_attempt",
        sql="""
select id, state from intent i
where state in ('sending', 'acked', 'refused', 'unknown', 'absent', 'in doubt')
  and not exists (select 1 from attempt a where a.intent = i.id)
""",
        meaning="an intent in a state that only an attempt leads to",
    ),
    LedgerInvariant(
        name="attempt_agrees_with_its_intent",
        sql="""
select i.id, i.state, a.state from intent i
join attempt a on a.intent = i.id and a.number = (select max(number) from attempt where intent = i.id)
where i.state in ('sending', 'acked', 'refused', 'unknown', 'in doubt') and a.state <> i.state
""",
        meaning="the last attempt and its intent have different states",
    ),
    LedgerInvariant(
        name="attempts_have_no_gap",
        sql="select intent from attempt group by intent having min(number) <> 1 or max(number) <> count(*)",
        meaning="an attempt is missing",
    ),
    LedgerInvariant(
        name="one_open_intent",
        sql="""
select ref, account, action = 'comment' from intent where state not in ('acked', 'refused', 'superseded')
group by ref, account, action = 'comment' having count(*) > 1
""",
        meaning="two intents of one question that may both still reach the venue",
    ),
    LedgerInvariant(
        name="decided_forecast_has_a_decision",
        sql="""
select id from forecast f
where (decided_at is not null) <> exists (select 1 from decision d where d.forecast = f.id)
""",
        meaning="a forecast marked as decided without a decision, or the reverse",
    ),
    LedgerInvariant(
        name="comment_follows_its_forecast",
        sql="""
select c.id from intent c
where c.action = 'comment' and exists (select 1 from attempt a where a.intent = c.id)
  and not exists (
    select 1 from intent i join attempt a on a.intent = i.id
    where i.forecast = c.forecast and i.account = c.account and i.action in ('forecast', 'order'))
""",
        meaning="a comment that was sent before its forecast or order",
    ),
    LedgerInvariant(
        name="order_has_its_terms",
        sql="select id, action from intent where (action = 'order') <> (order_body is not null)",
        meaning="an order without its terms, or another intent with terms of an order",
    ),
    LedgerInvariant(
        name="request_has_its_tag",
        sql="select id, tag, request from attempt where (tag <> '') <> (request is not null)",
        meaning="a request without a tag, or a tag without its request",
    ),
    LedgerInvariant(
        name="tag_is_of_one_intent",
        sql="""
select i.venue, i.account, a.tag from attempt a join intent i on i.id = a.intent
where a.tag <> '' group by i.venue, i.account, a.tag having count(distinct a.intent) > 1
""",
        meaning="two intents with the same tag at the venue",
    ),
    LedgerInvariant(
        name="fill_is_of_an_acknowledged_order",
        sql="""
select f.intent, f.reference, i.action, i.state from fill f join intent i on i.id = f.intent
where i.action <> 'order' or i.state <> 'acked'
""",
        meaning="a fill of an order that was not acknowledged",
    ),
    LedgerInvariant(
        name="order_costs_its_fills",
        sql="""
select i.id, i.cost, -sum(f.cash) from intent i join fill f on f.intent = i.id
group by i.id having i.cost + 1e-6 < -sum(f.cash)
""",
        meaning="an order whose fills cost more than its recorded cost",
    ),
    LedgerInvariant(
        name="question_is_resolved_by_its_outcomes",
        sql=f"select ref, resolved from question where resolved <> ({IS_RESOLVED.format(ref='question.ref')})",  # noqa: S608 - made of constants
        meaning="a question whose mark as resolved does not match its outcomes",
    ),
    LedgerInvariant(
        name="order_is_resolved_with_its_question",
        sql=f"""
select i.id, i.question_resolved from intent i
where i.action = 'order' and i.question_resolved <> ({IS_RESOLVED.format(ref="i.ref")})
""",  # noqa: S608 - made of constants
        meaning="an order whose mark as resolved does not match its question",
    ),
)
_OUTCOME_INVARIANTS = (
    LedgerInvariant(
        name="scored_against_its_own_outcome",
        sql="""
select p.forecast, p.target, r.id from prediction p join resolution r on r.id = p.scored_against
where r.ref <> p.ref or r.target <> p.target
""",
        meaning="a prediction scored against the outcome of something else",
    ),
    LedgerInvariant(
        name="scored_against_the_outcome_in_force",
        sql="""
select p.forecast, p.target, r.id from prediction p
join current_resolution r on r.ref = p.ref and r.target = p.target
where p.scored_against <> r.id
""",
        meaning="a prediction marked as scored although its outcome was corrected",
    ),
    LedgerInvariant(
        name="score_is_of_its_prediction",
        sql="""
select s.forecast, s.target, s.rule from score s
join prediction p on p.forecast = s.forecast and p.target = s.target
join current_resolution r on r.id = s.resolution
where r.ref <> p.ref or r.target <> p.target or r.kind = 'void' or p.scored_against is not r.id
""",
        meaning="a score of something else, of a void outcome, or of a prediction not marked as scored",
    ),
)
_MODEL_INVARIANTS = (
    LedgerInvariant(
        name="settled_call_has_a_cost",
        sql="""
select id, state, cost_usd, worst_usd from model_call
where (state in ('done', 'failed')) <> (cost_usd is not null) or cost_usd < 0 or worst_usd < 0
""",
        meaning="an ended call without a cost, a running call with a cost, or a negative amount",
    ),
    LedgerInvariant(
        name="cached_tokens_were_read",
        sql="select id, tokens_cached, tokens_in from model_call where tokens_cached > tokens_in",
        meaning="a call with more cached input tokens than input tokens",
    ),
    LedgerInvariant(
        name="call_is_of_its_question",
        sql="select c.id, c.ref, f.ref from model_call c join forecast f on f.id = c.scope where c.ref <> f.ref",
        meaning="a call charged to another question than that of its forecast",
    ),
)
_TALLY_INVARIANTS = (
    LedgerInvariant(
        name="tallies_are_right",
        sql="""
select 'questions', (select count(*) from question) as counted,
       coalesce((select count from tally where name = 'questions'), 0) as tallied where counted <> tallied
union all
select 'forecasts', (select count(*) from forecast where state = 'done') as counted,
       coalesce((select count from tally where name = 'forecasts'), 0) as tallied where counted <> tallied
union all
select i.state, count(*) as counted, coalesce(t.count, 0) as tallied from intent i
left join intent_tally t on t.venue = i.venue and t.paper = (i.mode = 'paper') and t.state = i.state
group by i.venue, i.mode = 'paper', i.state having counted <> tallied
""",
        meaning="a count that is kept up does not match its table",
    ),
    LedgerInvariant(
        name="score_totals_are_right",
        sql=WRONG_SCORE_TOTALS,
        meaning="sums of scores that are kept up do not match the scores",
    ),
    LedgerInvariant(
        name="cost_totals_are_right",
        sql=WRONG_COST_TOTALS,
        meaning="costs of finished days that were summed do not match the calls",
    ),
    LedgerInvariant(
        name="market_totals_are_right",
        sql=WRONG_MARKET_TOTALS,
        meaning="sums over closed markets do not match them, or a market is both open and closed",
    ),
)
INVARIANTS: tuple[LedgerInvariant, ...] = (
    _JSON_INVARIANT,
    *_QUESTION_INVARIANTS,
    *_FORECAST_INVARIANTS,
    *_SCHEDULE_INVARIANTS,
    *_SUBMISSION_INVARIANTS,
    *_OUTCOME_INVARIANTS,
    *_MODEL_INVARIANTS,
    *_TALLY_INVARIANTS,
)
MIN_FREE_BYTES = 500_000_000
LOW_DISK_RULE = "no question is searched, no forecast and no submission begins until there is more"
MAX_EXAMPLES = 5


class IntegrityQuery(Protocol):
    """A check of the ledger as SQL that returns the faulty rows, such as ``LedgerInvariant``."""

    @property
    def name(self) -> str:
        """A short name in snake case."""
        ...

    @property
    def sql(self) -> str:
        """A select without parameters that returns no row if the ledger is correct."""
        ...

    @property
    def meaning(self) -> str:
        """What is wrong with a returned row, for people."""
        ...


@dataclass(frozen=True, slots=True)
class _BuiltinCheck:
    name: str
    sql: str
    meaning: str


_QUICK_CHECK = _BuiltinCheck(
    "quick_check", f"pragma quick_check({MAX_EXAMPLES})", "pages are damaged; restore a backup"
)
_FULL_CHECK = _BuiltinCheck(
    "integrity_check", f"pragma integrity_check({MAX_EXAMPLES})", "the file is damaged; restore a backup"
)
_FOREIGN_KEY_CHECK = _BuiltinCheck("foreign_key_check", "pragma foreign_key_check", "rows refer to missing rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityProblem:
    """A failed check with some of the faulty rows."""

    check: str
    meaning: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityReport:
    """The result of the checks. ``problems`` need attention now, ``warnings`` soon.

    ``is_complete``: the checks were not stopped by a time limit.
    """

    path: Path
    checks: tuple[str, ...]
    problems: tuple[IntegrityProblem, ...]
    warnings: tuple[str, ...] = ()
    database_bytes: int
    wal_bytes: int
    free_bytes: int
    is_complete: bool = True

    @property
    def sound(self) -> bool:
        """Whether no check failed."""
        return not self.problems


def run_quick_check(path: Path, *, limit_s: float | None = None) -> IntegrityReport:
    """Look for damaged pages without reading every index: a second for some hundred MB.

    With ``limit_s``, stop after that many seconds: the report is then not complete, and knows of no damage. Damage is a
    problem in the report; raises StoreError for a file that cannot be opened.
    """
    return _run_checks(path, (_QUICK_CHECK,), limit_s=limit_s)


def run_full_check(path: Path, queries: Sequence[IntegrityQuery]) -> IntegrityReport:
    """Check every page, index and foreign key, then every given query.

    It has no time limit: check a copy while the ledger is in heavy use. Raises StoreError for a file that cannot be
    opened.
    """
    return _run_checks(path, (_FULL_CHECK, _FOREIGN_KEY_CHECK, *queries))


def low_disk_reason(folder: Path, min_free_bytes: float = MIN_FREE_BYTES) -> str:
    """Return why nothing new may begin on the disk of a folder, "" if enough of it is free; raises StoreError."""
    with translate_errors(folder):
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        free_bytes = shutil.disk_usage(existing).free
    if free_bytes >= min_free_bytes:
        return ""
    least = f"{min_free_bytes / 1e6:,.0f} MB"
    return f"{free_bytes / 1e6:,.0f} MB are free on the disk of {folder}, less than {least}; {LOW_DISK_RULE}"


def wal_size(path: Path) -> int:
    """Return the size of the write-ahead log of the ledger; above 64 MB a reader blocks its checkpoint."""
    wal = path.with_name(f"{path.name}-wal")
    return wal.stat().st_size if wal.exists() else 0


def sqlite_version_warning(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> str | None:
    """Return a warning about this version of SQLite, None if it has no known fault.

    Up to 3.51.2, two connections that checkpoint at once can corrupt the write-ahead log; 3.44.6 and 3.50.7 have the
    fix too. Foxcast opens only one writing connection, so an old version is a warning and not an error.
    """
    if version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45):
        return None
    number = ".".join(str(part) for part in version)
    return (
        f"SQLite {number} can corrupt a database that two programs write to; update it, or let no other program write"
    )


def _run_checks(path: Path, queries: Sequence[IntegrityQuery], *, limit_s: float | None = None) -> IntegrityReport:
    with translate_errors(path), closing(open_reader(path)) as database:
        # Sorting all calls of models in memory would take as much memory as they do.
        database.conn.execute("pragma temp_store = file")
        problems, is_complete = find_problems(database, queries, limit_s)
        found = IntegrityReport(
            path=path,
            checks=tuple(query.name for query in queries),
            problems=problems,
            database_bytes=path.stat().st_size,
            wal_bytes=wal_size(path),
            free_bytes=shutil.disk_usage(path.parent).free,
            is_complete=is_complete,
        )
    return replace(found, warnings=_disk_warnings(found))


def find_problems(
    database: Database, queries: Sequence[IntegrityQuery], limit_s: float | None
) -> tuple[tuple[IntegrityProblem, ...], bool]:
    """Return what the checks find, and whether they came to their end within the limit."""
    timer = None if limit_s is None else Timer(limit_s, database.conn.interrupt)
    if timer is not None:
        timer.start()
    try:
        return tuple(problem for query in queries if (problem := run_check(database, query)) is not None), True
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return (), False
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()


def run_check(database: Database, query: IntegrityQuery) -> IntegrityProblem | None:
    """Run one query; return the problem that it finds, if any."""
    try:
        # Each query has its own snapshot: one for all would block the checkpoint of the write-ahead log.
        rows = database.conn.execute(query.sql).fetchmany(MAX_EXAMPLES)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        rows = [(str(error),)]
    examples = tuple(", ".join(str(value) for value in row) for row in rows if row != ("ok",))
    return IntegrityProblem(check=query.name, meaning=query.meaning, examples=examples) if examples else None


def _disk_warnings(health: IntegrityReport) -> tuple[str, ...]:
    low, long = health.free_bytes < MIN_FREE_BYTES, health.wal_bytes > WAL_LIMIT_BYTES
    free, log = f"{health.free_bytes / 1e6:.0f} MB", f"{health.wal_bytes / 1e6:.0f} MB"
    found = (
        f"{free} are free on the disk; {LOW_DISK_RULE}" if low else None,
        f"the write-ahead log has {log}; stop other programs that keep the ledger open" if long else None,
        sqlite_version_warning(),
    )
    return tuple(warning for warning in found if warning is not None)
