"""A plugin for the acceptance tests: it repeats the crowd, and says one half where there is none."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from pydantic import SecretStr

from bot.api import (
    Action,
    Belief,
    Binary,
    Can,
    CommandSpec,
    Desk,
    Evidence,
    Example,
    Forecaster,
    ForecasterSpec,
    Json,
    Observation,
    Question,
    Settings,
    Step,
    Workplace,
    hookimpl,
)

HALF = 0.5


class SteadySettings(Settings):
    """One secret, to see that it stays one."""

    key: SecretStr | None = None


class Steady:
    """Two steps: one half, then the crowd."""

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        crowd = question.crowd.prediction if question.crowd else None
        given = crowd.probability if isinstance(crowd, Binary) else HALF
        half = dict.fromkeys((target.key for target in question.targets), Binary(HALF))
        yield Step(
            action=Action(name="begin", arguments={"family": question.family}),
            observation=Observation(),
            belief=Belief(predictions=half, anchor="ignorance"),
        )
        yield Step(
            action=Action(name="look_at_crowd"),
            observation=Observation(text=f"the crowd says {given}"),
            belief=Belief(
                predictions=dict.fromkeys(half, Binary(given)),
                evidence_for=(Evidence(text="others think so", source="crowd", log_odds=0.25),),
                evidence_against=(Evidence(text="others err", source="experience", log_odds=-0.125),),
                reason="others know more",
            ),
        )


class Counting:
    """Learns how many examples there are."""

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        return {"count": len(examples)}


@asynccontextmanager
async def open_steady(settings: SteadySettings, workplace: Workplace) -> AsyncIterator[Forecaster]:
    yield Steady()


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[SteadySettings]]:
    return [
        ForecasterSpec(
            name="steady",
            summary="Repeats the crowd",
            abilities=frozenset({Can.LEARN}),
            settings=SteadySettings,
            open=open_steady,
            learner=lambda _: Counting(),
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
