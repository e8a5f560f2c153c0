"""A plugin for the tests of the composition root: a venue that can only be read, two forecasters and a job."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from bot.api import (
    BinaryShape,
    Forecaster,
    ForecasterSpec,
    JobSpec,
    Question,
    QuestionRef,
    Settings,
    Target,
    Venue,
    VenueSpec,
    Workplace,
    hookimpl,
)
from bot.testing.forecaster import ScriptedForecaster, say
from bot.testing.venue import MemoryVenue

LAMP = Question(ref=QuestionRef("harbour", "lamp"), title="Lit?", shape=BinaryShape(), targets=(Target(),))


@asynccontextmanager
async def open_harbour(settings: Settings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield MemoryVenue([LAMP])


@asynccontextmanager
async def open_keeper(settings: Settings, workplace: Workplace) -> AsyncIterator[Forecaster]:
    yield ScriptedForecaster(say(0.3))


async def sweep(workplace: Workplace) -> str:
    return f"swept {workplace.folder.name}"


@hookimpl
def foxcast_venues() -> list[VenueSpec[Settings]]:
    return [VenueSpec(name="harbour", summary="A harbour", settings=Settings, reader=open_harbour)]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[Settings]]:
    return [ForecasterSpec(name="keeper", summary="Keeps the lamp", settings=Settings, open=open_keeper)]


@hookimpl
def foxcast_jobs() -> list[JobSpec]:
    return [JobSpec(name="sweep", summary="Sweep the harbour", every=timedelta(hours=1), run=sweep)]
