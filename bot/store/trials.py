"""Trials and their steps: every change of mind, written down before the next one is asked for.

Steps are append-only and numbered from 1 without gaps. This module works within the transactions and snapshots of
others; it opens none.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.forecast import Trial, TrialEnd
from bot.domain.step import Step
from bot.errors import ContractError, NotFound, StoreError
from bot.store.codec import STEP, TRIAL, clean, listed, moment, stamp
from bot.store.documents import MISSING

PLACE = """
select f.state, t.body, s.body, (select max(number) from step where forecast = f.id and trial = :trial)
from forecast f
left join trial t on t.forecast = f.id and t.number = :trial
left join step s on s.forecast = f.id and s.trial = :trial and s.number = :number
where f.id = :forecast
"""
OPEN_TRIAL = "insert into trial (forecast, number) values (:forecast, :trial) on conflict do nothing"
ADD_STEP = """
insert into step (forecast, trial, number, at, action, cost_usd, body)
values (:forecast, :trial, :number, :at, :action, :cost_usd, :body)
"""
END_TRIAL = """
insert into trial (forecast, number, ended_at, ending, body) values (:forecast, :trial, :at, :ending, :body)
on conflict do update set ended_at = excluded.ended_at, ending = excluded.ending, body = excluded.body
"""
TRIALS = "select number, body from trial where forecast = ? order by number"
STEPS = "select trial, number, at, body from step where forecast = ? order by trial, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """A step with its number, from 1, and the moment it was logged."""

    number: int
    at: datetime
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """What is on record of one trial; ``trial`` is None while it has not ended."""

    number: int
    trial: Trial | None
    steps: tuple[LoggedStep, ...]

    @property
    def end(self) -> TrialEnd | None:
        """Why it ended, if it did."""
        return None if self.trial is None else self.trial.end


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step on its way into the ledger."""

    forecast: str
    trial: int
    number: int
    step: Step
    at: datetime

    def columns(self) -> dict[str, Any]:
        """Return the row; raises ContractError for a step that JSON cannot say."""
        return {
            "forecast": self.forecast,
            "trial": self.trial,
            "number": self.number,
            "at": stamp(self.at),
            "action": clean(self.step.action.name),
            "cost_usd": float(self.step.usage.cost_usd),
            "body": STEP.encode(self.step),
        }


def log_step(database: Database, row: StepRow, columns: dict[str, Any]) -> str | None:
    """Write a step; return why it contradicts what is on record, or None where it is there now.

    Raises NotFound for an unknown forecast or document, StoreError for a step that comes too late or leaves a gap.
    """
    name = f"step {row.number} of trial {row.trial} of forecast {row.forecast}"
    state, trial, known, last = _place(database, row)
    if known is not None:
        return None if known == columns["body"] else f"{name} is on record with another content"
    if state != "running" or trial is not None:
        message = f"{name} comes after its end"
        raise StoreError(message)
    if row.number != (last or 0) + 1:
        message = f"{name} leaves a gap after step {last or 0}"
        raise StoreError(message)
    require_documents(database, row.step.observation.documents)
    database.execute(OPEN_TRIAL, columns)
    database.execute(ADD_STEP, columns)
    return None


def end_trial(database: Database, forecast: str, trial: Trial, at: datetime) -> None:
    """Write how a trial ended; the same again changes nothing, another end raises ContractError."""
    body = TRIAL.encode(trial)
    probe = {"forecast": forecast, "trial": trial.number, "number": 0}
    row = database.execute(PLACE, probe).fetchone()
    if row is None:
        message = f"no forecast {forecast} in the ledger"
        raise NotFound(message)
    known = row[1]
    if known is not None and known != body:
        message = f"trial {trial.number} of forecast {forecast} has ended with another result"
        raise ContractError(message)
    if known is None:
        values = {**probe, "at": stamp(at), "ending": trial.end.value, "body": body}
        database.execute(END_TRIAL, values)


def trials_of(database: Database, forecast: str) -> tuple[TrialRecord, ...]:
    """Return the trials of a forecast with their steps, in order."""
    steps: defaultdict[int, list[LoggedStep]] = defaultdict(list)
    for trial, number, at, body in database.execute(STEPS, [forecast]):
        steps[trial].append(LoggedStep(number=number, at=moment(at), step=STEP.decode(body)))
    return tuple(
        TrialRecord(number=number, trial=None if body is None else TRIAL.decode(body), steps=tuple(steps[number]))
        for number, body in database.execute(TRIALS, [forecast])
    )


def require_documents(database: Database, digests: tuple[str, ...]) -> None:
    """Raise NotFound for a digest that no stored document has: what is cited must be kept first."""
    if not digests:
        return
    missing = [digest for (digest,) in database.execute(MISSING, [listed(digests)])]
    if missing:
        message = f"documents must be stored before they are used: {', '.join(missing)}"
        raise NotFound(message)


def _place(database: Database, row: StepRow) -> tuple[str, str | None, str | None, int | None]:
    probe = {"forecast": row.forecast, "trial": row.trial, "number": row.number}
    found: tuple[str, str | None, str | None, int | None] | None = database.execute(PLACE, probe).fetchone()
    if found is None:
        message = f"no forecast {row.forecast} in the ledger"
        raise NotFound(message)
    return found
