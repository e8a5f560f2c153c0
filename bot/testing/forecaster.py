"""A forecaster that does exactly what a test tells it to, faults included."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from bot.domain.belief import Belief
from bot.domain.prediction import Binary
from bot.domain.question import Question, QuestionRef
from bot.domain.step import Action, Observation, Step, Usage
from bot.ports import Desk


class Hang:
    """The move of a forecaster that never comes back by itself."""


Move = Callable[[Question], Step] | Hang | Exception


class ScriptedForecaster:
    """Implements the port Forecaster: makes its moves in order, for every question anew.

    ``begun`` and ``closed`` list the questions whose streams were started and brought to an end, in order, so that a
    test can prove that a stopped forecaster could clean up.
    """

    def __init__(self, *moves: Move) -> None:
        self.moves = moves
        self.begun: list[QuestionRef] = []
        self.closed: list[QuestionRef] = []

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        self.begun.append(question.ref)
        try:
            for move in self.moves:
                match move:
                    case Hang():
                        await asyncio.Event().wait()
                    case Exception():
                        raise move
                    case _:
                        yield move(question)
        finally:
            self.closed.append(question.ref)


def say(probability: float, *, usage: Usage | None = None) -> Move:
    """Return a move that believes in yes at this probability, for every target of a binary question."""
    return lambda question: _step(
        Belief(predictions={target.key: Binary(probability) for target in question.targets}), usage or Usage()
    )


def misfit() -> Move:
    """Return a move whose belief answers none of the question's targets."""
    return lambda _: _step(Belief(predictions={"no such target": Binary(0.5)}), Usage())


def _step(belief: Belief, usage: Usage) -> Step:
    return Step(action=Action(name="scripted"), observation=Observation(), belief=belief, usage=usage)
