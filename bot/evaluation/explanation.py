"""What a forecast rests on, read from the record of its trials.

Calls to models, sources, documents, costs, and how the trials became one prediction.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.desk.combine import Pool, combine, counted
from bot.desk.failures import reason_of
from bot.domain.forecast import Trial
from bot.domain.prediction import Binary, Choice, Curve, Prediction
from bot.domain.prompt import Answer
from bot.domain.step import Step
from bot.errors import ContractError
from bot.llm.record import RECORD, Asked
from bot.store.calls import CallState
from bot.store.codec import Form
from bot.store.documents import Document, Documents
from bot.store.exchanges import Exchange
from bot.store.forecasts import Trace
from bot.store.ledger import Ledger
from bot.store.packing import unpacked
from bot.store.tallies import Tally, tallies

MODEL_KIND, TOOL_KIND, DIALECT_KIND = "model", "tool", "dialect"


# What the tools of the desk call a result, and what evidence names as its source.
RESULT_NAME = re.compile(r"\bsearch_\d+_result_\d+\b")


_ANSWER_SERIALIZER: Form[Answer] = Form("answer", Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModelCall:
    """An answer of a model to a trial, with the digest of its exchange.

    ``role`` and ``asked`` are there where the record of the call is.
    """

    trial: int
    exchange_digest: str
    answer: Answer
    role: str = ""
    request: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """What was asked in a trial and went wrong: the kind of exchange, and what was said."""

    trial: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalls:
    """What is on record beside the steps of a forecast.

    ``kinds`` says of a document by which kind of exchange it came; ``addresses`` where a result was found, by trial and
    name; ``spent_usd`` is what all calls cost in US dollars, also those without an answer; ``tallies`` is that by how
    they ended.
    """

    calls: tuple[RecordedModelCall, ...] = ()
    failures: tuple[FailedRequest, ...] = ()
    document_kinds: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[tuple[int, str], str] = field(default_factory=dict)
    cost_usd: float = 0.0
    call_tallies: Mapping[CallState, Tally] = field(default_factory=dict)

    @property
    def unused_answers_usd(self) -> float:
        """What answers cost that no trial heard: it was over by then, or a fallback had answered."""
        answered = self.call_tallies.get(CallState.DONE, Tally()).usage.cost_usd
        return max(0.0, answered - sum(call.answer.usage.cost_usd for call in self.calls))

    def calls_of(self, trial: int, step: Step) -> list[RecordedModelCall]:
        """Return the calls to models that a step rests on."""
        cited = {*step.observation.documents}
        return [
            call for call in self.calls if call.trial == trial and {call.answer.document, call.exchange_digest} & cited
        ]

    def result_address(self, trial: int, source: str) -> str | None:
        """Return where the result was found that a source names; None where it names none on record."""
        found = RESULT_NAME.search(source)
        return None if found is None else self.addresses.get((trial, found.group()))

    def document_kind(self, document: str) -> str:
        """Say what a document is: an exchange of some kind, the record of a call, or else a text that was kept."""
        if any(call.answer.document == document for call in self.calls):
            return "call"
        return self.document_kinds.get(document, "text")


async def read_recorded_calls(ledger: Ledger, trace: Trace) -> RecordedCalls:
    """Read what is on record of all trials of a forecast; raises StoreError for what is damaged."""
    gathered = _CallCollector()
    calls: list[RecordedModelCall] = []
    for record in trace.trials:
        for key, exchange in (await ledger.exchanges.of(trace.id, record.number)).items():
            gathered.add(record.number, key.kind, exchange)
        # Trial by trial: the records of all calls of a forecast together may be large.
        calls += await _attach_records(ledger.documents, gathered.calls)
        gathered.calls.clear()
    tallied = await tallies(ledger, [trace.id])
    return RecordedCalls(
        calls=tuple(_in_step_order(trace, calls)),
        failures=tuple(gathered.faults),
        document_kinds=gathered.kinds,
        addresses=gathered.addresses,
        cost_usd=sum(tally.usage.cost_usd for tally in tallied.values()),
        call_tallies=tallied,
    )


@dataclass(slots=True)
class _CallCollector:
    calls: list[RecordedModelCall] = field(default_factory=list)
    faults: list[FailedRequest] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    addresses: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, trial: int, kind: str, exchange: Exchange) -> None:
        self.kinds[exchange.digest] = kind
        body = json.loads(exchange.body)
        if "told" not in body:
            self._add_failure(trial, kind, str(body.get("says", "")))
        elif kind == MODEL_KIND:
            answer = _ANSWER_SERIALIZER.value(body["told"])
            self.calls.append(RecordedModelCall(trial=trial, exchange_digest=exchange.digest, answer=answer))
        elif kind == TOOL_KIND:
            self.addresses.update(_result_addresses(trial, body["told"]))

    def _add_failure(self, trial: int, kind: str, says: str) -> None:
        # That no model plays a role is no failure: a tool may look whether one does.
        if kind != DIALECT_KIND:
            self.faults.append(FailedRequest(trial=trial, kind=kind, message=says))


def _in_step_order(trace: Trace, calls: list[RecordedModelCall]) -> list[RecordedModelCall]:
    """Return the calls in the order in which steps rest on them; those on which none does come last."""
    cited = [
        (record.number, document)
        for record in trace.trials
        for logged in record.steps
        for document in logged.step.observation.documents
    ]
    places = {name: place for place, name in reversed([*enumerate(cited)])}
    last = len(cited)

    def place(call: RecordedModelCall) -> tuple[int, int]:
        names = ((call.trial, call.answer.document), (call.trial, call.exchange_digest))
        return call.trial, min(places.get(name, last) for name in names)

    return sorted(calls, key=place)


async def _attach_records(documents: Documents, calls: Sequence[RecordedModelCall]) -> list[RecordedModelCall]:
    """Return the calls with what was asked, where that is on record."""
    found = await unpacked(documents, [call.answer.document for call in calls])
    return [_attach_record(call, found.get(call.answer.document)) for call in calls]


def _attach_record(call: RecordedModelCall, document: Document | None) -> RecordedModelCall:
    try:
        record = None if document is None else RECORD.decode(document.content.decode())
    except (ContractError, UnicodeDecodeError):
        record = None
    # Models that no gateway stands before keep a record of another form, or none.
    return call if record is None else replace(call, role=record.role, request=record.asked)


def _result_addresses(trial: int, told: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], str]]:
    note = told.get("note", {})
    for place, found in enumerate(note.get("found", ()), 1):
        yield (trial, f"search_{note.get('search', 0)}_result_{place}"), str(found.get("url", ""))


# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationSummary:
    """Which trials counted, why others did not (by number), and how they were pooled.

    ``pool`` is the way that gives what is on record: the configured one where that does, None where none does; with a
    single trial that counts there is nothing to pool, and it is None too.
    """

    counted_trials: tuple[int, ...]
    excluded: Mapping[int, str]
    method: Pool | None


def explain_aggregation(trace: Trace, configured: Pool) -> AggregationSummary:
    """Find out how the trials on record became the raw predictions on record."""
    trials = [record.trial for record in trace.trials if record.trial is not None]
    numbers = tuple(trial.number for trial in counted(trials))
    pools = dict.fromkeys((configured, *Pool)) if len(numbers) > 1 else {}
    return AggregationSummary(
        counted_trials=numbers,
        excluded={trial.number: _exclusion_reason(trial) for trial in trials if trial.number not in numbers},
        method=next((pool for pool in pools if _reproduces_record(trace, trials, pool)), None),
    )


def predictions_equal(one: Mapping[str, Prediction], other: Mapping[str, Prediction]) -> bool:
    """Say whether two sets of predictions are the same but for the rounding of the last digits."""
    return one.keys() == other.keys() and all(_prediction_equal(one[key], other[key]) for key in one)


def _reproduces_record(trace: Trace, trials: list[Trial], pool: Pool) -> bool:
    return trace.forecast is not None and predictions_equal(combine(trace.question, trials, pool), trace.forecast.raw)


def _exclusion_reason(trial: Trial) -> str:
    if not trial.counts:
        return f"it failed: {reason_of(trial)}"
    return f"it was cut short ({trial.end}), and others came to their end"


def _prediction_equal(one: Prediction, other: Prediction) -> bool:
    pairs = zip(_prediction_numbers(one), _prediction_numbers(other), strict=False)
    alike = type(one) is type(other) and len(_prediction_numbers(one)) == len(_prediction_numbers(other))
    return alike and all(abs(a - b) <= ROUNDING_TOLERANCE for a, b in pairs)


def _prediction_numbers(prediction: Prediction) -> tuple[float, ...]:
    match prediction:
        case Binary(probability=probability):
            return (probability,)
        case Choice(probabilities=options):
            return tuple(options[name] for name in sorted(options))
        case Curve(cdf=cdf):
            return cdf
