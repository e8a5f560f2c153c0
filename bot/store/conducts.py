"""How models did in their trials, and which are replaced by their fallback for a while."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.conduct import Conduct
from bot.store.codec import clean, moment, stamp
from bot.store.runs import Runs

# In the order in which they are read back; SQL names no other columns of a conduct's own.
COLUMNS = "role, model, asked, unparsed, submitted, half, gap, beliefs, unread_beliefs, errors"
ADD = f"""
insert into conduct (scope, trial, at, {COLUMNS})
values (:scope, :trial, :at, {", ".join(f":{name}" for name in COLUMNS.split(", "))}) on conflict do nothing
"""  # noqa: S608 - made of constants
RECENT = f"""
select {COLUMNS} from conduct
where model = :model and (:role is null or role = :role) and at > :after order by at desc, id desc limit :limit
"""  # noqa: S608 - made of constants
# Of each forecaster by itself; who forecast is told by the calls.
LATEST = f"""
with latest as (
  select conduct.*, coalesce((select c.forecaster from model_call c where c.scope = conduct.scope limit 1), '') as who
  from conduct where at > :after order by id desc limit :rows),
numbered as (
  select *, row_number() over (partition by who, role, model order by at desc, id desc) as nth from latest)
select who, {COLUMNS} from numbered where nth <= :limit order by who, role, model, nth
"""  # noqa: S608 - made of constants
# The trials of a question belong together, also those of a later forecast of it. Of whom nobody was asked through the
# gateway has no call, and stands for itself.
HALVES = """
with recent as (
  select id, at, half, coalesce((select ref from model_call c where c.scope = conduct.scope limit 1), scope) as question
  from conduct where model = :model and role = :role and at > :after order by at desc, id desc limit :rows)
select avg(half) from recent group by question order by max(at) desc, max(id) desc limit :limit
"""
# So many trials are looked through for the last questions, and for the last trials of everybody.
HALVES_ROWS = 2000
LATEST_ROWS = 10_000
MODELS = "select distinct model from conduct order by model"
DEMOTE = "insert into demotion (model, at, until, why) values (:model, :at, :until, :why)"
# The table has no column for the role: it stands first in the reason, as a person would write it.
AS_ROLE = re.compile(r"as ([a-z][a-z0-9_]*): ")
IN_FORCE = "select model, at, until, why from demotion where until > ? order by at, id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    """A model that is not asked in a role until a moment, with the reason; without a role, in none of them."""

    model: str
    at: datetime
    until: datetime
    why: str
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestConducts:
    """How a model did in a role in its last trials of one forecaster, newest first."""

    forecaster: str
    role: str
    model: str
    conducts: tuple[Conduct, ...]


@dataclass(frozen=True, slots=True)
class Conducts:
    """The conduct of models."""

    writer: Runs
    readers: Runs

    async def add(self, conduct: Conduct, *, scope: str, trial: int, at: datetime) -> None:
        """Keep how a model did in one role of one trial; the same again changes nothing.

        The first one stands: a trial that is taken up again after a kill grades the model a second time.
        """
        row = {
            "scope": scope,
            "trial": trial,
            "role": clean(conduct.role),
            "model": clean(conduct.model),
            "at": stamp(at),
            "asked": conduct.asked,
            "unparsed": conduct.unparsed,
            "submitted": conduct.submitted,
            "half": conduct.half,
            "gap": conduct.gap,
            "beliefs": conduct.beliefs,
            "unread_beliefs": conduct.unread_beliefs,
            "errors": conduct.errors,
        }
        await self.writer.run(lambda database: _run(database, ADD, row))

    async def recent(
        self, model: str, *, limit: int, after: datetime | None = None, role: str | None = None
    ) -> Sequence[Conduct]:
        """Return the last conducts of a model, newest first; with a moment or a role, those after it or in it only."""
        since = "" if after is None else stamp(after)
        wanted: dict[str, object] = {"model": model, "role": role, "limit": limit, "after": since}
        return await self.readers.run(lambda database: _recent(database, wanted))

    async def latest(self, *, limit: int, after: datetime) -> Sequence[LatestConducts]:
        """Return for each forecaster, role and model the last trials after a moment, at most so many of each."""
        wanted: dict[str, object] = {"limit": limit, "after": stamp(after), "rows": LATEST_ROWS}
        return await self.readers.run(lambda database: _latest(database, wanted))

    async def halves(self, model: str, *, role: str, limit: int, after: datetime | None = None) -> Sequence[float]:
        """Return for the last questions of a model in a role, newest first, which share of their trials ended at 0.5.

        With a moment, only trials graded after it count.
        """
        since = "" if after is None else stamp(after)
        wanted = {"model": model, "role": role, "limit": limit, "after": since, "rows": HALVES_ROWS}
        return await self.readers.run(
            lambda database: tuple(float(share) for (share,) in database.execute(HALVES, wanted))
        )

    async def demote(self, demotion: Demotion) -> None:
        """Keep that a model is replaced for a while."""
        row = {
            "model": clean(demotion.model),
            "at": stamp(demotion.at),
            "until": stamp(demotion.until),
            "why": clean(f"as {demotion.role}: {demotion.why}" if demotion.role else demotion.why),
        }
        await self.writer.run(lambda database: _run(database, DEMOTE, row))

    async def demotions(self, *, now: datetime) -> Sequence[Demotion]:
        """Return the demotions in force, one for each model and role: the latest of those that end after now."""
        return await self.readers.run(lambda database: _in_force(database, now))

    async def models(self) -> Sequence[str]:
        """Return every model with a conduct on record."""
        return await self.readers.run(lambda database: tuple(model for (model,) in database.execute(MODELS)))


def _run(database: Database, statement: str, row: Mapping[str, Any]) -> None:
    database.execute(statement, dict(row))


def _recent(database: Database, wanted: dict[str, object]) -> tuple[Conduct, ...]:
    return tuple(_conduct(*row) for row in database.execute(RECENT, wanted))


def _latest(database: Database, wanted: dict[str, object]) -> tuple[LatestConducts, ...]:
    found: dict[tuple[str, str, str], list[Conduct]] = {}
    for who, *row in database.execute(LATEST, wanted):
        conduct = _conduct(*row)
        found.setdefault((who, conduct.role, conduct.model), []).append(conduct)
    return tuple(
        LatestConducts(forecaster=who, role=role, model=model, conducts=tuple(conducts))
        for (who, role, model), conducts in found.items()
    )


def _conduct(role: str, model: str, *figures: Any) -> Conduct:  # noqa: ANN401 - as the database has them
    asked, unparsed, submitted, half, gap, beliefs, unread_beliefs, errors = figures
    return Conduct(
        role=role,
        model=model,
        asked=asked,
        unparsed=unparsed,
        submitted=None if submitted is None else bool(submitted),
        half=bool(half),
        gap=gap,
        beliefs=beliefs,
        unread_beliefs=unread_beliefs,
        errors=errors,
    )


def _in_force(database: Database, now: datetime) -> tuple[Demotion, ...]:
    # In the order of their making, so that the latest is the one that stays.
    found = [_demotion(*row) for row in database.execute(IN_FORCE, [stamp(now)])]
    latest = {(demotion.model, demotion.role): demotion for demotion in found}
    return tuple(latest[key] for key in sorted(latest))


def _demotion(model: str, at: str, until: str, why: str) -> Demotion:
    told = AS_ROLE.match(why)
    role, reason = (told[1], why[told.end() :]) if told else ("", why)
    return Demotion(model=model, at=moment(at), until=moment(until), why=reason, role=role)
