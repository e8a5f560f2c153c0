"""A venue of one question, made like any plugin outside of Foxcast: it imports bot.api and nothing else of it."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta

from pydantic import SecretStr

from bot.api import (
    BinaryShape,
    CommandSpec,
    Happened,
    JobSpec,
    Question,
    QuestionRef,
    Resolution,
    Settings,
    Target,
    Venue,
    VenueSpec,
    Workplace,
    hookimpl,
)

REF = QuestionRef("lantern", "harbour")


class LanternSettings(Settings):
    title: str = "Will the harbour lantern be lit tonight?"
    token: SecretStr


class Lantern:
    def __init__(self, settings: LanternSettings, workplace: Workplace) -> None:
        self.settings = settings
        self.clock = workplace.clock

    async def questions(self) -> AsyncIterator[Question]:
        yield Question(ref=REF, title=self.settings.title, shape=BinaryShape(), targets=(Target(),))

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        if REF in pending:
            yield Resolution(ref=REF, target="outcome", outcome=Happened(1.0), resolved_at=self.clock.now())


@asynccontextmanager
async def open_lantern(settings: LanternSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield Lantern(settings, workplace)


async def sweep(workplace: Workplace) -> str:
    return f"swept {workplace.folder}"


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
