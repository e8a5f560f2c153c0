"""Lists of questions in pages: filtered, searched and sorted, each page read along an index from where the last ended.

A page reads at most ``MAX_SCANNED`` questions, however rare the ones are that it looks for, so that its time does not
grow with the ledger; the place where it stopped is where the next one begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Outcome
from bot.core.predictions import BinaryPrediction, Prediction, QuestionShape
from bot.core.questions import Question
from bot.store.database import escape_like
from bot.store.question_history import read_question_version
from bot.store.questions import (
    IS_OPEN_QUESTION,
    SELECT_QUESTION_ROWS,
    QuestionRow,
    QuestionState,
    question_list_row,
)
from bot.store.serialization import OUTCOME, format_timestamp, parse_timestamp, to_json_list, unpack_prediction

PAGE_ROWS = 50
MAX_SCANNED = 20_000
MAX_PRICES = 60
MAX_FORECASTS = 60
# Before and after every time, reference and id.
_FIRST, _LAST = "", "\U0010ffff"
_UNDATED = "undated"


class QuestionSort(StrEnum):
    """The order of a list of questions."""

    FORECAST = "forecast"
    CLOSES = "closes"
    CLOSED = "closed"


_STATES: Mapping[QuestionState | None, str] = {
    None: "true",
    QuestionState.OPEN: IS_OPEN_QUESTION,
    QuestionState.CLOSED: "q.closes_at <= :now and q.resolved = 0",
    QuestionState.RESOLVED: "q.resolved = 1",
}
_COLUMNS = "q.ref, q.resolved, q.venue, q.title, q.closes_at"
_DATED = f"select q.closes_at as place, q.ref as key, {_COLUMNS} from question q indexed by question_by_close"  # noqa: S608 - constants
_SCANS: Mapping[str, str] = {
    QuestionSort.CLOSES: f"{_DATED} where (q.closes_at, q.ref) > (:place, :key) order by q.closes_at, q.ref",
    QuestionSort.CLOSED: f"""
{_DATED} where (q.closes_at, q.ref) < (:place, :key) order by q.closes_at desc, q.ref desc""",
    _UNDATED: f"""
select '{_UNDATED}' as place, q.ref as key, {_COLUMNS} from question q indexed by question_by_close
where q.closes_at is null and q.ref > :key order by q.ref""",  # noqa: S608 - made of constants
    QuestionSort.FORECAST: f"""
select f.made_at as place, f.id as key, {_COLUMNS}
from forecast f indexed by forecast_recent cross join question q on q.ref = f.ref
where f.state = 'done' and (f.made_at, f.id) < (:place, :key) order by f.made_at desc, f.id desc""",  # noqa: S608 - constants
}
_IS_MATCH = """
(:venue is null or q.venue = :venue)
and (:words is null or not exists (select 1 from json_each(:words) where q.title not like value escape '\\'))
"""
# A question is listed at its newest forecast.
_IS_NEWEST = """
not exists (select 1 from forecast later where later.ref = q.ref and later.state = 'done'
            and (later.made_at, later.id) > (q.place, q.key))
"""
_LAST_SCANNED = "select place, key from ({scan} limit 1 offset :last)"
_PRICES = """
select at, probability from price where ref = ? and probability is not null order by id desc limit ?
"""
_FORECASTS = """
select f.forecaster, f.made_at, p.probability, p.body from forecast f
join prediction p on p.forecast = f.id
  and p.target = (select min(target) from prediction where forecast = f.id)
where f.ref = ? and f.state = 'done' order by f.made_at desc, f.id desc limit ?
"""
_VERSIONS = """
select version, seen_at from question_version
where version in (select version from target where ref = ?) order by seen_at desc, version limit ?
"""
_OUTCOME = "select body from current_resolution where ref = ? order by target limit 1"
_VENUES = """
with recursive venue(name) as (
  select (select min(ref) from question)
  union all
  select (select min(ref) from question where ref > substr(name, 1, instr(name, ':') - 1) || ';') from venue
  where name is not null)
select substr(name, 1, instr(name, ':') - 1) from venue where name is not null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPageRequest:
    """Which questions a page lists; ``after`` is where the last page ended, "" for the first one.

    ``text`` are words that the title must have, or the reference of one question; ``scanned`` is how many questions are
    read at most.
    """

    now: datetime
    venue: str | None = None
    state: QuestionState | None = None
    text: str = ""
    sort: QuestionSort = QuestionSort.FORECAST
    after: str = ""
    limit: int = PAGE_ROWS
    scanned: int = MAX_SCANNED


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionListEntry:
    """A question in a list with its first target's prices and forecasts over time, oldest first.

    ``beliefs`` are the probabilities of yes by forecaster, ``newest`` the newest predictions of any kind.
    """

    row: QuestionRow
    shape: QuestionShape
    prices: Sequence[tuple[datetime, float]] = ()
    beliefs: Mapping[str, Sequence[tuple[datetime, float]]] = field(default_factory=dict)
    newest: Mapping[str, Prediction] = field(default_factory=dict)
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPage:
    """A page of a list; ``next_page`` is the ``after`` of the next one, None at the end.

    ``is_partial``: the search stopped before the page was full, and the next one continues it.
    """

    questions: Sequence[QuestionListEntry]
    next_page: str | None
    is_partial: bool = False


def read_question_page(database: Database, request: QuestionPageRequest) -> QuestionPage:
    """Read a page; raises ValueError for an ``after`` that no page had."""
    if request.text and ":" in request.text:
        exact = database.execute(f"{SELECT_QUESTION_ROWS} where q.ref = ?", [request.text.strip()]).fetchall()
        if exact:
            rows = [question_list_row(*row) for row in exact]
            return QuestionPage(questions=[_list_question(database, row) for row in rows], next_page=None)
    places, next_page, is_partial = _find_places(database, request)
    refs = to_json_list(ref for _, _, ref in places)
    rows_by_ref = {
        str(row.ref): row
        for columns in database.execute(
            f"{SELECT_QUESTION_ROWS} where q.ref in (select value from json_each(?))",  # noqa: S608 - constants
            [refs],
        ).fetchall()
        for row in [question_list_row(*columns)]
    }
    questions = [_list_question(database, rows_by_ref[ref]) for _, _, ref in places]
    return QuestionPage(questions=questions, next_page=next_page, is_partial=is_partial)


def list_question_venues(database: Database) -> list[str]:
    """Return the venues that questions are known of; one step of the index for each."""
    return [venue for (venue,) in database.execute(_VENUES)]


def read_price_series(database: Database, ref: str, limit: int) -> list[tuple[datetime, float]]:
    """Return the newest probabilities of the crowd for a question, oldest first."""
    rows = database.execute(_PRICES, [ref, limit]).fetchall()
    return [(parse_timestamp(at), probability) for at, probability in reversed(rows)]


def read_question_versions(database: Database, ref: str, limit: int) -> list[tuple[datetime, Question]]:
    """Return the newest versions of a question with the times when they were first seen, oldest first."""
    rows = database.execute(_VERSIONS, [ref, limit]).fetchall()
    return [(parse_timestamp(at), read_question_version(database, one, price=None)) for one, at in reversed(rows)]


def _find_places(
    database: Database, request: QuestionPageRequest
) -> tuple[list[tuple[str, str, str]], str | None, bool]:
    """Return place, key and reference of the questions of the page, where the next one begins, and if it is partial."""
    place, key = _first_place(request) if not request.after else _parse_place(request.after)
    found: list[tuple[str, str, str]] = []
    scans = [_UNDATED] if place == _UNDATED else [request.sort.value]
    if request.sort is not QuestionSort.FORECAST and scans != [_UNDATED]:
        scans.append(_UNDATED)
    for scan in scans:
        start = ("", _FIRST) if scan == _UNDATED and place != _UNDATED else (place, key)
        rows, stopped_at = _scan_questions(database, request, scan, start, request.limit + 1 - len(found))
        found += rows
        if len(found) > request.limit:
            last = found[request.limit - 1]
            return found[: request.limit], f"{last[0]}|{last[1]}", False
        if stopped_at is not None:
            return found, f"{stopped_at[0]}|{stopped_at[1]}", True
    return found, None, False


def _first_place(request: QuestionPageRequest) -> tuple[str, str]:
    now = format_timestamp(request.now)
    match request.sort, request.state:
        case QuestionSort.CLOSES, QuestionState.OPEN:
            return now, _LAST
        case QuestionSort.CLOSED, QuestionState.CLOSED:
            return now, _LAST
        case QuestionSort.CLOSES, _:
            return _FIRST, _FIRST
        case _:
            return _LAST, _LAST


def _parse_place(after: str) -> tuple[str, str]:
    place, bar, key = after.partition("|")
    if not bar:
        message = "the page is unknown; begin with the first one"
        raise ValueError(message)
    return place, key


def _scan_questions(
    database: Database, request: QuestionPageRequest, scan: str, start: tuple[str, str], limit: int
) -> tuple[list[tuple[str, str, str]], tuple[str, str] | None]:
    """Return at most ``limit`` matches behind ``start``, and where the scan stopped if it was cut short before."""
    newest = _IS_NEWEST if scan == QuestionSort.FORECAST else "true"
    statement = f"""
select q.place, q.key, q.ref from ({_SCANS[scan]} limit :scanned) q
where {_IS_MATCH} and {newest} and {_STATES[request.state]} limit :limit
"""  # noqa: S608 - made of constants
    words = [f"%{escape_like(word)}%" for word in request.text.split()]
    values = {
        "place": start[0],
        "key": start[1],
        "venue": request.venue,
        "words": to_json_list(words) if words else None,
        "now": format_timestamp(request.now),
        "scanned": request.scanned,
        "limit": limit,
    }
    rows: list[tuple[str, str, str]] = database.execute(statement, values).fetchall()
    if len(rows) == limit:
        return rows, None
    last = database.execute(_LAST_SCANNED.format(scan=_SCANS[scan]), {**values, "last": request.scanned - 1}).fetchone()
    return rows, None if last is None else (last[0], last[1])


def _list_question(database: Database, row: QuestionRow) -> QuestionListEntry:
    ref = str(row.ref)
    beliefs: dict[str, list[tuple[datetime, float]]] = {}
    newest: dict[str, Prediction] = {}
    for forecaster, made_at, probability, body in database.execute(_FORECASTS, [ref, MAX_FORECASTS]).fetchall():
        prediction = unpack_prediction(probability, body)
        newest.setdefault(forecaster, prediction)
        if isinstance(prediction, BinaryPrediction):
            beliefs.setdefault(forecaster, []).insert(0, (parse_timestamp(made_at), prediction.probability))
    outcome = database.execute(_OUTCOME, [ref]).fetchone() if row.resolved == row.targets else None
    return QuestionListEntry(
        row=row,
        shape=read_question_version(database, row.version, price=None).shape,
        prices=read_price_series(database, ref, MAX_PRICES),
        beliefs=beliefs,
        newest=dict(sorted(newest.items())),
        outcome=None if outcome is None else OUTCOME.decode(outcome[0]),
    )
