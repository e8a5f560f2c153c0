"""One forecast with all that it rests on, as a value and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.cli.dossier import Dossier
from bot.cli.output.beliefs import in_order
from bot.cli.output.dossier import as_plain as dossier_as_plain
from bot.cli.output.grounds import Grounds, Sources
from bot.domain.belief import Belief
from bot.domain.learning import Fitted
from bot.lab.chain import Call, Chain
from bot.lab.pooled import Pooled
from bot.store.codec import FORECAST, PREDICTIONS, QUESTION, SETUP, STEP, TRIAL
from bot.store.forecasts import Trace
from bot.store.trials import LoggedStep, TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All about one forecast; ``dossier`` and ``pooled`` are there if it was completed.

    ``fitted`` is what the forecaster had learned, if it had; ``grounds`` is what each trial could rest on, by number.
    """

    trace: Trace
    chain: Chain
    dossier: Dossier | None = None
    pooled: Pooled | None = None
    fitted: Fitted | None = None
    grounds: Mapping[int, Grounds] = field(default_factory=dict)

    @property
    def sources(self) -> Sources:
        """Where its evidence comes from."""
        return Sources(chain=self.chain, grounds=self.grounds)


def as_plain(found: Explanation) -> dict[str, Any]:
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
        "trials": [_trial(found, record) for record in trace.trials],
        "aggregate": _aggregate(found),
        "fitted": _fitted(found.fitted),
        "calls": [_call(call) for call in chain.calls],
        "faults": [{"trial": fault.trial, "kind": fault.kind, "says": fault.says} for fault in chain.faults],
        "spent_usd": chain.spent_usd,
        "booked": _booked(chain),
        **_afterwards(found.dossier),
    }
    plain: dict[str, Any] = in_order(told, trace.question.shape)
    return plain


def _booked(chain: Chain) -> dict[str, Any]:
    """Return what all calls came to by how they ended; the sum is what was spent."""
    by_state = {
        state.value: {"calls": tally.calls, "cost_usd": tally.usage.cost_usd} for state, tally in chain.tallies.items()
    }
    return {"by_state": by_state, "unheard_usd": chain.unheard_usd}


def _afterwards(dossier: Dossier | None) -> dict[str, Any]:
    if dossier is None:
        return {"decisions": [], "intents": [], "brier": {}, "outcomes": {}}
    told = dossier_as_plain(dossier)
    (case,) = told["forecasts"]
    return {name: case[name] for name in ("decisions", "intents", "brier")} | {"outcomes": told["outcomes"]}


def _aggregate(found: Explanation) -> dict[str, Any] | None:
    forecast, how = found.trace.forecast, found.pooled
    if forecast is None or how is None:
        return None
    return {
        "pool": how.pool and how.pool.value,
        "counted": list(how.counted),
        "left_out": {str(number): why for number, why in how.left_out.items()},
        "raw": PREDICTIONS.plain(forecast.raw),
        "calibration": forecast.calibration,
        "predictions": PREDICTIONS.plain(forecast.predictions),
    }


def _fitted(fitted: Fitted | None) -> dict[str, Any] | None:
    if fitted is None:
        return None
    return {
        "before": fitted.before.isoformat(),
        "examples": fitted.examples,
        "provenance": dict(fitted.provenance),
    }


def _trial(found: Explanation, record: TrialRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "trial": None if record.trial is None else TRIAL.plain(record.trial),
        "counts": record.trial is not None and record.trial.counts,
        "no_search": found.grounds.get(record.number, Grounds()).unsearched,
        "steps": [_step(found, record.number, logged) for logged in record.steps],
    }


def _step(found: Explanation, trial: int, logged: LoggedStep) -> dict[str, Any]:
    step, chain = logged.step, found.chain
    return {
        "number": logged.number,
        "at": logged.at.isoformat(),
        **STEP.plain(step),
        "documents": {one: chain.kind(one) for one in step.observation.documents},
        "models": sorted({call.answer.model for call in chain.calls_of(trial, step)}),
        "addresses": _addresses(chain, trial, step.belief),
        "no_such_sources": [one for one in _cited(step.belief) if found.sources.missing(trial, one)],
    }


def _addresses(chain: Chain, trial: int, belief: Belief) -> Mapping[str, str]:
    found = {source: chain.address(trial, source) for source in _cited(belief)}
    return {source: address for source, address in found.items() if address is not None}


def _cited(belief: Belief) -> list[str]:
    return sorted({evidence.source for evidence in (*belief.evidence_for, *belief.evidence_against)})


def _call(call: Call) -> dict[str, Any]:
    answer, usage = call.answer, call.answer.usage
    asked: dict[str, Any] = {}
    if call.asked is not None:
        sampling = call.asked.sampling
        asked = {
            "request": call.asked.digest,
            "messages": list(call.asked.messages),
            "offer": call.asked.offer,
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
