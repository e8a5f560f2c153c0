"""The past of questions: each version of a text by its digest, long passages once, and prices as they moved.

A version is the digest of all that a question says but for its crowd. This module works within the transactions and
snapshots of others; it opens none.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlite_utils import Database

from bot.domain.question import Crowd, Question, QuestionRef
from bot.errors import NotFound
from bot.ids import digest
from bot.store.codec import QUESTION, Form, clean, listed, pack_prediction, stamp

PASSAGES = ("background", "criteria")
LABELS = ("tags", "tournaments")
_LABELS: Form[dict[str, list[str]]] = Form("set of labels", dict[str, list[str]])

PUT_QUESTION = """
insert into question (ref, venue, key, version, title, source, family, series, batch, url, opens_at, closes_at, as_of,
                      labels, first_seen_at, changed_at)
values (:ref, :venue, :key, :version, :title, :source, :family, :series, :batch, :url, :opens_at, :closes_at, :as_of,
        :labels, :seen_at, :seen_at)
on conflict (ref) do update set
  version = excluded.version, title = excluded.title, source = excluded.source, family = excluded.family,
  series = excluded.series, batch = excluded.batch, url = excluded.url, opens_at = excluded.opens_at,
  closes_at = excluded.closes_at, as_of = excluded.as_of, labels = excluded.labels, changed_at = excluded.changed_at
"""
PUT_LABELS = "update question set labels = :labels where ref = :ref"
ADD_PASSAGE = "insert into passage (digest, body) values (?, ?) on conflict do nothing"
ADD_VERSION = """
insert into question_version (version, ref, seen_at, body, background, criteria)
values (:version, :ref, :seen_at, :body, :background, :criteria) on conflict do nothing
"""
ADD_TARGET = """
insert into target (version, target, ref, resolves_at, horizon_days)
values (:version, :target, :ref, :resolves_at, :horizon_days) on conflict do nothing
"""
ADD_PRICE = """
insert into price (ref, at, seen_at, probability, body, explanation)
values (:ref, :at, :seen_at, :probability, :body, :explanation)
"""
NEWEST_PRICES = """
select ref, probability, body, explanation from price
where id in (select max(id) from price where ref in (select value from json_each(?)) group by ref)
"""
SAME_PRICE = """
select max(id) from price
where ref = :ref and at = :at and probability is :probability and body is :body and explanation = :explanation
"""
STATED = """
select v.body, b.body, c.body, p.at, p.probability, p.body, p.explanation,
       (select labels from question where ref = v.ref)
from question_version v
left join passage b on b.digest = v.background
left join passage c on c.digest = v.criteria
"""
VERSION = f"{STATED} left join price p on p.id = :price where v.version = :version"


def store_versions(database: Database, questions: Sequence[tuple[Question, str]], seen_at: str) -> None:
    """Write questions, each with the digest of its version, as the current ones."""
    plains = [(question, version, _plain(question)) for question, version in questions]
    database.conn.executemany(PUT_QUESTION, [_columns(question, version, seen_at) for question, version in questions])
    database.conn.executemany(ADD_PASSAGE, [item for _, _, plain in plains for item in _passages(plain)])
    database.conn.executemany(ADD_VERSION, [_version(*item, seen_at) for item in plains])
    database.conn.executemany(
        ADD_TARGET, [row for question, version in questions for row in _targets(question, version)]
    )


def store_labels(database: Database, questions: Iterable[Question]) -> None:
    """Write what known questions are filed under now."""
    rows = [{"ref": str(question.ref), "labels": labels_of(question)} for question in questions]
    database.conn.executemany(PUT_LABELS, rows)


def store_prices(database: Database, questions: Iterable[Question], seen_at: str) -> None:
    """Write the crowd of each question where it differs from the newest one on record."""
    crowds = [(question.ref, question.crowd) for question in questions if question.crowd is not None]
    store_crowds(database, crowds, seen_at)


def store_crowds(database: Database, crowds: Sequence[tuple[QuestionRef, Crowd]], seen_at: str) -> int:
    """Write the crowds of known questions where they differ from the newest on record; return how many did."""
    refs = listed(ref for ref, _ in crowds)
    newest = {ref: tuple(shown) for ref, *shown in database.execute(NEWEST_PRICES, [refs])}
    moved = []
    for ref, crowd in crowds:
        price = _price(ref, crowd, seen_at)
        shown = (price["probability"], price["body"], price["explanation"])
        if newest.get(str(ref)) != shown:
            newest[str(ref)] = shown
            moved.append(price)
    database.conn.executemany(ADD_PRICE, moved)
    return len(moved)


def pin_price(database: Database, question: Question, seen_at: str) -> int | None:
    """Return the id of the price that the question shows, adding it if it is not on record."""
    if question.crowd is None:
        return None
    price = _price(question.ref, question.crowd, seen_at)
    known: int | None = database.execute(SAME_PRICE, price).fetchone()[0]
    return database.execute(ADD_PRICE, price).lastrowid if known is None else known


def stated(database: Database, version: str, *, price: int | None) -> Question:
    """Return a version of a question with the crowd of that price; raises NotFound."""
    row = database.execute(VERSION, {"version": version, "price": price}).fetchone()
    if row is None:
        message = f"no question version {version} in the ledger"
        raise NotFound(message)
    return question_from(row)


def question_from(row: tuple[Any, ...]) -> Question:
    """Read a row of ``STATED``."""
    body, background, criteria, at, probability, prediction, explanation, labels = row
    plain = {**json.loads(body), **json.loads(labels)}
    plain.update({name: text for name, text in zip(PASSAGES, (background, criteria), strict=True) if text is not None})
    if at is not None:
        shown = {"kind": "binary", "probability": probability} if prediction is None else json.loads(prediction)
        plain["crowd"] = {"at": at, "prediction": shown, "explanation": explanation}
    return QUESTION.value(plain)


def _plain(question: Question) -> dict[str, Any]:
    plain: dict[str, Any] = QUESTION.plain(question.as_stated)
    return plain | {name: clean(plain[name]) for name in PASSAGES if name in plain}


def _passages(plain: dict[str, Any]) -> list[tuple[str, str]]:
    return [(digest(plain[name].encode()), plain[name]) for name in PASSAGES if name in plain]


def _version(question: Question, version: str, plain: dict[str, Any], seen_at: str) -> dict[str, Any]:
    body = QUESTION.text({name: value for name, value in plain.items() if name not in PASSAGES})
    passages = {name: digest(plain[name].encode()) if name in plain else None for name in PASSAGES}
    return {"version": version, "ref": str(question.ref), "seen_at": seen_at, "body": body, **passages}


def _targets(question: Question, version: str) -> list[dict[str, Any]]:
    return [
        {
            "version": version,
            "target": target.key,
            "ref": str(question.ref),
            "resolves_at": stamp(target.resolves_at),
            "horizon_days": target.horizon_days,
        }
        for target in question.targets
    ]


def _columns(question: Question, version: str, seen_at: str) -> dict[str, Any]:
    return {
        "ref": str(question.ref),
        "venue": question.ref.venue,
        "key": question.ref.key,
        "version": version,
        "title": clean(question.title),
        "source": clean(question.source),
        "family": clean(question.family),
        "series": clean(question.series),
        "batch": None if question.batch is None else clean(question.batch),
        "url": None if question.url is None else clean(question.url),
        "opens_at": stamp(question.opens_at),
        "closes_at": stamp(question.closes_at),
        "as_of": stamp(question.as_of),
        "labels": labels_of(question),
        "seen_at": seen_at,
    }


def labels_of(question: Question) -> str:
    """Return what a question is filed under, as it is kept beside its versions."""
    return _LABELS.text({name: list(found) for name in LABELS if (found := getattr(question, name))})


def _price(ref: QuestionRef, crowd: Crowd, seen_at: str) -> dict[str, Any]:
    probability, body = pack_prediction(crowd.prediction)
    return {
        "ref": str(ref),
        "at": stamp(crowd.at),
        "seen_at": seen_at,
        "probability": probability,
        "body": body,
        "explanation": clean(crowd.explanation),
    }
