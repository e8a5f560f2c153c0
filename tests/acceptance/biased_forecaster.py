"""A forecaster plugin for live runs.

It leans to one side of the question, or to the other where the question says so.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Evidence,
    Forecaster,
    ForecasterSpec,
    PluginContext,
    PluginSettings,
    Prediction,
    Question,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
    hookimpl,
)

LEANS, TURNED = 0.7, 0.1
DIFFERENT = "all is different now"


class BiasedForecasterSettings(PluginSettings):
    """Nothing to set."""


class BiasedForecaster:
    """Implements Forecaster."""

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        probability = TURNED if DIFFERENT in f"{question.title} {question.background}" else LEANS
        belief = Belief(
            predictions={target.key: predicted(question, probability) for target in question.targets},
            anchor="lamps are lit seven times in ten",
            evidence_for=(Evidence(text="It was lit [last week](https://lamps.example/a) @all", source=""),),
        )
        yield Step(action=StepAction(name="lean"), observation=StepObservation(), belief=belief, final=True)


def predicted(question: Question, probability: float) -> Prediction:
    match question.shape:
        case ChoiceShape(options=options):
            rest = (1.0 - probability) / (len(options) - 1)
            return ChoicePrediction({name: probability if place == 0 else rest for place, name in enumerate(options)})
        case CurveShape(grid=grid):
            return CurvePrediction(tuple(place / (len(grid) - 1) for place in range(len(grid))))
    return BinaryPrediction(probability)


@asynccontextmanager
async def open_leaning(settings: BiasedForecasterSettings, place: PluginContext) -> AsyncIterator[Forecaster]:
    yield BiasedForecaster()


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[BiasedForecasterSettings]]:
    return [
        ForecasterSpec(
            name="leaning", summary="leans to one side", settings=BiasedForecasterSettings, open=open_leaning
        ),
    ]
