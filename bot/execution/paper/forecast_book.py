"""Paper record of forecasts for venues where nothing is traded: which forecast was active from when until when.

A new forecast ends the one before, a withdrawal ends it without another. Nothing is deleted, so what was active at any
moment can be determined later; that is what such venues score.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from bot.core.errors import RequestRejectedError
from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.paper.book_database import BookDatabase, open_book_database
from bot.store.serialization import PREDICTIONS, JsonSerializer, format_timestamp, parse_timestamp, sanitize_text

FORECAST_BOOK_FILE = "standing.sqlite"
FORECAST_BOOK_MIGRATIONS = Migrations("foxcast-standing")

_CREATE_STATEMENT = """
create table statement (
  seq integer primary key,
  intent text not null unique,
  tag text not null unique,
  account text not null,
  ref text not null,
  action text not null check (action in ('forecast', 'withdraw', 'comment')),
  predictions text not null,
  said text not null,
  begun_at text not null,
  ended_at text,
  check (ended_at is null or ended_at >= begun_at)
) strict
"""
_CREATE_INDEX = "create index statement_by_question on statement (ref, account, begun_at)"

_SELECT_NUMBER = "select seq from statement where intent = ?"
_SELECT_STATEMENT = "select seq, action, ended_at from statement where intent = ?"
_UPDATE_ENDED = """
update statement set ended_at = max(begun_at, :at)
where ref = :ref and account = :account and action = 'forecast' and (ended_at is null or ended_at > :at)
"""
_INSERT_STATEMENT = """
insert into statement (intent, tag, account, ref, action, predictions, said, begun_at, ended_at)
values (:intent, :tag, :account, :ref, :action, :predictions, :said, :at, :until) returning seq
"""
_SELECT_HISTORY = """
select intent, predictions, begun_at, ended_at from statement
where ref = ? and account = ? and action = 'forecast' order by seq
"""


@FORECAST_BOOK_MIGRATIONS(name="0001_statements")
def create_statement_table(database: Database) -> None:
    """Create the one table."""
    database.execute(_CREATE_STATEMENT)
    database.execute(_CREATE_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStatement:
    """A sealed forecast, withdrawal or comment on a question."""

    intent: str
    account: str
    ref: QuestionRef
    action: IntentAction
    predictions: Mapping[str, Prediction]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPeriod:
    """A forecast and when it was active: from ``begun_at`` to just before ``ended_at``, None if it still is."""

    intent: str
    predictions: Mapping[str, Prediction]
    begun_at: datetime
    ended_at: datetime | None


SubmissionObjection = Callable[[Intent, Question], str | None]

_STATEMENT_SERIALIZER: JsonSerializer[ForecastStatement] = JsonSerializer("statement", ForecastStatement)


def forecast_active_at(history: Sequence[ForecastPeriod], at: datetime) -> ForecastPeriod | None:
    """Return the forecast active at the moment, including one that begins then, excluding one that ends then."""
    found = [one for one in history if one.begun_at <= at and (one.ended_at is None or at < one.ended_at)]
    return found[-1] if found else None


def forecast_coverage(history: Sequence[ForecastPeriod], begin: datetime, end: datetime) -> float:
    """Return the share of the time from begin to end with an active forecast; raises ValueError for no time."""
    if end <= begin:
        message = f"there is no time between {begin.isoformat()} and {end.isoformat()}"
        raise ValueError(message)
    active = timedelta()
    for one in history:
        first, last = max(one.begun_at, begin), min(one.ended_at or end, end)
        active += max(last - first, timedelta())
    return active / (end - begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperForecastBook:
    """Implements ``SealingSubmitter``; each intent counts once, however often it is written.

    ``objection`` returns what the venue would refuse besides a closed question, ``forecast_lifetime`` is the time after
    which a forecast ends by itself (None: never).
    """

    database: BookDatabase
    clock: Clock
    objection: SubmissionObjection | None = None
    forecast_lifetime: timedelta | None = None

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the requests to be recorded. Raises RequestRejectedError, with reasons, if all would be refused."""
        sealed, reasons = [], []
        for intent in batch.intents:
            if why := self._refusal_reason(intent, batch):
                reasons.append(why)
            else:
                sealed.append(_sealed_statement(intent))
        if reasons and not sealed:
            raise RequestRejectedError("; ".join(dict.fromkeys(reasons)))
        return sealed

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Record the sealed requests; a question that closed in the meantime accepts no forecast."""
        requests = {one.intent: one for one in batch.sealed}
        return [await self._submit(intent, requests.get(intent.id), batch) for intent in batch.intents]

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Return which intents are active; a forecast that was replaced, withdrawn or expired is absent for certain."""
        # Read through the writer, so that a write whose caller was cancelled comes first.
        return [
            await self.database.writer.run(partial(_read_receipt, intent=intent, now=self.clock.now()))
            for intent in batch.intents
        ]

    async def forecast_history(self, ref: QuestionRef, account: str) -> tuple[ForecastPeriod, ...]:
        """Return all forecasts of a question, oldest first."""
        return await self.database.readers.run(
            lambda database: tuple(
                _period_from_row(*row) for row in database.execute(_SELECT_HISTORY, [str(ref), account])
            )
        )

    async def active_forecast(self, ref: QuestionRef, account: str, at: datetime) -> ForecastPeriod | None:
        """Return the forecast of a question active at the moment: at spot time, the one that is scored."""
        return forecast_active_at(await self.forecast_history(ref, account), at)

    def _refusal_reason(self, intent: Intent, batch: SubmissionBatch) -> str | None:
        if intent.action is IntentAction.ORDER:
            return f"{intent.ref} is not traded"
        question = next((one for one in batch.questions if one.ref == intent.ref), None)
        if intent.action is not IntentAction.FORECAST or question is None:
            return None
        if question.closes_at is not None and question.closes_at <= self.clock.now():
            return f"{intent.ref} closed at {question.closes_at.isoformat()}"
        return None if self.objection is None else self.objection(intent, question)

    async def _submit(self, intent: Intent, sealed: SealedRequest | None, batch: SubmissionBatch) -> WriteReceipt:
        if sealed is None:
            return _write_receipt(intent, IntentState.REFUSED, "it was never sealed")
        if why := self._refusal_reason(intent, batch):
            return _write_receipt(intent, IntentState.REFUSED, why)
        statement, now = _STATEMENT_SERIALIZER.decode(sealed.body), self.clock.now()
        until = None if self.forecast_lifetime is None else now + self.forecast_lifetime
        seq = await self.database.writer.run(
            lambda database: _write_statement(database, statement, sealed.tag, (now, until))
        )
        return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=f"paper {seq}")


@asynccontextmanager
async def open_forecast_book(
    folder: Path,
    clock: Clock,
    *,
    objection: SubmissionObjection | None = None,
    forecast_lifetime: timedelta | None = None,
) -> AsyncIterator[PaperForecastBook]:
    """Open the forecast book of one venue in its folder. Raises StoreError."""
    async with open_book_database(folder / FORECAST_BOOK_FILE, FORECAST_BOOK_MIGRATIONS, now=clock.now()) as file:
        yield PaperForecastBook(database=file, clock=clock, objection=objection, forecast_lifetime=forecast_lifetime)


def _sealed_statement(intent: Intent) -> SealedRequest:
    statement = ForecastStatement(
        intent=intent.id,
        account=intent.account,
        ref=intent.ref,
        action=intent.action,
        predictions=intent.predictions,
        text=intent.text,
    )
    return SealedRequest(
        intent=intent.id, tag=derive_id("paper", intent.id), body=_STATEMENT_SERIALIZER.encode(statement)
    )


def _write_statement(
    database: Database, statement: ForecastStatement, tag: str, time: tuple[datetime, datetime | None]
) -> int:
    known = _statement_number(database, statement.intent)
    if known is not None:
        return known
    now, until = time
    key = {"ref": str(statement.ref), "account": sanitize_text(statement.account), "at": format_timestamp(now)}
    if statement.action is not IntentAction.COMMENT:
        database.execute(_UPDATE_ENDED, key)
    values: dict[str, Any] = {
        **key,
        "intent": statement.intent,
        "tag": tag,
        "action": statement.action.value,
        "predictions": PREDICTIONS.encode(statement.predictions),
        "said": sanitize_text(statement.text),
        "until": format_timestamp(until),
    }
    return int(database.execute(_INSERT_STATEMENT, values).fetchone()[0])


def _statement_number(database: Database, intent: str) -> int | None:
    row = database.execute(_SELECT_NUMBER, [intent]).fetchone()
    return None if row is None else int(row[0])


def _read_receipt(database: Database, intent: Intent, now: datetime) -> WriteReceipt:
    row = database.execute(_SELECT_STATEMENT, [intent.id]).fetchone()
    if row is None:
        return _write_receipt(intent, IntentState.ABSENT, "it was never written down")
    seq, action, ended_at = row
    ended = action == IntentAction.FORECAST and ended_at is not None and parse_timestamp(ended_at) <= now
    if ended:
        return _write_receipt(intent, IntentState.ABSENT, "another forecast is active, or none")
    return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=f"paper {seq}")


def _period_from_row(intent: str, predictions: str, begun_at: str, ended_at: str | None) -> ForecastPeriod:
    return ForecastPeriod(
        intent=intent,
        predictions=PREDICTIONS.decode(predictions),
        begun_at=parse_timestamp(begun_at),
        ended_at=parse_timestamp(ended_at),
    )


def _write_receipt(intent: Intent, state: IntentState, detail: str) -> WriteReceipt:
    return WriteReceipt(intent=intent.id, state=state, detail=detail)
