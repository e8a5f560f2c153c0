"""How two forecasts of one question differ.

They may differ in what was known, what was believed and why, how they were made, and their cost.
"""

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from bot.core.beliefs import Belief, Evidence, ModelUsage
from bot.core.distributions import curve_quantile
from bot.core.forecasts import Forecast, ForecasterSetup, Trial
from bot.core.light_dataclass import dataclass
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import Question, describe_changes
from bot.core.values import Json
from bot.evaluation.explanation import RecordedCalls, RecordedModelCall
from bot.store.forecasts import ForecastTrace
from bot.store.serialization import QUESTION, format_timestamp

QUANTILE_LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedForecast:
    """One of the two forecasts, completed, with its record."""

    trace: ForecastTrace
    recorded_calls: RecordedCalls
    forecast: Forecast

    @property
    def question(self) -> Question:
        """The question as it was for this forecast."""
        return self.trace.question

    @property
    def trials(self) -> list[Trial]:
        """The trials that ended."""
        return [record.trial for record in self.trace.trials if record.trial is not None]

    @property
    def beliefs(self) -> list[Belief]:
        """What the trials believed at their end."""
        return [trial.belief for trial in self.trials if trial.belief is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One difference: what it is, and its value before and after (None where it was missing)."""

    name: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityMove:
    """How one probability moved: of a target, or of one option of it; ``log_odds`` is the move in log-odds.

    It is None where one of the two is 0 or 1: log-odds have no end there.
    """

    target: str
    option: str
    before: float
    after: float
    log_odds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDifference:
    """Texts that only one forecast has: new ones, removed ones, and how many both have."""

    name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastDifference:
    """All that differs between two forecasts.

    ``moves`` are those of the final predictions, ``crowd_moves`` those of the crowd; for curves there are only
    ``changes``.
    """

    before: ComparedForecast
    after: ComparedForecast
    moves: tuple[ProbabilityMove, ...]
    crowd_moves: tuple[ProbabilityMove, ...]
    changes: tuple[FieldChange, ...]
    texts: tuple[TextDifference, ...]


def compare_forecasts(before: ComparedForecast, after: ComparedForecast) -> ForecastDifference:
    """Compare two completed forecasts of one question."""
    return ForecastDifference(
        before=before,
        after=after,
        moves=tuple(_probability_moves(before.forecast.predictions, after.forecast.predictions, after.question.shape)),
        crowd_moves=tuple(
            _probability_moves(_crowd_predictions(before), _crowd_predictions(after), after.question.shape)
        ),
        changes=tuple(change for change in _field_changes(before, after) if change.before != change.after),
        texts=tuple(_text_differences(before, after)),
    )


def trial_spread(side: ComparedForecast) -> Mapping[str, float]:
    """Return how far the trials lie apart at their end, by target: the greatest distance of two in probability.

    Of two choices or curves it is the greatest distance between two of their numbers. Targets of one trial have 0.0.
    """
    return {
        key: _greatest_distance([belief.predictions[key] for belief in side.beliefs])
        for key in side.forecast.predictions
    }


def _probability_moves(
    before: Mapping[str, Prediction], after: Mapping[str, Prediction], shape: QuestionShape
) -> Iterator[ProbabilityMove]:
    """Yield what can be compared, options in the order of the question."""
    options = shape.options if isinstance(shape, ChoiceShape) else ("",)
    for target in before:
        if target not in after:
            continue
        then, now = _option_probabilities(before[target]), _option_probabilities(after[target])
        for option in (option for option in options if option in then and option in now):
            yield ProbabilityMove(
                target=target,
                option=option,
                before=then[option],
                after=now[option],
                log_odds=_log_odds_move(then[option], now[option]),
            )


def _option_probabilities(prediction: Prediction) -> Mapping[str, float]:
    match prediction:
        case BinaryPrediction(probability=probability):
            return {"": probability}
        case ChoicePrediction(probabilities=options):
            return options
        case _:
            return {}


def _log_odds_move(before: float, after: float) -> float | None:
    if not 0.0 < before < 1.0 or not 0.0 < after < 1.0:
        return None
    return (math.log(after) - math.log1p(-after)) - (math.log(before) - math.log1p(-before))


def _crowd_predictions(side: ComparedForecast) -> Mapping[str, Prediction]:
    crowd = side.question.crowd
    return {} if crowd is None else {"crowd": crowd.prediction}


def _field_changes(before: ComparedForecast, after: ComparedForecast) -> Iterator[FieldChange]:
    yield FieldChange(name="version of the question", before=before.forecast.version, after=after.forecast.version)
    yield from _text_changes(before.question, after.question)
    for what, then, now in _fact_pairs(before, after):
        yield FieldChange(name=what, before=then, after=now)
    yield from _prompt_changes(before, after)
    yield from _setup_changes(before.trace.setup, after.trace.setup)
    yield from _curve_changes(before, after)
    widths, widths_after = trial_spread(before), trial_spread(after)
    for target in [target for target in widths if target in widths_after]:
        yield FieldChange(name=f"spread of the trials: {target}", before=widths[target], after=widths_after[target])


def _fact_pairs(before: ComparedForecast, after: ComparedForecast) -> Iterator[tuple[str, Json, Json]]:
    then, now = _forecast_facts(before), _forecast_facts(after)
    for what in dict.fromkeys((*then, *now)):
        yield what, then.get(what), now.get(what)


def _setup_changes(before: ForecasterSetup | None, after: ForecasterSetup | None) -> Iterator[FieldChange]:
    """Yield the differences in configuration; unknown for a forecast from before setups were recorded."""
    if before is None or after is None:
        known = {True: "recorded", False: "not recorded"}
        yield FieldChange(name="setup", before=known[before is not None], after=known[after is not None])
        return
    then, now = before.labelled_values(), after.labelled_values()
    for what in dict.fromkeys((*then, *now)):
        yield FieldChange(name=what, before=then.get(what), after=now.get(what))


def _forecast_facts(side: ComparedForecast) -> dict[str, Json]:
    """Return how a forecast was made, by name."""
    forecast, trials = side.forecast, side.trials
    usage = sum((trial.usage for trial in trials), ModelUsage())
    ends = Counter(trial.end.value for trial in trials)
    facts: dict[str, Json] = {
        "forecaster": forecast.forecaster,
        "cutoff": format_timestamp(forecast.cutoff),
        "crowd at": None if side.question.crowd is None else format_timestamp(side.question.crowd.at),
        "learned parameters": forecast.fitted,
        "calibration": forecast.calibration,
        "trials": ", ".join(f"{count} {end}" for end, count in sorted(ends.items())),
        "steps": sum(trial.steps for trial in trials),
        "confidence": ", ".join(belief.confidence.value for belief in side.beliefs),
        "calls to models": usage.calls,
        "tokens in": usage.tokens_in,
        "tokens out": usage.tokens_out,
        "cost in USD": round(max(side.recorded_calls.cost_usd, usage.cost_usd), 6),
    }
    return facts | _model_settings(side.recorded_calls.calls)


def _model_settings(calls: Iterable[RecordedModelCall]) -> dict[str, Json]:
    """Return which model played each role, and its sampling settings."""
    settings: defaultdict[str, set[str]] = defaultdict(set)
    for call in calls:
        role = call.role or "a model"
        settings[role].add(call.answer.model)
        if call.request is not None:
            # The seed is chance, not a setting: it differs from trial to trial.
            sampling = dataclasses.replace(call.request.sampling, seed=None)
            values = ((field.name, getattr(sampling, field.name)) for field in dataclasses.fields(sampling))
            settings[f"{role}: sampling"].add(
                ", ".join(f"{name}={value}" for name, value in values if value is not None)
            )
    return {what: ", ".join(sorted(values)) for what, values in settings.items()}


def _prompt_changes(before: ComparedForecast, after: ComparedForecast) -> Iterator[FieldChange]:
    """Yield whose texts differ: those of the forecaster, and those of each tool that both forecasts used."""
    then, now = _prompt_digests(before), _prompt_digests(after)
    yield FieldChange(name="prompts", before=[*then[""]], after=[*now[""]])
    for tool in [tool for tool in then if tool and tool in now]:
        yield FieldChange(name=f"prompts of {tool}", before=[*then[tool]], after=[*now[tool]])


def _prompt_digests(side: ComparedForecast) -> Mapping[str, Collection[str]]:
    """Return the digests of the recorded texts, in order: the forecaster's own ("") and those of each tool.

    A forecaster names its own before the answers of models; the documents of tools come after those.
    """
    found: dict[str, dict[str, None]] = {"": {}}
    for step in (logged.step for record in side.trace.trials for logged in record.steps):
        owner = ""
        for document in step.observation.documents:
            if side.recorded_calls.document_kind(document) == "text":
                found.setdefault(owner, {})[document] = None
            else:
                owner = step.action.name
    return found


def _text_changes(before: Question, after: Question) -> Iterator[FieldChange]:
    if changes := describe_changes(before, after):
        yield FieldChange(name="what the question asks", before=None, after="; ".join(changes))
    then, now = (QUESTION.plain(dataclasses.replace(question, crowd=None)) for question in (before, after))
    for name in dict.fromkeys((*then, *now)):
        yield FieldChange(name=f"question: {name}", before=then.get(name), after=now.get(name))


def _curve_changes(before: ComparedForecast, after: ComparedForecast) -> Iterator[FieldChange]:
    for target, then in before.forecast.predictions.items():
        now = after.forecast.predictions.get(target)
        if not isinstance(then, CurvePrediction) or not isinstance(now, CurvePrediction):
            continue
        for level in QUANTILE_LEVELS:
            before_value, after_value = (
                _curve_quantile(side, curve, level) for side, curve in ((before, then), (after, now))
            )
            yield FieldChange(name=f"{level:.0%} quantile: {target}", before=before_value, after=after_value)


def _curve_quantile(side: ComparedForecast, curve: CurvePrediction, level: float) -> float | None:
    shape = side.question.shape
    return curve_quantile(curve, shape, level) if isinstance(shape, CurveShape) else None


def _text_differences(before: ComparedForecast, after: ComparedForecast) -> Iterator[TextDifference]:
    kinds: tuple[tuple[str, Callable[[Belief], Iterable[tuple[str, str]]]], ...] = (
        ("anchor", lambda belief: _folded_pairs((belief.anchor,) if belief.anchor else ())),
        ("evidence for", lambda belief: map(_evidence_pair, belief.evidence_for)),
        ("evidence against", lambda belief: map(_evidence_pair, belief.evidence_against)),
        ("searches", lambda belief: _folded_pairs(belief.searches)),
        ("open questions", lambda belief: _folded_pairs(belief.open_questions)),
    )
    for what, texts in kinds:
        then, now = (dict(pair for belief in side.beliefs for pair in texts(belief)) for side in (before, after))
        new = tuple(text for name, text in now.items() if name not in then)
        removed = tuple(text for name, text in then.items() if name not in now)
        yield TextDifference(name=what, added=new, removed=removed, kept=len(now) - len(new))


def _folded_pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from ((_fold_text(text), text) for text in texts)


def _evidence_pair(evidence: Evidence) -> tuple[str, str]:
    # The same words are the same evidence: results have other numbers in another trial.
    source = f" [{evidence.source}]" if evidence.source else ""
    return _fold_text(evidence.text), f"{evidence.text}{source}"


def _fold_text(text: str) -> str:
    return " ".join(text.split()).casefold()


def _greatest_distance(predictions: Sequence[Prediction]) -> float:
    columns = zip(*map(_prediction_numbers, predictions), strict=False)
    return max((max(column) - min(column) for column in columns), default=0.0)


def _prediction_numbers(prediction: Prediction) -> Sequence[float]:
    match prediction:
        case CurvePrediction(cdf=cdf):
            return cdf
        case _:
            shares = _option_probabilities(prediction)
            return [shares[option] for option in sorted(shares)]
