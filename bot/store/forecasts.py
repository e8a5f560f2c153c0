"""Forecasts from the start to the recorded answer, and the basis of the newest forecast of a question.

Each question and forecaster has at most one unfinished forecast.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.core.beliefs import Step
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.forecasts import Forecast, ForecasterSetup, Trial
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.documents import PackedDocument
from bot.store.question_history import pin_price, read_question_version
from bot.store.schedule import ForecastLease, NextDueTime, complete_schedule_entry, postpone_schedule_entry
from bot.store.schema_views import IS_WITHDRAWN
from bot.store.serialization import (
    format_timestamp,
    pack_prediction,
    parse_timestamp,
    question_version,
    sanitize_text,
    to_json_list,
    unpack_prediction,
)
from bot.store.trials import (
    FORGET_FORECAST,
    RecordingBatch,
    StepRow,
    TrialRecord,
    end_trial,
    log_step,
    read_setup,
    read_trials,
    require_documents,
    setup_mismatch,
    store_setup,
)

_SELECT_BASES = f"""
select f.ref, f.version, f.made_at, c.probability, c.body, f.version is not q.version,
       (select count(*) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster and g.state = 'done'
          and g.forecast_only = 0 and julianday(g.made_at) > julianday(f.made_at) - 1.0 / 24),
       exists (select 1 from current_resolution r where r.ref = f.ref and r.seen_at > f.made_at and {IS_WITHDRAWN})
from latest_forecast f join question q on q.ref = f.ref left join price c on c.id = f.price
where f.forecaster = ? and f.ref in (select value from json_each(?))
"""  # noqa: S608 - made of constants
# The largest number of forecasts per hour of a question whose text alternates, as between two caches.
_MAX_RECENT_FORECASTS = 4
_CHANGE_COOLDOWN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastBasis:
    """What a forecast was based on: the version of the question, the time, and the crowd's prediction, if any.

    ``question`` is that version, where the ledger has another current version. ``recent_forecasts`` counts the
    forecasts of the hour that ended with this one. ``is_reopened``: an outcome was withdrawn since.
    """

    version: str
    made_at: datetime
    crowd: Prediction | None
    question: Question | None = None
    recent_forecasts: int = 1
    is_reopened: bool = False

    def change_due_at(self, now: datetime) -> datetime:
        """Return when a changed question is due: now, or later if it was forecast often within the last hour."""
        return now if self.recent_forecasts < _MAX_RECENT_FORECASTS else max(now, self.made_at + _CHANGE_COOLDOWN)


def read_forecast_bases(database: Database, forecaster: str, refs: str) -> Mapping[QuestionRef, ForecastBasis]:
    """Read the bases of the newest completed forecasts of these questions (a JSON list of references)."""
    return {
        QuestionRef.parse(ref): ForecastBasis(
            version=version,
            made_at=parse_timestamp(made_at),
            crowd=None if probability is None and body is None else unpack_prediction(probability, body),
            question=read_question_version(database, version, price=None) if is_restated else None,
            recent_forecasts=recent,
            is_reopened=bool(is_reopened),
        )
        for ref, version, made_at, probability, body, is_restated, recent, is_reopened in database.execute(
            _SELECT_BASES, [forecaster, refs]
        ).fetchall()
    }


# A live forecast has its start as cutoff; after a kill it may resume for this long.
MAX_RESUME_AGE = timedelta(hours=1)
_QUESTION_CHANGED = "the question changed while it was being forecast"
_KNOWN_VERSION = "select 1 from question_version where version = ? and ref = ?"
_SET_FORECAST_ONLY = "update forecast set forecast_only = :forecast_only where id = :id"
_SELECT_UNFINISHED = """
select id, revision, version, price, cutoff from forecast where ref = ? and forecaster = ? and state = 'running'
"""
_LAST_REVISION = "select coalesce(max(revision), 0) from forecast where ref = ? and forecaster = ?"
_INSERT_FORECAST = """
insert into forecast (id, ref, version, price, forecaster, revision, cutoff, why, state, started_at, setup,
                      forecast_only)
values (:id, :ref, :version, :price, :forecaster, :revision, :cutoff, :why, 'running', :now, :setup, :forecast_only)
"""
_END_FORECAST = "update forecast set state = :state, detail = :why, ended_at = :at where id = :id and state = 'running'"
_SELECT_IDENTITY = "select ref, version, forecaster, revision, state, forecast_only from forecast where id = ?"
_SELECT_TRACE = """
select version, price, state, detail, setup, forecast_only, evidence_removed_at from forecast where id = ?
"""
_TARGETS = "select target from target where version = ?"
_COMPLETE_FORECAST = """
update forecast set state = 'done', cutoff = :cutoff, made_at = :made_at, ended_at = :made_at, fitted = :fitted,
                    calibration = :calibration
where id = :id
"""
_ADD_PREDICTION = """
insert into prediction (forecast, target, ref, probability, body, raw_probability, raw_body)
values (?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_FORECASTS = """
select id, ref, version, forecaster, revision, cutoff, made_at, forecast.why, fitted, calibration
from forecast
"""
_FORECAST_QUERIES = {
    name: _SELECT_FORECASTS + chosen
    for name, chosen in {
        "get": "where id = ? and state = 'done'",
        "find": "where id like ? || '%' and state = 'done' order by id limit 20",
        "latest": "where ref = ? and forecaster = ? and state = 'done' order by revision desc limit 1",
        "history": "where ref = ? and state = 'done' order by made_at, forecaster, revision",
        "undecided": "where state = 'done' and decided_at is null order by made_at, id limit ?",
        "recent": "where state = 'done' order by made_at desc, id desc limit ?",
        "held": """
where id in (select forecast from decision where until <= ?)
  and (select until <= ? from decision where forecast = forecast.id order by decision.id desc limit 1)
  and not exists (select 1 from forecast later where later.ref = forecast.ref and later.state = 'done'
                  and later.forecaster = forecast.forecaster and later.revision > forecast.revision
                  and later.forecast_only = 0)
order by made_at, id limit ?""",
    }.items()
}
_PREDICTIONS = """
select forecast, target, probability, body, raw_probability, raw_body from prediction
where forecast in (select value from json_each(?))
"""
_COUNT_FORECASTS = "select coalesce(sum(count), 0) from tally where name = 'forecasts'"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningForecast:
    """An unfinished forecast: the question when it began, and the trials recorded so far.

    ``forecast_only``: it is never submitted.
    """

    id: str
    question: Question
    version: str
    revision: int
    cutoff: datetime
    trials: tuple[TrialRecord, ...]
    forecast_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTrace:
    """The full record of one forecast; ``forecast`` is None unless ``state`` is done.

    ``setup`` is the configuration of its forecaster, None if unknown. ``forecast_only``: it is never submitted.
    ``evidence_removed_at`` is when its steps, exchanges and pages were deleted, None if they were not.
    """

    id: str
    state: str
    detail: str
    forecast: Forecast | None
    question: Question
    trials: tuple[TrialRecord, ...]
    setup: ForecasterSetup | None = None
    forecast_only: bool = False
    evidence_removed_at: datetime | None = None

    @property
    def removal_note(self) -> str | None:
        """Why it can no longer be replayed or explained step by step, as a sentence; None if it can."""
        if self.evidence_removed_at is None:
            return None
        day = f"{self.evidence_removed_at:%Y-%m-%d}"
        return f"its steps, exchanges and pages were deleted on {day}; predictions, decisions and scores are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStart:
    """The inputs of a new forecast; ``setup`` is None if the configuration of the forecaster is unknown."""

    question: Question
    forecaster: str
    cutoff: datetime
    why: str
    now: datetime
    setup: ForecasterSetup | None = None
    forecast_only: bool = False


@dataclass(frozen=True, slots=True)
class ForecastStore:
    """Forecasts with their trials and steps."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def begin(self, start: ForecastStart) -> RunningForecast:
        """Resume the unfinished forecast of the question, or begin the next revision.

        An unfinished forecast is resumed if it has the same version and setup, and its cutoff is the given one or at
        most an hour older; otherwise it is marked abandoned. Use the returned cutoff and question: the crowd may have
        moved since it began. Raises NotFoundError for an unknown question or version.
        """
        version = question_version(start.question)
        return await self.writer.run(lambda database: _begin_forecast(database, start, version))

    async def log_step(
        self,
        forecast_id: str,
        *,
        trial: int,
        number: int,
        step: Step,
        at: datetime,
        waiting: RecordingBatch | None = None,
    ) -> None:
        """Append a step; the same step again changes nothing. What is ``waiting`` is written before it.

        A step that contradicts the record raises MalformedDataError and abandons the forecast, so that the next attempt
        starts again. Raises NotFoundError for an unknown forecast or document, and StoreError for a step after the end
        or after a gap.
        """
        row = StepRow(forecast=forecast_id, trial=trial, number=number, step=step, at=at)
        document = row.document()
        contradiction = await self.writer.run(lambda database: _log_step_or_abandon(database, row, document, waiting))
        if contradiction is not None:
            raise MalformedDataError(contradiction)

    async def end_trial(self, forecast_id: str, trial: Trial, at: datetime) -> None:
        """Record how a trial ended; raises NotFoundError, and MalformedDataError if it ended differently before."""
        await self.writer.run(lambda database: end_trial(database, forecast_id, trial, at))

    async def complete(
        self, forecast: Forecast, *, next_due: NextDueTime | None, next_due_apart: NextDueTime | None = None
    ) -> None:
        """Record the answer, one prediction per target, and when the question is due again, in one transaction.

        ``next_due_apart`` is when it is due again after a forecast that is not submitted, which may change meanwhile.
        A second call changes nothing. Raises MalformedDataError for predictions that do not match the targets of the
        version, NotFoundError for parameters that are not stored, and StoreError for a failed forecast.
        """
        await self.writer.run(lambda database: _complete_forecast(database, forecast, next_due, next_due_apart))

    async def fail(
        self, forecast_id: str, *, why: str, at: datetime, postponed: tuple[ForecastLease, datetime] | None = None
    ) -> None:
        """End an unfinished forecast without an answer; an ended one does not change.

        ``postponed`` is its lease and until when its question is postponed, in the same transaction: a process that
        dies in between would forecast it again at once.
        """

        def work(database: Database) -> None:
            _end_forecast(database, forecast_id, "failed", why=why, at=at)
            if postponed is not None:
                postpone_schedule_entry(database, postponed[0], until=postponed[1], why=why)

        await self.writer.run(work)

    async def get(self, forecast_id: str) -> Forecast:
        """Return a completed forecast; raises NotFoundError."""
        found = await self._lookup("get", forecast_id)
        if not found:
            message = f"no completed forecast {forecast_id} in the ledger"
            raise NotFoundError(message)
        return found[0]

    async def find(self, id_prefix: str) -> list[Forecast]:
        """Return the completed forecasts whose id starts so, at most 20, by id."""
        return await self._read("find", "".join(character for character in id_prefix if character.isalnum()))

    async def latest(self, ref: QuestionRef, forecaster: str) -> Forecast | None:
        """Return the newest completed forecast."""
        found = await self._lookup("latest", str(ref), forecaster)
        return found[0] if found else None

    async def history(self, ref: QuestionRef) -> list[Forecast]:
        """Return all completed forecasts of a question, oldest first."""
        return await self._lookup("history", str(ref))

    async def undecided(self, limit: int) -> list[Forecast]:
        """Return completed forecasts without a decision, oldest first."""
        return await self._read("undecided", limit)

    async def held(self, limit: int, *, now: datetime) -> list[Forecast]:
        """Return the newest forecasts whose hold has ended, oldest first."""
        return await self._read("held", format_timestamp(now), format_timestamp(now), limit)

    async def recent(self, limit: int) -> list[Forecast]:
        """Return the newest completed forecasts, newest first."""
        return await self._read("recent", limit)

    async def read_bases(self, refs: Iterable[QuestionRef], forecaster: str) -> Mapping[QuestionRef, ForecastBasis]:
        """Return the basis of the newest forecast that may be submitted; questions without one are absent."""
        asked = to_json_list(refs)
        return await self.readers.run(lambda database: read_forecast_bases(database, forecaster, asked))

    async def questions_of(self, forecasts: Iterable[Forecast]) -> Mapping[str, Question]:
        """Return the questions of these forecasts, without a crowd, by the digest of their version."""
        versions = {one.version for one in forecasts}
        return await self.readers.run(
            lambda database: {one: read_question_version(database, one, price=None) for one in versions}
        )

    async def trace(self, forecast_id: str) -> ForecastTrace:
        """Return the full record of a forecast, finished or not; raises NotFoundError."""
        return await self.readers.run(lambda database: _read_trace(database, forecast_id))

    async def question_of(self, forecast_id: str) -> Question:
        """Return the question of a forecast as it was when that began; raises NotFoundError."""
        return await self.readers.lookup(lambda database: _read_question(database, forecast_id))

    async def count(self) -> int:
        """Return the number of completed forecasts."""
        return await self.readers.run(lambda database: int(database.execute(_COUNT_FORECASTS).fetchone()[0]))

    async def _lookup(self, name: str, *values: object) -> list[Forecast]:
        return await self.readers.lookup(lambda database: _read_forecasts(database, name, values))

    async def _read(self, name: str, *values: object) -> list[Forecast]:
        return await self.readers.run(lambda database: _read_forecasts(database, name, values))


def _begin_forecast(database: Database, start: ForecastStart, current: str) -> RunningForecast:
    ref = str(start.question.ref)
    if database.execute(_KNOWN_VERSION, [current, ref]).fetchone() is None:
        message = f"the current version of {ref} is not recorded; record it before it is forecast"
        raise NotFoundError(message)
    unfinished = database.execute(_SELECT_UNFINISHED, [ref, start.forecaster]).fetchone()
    if unfinished is not None:
        known, revision, version, seen, cutoff = unfinished
        why = _QUESTION_CHANGED if version != current else _resume_refusal(start, parse_timestamp(cutoff))
        if (why := why or setup_mismatch(database, known, start.setup)) is None:
            # The newest request decides whether it may be submitted.
            database.execute(_SET_FORECAST_ONLY, {"id": known, "forecast_only": start.forecast_only})
            return RunningForecast(
                id=known,
                question=read_question_version(database, version, price=seen),
                version=current,
                revision=revision,
                cutoff=parse_timestamp(cutoff),
                trials=read_trials(database, known),
                forecast_only=start.forecast_only,
            )
        _end_forecast(database, known, "abandoned", why=why, at=start.now)
    revision = database.execute(_LAST_REVISION, [ref, start.forecaster]).fetchone()[0] + 1
    values = {
        "id": derive_id("forecast", ref, start.forecaster, str(revision)),
        "ref": ref,
        "version": current,
        "price": pin_price(database, start.question, format_timestamp(start.now)),
        "forecaster": start.forecaster,
        "revision": revision,
        "cutoff": format_timestamp(start.cutoff),
        "why": sanitize_text(start.why),
        "now": format_timestamp(start.now),
        "setup": store_setup(database, start.setup),
        "forecast_only": start.forecast_only,
    }
    database.execute(_INSERT_FORECAST, values)
    # A ledger that was restored begins revisions again that its evidence may know.
    for statement in FORGET_FORECAST:
        database.execute(statement, [values["id"]])
    return RunningForecast(
        id=values["id"],
        question=start.question,
        version=current,
        revision=revision,
        cutoff=start.cutoff,
        trials=(),
        forecast_only=start.forecast_only,
    )


def _resume_refusal(start: ForecastStart, cutoff: datetime) -> str | None:
    if not timedelta(0) <= start.cutoff - cutoff <= MAX_RESUME_AGE:
        return f"not finished, with the cutoff {format_timestamp(cutoff)}"
    return None


def _log_step_or_abandon(
    database: Database, row: StepRow, document: PackedDocument, waiting: RecordingBatch | None
) -> str | None:
    if waiting is not None:
        waiting.write(database)
    contradiction = log_step(database, row, document)
    if contradiction is not None:
        _end_forecast(database, row.forecast, "abandoned", why=contradiction, at=row.at)
    return contradiction


def _end_forecast(database: Database, forecast_id: str, state: str, *, why: str, at: datetime) -> None:
    database.execute(
        _END_FORECAST, {"id": forecast_id, "state": state, "why": sanitize_text(why), "at": format_timestamp(at)}
    )


def _complete_forecast(
    database: Database, forecast: Forecast, next_due: NextDueTime | None, next_due_apart: NextDueTime | None
) -> None:
    state, forecast_only = _require_same_forecast(database, forecast)
    if state == "done":
        return
    if state != "running":
        message = f"forecast {forecast.id} is {state} and cannot be completed"
        raise StoreError(message)
    _require_every_target(database, forecast)
    require_documents(database, tuple(digest for digest in (forecast.fitted, forecast.calibration) if digest))
    values = {
        "id": forecast.id,
        "cutoff": format_timestamp(forecast.cutoff),
        "made_at": format_timestamp(forecast.made_at),
        "fitted": forecast.fitted,
        "calibration": forecast.calibration,
    }
    database.execute(_COMPLETE_FORECAST, values)
    rows = [
        (forecast.id, target, str(forecast.ref), *pack_prediction(final), *pack_prediction(forecast.raw[target]))
        for target, final in forecast.predictions.items()
    ]
    database.conn.executemany(_ADD_PREDICTION, rows)
    made_at, following = (None, next_due_apart) if forecast_only else (forecast.made_at, next_due)
    complete_schedule_entry(database, forecast.ref, forecast.forecaster, made_at, following)


def _require_same_forecast(database: Database, forecast: Forecast) -> tuple[str, bool]:
    row = database.execute(_SELECT_IDENTITY, [forecast.id]).fetchone()
    if row is None:
        message = f"forecast {forecast.id} was never started"
        raise NotFoundError(message)
    *begun, state, forecast_only = row
    if tuple(begun) != (str(forecast.ref), forecast.version, forecast.forecaster, forecast.revision):
        message = f"forecast {forecast.id} was started as {begun}, not as it is completed"
        raise MalformedDataError(message)
    return str(state), bool(forecast_only)


def _require_every_target(database: Database, forecast: Forecast) -> None:
    targets = {target for (target,) in database.execute(_TARGETS, [forecast.version])}
    for name, given in (("predictions", forecast.predictions), ("raw predictions", forecast.raw)):
        if set(given) != targets:
            message = f"forecast {forecast.id}: {name} of {sorted(given)}, the targets are {sorted(targets)}"
            raise MalformedDataError(message)


def _read_forecasts(database: Database, name: str, values: Sequence[object]) -> list[Forecast]:
    heads = database.execute(_FORECAST_QUERIES[name], values).fetchall()
    if not heads:
        return []
    finals: defaultdict[str, dict[str, Prediction]] = defaultdict(dict)
    raws: defaultdict[str, dict[str, Prediction]] = defaultdict(dict)
    for forecast, target, *final, raw_probability, raw_body in database.execute(
        _PREDICTIONS, [to_json_list(head[0] for head in heads)]
    ):
        finals[forecast][target] = unpack_prediction(*final)
        raws[forecast][target] = unpack_prediction(raw_probability, raw_body)
    return [_forecast_from_row(head, raws[head[0]], finals[head[0]]) for head in heads]


def _forecast_from_row(
    head: tuple[Any, ...], raw: Mapping[str, Prediction], predictions: Mapping[str, Prediction]
) -> Forecast:
    forecast_id, ref, version, forecaster, revision, cutoff, made_at, why, fitted, calibration = head
    return Forecast(
        id=forecast_id,
        ref=QuestionRef.parse(ref),
        version=version,
        forecaster=forecaster,
        revision=revision,
        cutoff=parse_timestamp(cutoff),
        made_at=parse_timestamp(made_at),
        why=why,
        raw=raw,
        predictions=predictions,
        fitted=fitted,
        calibration=calibration,
    )


def _read_question(database: Database, forecast_id: str) -> Question:
    version, price, *_ = _read_trace_row(database, forecast_id)
    return read_question_version(database, version, price=price)


def _read_trace_row(database: Database, forecast_id: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = database.execute(_SELECT_TRACE, [forecast_id]).fetchone()
    if row is None:
        message = f"no forecast {forecast_id} in the ledger"
        raise NotFoundError(message)
    return row


def _read_trace(database: Database, forecast_id: str) -> ForecastTrace:
    version, price, state, detail, setup, forecast_only, removed_at = _read_trace_row(database, forecast_id)
    done = _read_forecasts(database, "get", [forecast_id])
    return ForecastTrace(
        id=forecast_id,
        state=state,
        detail=detail,
        forecast=done[0] if done else None,
        question=read_question_version(database, version, price=price),
        trials=read_trials(database, forecast_id),
        setup=read_setup(database, setup),
        forecast_only=bool(forecast_only),
        evidence_removed_at=parse_timestamp(removed_at),
    )
