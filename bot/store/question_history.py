"""The history of questions: each version by its digest, prices over time, and what was known before a given time."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.ids import sha256_hex
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction, prediction_mismatch
from bot.core.questions import CrowdForecast, Question, QuestionRef
from bot.store.connections import LedgerReaders
from bot.store.database import escape_like
from bot.store.serialization import (
    QUESTION,
    JsonSerializer,
    format_timestamp,
    pack_prediction,
    parse_timestamp,
    plain_content,
    sanitize_text,
    to_json_list,
    unpack_prediction,
)
from bot.store.trials import clairvoyant_setups

_TEXT_FIELDS = ("background", "criteria")
_LABEL_FIELDS = ("tags", "tournaments")
_LABEL_SERIALIZER: JsonSerializer[dict[str, list[str]]] = JsonSerializer("set of labels", dict[str, list[str]])
_UPSERT_QUESTION = """
insert into question (ref, venue, key, version, title, source, family, series, batch, url, opens_at, closes_at, as_of,
                      labels, first_seen_at, changed_at)
values (:ref, :venue, :key, :version, :title, :source, :family, :series, :batch, :url, :opens_at, :closes_at, :as_of,
        :labels, :seen_at, :seen_at)
on conflict (ref) do update set
  version = excluded.version, title = excluded.title, source = excluded.source, family = excluded.family,
  series = excluded.series, batch = excluded.batch, url = excluded.url, opens_at = excluded.opens_at,
  closes_at = excluded.closes_at, as_of = excluded.as_of, labels = excluded.labels, changed_at = excluded.changed_at
"""
_MOVE_CLOSE = """
update schedule set closes_at = :closes_at, window = 'open' where ref = :ref and closes_at is not :closes_at
"""
_UPDATE_LABELS = "update question set labels = :labels where ref = :ref"
_INSERT_TEXT = "insert into question_text (digest, body) values (?, ?) on conflict do nothing"
_INSERT_VERSION = """
insert into question_version (version, ref, seen_at, body, background, criteria)
values (:version, :ref, :seen_at, :body, :background, :criteria) on conflict do nothing
"""
_INSERT_TARGET = """
insert into target (version, target, ref, resolves_at, horizon_days)
values (:version, :target, :ref, :resolves_at, :horizon_days) on conflict do nothing
"""
_INSERT_PRICE = """
insert into price (ref, at, seen_at, probability, body, explanation, spread, liquidity)
values (:ref, :at, :seen_at, :probability, :body, :explanation, :spread, :liquidity)
"""
_NEWEST_PRICES = """
select ref, probability, body, explanation from price
where id in (select max(id) from price where ref in (select value from json_each(?)) group by ref)
"""
_SAME_PRICE = """
select max(id) from price
where ref = :ref and at = :at and probability is :probability and body is :body and explanation = :explanation
"""
SELECT_QUESTION_VERSION = """
select v.body, b.body, c.body, p.at, p.probability, p.body, p.explanation, p.spread, p.liquidity,
       (select labels from question where ref = v.ref)
from question_version v
left join question_text b on b.digest = v.background
left join question_text c on c.digest = v.criteria
"""
_VERSION_BY_DIGEST = f"{SELECT_QUESTION_VERSION} left join price p on p.id = :price where v.version = :version"


def store_versions(database: Database, questions: Sequence[tuple[Question, str]], seen_at: str) -> None:
    """Write questions, each with the digest of its version, as the current ones."""
    plains = [(question, version, _plain_question(question)) for question, version in questions]
    rows = [_question_row(question, version, seen_at) for question, version in questions]
    database.conn.executemany(_UPSERT_QUESTION, rows)
    database.conn.executemany(_MOVE_CLOSE, rows)
    database.conn.executemany(_INSERT_TEXT, [item for _, _, plain in plains for item in _text_rows(plain)])
    database.conn.executemany(_INSERT_VERSION, [_version_row(*item, seen_at) for item in plains])
    database.conn.executemany(
        _INSERT_TARGET, [row for question, version in questions for row in _target_rows(question, version)]
    )


def store_labels(database: Database, questions: Iterable[Question]) -> None:
    """Write the current labels of known questions."""
    rows = [{"ref": str(question.ref), "labels": question_labels(question)} for question in questions]
    database.conn.executemany(_UPDATE_LABELS, rows)


def store_prices(database: Database, questions: Iterable[Question], seen_at: str) -> None:
    """Write the crowd of each question where it differs from the newest stored one."""
    crowds = [(question.ref, question.crowd) for question in questions if question.crowd is not None]
    store_crowd_prices(database, crowds, seen_at)


def store_crowd_prices(database: Database, crowds: Sequence[tuple[QuestionRef, CrowdForecast]], seen_at: str) -> int:
    """Write the crowds of known questions where they differ from the newest stored ones; return how many."""
    refs = to_json_list(ref for ref, _ in crowds)
    newest = {ref: tuple(shown) for ref, *shown in database.execute(_NEWEST_PRICES, [refs])}
    moved = []
    for ref, crowd in crowds:
        price = _price_row(ref, crowd, seen_at)
        shown = (price["probability"], price["body"], price["explanation"])
        if newest.get(str(ref)) != shown:
            newest[str(ref)] = shown
            moved.append(price)
    database.conn.executemany(_INSERT_PRICE, moved)
    return len(moved)


def pin_price(database: Database, question: Question, seen_at: str) -> int | None:
    """Return the id of the question's price, adding the price if it is not stored."""
    if question.crowd is None:
        return None
    price = _price_row(question.ref, question.crowd, seen_at)
    known: int | None = database.execute(_SAME_PRICE, price).fetchone()[0]
    return database.execute(_INSERT_PRICE, price).lastrowid if known is None else known


def read_question_version(database: Database, version: str, *, price: int | None) -> Question:
    """Return a version of a question with the crowd of this price; raises NotFoundError."""
    row = database.execute(_VERSION_BY_DIGEST, {"version": version, "price": price}).fetchone()
    if row is None:
        message = f"no question version {version} in the ledger"
        raise NotFoundError(message)
    return question_from_row(row)


def question_from_row(row: tuple[Any, ...]) -> Question:
    """Read a row of ``SELECT_QUESTION_VERSION``; a price of other options or another range than its own is left out."""
    body, background, criteria, at, probability, prediction, explanation, spread, liquidity, labels = row
    plain = {**json.loads(body), **json.loads(labels)}
    plain.update(
        {name: text for name, text in zip(_TEXT_FIELDS, (background, criteria), strict=True) if text is not None}
    )
    if at is None:
        return QUESTION.value(plain)
    shown = {"kind": "binary", "probability": probability} if prediction is None else json.loads(prediction)
    crowd = {
        "at": at,
        "prediction": shown,
        "explanation": explanation,
        # A few were stored in percent.
        "spread": None if spread is None or abs(spread) > 1.0 else spread,
        "liquidity": liquidity,
    }
    try:
        return QUESTION.value({**plain, "crowd": crowd})
    except MalformedDataError:
        # Options and ranges may change between two readings, and prices are also read without their question.
        question = QUESTION.value(plain)
        if prediction_mismatch(unpack_prediction(probability, prediction), question.shape) is None:
            raise
        return question


def _plain_question(question: Question) -> dict[str, Any]:
    plain = plain_content(question)
    return plain | {name: sanitize_text(plain[name]) for name in _TEXT_FIELDS if name in plain}


def _text_rows(plain: dict[str, Any]) -> list[tuple[str, str]]:
    return [(sha256_hex(plain[name].encode()), plain[name]) for name in _TEXT_FIELDS if name in plain]


def _version_row(question: Question, version: str, plain: dict[str, Any], seen_at: str) -> dict[str, Any]:
    body = QUESTION.text({name: value for name, value in plain.items() if name not in _TEXT_FIELDS})
    texts = {name: sha256_hex(plain[name].encode()) if name in plain else None for name in _TEXT_FIELDS}
    return {"version": version, "ref": str(question.ref), "seen_at": seen_at, "body": body, **texts}


def _target_rows(question: Question, version: str) -> list[dict[str, Any]]:
    return [
        {
            "version": version,
            "target": target.key,
            "ref": str(question.ref),
            "resolves_at": format_timestamp(target.resolves_at),
            "horizon_days": target.horizon_days,
        }
        for target in question.targets
    ]


def _question_row(question: Question, version: str, seen_at: str) -> dict[str, Any]:
    return {
        "ref": str(question.ref),
        "venue": question.ref.venue,
        "key": question.ref.key,
        "version": version,
        "title": sanitize_text(question.title),
        "source": sanitize_text(question.source),
        "family": sanitize_text(question.family),
        "series": sanitize_text(question.series),
        "batch": None if question.batch is None else sanitize_text(question.batch),
        "url": None if question.url is None else sanitize_text(question.url),
        "opens_at": format_timestamp(question.opens_at),
        "closes_at": format_timestamp(question.closes_at),
        "as_of": format_timestamp(question.as_of),
        "labels": question_labels(question),
        "seen_at": seen_at,
    }


def question_labels(question: Question) -> str:
    """Return the labels of a question as stored JSON; they are no part of its versions."""
    return _LABEL_SERIALIZER.text({name: list(found) for name in _LABEL_FIELDS if (found := getattr(question, name))})


def _price_row(ref: QuestionRef, crowd: CrowdForecast, seen_at: str) -> dict[str, Any]:
    probability, body = pack_prediction(crowd.prediction)
    return {
        "ref": str(ref),
        "at": format_timestamp(crowd.at),
        "seen_at": seen_at,
        "probability": probability,
        "body": body,
        "explanation": sanitize_text(crowd.explanation),
        "spread": crowd.spread,
        "liquidity": crowd.liquidity,
    }


# A question that changed since then appears in its version of that time. Versions are found through their targets,
# which have an index by question.
_KNOWN_QUESTIONS = """
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
_OTHER_QUESTION_EXISTS = "select exists (select 1 from question where ref <> :ref and first_seen_at < :before)"
_KNOWN_VERSIONS = """
select version, seen_at from question_version
where version in (select version from target where ref = :ref) and seen_at < :before order by seen_at, version
"""
_KNOWN_PRICES = """
select at, probability, body from price where ref = :ref and at < :before and seen_at < :before order by id
"""
_HAS_CHANGED = """
select exists (
    select 1 from price where ref = :ref and at < :before and seen_at < :before limit 1 offset 1)
  or exists (
    select 1 from question_version
    where version in (select version from target where ref = :ref) and seen_at < :before limit 1 offset 1)
"""
_FORECAST_REASON = "select why from forecast where id = ?"
_FORECAST_SETUPS = "select id, setup from forecast where ref = ? and setup is not null"
_FORECAST_CROWD = """
select p.probability, p.body from forecast f join price p on p.id = f.price where f.id = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuestion:
    """A question as known at a time: title, closing time, and the newest prediction of the crowd with its time."""

    ref: QuestionRef
    title: str
    closes_at: datetime | None
    crowd: Prediction | None
    crowd_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTimeline:
    """The versions of a question and the predictions of the crowd, each with its time, oldest first."""

    versions: Sequence[tuple[datetime, Question]]
    crowds: Sequence[tuple[datetime, Prediction]]


@dataclass(frozen=True, slots=True)
class QuestionHistoryReader:
    """Reads questions as they were known before a given time."""

    readers: LedgerReaders

    async def is_only_question(self, ref: QuestionRef, *, before: datetime) -> bool:
        """Return whether no other question was known."""
        values = {"ref": str(ref), "before": format_timestamp(before)}
        ((others,),) = await self.readers.lookup_rows(_OTHER_QUESTION_EXISTS, values)
        return not others

    async def open(
        self, ref: QuestionRef, words: Sequence[str], *, before: datetime, limit: int
    ) -> list[KnownQuestion]:
        """Return other open questions with any of the words in their title, those with most words first."""
        patterns = [f"%{escape_like(word)}%" for word in words]
        values = {"ref": str(ref), "before": format_timestamp(before), "words": to_json_list(patterns), "limit": limit}
        return await self.readers.run(
            lambda database: [_known_question(*row) for row in database.execute(_KNOWN_QUESTIONS, values)]
        )

    async def has_changed(self, ref: QuestionRef, *, before: datetime) -> bool:
        """Return whether a question had a second version or a second price."""
        values = {"ref": str(ref), "before": format_timestamp(before)}
        ((changed,),) = await self.readers.lookup_rows(_HAS_CHANGED, values)
        return bool(changed)

    async def past(self, ref: QuestionRef, *, before: datetime) -> QuestionTimeline:
        """Return the history of a question; empty if it was not known."""
        values = {"ref": str(ref), "before": format_timestamp(before)}
        return await self.readers.run(lambda database: _question_timeline(database, values))

    async def forecast_reason(self, forecast: str) -> str:
        """Return why a forecast was begun; empty for an unknown forecast."""
        rows = await self.readers.lookup_rows(_FORECAST_REASON, [forecast])
        return str(rows[0][0]) if rows else ""

    async def crowd_of(self, forecast: str) -> Prediction | None:
        """Return the prediction of the crowd at the start of a forecast, if any."""
        rows = await self.readers.lookup_rows(_FORECAST_CROWD, [forecast])
        return unpack_prediction(*rows[0]) if rows else None

    async def clairvoyant_forecasts(self, ref: QuestionRef) -> frozenset[str]:
        """Return the forecasts of a question whose forecaster might see the future; trials must not see them."""
        return await self.readers.run(lambda database: _clairvoyant_forecasts(database, str(ref)))


def _clairvoyant_forecasts(database: Database, ref: str) -> frozenset[str]:
    rows = database.execute(_FORECAST_SETUPS, [ref]).fetchall()
    clairvoyant = clairvoyant_setups(database, (setup for _, setup in rows))
    return frozenset(forecast for forecast, setup in rows if setup in clairvoyant)


def _known_question(*columns: Any) -> KnownQuestion:  # noqa: ANN401 - a database row
    ref, title, closes_at, at, probability, body = columns
    return KnownQuestion(
        ref=QuestionRef.parse(ref),
        title=title,
        closes_at=parse_timestamp(closes_at),
        crowd=None if at is None else unpack_prediction(probability, body),
        crowd_at=parse_timestamp(at),
    )


def _question_timeline(database: Database, values: dict[str, Any]) -> QuestionTimeline:
    versions = database.execute(_KNOWN_VERSIONS, values).fetchall()
    crowds = database.execute(_KNOWN_PRICES, values).fetchall()
    return QuestionTimeline(
        versions=[
            (parse_timestamp(seen_at), read_question_version(database, version, price=None))
            for version, seen_at in versions
        ],
        crowds=[(parse_timestamp(at), unpack_prediction(*prediction)) for at, *prediction in crowds],
    )
