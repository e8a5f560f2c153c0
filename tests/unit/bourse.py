"""A plugin for the tests of what venues are opened with: everything that a venue may have, noting what it is given."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.api import (
    BinaryShape,
    Forecaster,
    ForecasterSpec,
    PaperPlace,
    Plan,
    Planner,
    PriceFeed,
    PricePlace,
    Question,
    QuestionRef,
    Rate,
    Settings,
    Submitter,
    Target,
    Venue,
    VenueSpec,
    Wish,
    Workplace,
    WriterPlace,
    hookimpl,
)
from bot.testing.book import MemoryBook
from bot.testing.forecaster import ScriptedForecaster, say
from bot.testing.prices import MemoryFeed
from bot.testing.venue import MemoryVenue

SHARE = Question(ref=QuestionRef("bourse", "share"), title="Up?", shape=BinaryShape(), targets=(Target(),))


class BourseSettings(Settings):
    base: str = "https://bourse.test/"
    per_minute: int = 500


class Opened:
    """What the factories were given, by what they open; and what is still open."""

    def __init__(self) -> None:
        self.places: dict[str, Workplace] = {}
        self.open: list[str] = []

    @asynccontextmanager
    async def note(self, name: str, place: Workplace) -> AsyncIterator[None]:
        self.places[name] = place
        self.open.append(name)
        yield
        self.open.remove(name)


class NoPlanner:
    async def plan(self, wish: Wish) -> Plan:
        return Plan(why=f"nothing about {wish.question.ref}")


OPENED = Opened()
FEED = MemoryFeed()


@asynccontextmanager
async def open_reader(_: BourseSettings, place: Workplace) -> AsyncIterator[Venue]:
    async with OPENED.note("reader", place):
        yield MemoryVenue([SHARE])


@asynccontextmanager
async def open_paper(_: BourseSettings, place: PaperPlace) -> AsyncIterator[Submitter]:
    async with OPENED.note("paper", place):
        yield MemoryBook()


@asynccontextmanager
async def open_writer(_: BourseSettings, place: WriterPlace) -> AsyncIterator[Submitter]:
    async with OPENED.note("writer", place):
        yield MemoryBook()


@asynccontextmanager
async def open_planner(_: BourseSettings, place: Workplace) -> AsyncIterator[Planner]:
    async with OPENED.note("planner", place):
        yield NoPlanner()


@asynccontextmanager
async def open_prices(_: BourseSettings, place: PricePlace) -> AsyncIterator[PriceFeed]:
    async with OPENED.note("prices", place):
        yield FEED


@asynccontextmanager
async def open_keeper(_: Settings, __: Workplace) -> AsyncIterator[Forecaster]:
    yield ScriptedForecaster(say(0.3))


def rates(settings: BourseSettings) -> Sequence[Rate]:
    return [Rate(name="bourse", prefixes=(settings.base,), count=settings.per_minute, per_s=60.0)]


@hookimpl
def foxcast_venues() -> list[VenueSpec[BourseSettings]]:
    return [
        VenueSpec(
            name="bourse",
            summary="A bourse",
            settings=BourseSettings,
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            planner=open_planner,
            prices=open_prices,
            rates=rates,
        )
    ]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[Settings]]:
    return [ForecasterSpec(name="keeper", summary="Keeps the lamp", settings=Settings, open=open_keeper)]
