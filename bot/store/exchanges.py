"""What each trial asked and was told, in full: the record from which it is taken up again and replayed.

An exchange is named by trial, kind (``model``, ``search``, ``page``, ``tool``, ...), key (the digest of what was asked)
and ``nth``, from 0, where the same was asked several times. It is written before it is used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.errors import ContractError
from bot.store.codec import clean, listed, stamp
from bot.store.documents import Packed, get, put
from bot.store.packing import packed
from bot.store.runs import Runs

ADD = """
insert into exchange (scope, trial, kind, key, nth, at, answer)
values (:scope, :trial, :kind, :key, :nth, :at, :answer) on conflict do nothing
"""
KNOWN = """
select answer from exchange
where scope = :scope and trial = :trial and kind = :kind and key = :key and nth = :nth
"""
OF_TRIAL = """
select kind, key, nth, answer from exchange
where scope = :scope and trial = :trial and (:kinds is null or kind in (select value from json_each(:kinds)))
order by kind, key, nth
"""


@dataclass(frozen=True, slots=True, order=True)
class ExchangeKey:
    """The name of an exchange within its trial."""

    kind: str
    key: str
    nth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was told, as text (JSON), with the digest under which it is kept."""

    digest: str
    body: str


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The exchanges of all trials; ``scope`` is a forecast's id, or what stands in for it in a backtest."""

    writer: Runs
    readers: Runs

    async def of(self, scope: str, trial: int, kinds: Collection[str] | None = None) -> Mapping[ExchangeKey, Exchange]:
        """Return the exchanges of a trial, all or those of some kinds, by kind, key and number.

        Raises StoreError for a damaged one.
        """
        wanted = {"scope": scope, "trial": trial, "kinds": None if kinds is None else listed(kinds)}
        return await self.readers.run(lambda database: _of(database, wanted))

    async def add(self, scope: str, trial: int, key: ExchangeKey, body: str, *, at: datetime) -> str:
        """Keep an exchange and return its digest; the same again changes nothing, another body raises ContractError.

        Lone surrogates in the body, which no UTF-8 can carry, become U+FFFD.
        """
        (kept,) = await self.add_all(scope, trial, {key: body}, at=at)
        return kept

    async def add_all(
        self, scope: str, trial: int, bodies: Mapping[ExchangeKey, str], *, at: datetime
    ) -> Sequence[str]:
        """Keep several exchanges of a trial as ``add`` keeps one, all of them or none, and return their digests."""
        answers = [await packed(body) for body in bodies.values()]
        shared = {"scope": scope, "trial": trial, "at": stamp(at)}
        rows = [
            {**shared, "kind": clean(key.kind), "key": clean(key.key), "nth": key.nth, "answer": answer.digest}
            for key, answer in zip(bodies, answers, strict=True)
        ]
        await self.writer.run(lambda database: _add_all(database, rows, answers))
        return [answer.digest for answer in answers]


def _add_all(database: Database, rows: Sequence[dict[str, Any]], answers: Sequence[Packed]) -> None:
    for row, answer in zip(rows, answers, strict=True):
        _add(database, row, answer)


def _add(database: Database, row: dict[str, Any], answer: Packed) -> None:
    put(database, answer)
    if database.execute(ADD, row).rowcount:
        return
    (known,) = database.execute(KNOWN, row).fetchone()
    if known != answer.digest:
        name = f"{row['kind']} {row['key']} ({row['nth']}) of trial {row['trial']} of {row['scope']}"
        message = f"the exchange {name} is on record with another answer"
        raise ContractError(message)


def _of(database: Database, wanted: Mapping[str, Any]) -> dict[ExchangeKey, Exchange]:
    return {
        ExchangeKey(kind, key, nth): Exchange(digest=answer, body=get(database, answer).content.decode())
        for kind, key, nth, answer in database.execute(OF_TRIAL, dict(wanted)).fetchall()
    }
