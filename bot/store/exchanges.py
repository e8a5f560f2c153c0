"""What each trial asked and was told, in full: the record from which it is taken up again and replayed.

An exchange is named by trial, kind (``model``, ``search``, ``page``, ``tool``, ...), key (the digest of what was asked)
and ``nth``, from 0, where the same was asked several times. It is written before it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.errors import ContractError
from bot.store.codec import clean, stamp
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
OF_TRIAL = "select kind, key, nth, answer from exchange where scope = ? and trial = ? order by kind, key, nth"


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

    async def of(self, scope: str, trial: int) -> Mapping[ExchangeKey, Exchange]:
        """Return all exchanges of a trial, by kind, key and number; raises StoreError for a damaged one."""
        return await self.readers.run(lambda database: _of(database, scope, trial))

    async def add(self, scope: str, trial: int, key: ExchangeKey, body: str, *, at: datetime) -> str:
        """Keep an exchange and return its digest; the same again changes nothing, another body raises ContractError.

        Lone surrogates in the body, which no UTF-8 can carry, become U+FFFD.
        """
        answer = await packed(body)
        row = {
            "scope": scope,
            "trial": trial,
            "kind": clean(key.kind),
            "key": clean(key.key),
            "nth": key.nth,
            "at": stamp(at),
            "answer": answer.digest,
        }
        await self.writer.run(lambda database: _add(database, row, answer))
        return answer.digest


def _add(database: Database, row: dict[str, Any], answer: Packed) -> None:
    put(database, answer)
    if database.execute(ADD, row).rowcount:
        return
    (known,) = database.execute(KNOWN, row).fetchone()
    if known != answer.digest:
        name = f"{row['kind']} {row['key']} ({row['nth']}) of trial {row['trial']} of {row['scope']}"
        message = f"the exchange {name} is on record with another answer"
        raise ContractError(message)


def _of(database: Database, scope: str, trial: int) -> dict[ExchangeKey, Exchange]:
    return {
        ExchangeKey(kind, key, nth): Exchange(digest=answer, body=get(database, answer).content.decode())
        for kind, key, nth, answer in database.execute(OF_TRIAL, [scope, trial]).fetchall()
    }
