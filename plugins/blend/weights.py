"""The weights of the members, learned from resolved questions that they had answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    BlendExample,
    BlendWeights,
    FittedParameters,
    Json,
    LeakError,
    Prediction,
    Question,
    ResolvedForecast,
    TrainingExample,
    fit_blend_weights,
    is_stuck,
    source_kind,
)
from plugins.blend.settings import CROWD_MEMBER, BlendSettings

PAYLOAD_KEY = "blend"


class BlendLearner:
    """Learns from the members' forecasts of resolved yes-or-no targets; a ``bot.api.HistoryLearner``."""

    def __init__(self, settings: BlendSettings) -> None:
        """Keep the names of the members."""
        self.settings = settings

    @property
    def other_forecasters(self) -> Collection[str]:
        """The members whose answers the engine reads."""
        return self.settings.answering

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return nothing: outcomes alone say nothing about members."""
        return {}

    def fit_history(self, pasts: Sequence[ResolvedForecast], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"blend": {"members", "coefficients", "examples", "blocks"}}``.

        Raises LeakError for an outcome that was not known before the moment.
        """
        if not self.settings.members:
            return {}
        fitted = fit_blend_weights([*_blend_examples(pasts, self.settings, before)], self.settings.members)
        return {
            PAYLOAD_KEY: {
                "members": list(fitted.members),
                "coefficients": dict(fitted.coefficients),
                "examples": fitted.examples,
                "blocks": fitted.blocks,
            }
        }


def read_weights(fitted: FittedParameters | None, members: Sequence[str]) -> BlendWeights:
    """Return the weights that were learned for exactly these members, else the prior ones."""
    stored = fitted.payload.get(PAYLOAD_KEY) if fitted is not None else None
    if not isinstance(stored, Mapping) or stored.get("members") != list(members):
        return BlendWeights(members=tuple(members))
    coefficients, counts = stored.get("coefficients"), (stored.get("examples"), stored.get("blocks"))
    known = coefficients if isinstance(coefficients, Mapping) else {}
    examples, blocks = (count if isinstance(count, int) else 0 for count in counts)
    return BlendWeights(
        members=tuple(members),
        coefficients={name: float(value) for name, value in known.items() if isinstance(value, int | float)},
        examples=examples,
        blocks=blocks,
    )


def usable_answers(answers: Mapping[str, Prediction]) -> Mapping[str, Prediction]:
    """Return the answers without those of runs that got stuck; all of them where every run did."""
    moved = {
        name: prediction
        for name, prediction in answers.items()
        if not (isinstance(prediction, BinaryPrediction) and is_stuck(prediction.probability))
    }
    return moved or answers


def question_source(question: Question) -> str:
    """Return the name under which a question's source has weights of its own."""
    return question.source or question.ref.venue


def _blend_examples(
    pasts: Sequence[ResolvedForecast], settings: BlendSettings, before: datetime
) -> Iterator[BlendExample]:
    events: defaultdict[tuple[str, str], dict[str, ResolvedForecast]] = defaultdict(dict)
    for past in pasts:
        if past.resolution.resolved_at >= before:
            at = past.resolution.resolved_at.isoformat()
            message = f"{past.resolution.ref} was resolved on {at}, not before {before.isoformat()}"
            raise LeakError(message)
        if past.forecaster in settings.answering and isinstance(past.outcome, BinaryOutcome):
            events[str(past.question.ref), past.resolution.target][past.forecaster] = past
    for by_member in events.values():
        some = next(iter(by_member.values()))
        answers = {name: past.prediction for name, past in by_member.items()}
        crowd = some.question.crowd
        if CROWD_MEMBER in settings.members and crowd is not None and crowd.at <= some.cutoff:
            answers[CROWD_MEMBER] = crowd.prediction
        yield BlendExample(
            answers={
                name: prediction.probability
                for name, prediction in usable_answers(answers).items()
                if isinstance(prediction, BinaryPrediction)
            },
            kind=source_kind(some.question),
            source=question_source(some.question),
            outcome=some.outcome.value if isinstance(some.outcome, BinaryOutcome) else 0.0,
            block=(
                some.question.batch or "",
                some.resolution.resolved_at.astimezone(UTC).date(),
                question_source(some.question),
            ),
        )
