"""The baseline forecaster and its learner: first a prior, then the correction learned from outcomes before the cutoff.

Questions other than yes-or-no questions get the crowd's prediction, or an even spread.
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from importlib.resources import files

from bot.api import (
    Belief,
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    ChoiceShape,
    ConfidenceLevel,
    CurveShape,
    Evidence,
    FittedParameters,
    Json,
    MalformedDataError,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    Step,
    StepAction,
    StepObservation,
    Target,
    TrainingExample,
    TrialContext,
    flat_prediction,
    parse_fitted_parameters,
)
from plugins.baseline.model import fit_parameters, predict_event, select_form
from plugins.baseline.parameters import (
    BaselineParameters,
    decode_parameters,
    encode_parameters,
    merge_parameters,
)
from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent

# Sets of parameters kept in memory: those of the rounds of a backfill that are forecast concurrently.
MAX_CACHED_PARAMETERS = 64


class BaselineSettings(PluginSettings):
    """The baseline has no settings: all it knows comes from outcomes."""


@asynccontextmanager
async def open_baseline(_settings: BaselineSettings, _place: PluginContext) -> AsyncIterator["BaselineForecaster"]:
    """Open the baseline; it holds no connection."""
    yield BaselineForecaster()


class BaselineForecaster:
    """Forecasts by crowd price, season and history; the same question and parameters give the same answer."""

    def __init__(self) -> None:
        self._cached_parameters: dict[datetime, tuple[FittedParameters, BaselineParameters]] = {}

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield the prior, then the learned belief where something was learned before the cutoff."""
        if not isinstance(question.shape, BinaryShape):
            yield _crowd_step(question, question.shape)
            return
        facts = read_question_facts(question, context.cutoff)
        events = {target.key: target_event(facts, target) for target in question.targets}
        prior = TargetEstimates(
            "prior", "what such questions are like", BaselineParameters(before=_utc_day(context.cutoff)), events
        )
        yield prior.step(None, why="the prior before any outcome")
        if context.fitted is not None:
            fitted = context.fitted
            learned = TargetEstimates("learned", "outcomes of earlier rounds", self._parameters(fitted), events)
            why = f"learned from {fitted.examples} outcomes known before {fitted.before:%Y-%m-%d}"
            yield learned.step(prior, why=why)

    def _parameters(self, fitted: FittedParameters) -> BaselineParameters:
        """Read each set of parameters once, as long as it is among the last KEPT; a backfill has one for each round."""
        kept = self._cached_parameters.get(fitted.before)
        if kept is None or kept[0] is not fitted:
            kept = self._cached_parameters[fitted.before] = (fitted, decode_parameters(fitted.payload))
            if len(self._cached_parameters) > MAX_CACHED_PARAMETERS:
                del self._cached_parameters[next(iter(self._cached_parameters))]
        return kept[1]


def read_question_facts(question: Question, asked_at: datetime) -> QuestionFacts:
    """Return what the models may know of a question as of a moment; source and id as its venue gives them."""
    return QuestionFacts(
        source=question.source,
        key=question.source_id or question.ref.key,
        due=_utc_day(question.as_of or asked_at),
        text=question.title,
        value=_frozen_value(question),
    )


def target_event(facts: QuestionFacts, target: Target) -> ScoredEvent:
    """Return the event of one target: a dated one for a target of a series, else the question's single outcome."""
    if target.horizon_days is None or target.resolves_at is None:
        return ScoredEvent(facts)
    return ScoredEvent(facts, _utc_day(target.resolves_at))


def _frozen_value(question: Question) -> float | None:
    if question.crowd is not None and isinstance(question.crowd.prediction, BinaryPrediction):
        return question.crowd.prediction.probability
    try:
        value = float(question.facts.get("freeze_value", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _utc_day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


class TargetEstimates:
    """The answers of one set of parameters for all targets of a question.

    ``source`` names where its evidence comes from.
    """

    def __init__(
        self, name: str, source: str, parameters: BaselineParameters, events: Mapping[str, ScoredEvent]
    ) -> None:
        self.name = name
        self.source = source
        self.learned = bool(parameters.rows)
        self.forms = sorted({select_form(event).name for event in events.values()})
        self.by_target = {key: predict_event(parameters, event) for key, event in events.items()}

    def step(self, earlier: "TargetEstimates | None", *, why: str) -> Step:
        """Return the step for this belief, with its reasons, also from an earlier step's beginning."""
        all_evidence = [evidence for key in self.by_target for evidence in self._evidence(key, earlier)]
        belief = Belief(
            predictions={key: BinaryPrediction(estimate.probability) for key, estimate in self.by_target.items()},
            confidence=ConfidenceLevel.MEDIUM if self.learned else ConfidenceLevel.LOW,
            anchor=str(next(iter(self.by_target.values())).reasons[0]),
            evidence_for=tuple(evidence for evidence in all_evidence if (evidence.log_odds or 0.0) > 0.0),
            evidence_against=tuple(evidence for evidence in all_evidence if (evidence.log_odds or 0.0) < 0.0),
            reason=why,
        )
        action = StepAction(name=self.name, arguments={"form": ", ".join(self.forms)})
        reasons = [(key, reason) for key, estimate in self.by_target.items() for reason in estimate.reasons]
        text = "\n".join(f"{key}: {reason}" for key, reason in reasons)
        return Step(action=action, observation=StepObservation(text=text), belief=belief)

    def _evidence(self, key: str, earlier: "TargetEstimates | None") -> Iterator[Evidence]:
        where = "" if len(self.by_target) == 1 else f"{key}: "
        first, *others = self.by_target[key].reasons
        if earlier is not None:
            shift = _log_odds(first.after) - _log_odds(earlier.by_target[key].reasons[0].after)
            yield Evidence(text=f"{where}starting value, as learned: {first.why}", source=self.source, log_odds=shift)
        for reason in others:
            shift = _log_odds(reason.after) - _log_odds(reason.after if reason.before is None else reason.before)
            yield Evidence(text=f"{where}{reason.why}", source=self.source, log_odds=shift)


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def _crowd_step(question: Question, shape: ChoiceShape | CurveShape) -> Step:
    if question.crowd is not None:
        prediction, why = question.crowd.prediction, "the crowd's own prediction"
    else:
        prediction, why = flat_prediction(shape), "nothing is known, so every possibility counts alike"
    belief = Belief(predictions={target.key: prediction for target in question.targets}, anchor=why, reason=why)
    return Step(action=StepAction(name="crowd"), observation=StepObservation(text=why), belief=belief)


BASELINE_NAME = "baseline"


class BaselineLearner:
    """Learns all forms from resolved yes-or-no targets; a question without a text counts where its id suffices."""

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters as a JSON object; raises LeakError for an outcome not known before that day."""
        return encode_parameters(fit_parameters([*_known_outcomes(examples)], before=_resolution_day(before)))

    def merge(self, fits: Sequence[FittedParameters]) -> Mapping[str, Json]:
        """Return parameters with each form as fitted to the most outcomes of it."""
        return encode_parameters(merge_parameters([decode_parameters(fit.payload) for fit in fits]))


def load_shipped_parameters() -> tuple[FittedParameters, ...]:
    """Return the parameters in ``fitted/``.

    Raises MalformedDataError for a file in another form than ``foxcast fit`` writes.
    """
    folder = files("plugins.baseline") / "fitted"
    named = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".json"))
    return tuple(_read_fitted(name, file.read_text(encoding="utf-8")) for name, file in named)


def _read_fitted(name: str, text: str) -> FittedParameters:
    try:
        return parse_fitted_parameters(text)
    except MalformedDataError as error:
        message = f"{name}: {error}; write it again with: foxcast fit {BASELINE_NAME}"
        raise MalformedDataError(message) from error


def _known_outcomes(examples: Iterable[TrainingExample]) -> Iterator[KnownOutcome]:
    # Most questions have several outcomes and the same facts in all of them.
    read: dict[tuple[QuestionRef, datetime], QuestionFacts] = {}
    for example in examples:
        resolution, question = example.resolution, example.question
        if not isinstance(resolution.outcome, BinaryOutcome):
            continue
        asked = question.ref, question.as_of or resolution.resolved_at
        if asked not in read:
            read[asked] = read_question_facts(question, asked[1])
        event = target_event(read[asked], question.target(resolution.target))
        yield KnownOutcome(
            event=event, outcome=resolution.outcome.value, resolved_on=_resolution_day(resolution.resolved_at)
        )


def _resolution_day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()
