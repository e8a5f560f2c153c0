"""The scores of a prediction for a resolved question, by the kind of the question.

A prediction gets no score for a void outcome, an unknown option, and a value beyond a closed bound.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import (
    BRIER,
    CHOICE_BASELINE,
    CHOICE_BRIER,
    CHOICE_LOG,
    CRPS,
    CURVE_BASELINE,
    BinaryOutcome,
    ChoiceOutcome,
    NumericOutcome,
    Outcome,
)
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
    prediction_mismatch,
)

if TYPE_CHECKING:
    from bot.stats.arrays import FloatArray

RuleScores = dict[str, float]
# The proper scores that measure the error of an answer, and the worst value of each.
_WORST_SCORES = {BRIER: 1.0, CHOICE_BRIER: 2.0, CRPS: 1.0}


@dataclass(frozen=True, slots=True)
class ResolvedPrediction:
    """A prediction, the shape of the question it answers, and its outcome."""

    prediction: Prediction
    shape: QuestionShape
    outcome: Outcome


def score_predictions(answers: Sequence[ResolvedPrediction]) -> list[RuleScores]:
    """Return the scores of each answer by the name of their rule, in the order of the answers."""
    answers = [_drop_premature_options(answer) for answer in answers]
    scores: list[RuleScores] = [{} for _ in answers]
    groups: dict[QuestionShape, list[int]] = {}
    for index, answer in enumerate(answers):
        if prediction_mismatch(answer.prediction, answer.shape) is None and _is_scorable(answer):
            groups.setdefault(answer.shape, []).append(index)
    for shape, indexes in groups.items():
        group_scores = _score_group(shape, [answers[index] for index in indexes])
        for rule, values in group_scores.items():
            for index, value in zip(indexes, values.tolist(), strict=True):
                scores[index][rule] = value
    return scores


def _drop_premature_options(answer: ResolvedPrediction) -> ResolvedPrediction:
    """Return a choice without the options that were not in force yet; their probability goes to their substitute."""
    shape, prediction, outcome = answer.shape, answer.prediction, answer.outcome
    if not (
        isinstance(shape, ChoiceShape)
        and isinstance(prediction, ChoicePrediction)
        and isinstance(outcome, ChoiceOutcome)
    ):
        return answer
    options = tuple(option for option in shape.options if option not in outcome.early)
    substitute = outcome.otherwise[-1] if outcome.otherwise else ""
    if len(options) == len(shape.options) or len(options) < 2 or substitute not in options:
        return answer
    given = prediction.probabilities
    shares = {option: given[option] for option in options if option in given}
    shares[substitute] += sum(share for option, share in given.items() if option in outcome.early)
    return ResolvedPrediction(ChoicePrediction(shares), ChoiceShape(options=options), outcome)


def prediction_loss(prediction: Prediction, shape: QuestionShape, outcome: Outcome) -> float | None:
    """Return the error of an answer, from 0 (best) to 1; None if it cannot be scored.

    It is the Brier score, for a choice half of it, and for a curve the CRPS in shares of its range.
    """
    (marks,) = score_predictions([ResolvedPrediction(prediction, shape, outcome)])
    return next((marks[rule] / worst for rule, worst in _WORST_SCORES.items() if rule in marks), None)


def _is_scorable(answer: ResolvedPrediction) -> bool:
    match answer.shape, answer.outcome, answer.prediction:
        case _, BinaryOutcome(), BinaryPrediction():
            return True
        case ChoiceShape(options=options), ChoiceOutcome() as chosen, _:
            return _outcome_index(chosen, options) is not None
        case CurveShape() as shape, NumericOutcome(value=value), _:
            return _is_possible_value(value, shape)
        case _:
            return False


def _outcome_index(outcome: ChoiceOutcome, options: Sequence[str]) -> int | None:
    """Return the index of the option that came true, or of its substitute; None if there is none."""
    return next((options.index(name) for name in (outcome.option, *outcome.otherwise) if name in options), None)


def _is_possible_value(value: float, shape: CurveShape) -> bool:
    from bot.stats.scores import END_TOLERANCE  # noqa: PLC0415 - numpy

    low, high = shape.grid[0], shape.grid[-1]
    slack = END_TOLERANCE * (high - low)
    return (shape.open_lower or value >= low - slack) and (shape.open_upper or value <= high + slack)


def _score_group(shape: QuestionShape, answers: Sequence[ResolvedPrediction]) -> "dict[str, FloatArray]":
    match shape:
        case ChoiceShape():
            return _score_choices(shape.options, answers)
        case CurveShape():
            return _score_curves(shape, answers)
        case _:
            return _score_binary(answers)


def _score_binary(answers: Sequence[ResolvedPrediction]) -> "dict[str, FloatArray]":
    from bot.stats.scores import brier_scores  # noqa: PLC0415 - numpy

    pairs = [(answer.prediction, answer.outcome) for answer in answers]
    given = [
        (prediction.probability, outcome.value)
        for prediction, outcome in pairs
        if prediction.kind == "binary" and outcome.kind == "happened"
    ]
    probabilities, outcomes = zip(*given, strict=True)
    return {BRIER: brier_scores(probabilities, outcomes)}


def _score_choices(options: Sequence[str], answers: Sequence[ResolvedPrediction]) -> "dict[str, FloatArray]":
    import numpy as np  # noqa: PLC0415 - most questions are no choices

    from bot.stats.scores import (  # noqa: PLC0415 - numpy with it
        MIN_PROBABILITY,
        choice_baseline_scores,
        choice_brier_scores,
        log_scores,
    )

    given = [answer.prediction.probabilities for answer in answers if isinstance(answer.prediction, ChoicePrediction)]
    found = [_outcome_index(answer.outcome, options) for answer in answers if isinstance(answer.outcome, ChoiceOutcome)]
    indexes = [index for index in found if index is not None]
    pmfs = np.array([[probabilities[option] for option in options] for probabilities in given])
    pmfs /= pmfs.sum(axis=1, keepdims=True)  # a sum may be off by a millionth
    on_outcome = pmfs[np.arange(len(indexes)), indexes]
    accepted = np.clip(on_outcome, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return {
        CHOICE_BRIER: choice_brier_scores(pmfs, indexes),
        CHOICE_LOG: log_scores(on_outcome),
        CHOICE_BASELINE: choice_baseline_scores(accepted, len(options)),
    }


def _score_curves(shape: CurveShape, answers: Sequence[ResolvedPrediction]) -> "dict[str, FloatArray]":
    from bot.stats.scores import (  # noqa: PLC0415 - numpy with it
        crps_scores,
        curve_baseline_scores,
        grid_locations,
    )

    cdfs = [answer.prediction.cdf for answer in answers if isinstance(answer.prediction, CurvePrediction)]
    where = grid_locations(
        [answer.outcome.value for answer in answers if isinstance(answer.outcome, NumericOutcome)], shape.grid
    )
    baselines = curve_baseline_scores(cdfs, where, open_lower=shape.open_lower, open_upper=shape.open_upper)
    return {CRPS: crps_scores(cdfs, where), CURVE_BASELINE: baselines}
