"""Scripted forecaster: makes the steps that a test lists, faults included."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from bot.core.beliefs import Belief, ModelUsage, Step, StepAction, StepObservation
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef


class HangingStep:
    """A move of the forecaster that never returns by itself."""


ScriptedStep = Callable[[Question], Step] | HangingStep | Exception


class ScriptedForecaster:
    """Implements Forecaster: makes its moves in order, for every question anew.

    ``begun`` and ``closed`` list the questions whose streams were started and closed, in order, so that a test can
    prove that a stopped forecaster could clean up.
    """

    def __init__(self, *moves: ScriptedStep) -> None:
        self.script = moves
        self.started: list[QuestionRef] = []
        self.closed: list[QuestionRef] = []

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        self.started.append(question.ref)
        try:
            for move in self.script:
                match move:
                    case HangingStep():
                        await asyncio.Event().wait()
                    case Exception():
                        raise move
                    case _:
                        yield move(question)
        finally:
            self.closed.append(question.ref)


def believe_yes(probability: float, *, usage: ModelUsage | None = None) -> ScriptedStep:
    """Return a move that believes in yes at this probability, for every target of a binary question."""
    return lambda question: _make_step(
        Belief(predictions={target.key: BinaryPrediction(probability) for target in question.targets}),
        usage or ModelUsage(),
    )


def believe_unknown_target() -> ScriptedStep:
    """Return a move whose belief answers none of the question's targets."""
    return lambda _: _make_step(Belief(predictions={"no such target": BinaryPrediction(0.5)}), ModelUsage())


def _make_step(belief: Belief, usage: ModelUsage) -> Step:
    return Step(action=StepAction(name="scripted"), observation=StepObservation(), belief=belief, usage=usage)
