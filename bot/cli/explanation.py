"""One forecast with all that it rests on, as a value read from the ledger and as JSON.

Trials, model calls, sources, aggregation, decisions and outcome.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.app import Records
from bot.cli.lookup import find_trace
from bot.cli.output.predictions import order_options
from bot.cli.show import QuestionRecord, load_question_record
from bot.cli.show import question_record_to_json as dossier_as_plain
from bot.desk.combine import Pool
from bot.desk.opening import OPENING, Opening
from bot.desk.tools.search import NAME as WEB_SEARCH
from bot.domain.belief import Belief
from bot.domain.learning import Fitted
from bot.evaluation.explanation import (
    RESULT_NAME,
    AggregationSummary,
    RecordedCalls,
    RecordedModelCall,
    explain_aggregation,
    read_recorded_calls,
)
from bot.store.codec import FORECAST, PREDICTIONS, QUESTION, SETUP, STEP, TRIAL
from bot.store.exchanges import Exchanges
from bot.store.forecasts import Trace
from bot.store.trials import LoggedStep, TrialRecord

# What the desk calls a page that it read, besides what it calls the result of a search.
PAGE_NAME = re.compile(r"\bpage_[0-9a-f]{8}\b")


UNKNOWN_SOURCE = "no such source"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSources:
    """What one trial began with, None where it had no desk, and the names of the pages that it read."""

    opening: Opening | None = None
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
            return f"{WEB_SEARCH}: left out, questions of this source are worked on without it"
        if any(tool.name == WEB_SEARCH for tool in opening.tools):
            return None
        if opening.backdated:
            return f"{WEB_SEARCH}: left out, no search engine that can bound dates was enabled"
        return f"{WEB_SEARCH}: left out, no search engine was enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSources:
    """Where the evidence of a forecast comes from; ``grounds`` are those of its trials, by number."""

    chain: RecordedCalls
    trial_sources: Mapping[int, TrialSources] = field(default_factory=dict)

    def unknown_sources(self, trial: int, source: str) -> tuple[str, ...]:
        """Return the names in a source that look like the desk's and that this trial was never told."""
        pages = self.trial_sources.get(trial, TrialSources()).pages
        results = (name for name in RESULT_NAME.findall(source) if self.chain.result_address(trial, name) is None)
        return (*results, *(name for name in PAGE_NAME.findall(source) if name not in pages))

    def remark(self, trial: int, source: str) -> str:
        """Return what is to be said behind a source, "" where nothing is wrong with it."""
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
    """All about one forecast; ``dossier`` and ``explain_aggregation`` are there if it was completed.

    ``fitted`` is what the forecaster had learned, if it had; ``grounds`` is what each trial could rest on, by number.
    """

    trace: Trace
    chain: RecordedCalls
    question_record: QuestionRecord | None = None
    aggregation: AggregationSummary | None = None
    fitted: Fitted | None = None
    grounds: Mapping[int, TrialSources] = field(default_factory=dict)

    @property
    def sources(self) -> EvidenceSources:
        """Where its evidence comes from."""
        return EvidenceSources(chain=self.chain, trial_sources=self.grounds)


def explanation_to_json(found: ForecastExplanation) -> dict[str, Any]:
    """Return all of it as JSON values."""
    trace, chain = found.trace, found.chain
    forecast = trace.forecast
    told = {
        "id": trace.id,
        "state": trace.state,
        "detail": trace.detail,
        "question": QUESTION.plain(trace.question),
        "forecast": None if forecast is None else FORECAST.plain(forecast),
        "setup": None if trace.setup is None else SETUP.plain(trace.setup),
        "trials": [_trial_to_json(found, record) for record in trace.trials],
        "aggregate": _aggregation_to_json(found),
        "fitted": _fitted_to_json(found.fitted),
        "calls": [_call_to_json(call) for call in chain.calls],
        "faults": [{"trial": fault.trial, "kind": fault.kind, "says": fault.message} for fault in chain.failures],
        "spent_usd": chain.cost_usd,
        "booked": _costs_to_json(chain),
        **_decisions_to_json(found.question_record),
    }
    plain: dict[str, Any] = order_options(told, trace.question.shape)
    return plain


def _costs_to_json(chain: RecordedCalls) -> dict[str, Any]:
    """Return what all calls came to by how they ended; the sum is what was spent."""
    by_state = {
        state.value: {"calls": tally.calls, "cost_usd": tally.usage.cost_usd}
        for state, tally in chain.call_tallies.items()
    }
    return {"by_state": by_state, "unheard_usd": chain.unused_answers_usd}


def _decisions_to_json(dossier: QuestionRecord | None) -> dict[str, Any]:
    if dossier is None:
        return {"decisions": [], "intents": [], "brier": {}, "outcomes": {}}
    told = dossier_as_plain(dossier)
    (case,) = told["forecasts"]
    return {name: case[name] for name in ("decisions", "intents", "brier")} | {"outcomes": told["outcomes"]}


def _aggregation_to_json(found: ForecastExplanation) -> dict[str, Any] | None:
    forecast, how = found.trace.forecast, found.aggregation
    if forecast is None or how is None:
        return None
    return {
        "pool": how.method and how.method.value,
        "counted": list(how.counted_trials),
        "left_out": {str(number): why for number, why in how.excluded.items()},
        "raw": PREDICTIONS.plain(forecast.raw),
        "calibration": forecast.calibration,
        "predictions": PREDICTIONS.plain(forecast.predictions),
    }


def _fitted_to_json(fitted: Fitted | None) -> dict[str, Any] | None:
    if fitted is None:
        return None
    return {
        "before": fitted.before.isoformat(),
        "examples": fitted.examples,
        "provenance": dict(fitted.provenance),
    }


def _trial_to_json(found: ForecastExplanation, record: TrialRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "trial": None if record.trial is None else TRIAL.plain(record.trial),
        "counts": record.trial is not None and record.trial.counts,
        "no_search": found.grounds.get(record.number, TrialSources()).unsearched,
        "steps": [_step_to_json(found, record.number, logged) for logged in record.steps],
    }


def _step_to_json(found: ForecastExplanation, trial: int, logged: LoggedStep) -> dict[str, Any]:
    step, chain = logged.step, found.chain
    return {
        "number": logged.number,
        "at": logged.at.isoformat(),
        **STEP.plain(step),
        "documents": {one: chain.document_kind(one) for one in step.observation.documents},
        "models": sorted({call.answer.model for call in chain.calls_of(trial, step)}),
        "addresses": _source_addresses(chain, trial, step.belief),
        "no_such_sources": [one for one in _cited_sources(step.belief) if found.sources.unknown_sources(trial, one)],
    }


def _source_addresses(chain: RecordedCalls, trial: int, belief: Belief) -> Mapping[str, str]:
    found = {source: chain.result_address(trial, source) for source in _cited_sources(belief)}
    return {source: address for source, address in found.items() if address is not None}


def _cited_sources(belief: Belief) -> list[str]:
    return sorted({evidence.source for evidence in (*belief.evidence_for, *belief.evidence_against)})


def _call_to_json(call: RecordedModelCall) -> dict[str, Any]:
    answer, usage = call.answer, call.answer.usage
    asked: dict[str, Any] = {}
    if call.request is not None:
        sampling = call.request.sampling
        asked = {
            "request": call.request.digest,
            "messages": list(call.request.messages),
            "offer": call.request.offer,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "effort": sampling.effort,
            "seed": sampling.seed,
        }
    return {
        "trial": call.trial,
        "role": call.role,
        "model": answer.model,
        "finish": answer.completion.finish.value,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "tokens_out": usage.tokens_out,
        "cost_usd": usage.cost_usd,
        "from_record": answer.stored,
        "document": answer.document,
        **asked,
    }


async def load_explanation(records: Records, name: str, forecaster: str | None = None) -> ForecastExplanation:
    """Gather all about the forecast that a name means; raises NotFound as ``find_trace`` does."""
    trace = await find_trace(records, name, forecaster)
    forecast = trace.forecast
    chain = await read_recorded_calls(records.ledger, trace)
    exchanges = records.ledger.exchanges
    grounds = {record.number: await load_trial_sources(exchanges, trace.id, record.number) for record in trace.trials}
    if forecast is None:
        return ForecastExplanation(trace=trace, chain=chain, grounds=grounds)
    configured = records.config.forecaster_table(forecast.forecaster).aggregate
    return ForecastExplanation(
        trace=trace,
        chain=chain,
        grounds=grounds,
        question_record=await _load_question_record_of(records, trace),
        aggregation=explain_aggregation(trace, Pool(trace.setup.aggregate if trace.setup else configured)),
        fitted=await _load_fitted(records, forecast.fitted),
    )


async def load_trial_sources(exchanges: Exchanges, scope: str, trial: int) -> TrialSources:
    """Read what a trial began with, the last time that it began, and which pages it was told of."""
    known = await exchanges.of(scope, trial, {"desk", "tool"})
    bodies = {key: json.loads(exchange.body) for key, exchange in known.items()}
    # Keys come in the order of their names; the count tells which was the last.
    desks = {key.nth: body["told"] for key, body in bodies.items() if key.kind == "desk" and "told" in body}
    told = (str(body["told"]) for key, body in bodies.items() if key.kind == "tool" and "told" in body)
    return TrialSources(
        opening=OPENING.value(desks[max(desks)]) if desks else None,
        pages=frozenset(name for text in told for name in PAGE_NAME.findall(text)),
    )


async def _load_question_record_of(records: Records, trace: Trace) -> QuestionRecord:
    return await load_question_record(records, trace.question.ref, forecast=trace.forecast)


async def _load_fitted(records: Records, digest: str | None) -> Fitted | None:
    return None if digest is None else await records.ledger.learning.get(digest)
