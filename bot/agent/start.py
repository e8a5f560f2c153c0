"""Where a trial starts: the crowd's estimate, else even odds; a forecaster may know something better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.agent.ballot import Ballot
from bot.agent.state import State
from bot.domain.prediction import Binary, Choice, ChoiceShape, Curve, CurveShape, Prediction
from bot.domain.question import Question


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a trial starts from, and in words why; ``prior`` is a base rate."""

    kind: Literal["crowd", "prior", "even"]
    text: str
    prediction: Prediction


def starting_point(question: Question, *, crowd: bool = True) -> Anchor:
    """Return the crowd's estimate where there is one and it is wanted, else even odds."""
    if crowd and question.crowd is not None:
        estimate = question.crowd
        return Anchor("crowd", f"the crowd's estimate of {estimate.at:%Y-%m-%d}", estimate.prediction)
    return Anchor("even", "nothing is known yet", _even(question))


def first_state(anchor: Anchor, question: Question, ballot: Ballot, margin: float) -> State:
    """Return the state before anything was done."""
    predictions = {target.key: anchor.prediction for target in question.targets}
    return State(predictions=ballot.bounded(predictions, margin), anchor=anchor.text, reason="where the trial starts")


def _even(question: Question) -> Prediction:
    match question.shape:
        case ChoiceShape(options=options):
            return Choice(dict.fromkeys(options, 1.0 / len(options)))
        case CurveShape(grid=grid):
            return Curve(tuple((point - grid[0]) / (grid[-1] - grid[0]) for point in grid))
        case _:
            return Binary(0.5)
