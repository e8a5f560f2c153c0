"""Resolved forecasts as known before a time, and the parameters that forecasters fitted to outcomes.

Parameters are stored by the digest of their content and found by date.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.core.forecasts import Trial
from bot.core.learning import LESSON_ACTION, FittedParameters, ResolvedForecast, UnresolvedNote
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Resolution
from bot.core.questions import QuestionRef
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.documents import PackedDocument, compress_document, get_document, put_document
from bot.store.evidence import EvidenceReader
from bot.store.question_history import read_question_version
from bot.store.score_totals import WAS_BEFORE_SPOT_TIME
from bot.store.serialization import (
    FITTED,
    OUTCOME,
    STEP,
    TRIAL,
    format_timestamp,
    parse_timestamp,
    sanitize_text,
    to_json_list,
    unpack_prediction,
)
from bot.store.trials import clairvoyant_setups, clairvoyant_setups_json

# More of them improve a fit only a little.
MAX_RESOLVED_FORECASTS = 5_000
# Selected like scores: for each forecaster and target, the last forecast before close and outcome. Clairvoyant
# forecasts are left out, and so are questions that must not be used for training (their fact "training").
_SELECT_RESOLVED_FORECASTS = f"""
with eligible as (
  select f.id, f.forecaster, f.version, f.price, f.cutoff, f.ref, p.target, p.raw_probability, p.raw_body,
         r.body as outcome, r.resolved_at,
         row_number() over (partition by f.forecaster, f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  where r.kind <> 'void' and r.resolved_at < :before and f.cutoff < :before
    and f.forecaster in (select value from json_each(:forecasters))
    and coalesce(f.setup, '') not in (select value from json_each(:clairvoyant))
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {WAS_BEFORE_SPOT_TIME}
    and not exists (
      select 1 from question_version v where v.version = f.version and json_extract(v.body, '$.facts.training') = 'no'))
select id, forecaster, version, price, cutoff, ref, target, raw_probability, raw_body, outcome, resolved_at
from eligible where age = 1 order by resolved_at desc, ref desc, target desc, forecaster desc limit :limit
"""  # noqa: S608 - made of constants
_SELECT_TRIALS = "select body from trial where forecast = ? and body is not null order by number desc"
_SELECT_NOTES = "select body from step where forecast = ? and action = ? order by trial, number"

MAX_UNRESOLVED_NOTES = 20

# As known before a time: notes of forecasts made before it, of questions without an outcome until then. The partial
# index of such steps is small, whatever the size of the ledger.
_SELECT_UNRESOLVED_NOTES = f"""
select f.id, f.ref, q.title, f.made_at, f.setup, s.body
from step s join forecast f on f.id = s.forecast join question q on q.ref = f.ref
where s.action = '{LESSON_ACTION}' and f.forecaster = :forecaster and f.made_at < :before and f.cutoff < :before
  and f.id <> :running
  and not exists (select 1 from current_resolution r where r.ref = f.ref and r.resolved_at < :before)
order by f.made_at desc, f.id, s.trial, s.number limit :limit
"""  # noqa: S608 - made of constants
_ANY_NOTE = f"select 1 from step where action = '{LESSON_ACTION}' limit 1"  # noqa: S608 - a constant


def read_unresolved_notes(
    database: Database, forecaster: str, *, before: datetime, running: str
) -> list[UnresolvedNote]:
    """Return the newest notes of a forecaster on questions that were open before that time.

    Those of the ``running`` forecast are left out, and those of forecasts that might see the future.
    """
    values = {
        "forecaster": forecaster,
        "before": format_timestamp(before),
        "running": running,
        "limit": MAX_UNRESOLVED_NOTES,
    }
    rows = database.execute(_SELECT_UNRESOLVED_NOTES, values).fetchall()
    clairvoyant = clairvoyant_setups(database, {setup for _, _, _, _, setup, _ in rows}) if rows else frozenset()
    found = [
        _unresolved_note(*row[:5], EvidenceReader(database, row[0]).text(row[5]))
        for row in rows
        if row[4] not in clairvoyant
    ]
    return [note for note in found if note is not None]


def _unresolved_note(*columns: Any) -> UnresolvedNote | None:  # noqa: ANN401 - a database row
    forecast, ref, title, made_at, _, body = columns
    text = STEP.decode(body).action.arguments.get("text")
    if not isinstance(text, str):
        return None
    return UnresolvedNote(
        forecast=forecast, ref=QuestionRef.parse(ref), title=title, made_at=parse_timestamp(made_at), text=text
    )


def read_resolved_forecasts(
    database: Database, forecasters: Collection[str], before: datetime
) -> list[ResolvedForecast]:
    """Return the newest resolved forecasts of these forecasters, by the time of their outcome."""
    values = {
        "before": format_timestamp(before),
        "forecasters": to_json_list(forecasters),
        "clairvoyant": clairvoyant_setups_json(database, forecasters),
        "limit": MAX_RESOLVED_FORECASTS,
    }
    return [
        _resolved_forecast(database, row)
        for row in reversed(database.execute(_SELECT_RESOLVED_FORECASTS, values).fetchall())
    ]


def _read_resolved_trials(
    database: Database, forecaster: str, before: datetime
) -> list[tuple[ResolvedForecast, list[Trial]]]:
    return [
        (past, [TRIAL.decode(body) for (body,) in database.execute(_SELECT_TRIALS, [past.forecast])])
        for past in read_resolved_forecasts(database, [forecaster], before)
    ]


def _resolved_forecast(database: Database, row: Sequence[Any]) -> ResolvedForecast:
    forecast, forecaster, version, price, cutoff, ref, target, probability, body, outcome, resolved_at = row
    return ResolvedForecast(
        forecast=forecast,
        forecaster=forecaster,
        question=read_question_version(database, version, price=price),
        prediction=unpack_prediction(probability, body),
        resolution=Resolution(
            ref=QuestionRef.parse(ref),
            target=target,
            outcome=OUTCOME.decode(outcome),
            resolved_at=parse_timestamp(resolved_at),
        ),
        cutoff=parse_timestamp(cutoff),
        reason=_last_reason(database, forecast),
        notes=tuple(_lesson_notes(database, forecast)),
    )


def _last_reason(database: Database, forecast: str) -> str:
    trials = (TRIAL.decode(body) for (body,) in database.execute(_SELECT_TRIALS, [forecast]))
    return next((trial.belief.reason for trial in trials if trial.belief is not None), "")


def _lesson_notes(database: Database, forecast: str) -> Iterator[str]:
    evidence = EvidenceReader(database, forecast)
    for (body,) in database.execute(_SELECT_NOTES, [forecast, LESSON_ACTION]).fetchall():
        note = STEP.decode(evidence.text(body)).action.arguments.get("text")
        if isinstance(note, str):
            yield note


PARAMETERS_MEDIA_TYPE = "application/json"
_INSERT_PARAMETERS = """
insert into fitted_parameters (digest, forecaster, before, examples, provenance, at)
values (:digest, :forecaster, :before, :examples, :provenance, :at) on conflict do nothing
"""
_NEWEST_PARAMETERS = """
select digest from fitted_parameters where forecaster = ? and before <= ?
order by before desc, examples desc, digest limit 1
"""
_SELECT_PARAMETERS = (
    "select digest, forecaster, before, examples, at from fitted_parameters order by forecaster, before, at"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedParametersRow:
    """One set of parameters, without its payload."""

    digest: str
    forecaster: str
    before: datetime
    examples: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LearningStore:
    """Fitted parameters with their provenance, never changed."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def record(self, fitted: FittedParameters, at: datetime) -> str:
        """Store parameters and return their digest, which forecasts refer to; repeating it changes nothing."""
        document = compress_document(FITTED.encode(fitted).encode(), PARAMETERS_MEDIA_TYPE)
        await self.writer.run(lambda database: _record_parameters(database, document, fitted, at))
        return document.digest

    async def newest(self, forecaster: str, cutoff: datetime) -> tuple[str, FittedParameters] | None:
        """Return the parameters, with their digest, whose ``before`` is the latest not after the cutoff."""
        return await self.readers.run(lambda database: _newest_parameters(database, forecaster, cutoff))

    async def get(self, digest: str) -> FittedParameters:
        """Return parameters; raises NotFoundError."""
        return await self.readers.run(lambda database: _read_parameters(database, digest))

    async def read_resolved_forecasts(self, forecasters: Collection[str], before: datetime) -> list[ResolvedForecast]:
        """Return the newest resolved forecasts with an outcome before that time, by the time of their outcome."""
        return await self.readers.run(lambda database: read_resolved_forecasts(database, forecasters, before))

    async def read_resolved_trials(
        self, forecaster: str, before: datetime
    ) -> list[tuple[ResolvedForecast, list[Trial]]]:
        """Return the same for one forecaster, each with the trials of the forecast."""
        return await self.readers.run(lambda database: _read_resolved_trials(database, forecaster, before))

    async def read_unresolved_notes(self, forecaster: str, *, before: datetime, running: str) -> list[UnresolvedNote]:
        """Return the newest notes of a forecaster on questions that were open before that time."""
        if not await self.readers.lookup_rows(_ANY_NOTE):
            return []
        return await self.readers.run(
            lambda database: read_unresolved_notes(database, forecaster, before=before, running=running)
        )

    async def rows(self) -> list[FittedParametersRow]:
        """Return all sets of parameters, by forecaster and date."""
        return await self.readers.run(_list_parameters)


def _record_parameters(database: Database, document: PackedDocument, fitted: FittedParameters, at: datetime) -> None:
    put_document(database, document)
    values = {
        "digest": document.digest,
        "forecaster": fitted.forecaster,
        "before": format_timestamp(fitted.before),
        "examples": fitted.examples,
        "provenance": sanitize_text(json.dumps(dict(fitted.provenance), sort_keys=True, ensure_ascii=False)),
        "at": format_timestamp(at),
    }
    database.execute(_INSERT_PARAMETERS, values)


def _newest_parameters(database: Database, forecaster: str, cutoff: datetime) -> tuple[str, FittedParameters] | None:
    row = database.execute(_NEWEST_PARAMETERS, [forecaster, format_timestamp(cutoff)]).fetchone()
    return None if row is None else (row[0], _read_parameters(database, row[0]))


def _read_parameters(database: Database, digest: str) -> FittedParameters:
    return FITTED.decode(get_document(database, digest).content.decode())


def _list_parameters(database: Database) -> list[FittedParametersRow]:
    return [
        FittedParametersRow(
            digest=digest,
            forecaster=forecaster,
            before=parse_timestamp(before),
            examples=examples,
            at=parse_timestamp(at),
        )
        for digest, forecaster, before, examples, at in database.execute(_SELECT_PARAMETERS)
    ]
