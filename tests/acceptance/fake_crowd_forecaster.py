"""A plugin for the acceptance tests: a forecaster that repeats the crowd forecast, or says one half without one."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from pydantic import SecretStr

from bot.api import (
    Belief,
    BinaryPrediction,
    CommandSpec,
    Evidence,
    Forecaster,
    ForecasterSpec,
    Json,
    PluginContext,
    PluginSettings,
    Question,
    Step,
    StepAction,
    StepObservation,
    TrainingExample,
    TrialContext,
    hookimpl,
)

HALF = 0.5


class FakeCrowdForecasterSettings(PluginSettings):
    """One secret, to see that it stays one."""

    key: SecretStr | None = None


class FakeCrowdForecaster:
    """Two steps: one half, then the crowd."""

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        crowd = question.crowd.prediction if question.crowd else None
        given = crowd.probability if isinstance(crowd, BinaryPrediction) else HALF
        half = dict.fromkeys((target.key for target in question.targets), BinaryPrediction(HALF))
        yield Step(
            action=StepAction(name="begin", arguments={"family": question.family}),
            observation=StepObservation(),
            belief=Belief(predictions=half, anchor="ignorance"),
        )
        yield Step(
            action=StepAction(name="look_at_crowd"),
            observation=StepObservation(text=f"the crowd says {given}"),
            belief=Belief(
                predictions=dict.fromkeys(half, BinaryPrediction(given)),
                evidence_for=(Evidence(text="others think so", source="crowd", log_odds=0.25),),
                evidence_against=(Evidence(text="others err", source="experience", log_odds=-0.125),),
                reason="others know more",
            ),
        )


class ExampleCountLearner:
    """Learns how many examples there are."""

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        return {"count": len(examples)}


@asynccontextmanager
async def open_steady(settings: FakeCrowdForecasterSettings, context: PluginContext) -> AsyncIterator[Forecaster]:
    yield FakeCrowdForecaster()


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[FakeCrowdForecasterSettings]]:
    return [
        ForecasterSpec(
            name="steady",
            summary="Repeats the crowd",
            settings=FakeCrowdForecasterSettings,
            open=open_steady,
            learner=lambda _: ExampleCountLearner(),
        )
    ]


def greet(name: str = "nobody") -> None:
    """Greet somebody by name; fail as foreign code may where there is nobody."""
    if name == "nobody":
        raise LookupError(name)
    sys.stdout.write(f"hello {name}\n")


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    return [CommandSpec(name="greet", summary="Greet somebody", run=greet)]
