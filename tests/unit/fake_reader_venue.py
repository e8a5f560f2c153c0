"""A plugin with a fake venue that can only be read, two scripted forecasters and a job."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from bot.api import (
    BinaryShape,
    Forecaster,
    ForecasterSpec,
    JobSpec,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    Target,
    VenueReader,
    VenueSpec,
    hookimpl,
)
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakeVenueReader

LAMP = Question(ref=QuestionRef("harbour", "lamp"), title="Lit?", shape=BinaryShape(), targets=(Target(),))


@asynccontextmanager
async def open_harbour(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield FakeVenueReader([LAMP])


@asynccontextmanager
async def open_keeper(settings: PluginSettings, context: PluginContext) -> AsyncIterator[Forecaster]:
    yield ScriptedForecaster(believe_yes(0.3))


async def sweep(context: PluginContext) -> str:
    return f"swept {context.folder.name}"


@hookimpl
def foxcast_venues() -> list[VenueSpec[PluginSettings]]:
    return [VenueSpec(name="harbour", summary="A harbour", settings=PluginSettings, reader=open_harbour)]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[PluginSettings]]:
    return [ForecasterSpec(name="keeper", summary="Keeps the lamp", settings=PluginSettings, open=open_keeper)]


@hookimpl
def foxcast_jobs() -> list[JobSpec]:
    return [JobSpec(name="sweep", summary="Sweep the harbour", every=timedelta(hours=1), run=sweep)]
