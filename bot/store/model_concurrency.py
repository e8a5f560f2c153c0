"""How many requests to each model may be in flight, as was learned, and how many are; kept across restarts."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.store.connections import TransactionRunner
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text

_SAVE_CONCURRENCY = """
insert into model_concurrency (model, at, concurrency, ceiling, reason) values (?, ?, ?, ?, ?)
on conflict (model) do update set at = excluded.at, concurrency = excluded.concurrency, ceiling = excluded.ceiling,
  reason = excluded.reason
"""
_SELECT_CONCURRENCY = """
select model, at, concurrency, ceiling, reason,
       (select count(*) from model_call c where c.state = 'reserved' and c.model = m.model)
from model_concurrency m order by model
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConcurrency:
    """What was learned about a model, ``provider:name``.

    ``concurrency`` requests may be in flight, ``ceiling`` at most ever; ``reason`` says why not more. ``in_flight`` are
    the calls without a result, which are lost calls where no process runs.
    """

    model: str
    at: datetime
    concurrency: float
    ceiling: int
    reason: str
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class ModelConcurrencyStore:
    """One row for each model."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def save(self, learned: Sequence[ModelConcurrency]) -> None:
        """Replace what is known about these models."""
        rows = [
            (sanitize_text(one.model), format_timestamp(one.at), float(one.concurrency), one.ceiling, one.reason)
            for one in learned
        ]
        await self.writer.run(lambda database: _save_rows(database, rows))

    async def load(self) -> Sequence[ModelConcurrency]:
        """Return what is known about each model, by name."""
        return await self.readers.run(_load_rows)


def _save_rows(database: Database, rows: Sequence[tuple[object, ...]]) -> None:
    database.conn.executemany(_SAVE_CONCURRENCY, rows)


def _load_rows(database: Database) -> tuple[ModelConcurrency, ...]:
    return tuple(
        ModelConcurrency(
            model=model,
            at=parse_timestamp(at),
            concurrency=concurrency,
            ceiling=ceiling,
            reason=reason,
            in_flight=in_flight,
        )
        for model, at, concurrency, ceiling, reason, in_flight in database.execute(_SELECT_CONCURRENCY)
    )
