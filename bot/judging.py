"""Which scores an answer gets: by the kind of its question, with the functions of ``bot.science``.

An answer that a rule cannot judge has no scores: a void outcome, an option nobody was asked about and that none stood
for, a number beyond a bound that the question calls closed. An outcome beyond an open bound is scored as the tail it
lies in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.domain.prediction import Binary, Choice, ChoiceShape, Curve, CurveShape, Prediction, Shape, mismatch
from bot.domain.resolution import Chosen, Happened, Landed, Outcome
from bot.domain.score import BRIER, CHOICE_BASELINE, CHOICE_BRIER, CHOICE_LOG, CRPS, CURVE_BASELINE

if TYPE_CHECKING:
    from bot.science.arrays import FloatArray

Marks = dict[str, float]

# The proper scores that tell how far an answer was off, and how much of each is the worst.
_WORST = {BRIER: 1.0, CHOICE_BRIER: 2.0, CRPS: 1.0}


@dataclass(frozen=True, slots=True)
class Answer:
    """A prediction, the shape of the question it answers, and what happened."""

    prediction: Prediction
    shape: Shape
    outcome: Outcome


def marks_of(answers: Sequence[Answer]) -> list[Marks]:
    """Return the scores of each answer by the name of their rule, in the order of the answers."""
    answers = [_as_in_force(answer) for answer in answers]
    marks: list[Marks] = [{} for _ in answers]
    groups: dict[Shape, list[int]] = {}
    for place, answer in enumerate(answers):
        if mismatch(answer.prediction, answer.shape) is None and _can_be_judged(answer):
            groups.setdefault(answer.shape, []).append(place)
    for shape, places in groups.items():
        judged = _judged(shape, [answers[place] for place in places])
        for rule, values in judged.items():
            for place, value in zip(places, values.tolist(), strict=True):
                marks[place][rule] = value
    return marks


def _as_in_force(answer: Answer) -> Answer:
    """Return a choice as it counts: without the options that were not in force yet, whose shares the last one has."""
    shape, said, came = answer.shape, answer.prediction, answer.outcome
    if not (isinstance(shape, ChoiceShape) and isinstance(said, Choice) and isinstance(came, Chosen)):
        return answer
    options = tuple(option for option in shape.options if option not in came.early)
    heir = came.otherwise[-1] if came.otherwise else ""
    if len(options) == len(shape.options) or len(options) < 2 or heir not in options:
        return answer
    shares = {option: said.probabilities[option] for option in options if option in said.probabilities}
    shares[heir] += sum(share for option, share in said.probabilities.items() if option in came.early)
    return Answer(Choice(shares), ChoiceShape(options=options), came)


def loss_of(prediction: Prediction, shape: Shape, outcome: Outcome) -> float | None:
    """Return how far an answer was off, from 0 (best) to 1; None where it cannot be judged.

    That is the Brier score, of a choice half of it, and of a curve the CRPS in shares of its range.
    """
    (marks,) = marks_of([Answer(prediction, shape, outcome)])
    return next((marks[rule] / worst for rule, worst in _WORST.items() if rule in marks), None)


def _can_be_judged(answer: Answer) -> bool:
    match answer.shape, answer.outcome, answer.prediction:
        case _, Happened(), Binary():
            return True
        case ChoiceShape(options=options), Chosen() as chosen, _:
            return _chosen(chosen, options) is not None
        case CurveShape() as shape, Landed(value=value), _:
            return _is_possible(value, shape)
        case _:
            return False


def _chosen(outcome: Chosen, options: Sequence[str]) -> int | None:
    """Return the place of the option that came true, or of that which stood for it; None where there is none."""
    return next((options.index(name) for name in (outcome.option, *outcome.otherwise) if name in options), None)


def _is_possible(value: float, shape: CurveShape) -> bool:
    from bot.science.crps import AT_THE_END  # noqa: PLC0415 - numpy

    low, high = shape.grid[0], shape.grid[-1]
    slack = AT_THE_END * (high - low)
    return (shape.open_lower or value >= low - slack) and (shape.open_upper or value <= high + slack)


def _judged(shape: Shape, answers: Sequence[Answer]) -> "dict[str, FloatArray]":
    match shape:
        case ChoiceShape():
            return _choices(shape.options, answers)
        case CurveShape():
            return _curves(shape, answers)
        case _:
            return _yes_or_no(answers)


def _yes_or_no(answers: Sequence[Answer]) -> "dict[str, FloatArray]":
    from bot.science.brier import brier_scores  # noqa: PLC0415 - numpy

    pairs = [(answer.prediction, answer.outcome) for answer in answers]
    given = [
        (said.probability, came.value) for said, came in pairs if said.kind == "binary" and came.kind == "happened"
    ]
    probabilities, outcomes = zip(*given, strict=True)
    return {BRIER: brier_scores(probabilities, outcomes)}


def _choices(options: Sequence[str], answers: Sequence[Answer]) -> "dict[str, FloatArray]":
    import numpy as np  # noqa: PLC0415 - most questions are no choices

    from bot.science.brier import choice_brier_scores  # noqa: PLC0415 - numpy
    from bot.science.log_score import BINARY_BOUND, baseline_choice, log_scores  # noqa: PLC0415 - numpy

    said = [answer.prediction.probabilities for answer in answers if isinstance(answer.prediction, Choice)]
    found = [_chosen(answer.outcome, options) for answer in answers if isinstance(answer.outcome, Chosen)]
    came = [place for place in found if place is not None]
    pmfs = np.array([[probabilities[option] for option in options] for probabilities in said])
    pmfs /= pmfs.sum(axis=1, keepdims=True)  # a sum may be off by a millionth
    on_outcome = pmfs[np.arange(len(came)), came]
    accepted = np.clip(on_outcome, BINARY_BOUND, 1.0 - BINARY_BOUND)
    return {
        CHOICE_BRIER: choice_brier_scores(pmfs, came),
        CHOICE_LOG: log_scores(on_outcome),
        CHOICE_BASELINE: baseline_choice(accepted, len(options)),
    }


def _curves(shape: CurveShape, answers: Sequence[Answer]) -> "dict[str, FloatArray]":
    from bot.science.crps import crps, location  # noqa: PLC0415 - numpy
    from bot.science.log_score import baseline_curve  # noqa: PLC0415 - numpy

    cdfs = [answer.prediction.cdf for answer in answers if isinstance(answer.prediction, Curve)]
    where = location([answer.outcome.value for answer in answers if isinstance(answer.outcome, Landed)], shape.grid)
    baselines = baseline_curve(cdfs, where, open_lower=shape.open_lower, open_upper=shape.open_upper)
    return {CRPS: crps(cdfs, where), CURVE_BASELINE: baselines}
