"""Where a trial starts: the crowd's estimate, else what is flat; and how near to certainty it may end from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bot.agent.ballot import Ballot, Manner
from bot.agent.state import State
from bot.domain.curves import flat_prediction
from bot.domain.prediction import Binary, BinaryShape, Prediction
from bot.domain.question import Question

# A market or base rate may be moved from half way to certainty: one at 1 % leaves answers from 0.5 % on.
ANCHOR_SHARE = 0.5
# However certain the start is; longer odds than one in a thousand rest on nothing that is counted.
LEAST_MARGIN = 0.001


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a trial starts from, and in words why; ``prior`` is a base rate."""

    kind: Literal["crowd", "prior", "even"]
    text: str
    prediction: Prediction


def starting_point(question: Question, *, crowd: bool = True) -> Anchor:
    """Return the crowd's estimate where there is one and it is wanted, else the flat prediction."""
    if crowd and question.crowd is not None:
        estimate = question.crowd
        return Anchor("crowd", f"the crowd's estimate of {estimate.at:%Y-%m-%d}", estimate.prediction)
    return Anchor("even", "nothing is known yet", flat_prediction(question.shape))


def first_state(anchor: Anchor, question: Question, ballot: Ballot, margin: float) -> State:
    """Return the state before anything was done."""
    predictions = {target.key: anchor.prediction for target in question.targets}
    return State(predictions=ballot.bounded(predictions, margin), anchor=anchor.text, reason="where the trial starts")


def margins_for(question: Question, anchor: Anchor, manner: Manner) -> Manner:
    """Return the manner with the margins of a yes-or-no question: those of ``manner`` are the widest.

    They are at most ``ANCHOR_SHARE`` of the distance of the crowd's price or base rate to certainty, and at least
    ``LEAST_MARGIN`` unless ``manner`` has less. Even odds and other questions leave them as they are.
    """
    start = anchor.prediction
    if anchor.kind == "even" or not isinstance(question.shape, BinaryShape) or not isinstance(start, Binary):
        return manner
    distance = min(start.probability, 1.0 - start.probability)
    room = max(LEAST_MARGIN, round(ANCHOR_SHARE * distance, 6))
    return replace(manner, step_margin=min(manner.step_margin, room), submit_margin=min(manner.submit_margin, room))
