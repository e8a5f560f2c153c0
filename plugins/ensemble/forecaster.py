"""The ensemble: reads what its members said of the question, and mixes it by their weights, in a single step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations

from bot.api import (
    PEERS,
    Action,
    Belief,
    Confidence,
    ConfigError,
    Desk,
    Fitted,
    Json,
    Observation,
    Predictions,
    Question,
    Step,
    Unavailable,
    Workplace,
    distance,
    mixed,
    predictions_of,
)
from plugins.ensemble.settings import EnsembleSettings
from plugins.ensemble.weights import EVERYWHERE

# Members that lie this near to each other agree; this far apart, at least one of them is badly wrong.
NEAR, FAR = 0.1, 0.3


@asynccontextmanager
async def open_ensemble(settings: EnsembleSettings, _place: Workplace) -> AsyncIterator[Ensemble]:
    """Open the ensemble; its members are the engine's."""
    yield Ensemble(settings)


@dataclass(frozen=True, slots=True)
class Weights:
    """The share of each member, and from what it is known."""

    shares: Mapping[str, float]
    source: str


class Ensemble:
    """Implements the port Forecaster."""

    def __init__(self, settings: EnsembleSettings) -> None:
        """Keep who the members are."""
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield one step with the mixture of what the members said.

        Raises ConfigError where there are no members, and Unavailable where none of them has said anything.
        """
        members = self.settings.members
        if not members:
            message = 'the ensemble has no members: name them, [forecasters.ensemble.settings] members = ["...", "..."]'
            raise ConfigError(message)
        result = await desk.use(PEERS, {"forecasters": list(members)})
        said = _said(result.data)
        if not said:
            message = f"no member of the ensemble has an answer: {result.observation.text}"
            raise Unavailable(message)
        weights = weights_of(desk.fitted, question, members)
        shares = _among({name: weights.shares[name] for name in said})
        predictions = mixed(question, list(said.values()), list(shares.values()))
        told = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        remarks = tuple(f"{name} is left out: {why}" for name, why in _absent(result.data).items())
        yield Step(
            action=Action(name="mix", arguments={"weights": dict(shares)}),
            observation=Observation(text=result.observation.text, documents=result.observation.documents),
            belief=Belief(
                predictions=predictions,
                confidence=_confidence(list(said.values())),
                anchor=f"the answers of {', '.join(said)}",
                reason=f"a mixture by {weights.source}: {told}",
            ),
            usage=result.usage,
            final=True,
            remarks=remarks,
        )


def weights_of(fitted: Fitted | None, question: Question, members: Sequence[str]) -> Weights:
    """Return the weights for a question: those of its venue, else those of all venues, else equal ones."""
    learned = fitted.payload.get("weights") if fitted is not None else None
    for venue in (question.ref.venue, EVERYWHERE):
        row = learned.get(venue) if isinstance(learned, dict) else None
        shares = row.get("shares") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(shares, dict):
            continue
        known = {name: float(share) for name in members if isinstance(share := shares.get(name), int | float)}
        # Learned of other members, it says nothing of these.
        if len(known) == len(shares) == len(members):
            return Weights(
                known, f"scores on {row.get('targets')} targets {f'at {venue}' if venue else 'at all venues'}"
            )
    return Weights(dict.fromkeys(members, 1.0 / len(members)), "equal weights")


def _said(data: Json) -> dict[str, Predictions]:
    answers = data.get("answers") if isinstance(data, dict) else None
    rows = [row for row in answers if isinstance(row, dict)] if isinstance(answers, list) else []
    return {str(row["forecaster"]): predictions_of(row["predictions"]) for row in rows}


def _absent(data: Json) -> Mapping[str, str]:
    absent = data.get("absent") if isinstance(data, dict) else None
    return {name: str(why) for name, why in absent.items()} if isinstance(absent, dict) else {}


def _among(shares: Mapping[str, float]) -> dict[str, float]:
    total = sum(shares.values())
    # Where only those have an answer whose weight is nothing, they are all that there is.
    return {name: share / total if total > 0.0 else 1.0 / len(shares) for name, share in shares.items()}


def _confidence(opinions: Sequence[Predictions]) -> Confidence:
    apart = max((distance(one, other) for one, other in combinations(opinions, 2)), default=FAR)
    if apart >= FAR:
        return Confidence.LOW
    return Confidence.HIGH if apart <= NEAR else Confidence.MEDIUM
