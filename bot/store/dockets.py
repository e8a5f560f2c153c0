"""What stands around forecasts when they come before the gate: one read for many, since a pass may decide thousands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlite_utils import Database

from bot.domain.question import Question, QuestionRef
from bot.domain.submission import Intent
from bot.store.codec import moment
from bot.store.questions import current
from bot.store.runs import Runs
from bot.store.schedule import lock_reason
from bot.store.setups import foreseeing
from bot.store.submissions import standing
from bot.store.versions import stated

_SUCCESSOR = "select max(revision) from latest_forecast where ref = ? and forecaster = ? and revision > ?"
# Whatever became of the sale: who wanted out does not want back in.
_CLOSED = """
select max(planned_at) from intent
where ref = ? and account = ? and (? is null or (mode = 'paper') = ?) and order_body is not null
  and coalesce(json_extract(order_body, '$.closing'), '') <> ''
"""
_MADE = """
select f.setup, f.version, q.version, f.apart from forecast f join question q on q.ref = f.ref
where f.ref = ? and f.forecaster = ? and f.revision = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which forecast comes before the gate, under which account it would leave, and on which side: None for either."""

    ref: QuestionRef
    forecaster: str
    revision: int
    account: str
    paper: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Docket:
    """What stands around one forecast.

    The question as it is now, its newest intent that is neither refused nor superseded, why it is locked for the
    forecaster, and the newest revision if the forecaster has completed a later one. ``forecast_on`` is the question as
    it was when it was forecast. ``clairvoyant``: this forecast was made without guards against knowing the future,
    whatever config says of its forecaster by now. ``apart``: a person only wanted to see it. ``closed_at`` is when a
    position in the question was to be sold last whatever the belief.
    """

    question: Question
    standing: Intent | None
    locked: str | None
    successor: int | None
    forecast_on: Question | None = None
    clairvoyant: bool = False
    closed_at: datetime | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Dockets:
    """The reading side of the gate."""

    readers: Runs

    async def of(self, asked: Sequence[Asked], *, now: datetime) -> list[Docket]:
        """Return a docket for each forecast, in this order, all of one moment; raises NotFound."""
        return await self.readers.run(lambda database: _dockets(database, asked, now))


def _dockets(database: Database, asked: Sequence[Asked], now: datetime) -> list[Docket]:
    made = [database.execute(_MADE, _revision(one)).fetchone() for one in asked]
    clairvoyant = foreseeing(database, (row[0] for row in made if row))
    dockets = [_docket(database, one, now) for one in asked]
    return [
        docket
        if row is None
        else replace(
            docket,
            clairvoyant=row[0] in clairvoyant,
            forecast_on=docket.question if row[1] == row[2] else stated(database, row[1], price=None),
            apart=bool(row[3]),
        )
        for docket, row in zip(dockets, made, strict=True)
    ]


def _revision(asked: Asked) -> list[object]:
    return [str(asked.ref), asked.forecaster, asked.revision]


def _docket(database: Database, asked: Asked, now: datetime) -> Docket:
    (successor,) = database.execute(_SUCCESSOR, _revision(asked)).fetchone()
    return Docket(
        question=current(database, asked.ref),
        standing=standing(database, asked.ref, asked.account, paper=asked.paper),
        locked=lock_reason(database, asked.ref, asked.forecaster, now=now),
        successor=successor,
        closed_at=_closed_at(database, asked),
    )


def _closed_at(database: Database, asked: Asked) -> datetime | None:
    values = [str(asked.ref), asked.account, asked.paper, asked.paper]
    at: str | None = database.execute(_CLOSED, values).fetchone()[0]
    return moment(at)
