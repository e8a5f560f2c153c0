"""Forecasts that stand on paper, for venues where nothing is traded: what would count there, from when until when.

A new forecast ends the one before, a withdrawal ends it without another. Nothing is ever taken out, so that what stood
at any moment can be told later; that is what such venues score.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Receipt, Sealed
from bot.errors import Rejected
from bot.ids import derive_id
from bot.paper.files import BookFile, open_file
from bot.ports import Clock
from bot.store.codec import PREDICTIONS, Form, clean, moment, stamp

STANDING_FILE = "standing.sqlite"
MIGRATIONS = Migrations("foxcast-standing")

_STATEMENT = """
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
_BY_QUESTION = "create index statement_by_question on statement (ref, account, begun_at)"

_KNOWN = "select seq from statement where intent = ?"
_WRITTEN = "select seq, action, ended_at from statement where intent = ?"
_END = """
update statement set ended_at = max(begun_at, :at)
where ref = :ref and account = :account and action = 'forecast' and (ended_at is null or ended_at > :at)
"""
_ADD = """
insert into statement (intent, tag, account, ref, action, predictions, said, begun_at, ended_at)
values (:intent, :tag, :account, :ref, :action, :predictions, :said, :at, :until)
"""
_HISTORY = """
select intent, predictions, begun_at, ended_at from statement
where ref = ? and account = ? and action = 'forecast' order by seq
"""
_STANDING = """
select ref from statement where account = :account and action = 'forecast' and begun_at <= :at
  and (ended_at is null or ended_at > :at) order by ref
"""


@MIGRATIONS(name="0001_statements")
def statements(database: Database) -> None:
    """Create the one table."""
    database.execute(_STATEMENT)
    database.execute(_BY_QUESTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is said of a question, as it is sealed."""

    intent: str
    account: str
    ref: QuestionRef
    action: IntentAction
    predictions: Mapping[str, Prediction]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """A forecast and how long it stood: from ``begun_at`` to just before ``ended_at``, None where it stands still."""

    intent: str
    predictions: Mapping[str, Prediction]
    begun_at: datetime
    ended_at: datetime | None


Objection = Callable[[Intent, Question], str | None]

_FORM: Form[Statement] = Form("statement", Statement)


def stood_at(history: Sequence[Stood], at: datetime) -> Stood | None:
    """Return the forecast that stood at the moment; one that begins then does, one that ends then does not."""
    found = [one for one in history if one.begun_at <= at and (one.ended_at is None or at < one.ended_at)]
    return found[-1] if found else None


def coverage(history: Sequence[Stood], begin: datetime, end: datetime) -> float:
    """Return for which share of the time from begin to end a forecast stood; raises ValueError for no time at all."""
    if end <= begin:
        message = f"there is no time between {begin.isoformat()} and {end.isoformat()}"
        raise ValueError(message)
    stood = timedelta()
    for one in history:
        first, last = max(one.begun_at, begin), min(one.ended_at or end, end)
        stood += max(last - first, timedelta())
    return stood / (end - begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingBook:
    """Implements the port Sealer; each intent counts once, however often it is written.

    ``objection`` says what the venue would refuse beyond a closed question, ``lasts`` after how long a forecast ends by
    itself, None never.
    """

    file: BookFile
    clock: Clock
    objection: Objection | None = None
    lasts: timedelta | None = None

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return what will be written down; raises Rejected where the venue would take none of it, with why."""
        sealed, reasons = [], []
        for intent in batch.intents:
            if why := self._refused(intent, batch):
                reasons.append(why)
            else:
                sealed.append(_sealed(intent))
        if reasons and not sealed:
            raise Rejected("; ".join(dict.fromkeys(reasons)))
        return sealed

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Write down what was sealed; a question that closed in the meantime takes no forecast."""
        requests = {one.intent: one for one in batch.sealed}
        return [await self._submit(intent, requests.get(intent.id), batch) for intent in batch.intents]

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Say what stands: a forecast that was replaced, withdrawn or ended by itself does not; both are proof."""
        # Asked of the writer: a write whose caller was cancelled comes before it.
        return [
            await self.file.writer.run(partial(_stands, intent=intent, now=self.clock.now()))
            for intent in batch.intents
        ]

    async def history(self, ref: QuestionRef, account: str) -> tuple[Stood, ...]:
        """Return all forecasts of a question, oldest first."""
        return await self.file.readers.run(
            lambda database: tuple(_stood(*row) for row in database.execute(_HISTORY, [str(ref), account]))
        )

    async def stood(self, ref: QuestionRef, account: str, at: datetime) -> Stood | None:
        """Return the forecast of a question that stood at the moment: at spot time, what is scored."""
        return stood_at(await self.history(ref, account), at)

    async def questions(self, account: str) -> tuple[QuestionRef, ...]:
        """Return the questions of which a forecast stands now."""
        values = {"account": account, "at": stamp(self.clock.now())}
        rows = await self.file.readers.run(lambda database: database.execute(_STANDING, values).fetchall())
        return tuple(QuestionRef.parse(ref) for (ref,) in rows)

    def _refused(self, intent: Intent, batch: Batch) -> str | None:
        if intent.action is IntentAction.ORDER:
            return f"{intent.ref} is not traded"
        question = next((one for one in batch.questions if one.ref == intent.ref), None)
        if intent.action is not IntentAction.FORECAST or question is None:
            return None
        if question.closes_at is not None and question.closes_at <= self.clock.now():
            return f"{intent.ref} closed at {question.closes_at.isoformat()}"
        return None if self.objection is None else self.objection(intent, question)

    async def _submit(self, intent: Intent, sealed: Sealed | None, batch: Batch) -> Receipt:
        if sealed is None:
            return _receipt(intent, IntentState.REFUSED, "it was never sealed")
        if why := self._refused(intent, batch):
            return _receipt(intent, IntentState.REFUSED, why)
        said, now = _FORM.decode(sealed.body), self.clock.now()
        until = None if self.lasts is None else now + self.lasts
        seq = await self.file.writer.run(lambda database: _write(database, said, sealed.tag, (now, until)))
        return Receipt(intent=intent.id, state=IntentState.ACKED, reference=f"paper {seq}")


@asynccontextmanager
async def open_standing(
    folder: Path, clock: Clock, *, objection: Objection | None = None, lasts: timedelta | None = None
) -> AsyncIterator[StandingBook]:
    """Open the standing forecasts of one venue in its folder. Raises StoreError."""
    async with open_file(folder / STANDING_FILE, MIGRATIONS, now=clock.now()) as file:
        yield StandingBook(file=file, clock=clock, objection=objection, lasts=lasts)


def _sealed(intent: Intent) -> Sealed:
    said = Statement(
        intent=intent.id,
        account=intent.account,
        ref=intent.ref,
        action=intent.action,
        predictions=intent.predictions,
        text=intent.text,
    )
    return Sealed(intent=intent.id, tag=derive_id("paper", intent.id), body=_FORM.encode(said))


def _write(database: Database, said: Statement, tag: str, time: tuple[datetime, datetime | None]) -> int:
    known = _seq(database, said.intent)
    if known is not None:
        return known
    now, until = time
    place = {"ref": str(said.ref), "account": clean(said.account), "at": stamp(now)}
    if said.action is not IntentAction.COMMENT:
        database.execute(_END, place)
    values: dict[str, Any] = {
        **place,
        "intent": said.intent,
        "tag": tag,
        "action": said.action.value,
        "predictions": PREDICTIONS.encode(said.predictions),
        "said": clean(said.text),
        "until": stamp(until) if said.action is IntentAction.FORECAST else stamp(now),
    }
    database.execute(_ADD, values)
    return _seq(database, said.intent) or 0


def _seq(database: Database, intent: str) -> int | None:
    row = database.execute(_KNOWN, [intent]).fetchone()
    return None if row is None else int(row[0])


def _stands(database: Database, intent: Intent, now: datetime) -> Receipt:
    row = database.execute(_WRITTEN, [intent.id]).fetchone()
    if row is None:
        return _receipt(intent, IntentState.ABSENT, "it was never written down")
    seq, action, ended_at = row
    ended = action == IntentAction.FORECAST and ended_at is not None and moment(ended_at) <= now
    if ended:
        return _receipt(intent, IntentState.ABSENT, "another forecast stands, or none")
    return Receipt(intent=intent.id, state=IntentState.ACKED, reference=f"paper {seq}")


def _stood(intent: str, predictions: str, begun_at: str, ended_at: str | None) -> Stood:
    return Stood(
        intent=intent,
        predictions=PREDICTIONS.decode(predictions),
        begun_at=moment(begun_at),
        ended_at=moment(ended_at),
    )


def _receipt(intent: Intent, state: IntentState, detail: str) -> Receipt:
    return Receipt(intent=intent.id, state=state, detail=detail)
