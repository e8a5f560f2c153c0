"""The blend: reads its members' answers to the question, and pools them by their weights, in a single step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import combinations
from pathlib import Path

from bot.api import (
    ELSEWHERE_MEMBER,
    PEER_FORECASTS,
    Belief,
    BlendWeights,
    ConfidenceLevel,
    ConfigError,
    FittedParameters,
    Json,
    MalformedDataError,
    PluginContext,
    Prediction,
    Question,
    ServiceUnavailableError,
    Step,
    StepAction,
    StepObservation,
    TargetPredictions,
    TrialContext,
    blend_predictions,
    parse_fitted_parameters,
    prediction_distance,
    read_predictions,
    source_kind,
)
from plugins.blend.settings import CROWD_MEMBER, BlendSettings
from plugins.blend.weights import question_source, read_weights, usable_answers

# Members that are this close to each other agree; this far apart, at least one of them is badly wrong.
AGREEMENT_DISTANCE, DISAGREEMENT_DISTANCE = 0.1, 0.3


@asynccontextmanager
async def open_blend(settings: BlendSettings, _place: PluginContext) -> AsyncIterator[BlendForecaster]:
    """Open the blend; the engine opens its members. Raises ConfigError for a file of weights that is not usable."""
    yield BlendForecaster(settings, None if settings.weights is None else _read_weights_file(settings.weights))


class BlendForecaster:
    """Implements Forecaster."""

    def __init__(self, settings: BlendSettings, initial: FittedParameters | None = None) -> None:
        """Keep the names of the members, and weights that others learned."""
        self.settings = settings
        self.initial = initial

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step with the pool of the members' answers.

        Raises ConfigError where there are no members, and ServiceUnavailableError where none of them has an answer.
        """
        members = self.settings.members
        if not members:
            message = 'the blend has no members; name them: [forecasters.blend.settings] members = ["...", "..."]'
            raise ConfigError(message)
        result = await context.use_tool(PEER_FORECASTS, {"forecasters": list(self.settings.answering)})
        answers, absent = _read_answers(result.data), _read_absent(result.data)
        if CROWD_MEMBER in members:
            if question.crowd is None:
                absent[CROWD_MEMBER] = "the question has no price"
            else:
                crowd = question.crowd.prediction
                answers[CROWD_MEMBER] = {target.key: crowd for target in question.targets}
        if not answers:
            message = f"no member of the blend has an answer: {result.observation.text}"
            raise ServiceUnavailableError(message)
        weights = self._known_weights(context.fitted, context.cutoff)
        pooled = {target.key: _pool_target(question, target.key, answers, weights) for target in question.targets}
        shown = {key: used for key, (_, used) in pooled.items()}
        learned = f"{weights.examples} outcomes in {weights.blocks} blocks" if weights.examples else ""
        how = f"weights fitted to {learned}" if learned else "equal weights with the sum 1.15"
        described = ", ".join(f"{name} {weight:.2f}" for name, weight in next(iter(shown.values())).items())
        yield Step(
            action=StepAction(name="blend", arguments={"weights": _shown_weights(shown)}),
            observation=StepObservation(text=result.observation.text, documents=result.observation.documents),
            belief=Belief(
                predictions={key: prediction for key, (prediction, _) in pooled.items()},
                confidence=_agreement_confidence(list(answers.values())),
                anchor=f"the answers of {', '.join(answers)}",
                reason=f"a pool of log odds by {how}: {described}",
            ),
            usage=result.usage,
            final=True,
            # Few questions are asked elsewhere too, which is no fault.
            remarks=tuple(f"{name} is ignored: {why}" for name, why in absent.items() if name != ELSEWHERE_MEMBER),
        )

    def _known_weights(self, fitted: FittedParameters | None, cutoff: datetime) -> BlendWeights:
        """Return the weights that saw most outcomes, of those learned before the cutoff."""
        usable = [one for one in (fitted, self.initial) if one is not None and one.before <= cutoff]
        known = [read_weights(one, self.settings.members) for one in (*usable, None)]
        return max(known, key=lambda weights: weights.examples)


def _read_weights_file(path: Path) -> FittedParameters:
    try:
        return parse_fitted_parameters(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, MalformedDataError) as error:
        message = f"forecasters.blend: weights {path} cannot be read ({error}); write them with: foxcast fit blend"
        raise ConfigError(message) from error


def _pool_target(
    question: Question, target: str, answers: Mapping[str, TargetPredictions], weights: BlendWeights
) -> tuple[Prediction, Mapping[str, float]]:
    """Return the pool of one target and the weights of the members in it."""
    given = usable_answers({name: predictions[target] for name, predictions in answers.items()})
    kind, source = source_kind(question), question_source(question)
    used = weights.weights(kind, source, [*given])
    if not any(used.values()):
        # Where only members of weight zero have an answer, they count all the same.
        used = BlendWeights(members=weights.members).weights(kind, source, [*given])
    return blend_predictions([*given.values()], [used[name] for name in given]), used


def _shown_weights(by_target: Mapping[str, Mapping[str, float]]) -> Json:
    shown: dict[str, Json] = {key: dict(used) for key, used in by_target.items()}
    first = next(iter(shown.values()))
    return first if all(used == first for used in shown.values()) else shown


def _read_answers(data: Json) -> dict[str, TargetPredictions]:
    answers = data.get("answers") if isinstance(data, dict) else None
    rows = [row for row in answers if isinstance(row, dict)] if isinstance(answers, list) else []
    return {str(row["forecaster"]): read_predictions(row["predictions"]) for row in rows}


def _read_absent(data: Json) -> dict[str, str]:
    absent = data.get("absent") if isinstance(data, dict) else None
    return {name: str(why) for name, why in absent.items()} if isinstance(absent, dict) else {}


def _agreement_confidence(opinions: Sequence[TargetPredictions]) -> ConfidenceLevel:
    apart = max(
        (prediction_distance(one, other) for one, other in combinations(opinions, 2)), default=DISAGREEMENT_DISTANCE
    )
    if apart >= DISAGREEMENT_DISTANCE:
        return ConfidenceLevel.LOW
    return ConfidenceLevel.HIGH if apart <= AGREEMENT_DISTANCE else ConfidenceLevel.MEDIUM
