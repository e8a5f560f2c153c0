"""What a forecast rests on, read from the record of its trials.

Calls to models, sources, documents, costs, and how the trials became one prediction.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from bot.config.loader import load_config
from bot.core.beliefs import PriorSource, Step
from bot.core.errors import ConfigError, MalformedDataError
from bot.core.forecasts import Trial
from bot.core.language_models import ModelAnswer
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Outcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
from bot.evaluation.lookup import find_trace, query_ledger
from bot.evaluation.question_record import QuestionRecord, load_question_record
from bot.forecasting.aggregation import PoolingMethod, combine_trials, select_counted_trials
from bot.forecasting.failures import failure_reason
from bot.forecasting.trial_memory import OPENING_SERIALIZER, WEB_SEARCH, TrialOpening
from bot.forecasting.tuned_shrinkage import recorded_rules
from bot.llm.call_records import CALL_RECORD_SERIALIZER, RequestRecord
from bot.store.documents import StoredDocument
from bot.store.evidence import DocumentStore
from bot.store.forecast_queries import CallTotals, total_calls_by_state
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import Ledger, ReadOnlyState
from bot.store.model_calls import CallState
from bot.store.serialization import JsonSerializer
from bot.store.trials import RecordedResponse, RecordingStore

if TYPE_CHECKING:
    import typer

    from bot.stats.aggregation import SpreadWeight

MODEL_KIND, TOOL_KIND, DIALECT_KIND = "model", "tool", "dialect"


# The name that tools give a result, and that evidence gives as its source.
RESULT_NAME = re.compile(r"\bsearch_\d+_result_\d+\b")


_ANSWER_SERIALIZER: JsonSerializer[ModelAnswer] = JsonSerializer("answer", ModelAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModelCall:
    """An answer of a model to a trial, with the digest of its exchange.

    ``role``, ``request`` and ``scope`` (the forecast that made the call) are set where the record of the call exists.
    """

    trial: int
    exchange_digest: str
    answer: ModelAnswer
    role: str = ""
    request: RequestRecord | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """A request in a trial that failed: the kind of exchange, and the error."""

    trial: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalls:
    """The record of a forecast besides its steps.

    ``document_kinds`` gives the kind of exchange that returned a document; ``addresses`` where a result was found, by
    trial and name; ``cost_usd`` is the cost of all calls in US dollars, also those without an answer; ``call_tallies``
    is that by how they ended.
    """

    calls: tuple[RecordedModelCall, ...] = ()
    failures: tuple[FailedRequest, ...] = ()
    document_kinds: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[tuple[int, str], str] = field(default_factory=dict)
    cost_usd: float = 0.0
    call_tallies: Mapping[CallState, CallTotals] = field(default_factory=dict)

    @property
    def unused_answers_usd(self) -> float:
        """The cost of answers that no trial received: it was over by then, or a fallback had answered."""
        answered = self.call_tallies.get(CallState.DONE, CallTotals()).usage.cost_usd
        return max(0.0, answered - sum(call.answer.usage.cost_usd for call in self.calls))

    def calls_of(self, trial: int, step: Step) -> list[RecordedModelCall]:
        """Return the calls to models that a step rests on."""
        cited = {*step.observation.documents}
        return [
            call for call in self.calls if call.trial == trial and {call.answer.document, call.exchange_digest} & cited
        ]

    def result_address(self, trial: int, source: str) -> str | None:
        """Return where the result was found that a source names; None where it names none that is recorded."""
        found = RESULT_NAME.search(source)
        return None if found is None else self.addresses.get((trial, found.group()))

    def document_kind(self, document: str) -> str:
        """Return what a document is: an exchange of some kind, the record of a call, or else a text that was kept."""
        if any(call.answer.document == document for call in self.calls):
            return "call"
        return self.document_kinds.get(document, "text")


async def read_recorded_calls(ledger: Ledger, trace: ForecastTrace) -> RecordedCalls:
    """Read the records of all trials of a forecast; raises StoreError for damaged ones."""
    collector = _CallCollector()
    calls: list[RecordedModelCall] = []
    for record in trace.trials:
        for key, exchange in (await ledger.recordings.read_trial(trace.id, record.number)).items():
            collector.add(record.number, key.kind, exchange)
        # Trial by trial: the records of all calls of a forecast together may be large.
        calls += await _attach_records(ledger.documents, trace.id, collector.calls)
        collector.calls.clear()
    totals = await total_calls_by_state(ledger, [trace.id])
    return RecordedCalls(
        calls=tuple(_in_step_order(trace, calls)),
        failures=tuple(collector.faults),
        document_kinds=collector.kinds,
        addresses=collector.addresses,
        cost_usd=sum(tally.usage.cost_usd for tally in totals.values()),
        call_tallies=totals,
    )


@dataclass(slots=True)
class _CallCollector:
    calls: list[RecordedModelCall] = field(default_factory=list)
    faults: list[FailedRequest] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    addresses: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, trial: int, kind: str, exchange: RecordedResponse) -> None:
        self.kinds[exchange.digest] = kind
        body = json.loads(exchange.body)
        if "value" not in body:
            self._add_failure(trial, kind, str(body.get("message", "")))
        elif kind == MODEL_KIND:
            answer = _ANSWER_SERIALIZER.value(body["value"])
            self.calls.append(RecordedModelCall(trial=trial, exchange_digest=exchange.digest, answer=answer))
        elif kind == TOOL_KIND:
            self.addresses.update(_result_addresses(trial, body["value"]))

    def _add_failure(self, trial: int, kind: str, message: str) -> None:
        # It is no failure that no model plays a role: a tool may check for that.
        if kind != DIALECT_KIND:
            self.faults.append(FailedRequest(trial=trial, kind=kind, message=message))


def _in_step_order(trace: ForecastTrace, calls: list[RecordedModelCall]) -> list[RecordedModelCall]:
    """Return the calls in the order in which steps rest on them; those of no step come last."""
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


async def _attach_records(
    documents: DocumentStore, scope: str, calls: Sequence[RecordedModelCall]
) -> list[RecordedModelCall]:
    """Return the calls with their requests, where these are recorded."""
    found = await documents.read_known([call.answer.document for call in calls], scope=scope)
    return [_attach_record(call, found.get(call.answer.document)) for call in calls]


def _attach_record(call: RecordedModelCall, document: StoredDocument | None) -> RecordedModelCall:
    try:
        record = None if document is None else CALL_RECORD_SERIALIZER.decode(document.content.decode())
    except (MalformedDataError, UnicodeDecodeError):
        record = None
    # Models without a gateway keep a record of another form, or none.
    return call if record is None else replace(call, role=record.role, request=record.asked, scope=record.scope)


def _result_addresses(trial: int, tool_results: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], str]]:
    note = tool_results.get("note", {})
    for place, found in enumerate(note.get("found", ()), 1):
        yield (trial, f"search_{note.get('search', 0)}_result_{place}"), str(found.get("url", ""))


# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationSummary:
    """Which trials counted, why others did not (by number), and how they were pooled.

    ``method`` is the way that gives the recorded predictions: the configured one where that does, None where none does;
    with a single trial that counts there is nothing to pool, and it is None too.
    """

    counted_trials: tuple[int, ...]
    excluded: Mapping[int, str]
    method: PoolingMethod | None


def explain_aggregation(
    trace: ForecastTrace, configured: PoolingMethod, rules: "Mapping[PriorSource, SpreadWeight]"
) -> AggregationSummary:
    """Find out how the recorded trials became the recorded raw predictions; ``rules`` are tuned for shrinkage."""
    trials = [record.trial for record in trace.trials if record.trial is not None]
    numbers = tuple(trial.number for trial in select_counted_trials(trials))
    pools = dict.fromkeys((configured, *PoolingMethod)) if len(numbers) > 1 else {}
    return AggregationSummary(
        counted_trials=numbers,
        excluded={trial.number: _exclusion_reason(trial) for trial in trials if trial.number not in numbers},
        method=next((pool for pool in pools if _reproduces_record(trace, trials, pool, rules)), None),
    )


def predictions_equal(one: Mapping[str, Prediction], other: Mapping[str, Prediction]) -> bool:
    """Return whether two sets of predictions are the same except for the rounding of the last digits."""
    return one.keys() == other.keys() and all(_prediction_equal(one[key], other[key]) for key in one)


def _reproduces_record(
    trace: ForecastTrace, trials: list[Trial], pool: PoolingMethod, rules: "Mapping[PriorSource, SpreadWeight]"
) -> bool:
    return trace.forecast is not None and predictions_equal(
        combine_trials(trace.question, trials, pool, rules=rules), trace.forecast.raw
    )


def _exclusion_reason(trial: Trial) -> str:
    if not trial.is_answer:
        return f"it failed: {failure_reason(trial)}"
    return f"it was cut short ({trial.end}), and others finished"


def _prediction_equal(one: Prediction, other: Prediction) -> bool:
    pairs = zip(_prediction_numbers(one), _prediction_numbers(other), strict=False)
    alike = type(one) is type(other) and len(_prediction_numbers(one)) == len(_prediction_numbers(other))
    return alike and all(abs(a - b) <= ROUNDING_TOLERANCE for a, b in pairs)


def _prediction_numbers(prediction: Prediction) -> tuple[float, ...]:
    match prediction:
        case BinaryPrediction(probability=probability):
            return (probability,)
        case ChoicePrediction(probabilities=options):
            return tuple(options[name] for name in sorted(options))
        case CurvePrediction(cdf=cdf):
            return cdf


# The name that tools give a page that was read, in addition to that of a result of a search.
PAGE_NAME = re.compile(r"\bpage_[0-9a-f]{8}\b")


UNKNOWN_SOURCE = "no such source"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSources:
    """The opening of one trial, None where it had none, and the names of the pages that it read."""

    opening: TrialOpening | None = None
    pages: frozenset[str] = frozenset()

    @property
    def unsearched(self) -> str | None:
        """Why it could not search the web, where that is so."""
        opening = self.opening
        if opening is None or opening.policy.bypass:
            return None
        policy = opening.policy
        allowed = policy.tools is None or WEB_SEARCH in {*policy.tools, policy.first}
        if not allowed or policy.searches == 0:
            return f"{WEB_SEARCH}: not offered, questions of this source are worked on without it"
        if any(tool.name == WEB_SEARCH for tool in opening.tools):
            return None
        if opening.backdated:
            return f"{WEB_SEARCH}: not offered, no search engine that can bound dates was enabled"
        return f"{WEB_SEARCH}: not offered, no search engine was enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSources:
    """The sources of a forecast's evidence; ``trial_sources`` are those of its trials, by number."""

    chain: RecordedCalls
    trial_sources: Mapping[int, TrialSources] = field(default_factory=dict)

    def unknown_sources(self, trial: int, source: str) -> tuple[str, ...]:
        """Return the names in a source that look like names of results but that this trial never received."""
        pages = self.trial_sources.get(trial, TrialSources()).pages
        results = (name for name in RESULT_NAME.findall(source) if self.chain.result_address(trial, name) is None)
        return (*results, *(name for name in PAGE_NAME.findall(source) if name not in pages))

    def remark(self, trial: int, source: str) -> str:
        """Return the remark to add to a source, "" where nothing is wrong with it."""
        missing = self.unknown_sources(trial, source)
        if not missing:
            return ""
        return f" ({UNKNOWN_SOURCE})" if missing == (source,) else f" ({UNKNOWN_SOURCE}: {', '.join(missing)})"


def no_search_reasons(grounds: Mapping[int, TrialSources]) -> list[str]:
    """Return why trials could not search, a line for each reason; the trials are named where others could."""
    trials: dict[str, list[int]] = {}
    for number, one in sorted(grounds.items()):
        if (why := one.unsearched) is not None:
            trials.setdefault(why, []).append(number)
    if any(len(numbers) < len(grounds) for numbers in trials.values()):
        return [f"{why} (trial {', '.join(map(str, numbers))})" for why, numbers in trials.items()]
    return [*trials]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastExplanation:
    """All about one forecast; ``question_record`` and ``explain_aggregation`` are set if it was completed.

    ``fitted`` is what the forecaster had learned, if it had; ``grounds`` are the sources available to each trial, by
    number.
    """

    trace: ForecastTrace
    chain: RecordedCalls
    question_record: QuestionRecord | None = None
    aggregation: AggregationSummary | None = None
    fitted: FittedParameters | None = None
    grounds: Mapping[int, TrialSources] = field(default_factory=dict)

    @property
    def sources(self) -> EvidenceSources:
        """The sources of its evidence."""
        return EvidenceSources(chain=self.chain, trial_sources=self.grounds)

    @property
    def steps(self) -> Mapping[int, tuple[Step, ...]]:
        """The steps of each trial, by its number."""
        return {record.number: tuple(logged.step for logged in record.steps) for record in self.trace.trials}

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """The outcomes, by target, as far as they are known."""
        record = self.question_record
        return {} if record is None else {target: found.outcome for target, found in record.outcomes.items()}

    @property
    def brier_scores(self) -> Mapping[str, float]:
        """The Brier score of each target that has one."""
        if self.question_record is None:
            return {}
        (case,) = self.question_record.recorded_forecasts
        scores = self.question_record.brier_scores(case)
        return {target: score for target, score in scores.items() if score is not None}


async def load_explanation(records: ReadOnlyState, name: str, forecaster: str | None = None) -> ForecastExplanation:
    """Gather all about the forecast that a name means; raises NotFoundError as ``find_trace`` does."""
    trace = await find_trace(records, name, forecaster)
    forecast = trace.forecast
    chain = await read_recorded_calls(records.ledger, trace)
    exchanges = records.ledger.recordings
    grounds = {record.number: await load_trial_sources(exchanges, trace.id, record.number) for record in trace.trials}
    if forecast is None:
        return ForecastExplanation(trace=trace, chain=chain, grounds=grounds)
    configured = records.config.forecaster_table(forecast.forecaster).aggregate
    return ForecastExplanation(
        trace=trace,
        chain=chain,
        grounds=grounds,
        question_record=await _load_question_record_of(records, trace),
        aggregation=explain_aggregation(
            trace,
            PoolingMethod(trace.setup.aggregate if trace.setup else configured),
            await recorded_rules(records.ledger, forecast.forecaster, forecast.cutoff),
        ),
        fitted=await _load_fitted(records, forecast.fitted),
    )


async def load_trial_sources(exchanges: RecordingStore, scope: str, trial: int) -> TrialSources:
    """Read the last opening of a trial, and the names of the pages that it read."""
    known = await exchanges.read_trial(scope, trial, {"opening", "tool"})
    bodies = {key: json.loads(exchange.body) for key, exchange in known.items()}
    # Keys are in the order of their names; the count gives the last one.
    openings = {key.nth: body["value"] for key, body in bodies.items() if key.kind == "opening" and "value" in body}
    tool_results = (str(body["value"]) for key, body in bodies.items() if key.kind == "tool" and "value" in body)
    return TrialSources(
        opening=OPENING_SERIALIZER.value(openings[max(openings)]) if openings else None,
        pages=frozenset(name for text in tool_results for name in PAGE_NAME.findall(text)),
    )


async def _load_question_record_of(records: ReadOnlyState, trace: ForecastTrace) -> QuestionRecord:
    return await load_question_record(records, trace.question.ref, forecast=trace.forecast)


async def _load_fitted(records: ReadOnlyState, digest: str | None) -> FittedParameters | None:
    return None if digest is None else await records.ledger.learning.get(digest)


class _CommandCall(Protocol):
    """The options of ``foxcast`` itself in the context of a command."""

    config_path: Path | None


def explain_forecast(ctx: "typer.Context", name: str) -> ForecastExplanation:
    """Return the record of a forecast, named as for ``foxcast explain``; raises NotFoundError and StoreError.

    ``ctx`` is the context of the plugin's own command, so that the same configuration is used.
    """
    config = load_config(cast("_CommandCall", ctx.find_root().obj).config_path)
    return query_ledger(config, lambda records: load_explanation(records, name))


def require_forecaster_kind(
    found: ForecastExplanation, kind: str, *, keys: Collection[str], is_played: Callable[[], bool]
) -> None:
    """Raise ConfigError for a recorded forecast that was not made by a forecaster of that kind, under any name.

    Its maker has settings with all of these ``keys``; where the settings were not recorded ``is_played`` decides.
    """
    setup, forecast = found.trace.setup, found.trace.forecast
    if setup.settings.keys() >= set(keys) if setup is not None and setup.settings else is_played():
        return
    by = (forecast and forecast.forecaster) or (setup and setup.uses) or "another forecaster"
    message = f"{found.trace.id[:12]} is by {by}, not by {kind}"
    raise ConfigError(message)
