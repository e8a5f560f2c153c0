"""Forecasts from the first step to the recorded answer; one unfinished at a time for each question and forecaster."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlite_utils import Database

from bot.domain.forecast import Forecast, Trial
from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.setup import Setup
from bot.domain.step import Step
from bot.errors import ContractError, NotFound, StoreError
from bot.ids import derive_id
from bot.store.basis import Basis, read_bases
from bot.store.codec import clean, listed, moment, pack_prediction, stamp, unpack_prediction, version_of
from bot.store.runs import Runs
from bot.store.schedule import Next, answer
from bot.store.setups import keep_setup, setup_at, unfit
from bot.store.trials import StepRow, TrialRecord, end_trial, log_step, require_documents, trials_of
from bot.store.versions import pin_price, stated

# A live forecast has the moment it began as its cutoff; one that was cut off by a kill is taken up again this long.
RESUME_WITHIN = timedelta(hours=1)

_OTHER_QUESTION = "the question changed while it was being forecast"
_KNOWN_VERSION = "select 1 from question_version where version = ? and ref = ?"
_TAKE_UP = "update forecast set apart = :apart where id = :id"
_UNFINISHED = """
select id, revision, version, price, cutoff from forecast where ref = ? and forecaster = ? and state = 'running'
"""
_LAST_REVISION = "select coalesce(max(revision), 0) from forecast where ref = ? and forecaster = ?"
_BEGIN = """
insert into forecast (id, ref, version, price, forecaster, revision, cutoff, why, state, started_at, setup, apart)
values (:id, :ref, :version, :price, :forecaster, :revision, :cutoff, :why, 'running', :now, :setup, :apart)
"""
_END = "update forecast set state = :state, detail = :why, ended_at = :at where id = :id and state = 'running'"
_HEAD = "select ref, version, forecaster, revision, state, apart from forecast where id = ?"
_TRACE = "select version, price, state, detail, setup, apart from forecast where id = ?"
_TARGETS = "select target from target where version = ?"
_COMPLETE = """
update forecast set state = 'done', cutoff = :cutoff, made_at = :made_at, ended_at = :made_at, fitted = :fitted,
                    calibration = :calibration
where id = :id
"""
_ADD_PREDICTION = """
insert into prediction (forecast, target, ref, probability, body, raw_probability, raw_body)
values (?, ?, ?, ?, ?, ?, ?)
"""
_HEADS = """
select id, ref, version, forecaster, revision, cutoff, made_at, forecast.why, fitted, calibration
from forecast
"""
_CHOSEN = {
    name: _HEADS + chosen
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
                  and later.apart = 0)
order by made_at, id limit ?""",
    }.items()
}
_PREDICTIONS = """
select forecast, target, probability, body, raw_probability, raw_body from prediction
where forecast in (select value from json_each(?))
"""
_COUNT = "select count(*) from forecast where state = 'done'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An unfinished forecast: the question as it stood when it began, and the trials already on record.

    ``apart``: a person only wants to see it, and it never leaves.
    """

    id: str
    question: Question
    version: str
    revision: int
    cutoff: datetime
    trials: tuple[TrialRecord, ...]
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that is on record of one forecast; ``forecast`` is None unless ``state`` is done.

    ``setup`` is how its forecaster was configured; None where that was not kept. One that is ``apart`` never leaves.
    """

    id: str
    state: str
    detail: str
    forecast: Forecast | None
    question: Question
    trials: tuple[TrialRecord, ...]
    setup: Setup | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a forecast begins with; ``setup`` None where nobody says how the forecaster is configured."""

    question: Question
    forecaster: str
    cutoff: datetime
    why: str
    now: datetime
    setup: Setup | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Forecasts and the steps that led to them."""

    writer: Runs
    readers: Runs

    async def begin(self, opening: Opening) -> Running:
        """Take up the unfinished forecast of the question as it stands, or begin the next revision.

        It is taken up if it saw the same version, works with the same setup, and its cutoff is the given one or at most
        an hour older; otherwise it is marked abandoned. Use the cutoff and the question that are returned: the crowd
        may have moved since it began. Raises NotFound for a question, or a version of it, that is not on record.
        """
        version = version_of(opening.question)
        return await self.writer.run(lambda database: _begin(database, opening, version))

    async def log_step(self, forecast_id: str, *, trial: int, number: int, step: Step, at: datetime) -> None:
        """Append a step; the same step again changes nothing.

        A step that contradicts the record raises ContractError and the forecast is abandoned, so that the next attempt
        starts afresh instead of failing for ever. Raises NotFound for an unknown forecast or document and StoreError
        for a step that comes after the end or leaves a gap.
        """
        row = StepRow(forecast=forecast_id, trial=trial, number=number, step=step, at=at)
        columns = row.columns()
        contradiction = await self.writer.run(lambda database: _log_step(database, row, columns))
        if contradiction is not None:
            raise ContractError(contradiction)

    async def end_trial(self, forecast_id: str, trial: Trial, at: datetime) -> None:
        """Record how a trial ended; raises NotFound, and ContractError if it has ended with another result."""
        await self.writer.run(lambda database: end_trial(database, forecast_id, trial, at))

    async def complete(self, forecast: Forecast, *, next_due: Next | None) -> None:
        """Record the answer, one prediction per target, and when the question is due again, in one transaction.

        Completing twice is completing once. Raises ContractError for predictions that are not those of the targets of
        the version, NotFound for parameters that are not stored, StoreError for a forecast that has failed.
        """
        await self.writer.run(lambda database: _complete(database, forecast, next_due))

    async def fail(self, forecast_id: str, *, why: str, at: datetime) -> None:
        """End an unfinished forecast without an answer; an ended one stays as it is."""
        await self.writer.run(lambda database: _end(database, forecast_id, "failed", why=why, at=at))

    async def get(self, forecast_id: str) -> Forecast:
        """Return a completed forecast; raises NotFound."""
        found = await self._read("get", forecast_id)
        if not found:
            message = f"no completed forecast {forecast_id} in the ledger"
            raise NotFound(message)
        return found[0]

    async def find(self, id_prefix: str) -> list[Forecast]:
        """Return the completed forecasts whose id starts so, at most 20, by id."""
        return await self._read("find", "".join(character for character in id_prefix if character.isalnum()))

    async def latest(self, ref: QuestionRef, forecaster: str) -> Forecast | None:
        """Return the newest completed forecast."""
        found = await self._read("latest", str(ref), forecaster)
        return found[0] if found else None

    async def history(self, ref: QuestionRef) -> list[Forecast]:
        """Return all completed forecasts of a question, oldest first."""
        return await self._read("history", str(ref))

    async def undecided(self, limit: int) -> list[Forecast]:
        """Return completed forecasts over which nothing was ever decided, oldest first."""
        return await self._read("undecided", limit)

    async def held(self, limit: int, *, now: datetime) -> list[Forecast]:
        """Return the newest forecasts that were held until a moment that has come, oldest first."""
        return await self._read("held", stamp(now), stamp(now), limit)

    async def recent(self, limit: int) -> list[Forecast]:
        """Return the newest completed forecasts, newest first."""
        return await self._read("recent", limit)

    async def bases(self, refs: Iterable[QuestionRef], forecaster: str) -> Mapping[QuestionRef, Basis]:
        """Return what the newest forecast that may leave was made on; questions without one are absent."""
        asked = listed(refs)
        return await self.readers.run(lambda database: read_bases(database, forecaster, asked))

    async def questions_of(self, forecasts: Iterable[Forecast]) -> Mapping[str, Question]:
        """Return the questions that these forecasts were made for, without a crowd, by the digest of their version."""
        versions = {one.version for one in forecasts}
        return await self.readers.run(lambda database: {one: stated(database, one, price=None) for one in versions})

    async def trace(self, forecast_id: str) -> Trace:
        """Return all that is on record of a forecast, finished or not; raises NotFound."""
        return await self.readers.run(lambda database: _trace(database, forecast_id))

    async def count(self) -> int:
        """Return how many forecasts were completed."""
        return await self.readers.run(lambda database: int(database.execute(_COUNT).fetchone()[0]))

    async def _read(self, name: str, *values: object) -> list[Forecast]:
        return await self.readers.run(lambda database: _forecasts(database, name, values))


def _begin(database: Database, opening: Opening, current: str) -> Running:
    ref = str(opening.question.ref)
    if database.execute(_KNOWN_VERSION, [current, ref]).fetchone() is None:
        message = f"{ref} is not on record as it stands; record it before it is forecast"
        raise NotFound(message)
    unfinished = database.execute(_UNFINISHED, [ref, opening.forecaster]).fetchone()
    if unfinished is not None:
        known, revision, version, seen, cutoff = unfinished
        why = _OTHER_QUESTION if version != current else _late(opening, moment(cutoff))
        if (why := why or unfit(database, known, opening.setup)) is None:
            # It belongs to whoever wants it now.
            database.execute(_TAKE_UP, {"id": known, "apart": opening.apart})
            return Running(
                id=known,
                question=stated(database, version, price=seen),
                version=current,
                revision=revision,
                cutoff=moment(cutoff),
                trials=trials_of(database, known),
                apart=opening.apart,
            )
        _end(database, known, "abandoned", why=why, at=opening.now)
    revision = database.execute(_LAST_REVISION, [ref, opening.forecaster]).fetchone()[0] + 1
    values = {
        "id": derive_id("forecast", ref, opening.forecaster, str(revision)),
        "ref": ref,
        "version": current,
        "price": pin_price(database, opening.question, stamp(opening.now)),
        "forecaster": opening.forecaster,
        "revision": revision,
        "cutoff": stamp(opening.cutoff),
        "why": clean(opening.why),
        "now": stamp(opening.now),
        "setup": keep_setup(database, opening.setup),
        "apart": opening.apart,
    }
    database.execute(_BEGIN, values)
    return Running(
        id=values["id"],
        question=opening.question,
        version=current,
        revision=revision,
        cutoff=opening.cutoff,
        trials=(),
        apart=opening.apart,
    )


def _late(opening: Opening, cutoff: datetime) -> str | None:
    if not timedelta(0) <= opening.cutoff - cutoff <= RESUME_WITHIN:
        return f"left unfinished with the cutoff {stamp(cutoff)}"
    return None


def _log_step(database: Database, row: StepRow, columns: dict[str, Any]) -> str | None:
    contradiction = log_step(database, row, columns)
    if contradiction is not None:
        _end(database, row.forecast, "abandoned", why=contradiction, at=row.at)
    return contradiction


def _end(database: Database, forecast_id: str, state: str, *, why: str, at: datetime) -> None:
    database.execute(_END, {"id": forecast_id, "state": state, "why": clean(why), "at": stamp(at)})


def _complete(database: Database, forecast: Forecast, next_due: Next | None) -> None:
    state, apart = _require_same(database, forecast)
    if state == "done":
        return
    if state != "running":
        message = f"forecast {forecast.id} is {state} and cannot be completed"
        raise StoreError(message)
    _require_every_target(database, forecast)
    require_documents(database, tuple(digest for digest in (forecast.fitted, forecast.calibration) if digest))
    values = {
        "id": forecast.id,
        "cutoff": stamp(forecast.cutoff),
        "made_at": stamp(forecast.made_at),
        "fitted": forecast.fitted,
        "calibration": forecast.calibration,
    }
    database.execute(_COMPLETE, values)
    rows = [
        (forecast.id, target, str(forecast.ref), *pack_prediction(final), *pack_prediction(forecast.raw[target]))
        for target, final in forecast.predictions.items()
    ]
    database.conn.executemany(_ADD_PREDICTION, rows)
    answer(database, forecast.ref, forecast.forecaster, None if apart else forecast.made_at, next_due)


def _require_same(database: Database, forecast: Forecast) -> tuple[str, bool]:
    row = database.execute(_HEAD, [forecast.id]).fetchone()
    if row is None:
        message = f"forecast {forecast.id} was never begun"
        raise NotFound(message)
    *begun, state, apart = row
    if tuple(begun) != (str(forecast.ref), forecast.version, forecast.forecaster, forecast.revision):
        message = f"forecast {forecast.id} was begun as {begun}, not as it is completed"
        raise ContractError(message)
    return str(state), bool(apart)


def _require_every_target(database: Database, forecast: Forecast) -> None:
    targets = {target for (target,) in database.execute(_TARGETS, [forecast.version])}
    for name, given in (("predictions", forecast.predictions), ("raw predictions", forecast.raw)):
        if set(given) != targets:
            message = f"forecast {forecast.id}: {name} of {sorted(given)}, the targets are {sorted(targets)}"
            raise ContractError(message)


def _forecasts(database: Database, name: str, values: Sequence[object]) -> list[Forecast]:
    heads = database.execute(_CHOSEN[name], values).fetchall()
    finals: defaultdict[str, dict[str, Prediction]] = defaultdict(dict)
    raws: defaultdict[str, dict[str, Prediction]] = defaultdict(dict)
    for forecast, target, *final, raw_probability, raw_body in database.execute(
        _PREDICTIONS, [listed(head[0] for head in heads)]
    ):
        finals[forecast][target] = unpack_prediction(*final)
        raws[forecast][target] = unpack_prediction(raw_probability, raw_body)
    return [_forecast(head, raws[head[0]], finals[head[0]]) for head in heads]


def _forecast(head: tuple[Any, ...], raw: Mapping[str, Prediction], predictions: Mapping[str, Prediction]) -> Forecast:
    forecast_id, ref, version, forecaster, revision, cutoff, made_at, why, fitted, calibration = head
    return Forecast(
        id=forecast_id,
        ref=QuestionRef.parse(ref),
        version=version,
        forecaster=forecaster,
        revision=revision,
        cutoff=moment(cutoff),
        made_at=moment(made_at),
        why=why,
        raw=raw,
        predictions=predictions,
        fitted=fitted,
        calibration=calibration,
    )


def _trace(database: Database, forecast_id: str) -> Trace:
    row = database.execute(_TRACE, [forecast_id]).fetchone()
    if row is None:
        message = f"no forecast {forecast_id} in the ledger"
        raise NotFound(message)
    version, price, state, detail, setup, apart = row
    done = _forecasts(database, "get", [forecast_id])
    return Trace(
        id=forecast_id,
        state=state,
        detail=detail,
        forecast=done[0] if done else None,
        question=stated(database, version, price=price),
        trials=trials_of(database, forecast_id),
        setup=setup_at(database, setup),
        apart=bool(apart),
    )
