"""A plugin with a fake trading venue that has everything a venue may have and records what its factories are given."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.api import (
    BinaryShape,
    Forecaster,
    ForecasterSpec,
    OrderPlan,
    OrderPlanner,
    PaperBookContext,
    PluginContext,
    PluginSettings,
    PriceFeed,
    PriceFeedContext,
    Question,
    QuestionRef,
    RateLimit,
    ShareFees,
    Target,
    TradeProposal,
    VenueReader,
    VenueSpec,
    VenueSubmitter,
    VenueWriterContext,
    hookimpl,
)
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakePriceFeed, FakeSubmitter, FakeVenueReader

SHARE = Question(ref=QuestionRef("bourse", "share"), title="Up?", shape=BinaryShape(), targets=(Target(),))


class FakeExchangeSettings(PluginSettings):
    base: str = "https://bourse.test/"
    per_minute: int = 500


class OpenedFactories:
    """What the factories were given, by what they open; and what is still open."""

    def __init__(self) -> None:
        self.places: dict[str, PluginContext] = {}
        self.open: list[str] = []

    @asynccontextmanager
    async def note(self, name: str, place: PluginContext) -> AsyncIterator[None]:
        self.places[name] = place
        self.open.append(name)
        yield
        self.open.remove(name)


class UnusedPlanner:
    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        return OrderPlan(why=f"nothing about {proposal.question.ref}")


OPENED = OpenedFactories()
FEED = FakePriceFeed()


@asynccontextmanager
async def open_reader(_: FakeExchangeSettings, place: PluginContext) -> AsyncIterator[VenueReader]:
    async with OPENED.note("reader", place):
        yield FakeVenueReader([SHARE])


@asynccontextmanager
async def open_paper(_: FakeExchangeSettings, place: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    async with OPENED.note("paper", place):
        yield FakeSubmitter()


@asynccontextmanager
async def open_writer(_: FakeExchangeSettings, place: VenueWriterContext) -> AsyncIterator[VenueSubmitter]:
    async with OPENED.note("writer", place):
        yield FakeSubmitter()


@asynccontextmanager
async def open_planner(_: FakeExchangeSettings, place: PluginContext) -> AsyncIterator[OrderPlanner]:
    async with OPENED.note("planner", place):
        yield UnusedPlanner()


@asynccontextmanager
async def open_prices(_: FakeExchangeSettings, place: PriceFeedContext) -> AsyncIterator[PriceFeed]:
    async with OPENED.note("prices", place):
        yield FEED


@asynccontextmanager
async def open_keeper(_: PluginSettings, __: PluginContext) -> AsyncIterator[Forecaster]:
    yield ScriptedForecaster(believe_yes(0.3))


def rates(settings: FakeExchangeSettings) -> Sequence[RateLimit]:
    return [RateLimit(name="bourse", prefixes=(settings.base,), count=settings.per_minute, per_s=60.0)]


@hookimpl
def foxcast_venues() -> list[VenueSpec[FakeExchangeSettings]]:
    return [
        VenueSpec(
            name="bourse",
            summary="A bourse",
            settings=FakeExchangeSettings,
            reader=open_reader,
            paper=open_paper,
            writer=open_writer,
            planner=open_planner,
            fees=lambda _question, _order: ShareFees(),
            prices=open_prices,
            rates=rates,
        )
    ]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[PluginSettings]]:
    return [ForecasterSpec(name="keeper", summary="Keeps the lamp", settings=PluginSettings, open=open_keeper)]
