"""Trials with their steps, the setups of their forecasters, and recordings of the responses that they received.

Each step is stored before the next one begins. A trial is resumed and replayed from its recordings: every request to
models, search engines, pages and tools, with the full response.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlite_utils import Database

from bot.core.beliefs import Step
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.forecasts import ForecasterSetup, Trial, TrialEnd
from bot.core.light_dataclass import dataclass
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.documents import (
    JSON_MEDIA_TYPE,
    MISSING_DOCUMENTS,
    PackedDocument,
    compress_document,
    get_document,
    pack_evidence,
    pack_json,
    pack_written_json,
    put_document,
)
from bot.store.evidence import EvidenceReader, StoredDocuments, put_evidence
from bot.store.serialization import (
    SETUP,
    STEP,
    TRIAL,
    JsonSerializer,
    format_timestamp,
    parse_timestamp,
    sanitize_text,
    to_json_list,
)

_STEP_CONTEXT = """
select f.state, t.body, s.body, coalesce(t.steps, 0)
from forecast f
left join trial t on t.forecast = f.id and t.number = :trial
left join step s on s.forecast = f.id and s.trial = :trial and s.number = :number and s.number <= t.steps
where f.id = :forecast
"""
# The ledger counts the steps on record: a later one in the evidence is of a write that a kill cut off.
_COUNT_STEP = """
insert into trial (forecast, number, steps) values (?, ?, ?)
on conflict do update set steps = excluded.steps
"""
_INSERT_STEP = """
insert or replace into step (forecast, trial, number, at, action, cost_usd, body)
values (?, ?, ?, ?, ?, ?, ?)
"""
_END_TRIAL = """
insert into trial (forecast, number, ended_at, ending, body) values (:forecast, :trial, :at, :ending, :body)
on conflict do update set ended_at = excluded.ended_at, ending = excluded.ending, body = excluded.body
"""
_SELECT_TRIALS = "select number, body from trial where forecast = ? order by number"
_SELECT_STEPS = """
select s.trial, s.number, s.at, s.body from trial t
join step s on s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps
where t.forecast = ? order by s.trial, s.number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """A step with its number, from 1, and the time at which it was logged."""

    number: int
    at: datetime
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """The record of one trial; ``trial`` is None until it ends."""

    number: int
    trial: Trial | None
    steps: tuple[LoggedStep, ...]

    @property
    def end(self) -> TrialEnd | None:
        """Why it ended, if it did."""
        return None if self.trial is None else self.trial.end


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step to be stored."""

    forecast: str
    trial: int
    number: int
    step: Step
    at: datetime

    def document(self) -> PackedDocument:
        """Return the step as a document; raises MalformedDataError for a step that JSON cannot hold."""
        return pack_evidence(STEP.encode(self.step).encode(), JSON_MEDIA_TYPE)

    def columns(self, body: str) -> tuple[str | int | float, ...]:
        """Return the values of the row; ``body`` is the digest of the document."""
        step = self.step
        action, cost_usd = sanitize_text(step.action.name), float(step.usage.cost_usd)
        return (self.forecast, self.trial, self.number, format_timestamp(self.at), action, cost_usd, body)


def log_step(database: Database, row: StepRow, document: PackedDocument) -> str | None:
    """Store a step; return how it contradicts the record, None if it is stored now.

    Raises NotFoundError for an unknown forecast or document, StoreError for a step after the end or after a gap.
    """
    name = f"step {row.number} of trial {row.trial} of forecast {row.forecast}"
    state, trial, known, last = _read_step_context(database, row)
    if known is not None:
        return None if known == document.digest else f"{name} is already recorded with other content"
    if state != "running" or trial is not None:
        message = f"{name} comes after its end"
        raise StoreError(message)
    if row.number != last + 1:
        message = f"{name} leaves a gap after step {last}"
        raise StoreError(message)
    put_evidence(database, document, row.forecast)
    database.conn.execute(_INSERT_STEP, row.columns(document.digest))
    database.conn.execute(_COUNT_STEP, (row.forecast, row.trial, row.number))
    return None


def end_trial(database: Database, forecast: str, trial: Trial, at: datetime) -> None:
    """Store how a trial ended; repeating it changes nothing, another end raises MalformedDataError."""
    body = TRIAL.encode(trial)
    probe = {"forecast": forecast, "trial": trial.number, "number": 0}
    row = database.conn.execute(_STEP_CONTEXT, probe).fetchone()
    if row is None:
        message = f"no forecast {forecast} in the ledger"
        raise NotFoundError(message)
    known = row[1]
    if known is not None and known != body:
        message = f"trial {trial.number} of forecast {forecast} has ended with another result"
        raise MalformedDataError(message)
    if known is None:
        values = {**probe, "at": format_timestamp(at), "ending": trial.end.value, "body": body}
        database.conn.execute(_END_TRIAL, values)


def read_trials(database: Database, forecast: str) -> tuple[TrialRecord, ...]:
    """Return the trials of a forecast with their steps, in order."""
    steps: defaultdict[int, list[LoggedStep]] = defaultdict(list)
    evidence = EvidenceReader(database, forecast)
    for trial, number, at, body in database.execute(_SELECT_STEPS, [forecast]).fetchall():
        step = STEP.decode(evidence.text(body))
        steps[trial].append(LoggedStep(number=number, at=parse_timestamp(at), step=step))
    return tuple(
        TrialRecord(number=number, trial=None if body is None else TRIAL.decode(body), steps=tuple(steps[number]))
        for number, body in database.execute(_SELECT_TRIALS, [forecast])
    )


def require_documents(database: Database, digests: tuple[str, ...]) -> None:
    """Raise NotFoundError for a digest without a stored document."""
    if not digests:
        return
    missing = [digest for (digest,) in database.conn.execute(MISSING_DOCUMENTS, (to_json_list(digests),))]
    if missing:
        message = f"documents must be stored before they are used: {', '.join(missing)}"
        raise NotFoundError(message)


def _read_step_context(database: Database, row: StepRow) -> tuple[str, str | None, str | None, int]:
    probe = {"forecast": row.forecast, "trial": row.trial, "number": row.number}
    found: tuple[str, str | None, str | None, int] | None = database.conn.execute(_STEP_CONTEXT, probe).fetchone()
    if found is None:
        message = f"no forecast {row.forecast} in the ledger"
        raise NotFoundError(message)
    return found


_SELECT_SETUP = "select setup from forecast where id = ?"
_UPDATE_SETUP = "update forecast set setup = ? where id = ?"
_SETUPS_OF_FORECASTERS = "select distinct setup from forecast where forecaster in (select value from json_each(?))"


def store_setup(database: Database, setup: ForecasterSetup | None) -> str | None:
    """Store the setup within the caller's transaction and return its digest."""
    if setup is None:
        return None
    document = _compress_setup(SETUP.encode(setup))
    put_document(database, document)
    return document.digest


def read_setup(database: Database, digest: str | None) -> ForecasterSetup | None:
    """Read a setup within the caller's snapshot; None for a forecast without a stored setup."""
    return None if digest is None else SETUP.decode(get_document(database, digest).content.decode())


def clairvoyant_setups(database: Database, digests: Iterable[str | None]) -> frozenset[str]:
    """Return the setups that let a forecaster see the future."""
    setups = {digest: read_setup(database, digest) for digest in set(digests) if digest is not None}
    return frozenset(digest for digest, setup in setups.items() if setup is not None and setup.clairvoyant)


def clairvoyant_setups_json(database: Database, forecasters: Collection[str]) -> str:
    """Return, as a JSON list for queries, the setups that let these forecasters see the future."""
    used = (setup for (setup,) in database.execute(_SETUPS_OF_FORECASTERS, [to_json_list(forecasters)]).fetchall())
    return to_json_list(sorted(clairvoyant_setups(database, used)))


def setup_mismatch(database: Database, forecast_id: str, setup: ForecasterSetup | None) -> str | None:
    """Return why an unfinished forecast cannot resume with this setup, None if it can; it then gets this setup.

    The number of trials and their aggregation may change. A forecast that began without a setup resumes without one.
    """
    ((digest,),) = database.execute(_SELECT_SETUP, [forecast_id]).fetchall()
    begun = read_setup(database, digest)
    if begun is None or setup is None:
        return None
    if SETUP.encode(replace(begun, trials=setup.trials, aggregate=setup.aggregate)) != SETUP.encode(setup):
        return "the settings of the forecaster changed during the forecast"
    database.execute(_UPDATE_SETUP, [store_setup(database, setup), forecast_id])
    return None


@lru_cache(maxsize=64)
def _compress_setup(text: str) -> PackedDocument:
    return compress_document(text.encode(), JSON_MEDIA_TYPE)


FORGET_FORECAST = (
    "delete from recording where scope = ?",
    "delete from step where forecast = ?",
)
_INSERT_RECORDING = """
insert into recording (scope, trial, kind, key, nth, at, answer) values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing
"""
_KNOWN_RESPONSE = "select answer from recording where scope = ? and trial = ? and kind = ? and key = ? and nth = ?"
_ANY_RECORDING = "select 1 from recording where scope = :scope and trial = :trial limit 1"
_RECORDINGS_OF_TRIAL = """
select kind, key, nth, answer from recording
where scope = :scope and trial = :trial and (:kinds is null or kind in (select value from json_each(:kinds)))
order by kind, key, nth
"""


# Answers of models.
MODEL_KIND = "model"
RECORDING_SERIALIZER: JsonSerializer[Any] = JsonSerializer("exchange", Any)


class RecordingKey(NamedTuple):
    """The name of a recording within its trial: ``nth`` counts equal requests from 0."""

    kind: str
    key: str
    nth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResponse:
    """A response as JSON text, with the digest of its document."""

    digest: str
    body: str


@dataclass(frozen=True, slots=True)
class RecordingBatch:
    """Responses of a trial with their documents, ready to be written at a time; those of ``stored`` are there."""

    scope: str
    trial: int
    at: str
    answers: Mapping[RecordingKey, PackedDocument]
    stored: frozenset[str] = frozenset()

    def write(self, database: Database) -> None:
        """Write them within the caller's transaction; raises MalformedDataError as ``RecordingStore.add``."""
        for key, answer in self.answers.items():
            name = (self.scope, self.trial, *key)
            if not database.conn.execute(_INSERT_RECORDING, (*name, self.at, answer.digest)).rowcount:
                self._require_same(database, name, answer)
            elif answer.digest not in self.stored:
                put_evidence(database, answer, self.scope)

    def _require_same(self, database: Database, name: tuple[object, ...], answer: PackedDocument) -> None:
        (known,) = database.conn.execute(_KNOWN_RESPONSE, name).fetchone()
        if known != answer.digest:
            scope, trial, kind, key, nth = name
            message = (
                f"the response {kind} {key} ({nth}) of trial {trial} of {scope} is already recorded with another answer"
            )
            raise MalformedDataError(message)


@dataclass(frozen=True, slots=True)
class RecordingStore:
    """The recordings of all trials; ``scope`` is the id of a forecast or of a backtest."""

    writer: TransactionRunner
    readers: LedgerReaders
    # Trials of a forecast read the same pages.
    _stored: StoredDocuments = field(default_factory=lambda: StoredDocuments(2048))

    async def read_trial(
        self, scope: str, trial: int, kinds: Collection[str] | None = None
    ) -> Mapping[RecordingKey, RecordedResponse]:
        """Return the recordings of a trial, of all kinds or of some, by kind, key and number.

        Answers of models are whole, also those that were stored as references. Raises StoreError for a damaged one.
        """
        values = {"scope": scope, "trial": trial, "kinds": None if kinds is None else to_json_list(kinds)}
        if not await self.readers.lookup_rows(_ANY_RECORDING, values):
            return {}
        return await self.readers.run(lambda database: _read_trial(database, values))

    async def add(self, scope: str, trial: int, key: RecordingKey, body: str, *, at: datetime) -> str:
        """Store a response and return its digest; repeating it changes nothing.

        Lone surrogates in the body become U+FFFD. Raises MalformedDataError if the key has another response already.
        """
        (digest,) = await self.add_all(scope, trial, {key: body}, at=at)
        return digest

    async def add_all(
        self, scope: str, trial: int, bodies: Mapping[RecordingKey, str], *, at: datetime
    ) -> Sequence[str]:
        """Store several responses of a trial like ``add``, all or none, and return their digests."""
        answers = {key: await pack_json(body) for key, body in bodies.items()}
        digests = [answer.digest for answer in answers.values()]
        stored = frozenset(digest for digest in digests if self._stored.get(digest).has_stored(scope))
        await self.writer.run(RecordingBatch(scope, trial, format_timestamp(at), answers, stored).write)
        for digest in digests:
            self._stored.add(digest, scope, scope)
        return digests


async def pack_recordings(
    scope: str, trial: int, responses: Mapping[RecordingKey, RecordedResponse], *, at: datetime
) -> RecordingBatch:
    """Return responses of a trial, as ``RECORDING_SERIALIZER`` wrote them, ready to be written."""
    answers = {key: await pack_written_json(known.body, known.digest) for key, known in responses.items()}
    return RecordingBatch(scope, trial, format_timestamp(at), answers)


def _read_trial(database: Database, values: Mapping[str, Any]) -> dict[RecordingKey, RecordedResponse]:
    evidence = EvidenceReader(database, values["scope"])
    return {
        RecordingKey(kind, key, nth): RecordedResponse(digest=answer, body=_read_body(evidence, kind, answer))
        for kind, key, nth, answer in database.execute(_RECORDINGS_OF_TRIAL, dict(values)).fetchall()
    }


def _read_body(evidence: EvidenceReader, kind: str, answer: str) -> str:
    """Return the text of a response; that of an answer which names the record of its call has its completion too."""
    text = evidence.text(answer)
    if kind != MODEL_KIND:
        return text
    body = json.loads(text)
    value = body.get("value") if isinstance(body, dict) else None
    if not isinstance(value, dict) or "completion" in value or "document" not in value:
        return text
    completion = json.loads(evidence.text(value["document"]))["completion"]
    return RECORDING_SERIALIZER.encode({**body, "value": {**value, "completion": completion}})
