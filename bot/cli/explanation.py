"""One forecast with all that it rests on, as JSON."""

from collections.abc import Mapping
from typing import Any

from bot.cli.output.predictions import order_options
from bot.cli.show import question_record_to_json as dossier_as_plain
from bot.core.beliefs import Belief
from bot.core.learning import FittedParameters
from bot.evaluation.explanation import (
    ForecastExplanation,
    RecordedCalls,
    RecordedModelCall,
    TrialSources,
)
from bot.evaluation.question_record import QuestionRecord
from bot.store.serialization import FORECAST, PREDICTIONS, QUESTION, SETUP, STEP, TRIAL
from bot.store.trials import LoggedStep, TrialRecord


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


def _fitted_to_json(fitted: FittedParameters | None) -> dict[str, Any] | None:
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
        "counts": record.trial is not None and record.trial.is_answer,
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
