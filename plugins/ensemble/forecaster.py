"""The ensemble: reads its members' answers to the question, and mixes them by their weights, in a single step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations

from bot.api import (
    PEER_FORECASTS,
    Belief,
    ConfidenceLevel,
    ConfigError,
    FittedParameters,
    Json,
    PluginContext,
    Question,
    ServiceUnavailableError,
    Step,
    StepAction,
    StepObservation,
    TargetPredictions,
    TrialContext,
    mix_predictions,
    prediction_distance,
    read_predictions,
)
from plugins.ensemble.settings import EnsembleSettings
from plugins.ensemble.weights import ALL_VENUES

# Members that are this close to each other agree; this far apart, at least one of them is badly wrong.
AGREEMENT_DISTANCE, DISAGREEMENT_DISTANCE = 0.1, 0.3


@asynccontextmanager
async def open_ensemble(settings: EnsembleSettings, _place: PluginContext) -> AsyncIterator[EnsembleForecaster]:
    """Open the ensemble; the engine opens its members."""
    yield EnsembleForecaster(settings)


@dataclass(frozen=True, slots=True)
class MemberWeights:
    """The share of each member, and the source of the weights."""

    shares: Mapping[str, float]
    source: str


class EnsembleForecaster:
    """Implements Forecaster."""

    def __init__(self, settings: EnsembleSettings) -> None:
        """Keep the names of the members."""
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step with the mixture of the members' answers.

        Raises ConfigError where there are no members, and ServiceUnavailableError where none of them has an answer.
        """
        members = self.settings.members
        if not members:
            message = 'the ensemble has no members; name them: [forecasters.ensemble.settings] members = ["...", "..."]'
            raise ConfigError(message)
        result = await context.use_tool(PEER_FORECASTS, {"forecasters": list(members)})
        answers = _read_answers(result.data)
        if not answers:
            message = f"no member of the ensemble has an answer: {result.observation.text}"
            raise ServiceUnavailableError(message)
        weights = find_weights(context.fitted, question, members)
        shares = _renormalize({name: weights.shares[name] for name in answers})
        predictions = mix_predictions(question, list(answers.values()), list(shares.values()))
        described = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        remarks = tuple(f"{name} is ignored: {why}" for name, why in _read_absent(result.data).items())
        yield Step(
            action=StepAction(name="mix", arguments={"weights": dict(shares)}),
            observation=StepObservation(text=result.observation.text, documents=result.observation.documents),
            belief=Belief(
                predictions=predictions,
                confidence=_agreement_confidence(list(answers.values())),
                anchor=f"the answers of {', '.join(answers)}",
                reason=f"a mixture by {weights.source}: {described}",
            ),
            usage=result.usage,
            final=True,
            remarks=remarks,
        )


def find_weights(fitted: FittedParameters | None, question: Question, members: Sequence[str]) -> MemberWeights:
    """Return the weights for a question: those of its venue, else those of all venues, else equal ones."""
    learned = fitted.payload.get("weights") if fitted is not None else None
    for venue in (question.ref.venue, ALL_VENUES):
        row = learned.get(venue) if isinstance(learned, dict) else None
        shares = row.get("shares") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(shares, dict):
            continue
        known = {name: float(share) for name in members if isinstance(share := shares.get(name), int | float)}
        # Weights learned for other members do not apply to these.
        if len(known) == len(shares) == len(members):
            return MemberWeights(
                known, f"scores on {row.get('targets')} targets {f'at {venue}' if venue else 'at all venues'}"
            )
    return MemberWeights(dict.fromkeys(members, 1.0 / len(members)), "equal weights")


def _read_answers(data: Json) -> dict[str, TargetPredictions]:
    answers = data.get("answers") if isinstance(data, dict) else None
    rows = [row for row in answers if isinstance(row, dict)] if isinstance(answers, list) else []
    return {str(row["forecaster"]): read_predictions(row["predictions"]) for row in rows}


def _read_absent(data: Json) -> Mapping[str, str]:
    absent = data.get("absent") if isinstance(data, dict) else None
    return {name: str(why) for name, why in absent.items()} if isinstance(absent, dict) else {}


def _renormalize(shares: Mapping[str, float]) -> dict[str, float]:
    total = sum(shares.values())
    # Where only members of weight zero have an answer, they count all the same.
    return {name: share / total if total > 0.0 else 1.0 / len(shares) for name, share in shares.items()}


def _agreement_confidence(opinions: Sequence[TargetPredictions]) -> ConfidenceLevel:
    apart = max(
        (prediction_distance(one, other) for one, other in combinations(opinions, 2)), default=DISAGREEMENT_DISTANCE
    )
    if apart >= DISAGREEMENT_DISTANCE:
        return ConfidenceLevel.LOW
    return ConfidenceLevel.HIGH if apart <= AGREEMENT_DISTANCE else ConfidenceLevel.MEDIUM
