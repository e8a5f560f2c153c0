"""A forecaster plugin for live runs: leans to one side, or where a question says that all is different, away."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Action,
    Belief,
    Binary,
    Choice,
    ChoiceShape,
    Curve,
    CurveShape,
    Desk,
    Evidence,
    Forecaster,
    ForecasterSpec,
    Observation,
    Prediction,
    Question,
    Settings,
    Step,
    Workplace,
    hookimpl,
)

LEANS, TURNED = 0.7, 0.1
DIFFERENT = "all is different now"


class LeaningSettings(Settings):
    """Nothing to set."""


class Leaning:
    """Implements the port Forecaster."""

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        probability = TURNED if DIFFERENT in f"{question.title} {question.background}" else LEANS
        belief = Belief(
            predictions={target.key: predicted(question, probability) for target in question.targets},
            anchor="lamps are lit seven times in ten",
            evidence_for=(Evidence(text="It was lit [last week](https://lamps.example/a) @all", source=""),),
        )
        yield Step(action=Action(name="lean"), observation=Observation(), belief=belief, final=True)


def predicted(question: Question, probability: float) -> Prediction:
    match question.shape:
        case ChoiceShape(options=options):
            rest = (1.0 - probability) / (len(options) - 1)
            return Choice({name: probability if place == 0 else rest for place, name in enumerate(options)})
        case CurveShape(grid=grid):
            return Curve(tuple(place / (len(grid) - 1) for place in range(len(grid))))
    return Binary(probability)


@asynccontextmanager
async def open_leaning(settings: LeaningSettings, place: Workplace) -> AsyncIterator[Forecaster]:
    yield Leaning()


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[LeaningSettings]]:
    return [
        ForecasterSpec(name="leaning", summary="leans to one side", settings=LeaningSettings, open=open_leaning),
    ]
