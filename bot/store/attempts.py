"""How one question stands with one forecaster: the newest attempt at it, and its place on the schedule."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.question import QuestionRef
from bot.store.codec import moment
from bot.store.runs import Runs

NEWEST = """
select id, revision, state, detail from forecast where ref = ? and forecaster = ? order by revision desc limit 1
"""
PLACE = "select due_at, why, owner is not null from schedule where ref = ? and forecaster = ?"
WITH_URL = "select ref, url from question where url is not null and url like ? escape '\\'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A forecast, finished or not; ``state`` is running, done, failed or abandoned, ``detail`` says why."""

    id: str
    revision: int
    state: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """When a question is due, why, and whether it is being forecast now."""

    due_at: datetime | None
    why: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is on record of a question and a forecaster, all read at one moment."""

    attempt: Attempt | None
    place: Place | None


async def standing_of(readers: Runs, ref: QuestionRef, forecaster: str) -> Standing:
    """Return how a question stands with a forecaster."""
    return await readers.run(lambda database: _standing(database, str(ref), forecaster))


async def with_url(readers: Runs, part: str) -> list[tuple[QuestionRef, str]]:
    """Return the questions in whose address the part stands, each with its address."""
    escaped = "".join(f"\\{character}" if character in "\\%_" else character for character in part)
    return await readers.run(lambda database: _with_url(database, f"%{escaped}%"))


def _standing(database: Database, ref: str, forecaster: str) -> Standing:
    newest: Any = database.execute(NEWEST, [ref, forecaster]).fetchone()
    place: Any = database.execute(PLACE, [ref, forecaster]).fetchone()
    return Standing(
        attempt=None
        if newest is None
        else Attempt(**dict(zip(("id", "revision", "state", "detail"), newest, strict=True))),
        place=None if place is None else Place(due_at=moment(place[0]), why=place[1], held=bool(place[2])),
    )


def _with_url(database: Database, pattern: str) -> list[tuple[QuestionRef, str]]:
    return [(QuestionRef.parse(ref), url) for ref, url in database.execute(WITH_URL, [pattern])]
