"""What forecasters learned from outcomes: parameters by the digest of their content, found again by date."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.domain.learning import Fitted, Hindsight
from bot.store.codec import FITTED, clean, moment, stamp
from bot.store.documents import Packed, get, pack, put
from bot.store.pasts import pasts
from bot.store.runs import Runs

MEDIA_TYPE = "application/json"

_ADD = """
insert into fitted (digest, forecaster, before, examples, provenance, at)
values (:digest, :forecaster, :before, :examples, :provenance, :at) on conflict do nothing
"""
_NEWEST = """
select digest from fitted where forecaster = ? and before <= ? order by before desc, examples desc, digest limit 1
"""
_ROWS = "select digest, forecaster, before, examples, at from fitted order by forecaster, before, at"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRow:
    """One set of parameters, without its payload."""

    digest: str
    forecaster: str
    before: datetime
    examples: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Learning:
    """Parameters with their provenance, never changed."""

    writer: Runs
    readers: Runs

    async def record(self, fitted: Fitted, at: datetime) -> str:
        """Keep parameters and return their digest, by which forecasts name them; the same again changes nothing."""
        document = pack(FITTED.encode(fitted).encode(), MEDIA_TYPE)
        await self.writer.run(lambda database: _record(database, document, fitted, at))
        return document.digest

    async def newest(self, forecaster: str, cutoff: datetime) -> tuple[str, Fitted] | None:
        """Return digest and parameters with the latest ``before`` that is not after the cutoff."""
        return await self.readers.run(lambda database: _newest(database, forecaster, cutoff))

    async def get(self, digest: str) -> Fitted:
        """Return parameters; raises NotFound."""
        return await self.readers.run(lambda database: _fitted(database, digest))

    async def pasts(self, forecasters: Collection[str], before: datetime) -> list[Hindsight]:
        """Return what forecasters said of targets whose outcome was known before, as it became known; the newest."""
        return await self.readers.run(lambda database: pasts(database, forecasters, before))

    async def rows(self) -> list[FittedRow]:
        """Return what is on record, by forecaster and date."""
        return await self.readers.run(_rows)


def _record(database: Database, document: Packed, fitted: Fitted, at: datetime) -> None:
    put(database, document)
    values = {
        "digest": document.digest,
        "forecaster": fitted.forecaster,
        "before": stamp(fitted.before),
        "examples": fitted.examples,
        "provenance": clean(json.dumps(dict(fitted.provenance), sort_keys=True, ensure_ascii=False)),
        "at": stamp(at),
    }
    database.execute(_ADD, values)


def _newest(database: Database, forecaster: str, cutoff: datetime) -> tuple[str, Fitted] | None:
    row = database.execute(_NEWEST, [forecaster, stamp(cutoff)]).fetchone()
    return None if row is None else (row[0], _fitted(database, row[0]))


def _fitted(database: Database, digest: str) -> Fitted:
    return FITTED.decode(get(database, digest).content.decode())


def _rows(database: Database) -> list[FittedRow]:
    return [
        FittedRow(digest=digest, forecaster=forecaster, before=moment(before), examples=examples, at=moment(at))
        for digest, forecaster, before, examples, at in database.execute(_ROWS)
    ]
