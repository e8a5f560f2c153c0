"""A venue of one question, made like any plugin outside of Foxcast: it imports bot.api and nothing else of it."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta

from pydantic import SecretStr

from bot.api import (
    BinaryOutcome,
    BinaryShape,
    CommandSpec,
    JobSpec,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    Resolution,
    Target,
    VenueReader,
    VenueSpec,
    hookimpl,
)

REF = QuestionRef("lantern", "harbour")


class LanternSettings(PluginSettings):
    title: str = "Will the harbour lantern be lit tonight?"
    token: SecretStr


class LanternVenue:
    def __init__(self, settings: LanternSettings, context: PluginContext) -> None:
        self.settings = settings
        self.clock = context.clock

    async def questions(self) -> AsyncIterator[Question]:
        yield Question(ref=REF, title=self.settings.title, shape=BinaryShape(), targets=(Target(),))

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        if REF in pending:
            yield Resolution(ref=REF, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=self.clock.now())


@asynccontextmanager
async def open_lantern(settings: LanternSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield LanternVenue(settings, context)


async def sweep(context: PluginContext) -> str:
    return f"swept {context.folder}"


def wave(times: int = 1) -> None:
    raise AssertionError(times)


@hookimpl
def foxcast_venues() -> list[VenueSpec[LanternSettings]]:
    return [
        VenueSpec(name="lantern", summary="One lantern in a harbour", settings=LanternSettings, reader=open_lantern)
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    return [CommandSpec(name="wave", summary="Wave at the harbour", run=wave)]


@hookimpl
def foxcast_jobs() -> list[JobSpec]:
    return [JobSpec(name="sweep", summary="Sweep the harbour", every=timedelta(hours=1), run=sweep)]
