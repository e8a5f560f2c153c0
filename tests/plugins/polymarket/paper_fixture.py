"""The fake Polymarket on a real port, and what planner and paper book need to read it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bot.api import (
    Account,
    BinaryPrediction,
    Intent,
    IntentAction,
    Order,
    OrderPlan,
    PaperBook,
    PaperBookContext,
    PluginContext,
    Prediction,
    Question,
    QuestionRef,
    Resolution,
    SizingPolicy,
    SubmissionBatch,
    TradeProposal,
    WriteReceipt,
    open_paper_book,
)
from bot.core.clock import SeededRandom
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.polymarket import FakePolymarket
from bot.testing.clock import FakeClock
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.paper_market import PaperTradingSource, PolymarketPaperMarket, paper_book_terms
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.questions import question_ref
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.trading_inputs import EAGER

EVEN = BinaryPrediction(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFixture:
    """The venue, and the reading half of the plugin in front of it."""

    venue: FakePolymarket
    clock: FakeClock
    http: RetryingHttpClient
    settings: PolymarketSettings
    folder: Path

    def with_settings(self, **changes: Any) -> "PaperFixture":
        given = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return replace(self, settings=PolymarketSettings.model_validate({**given, **changes}))

    @property
    def reader(self) -> PolymarketReader:
        return PolymarketReader(self.settings, PluginContext(clock=self.clock, http=self.http, folder=self.folder))

    async def question(self, key: str) -> Question:
        return await self.reader.find_question(key)

    async def resolutions(self, *keys: str) -> list[Resolution]:
        return [one async for one in self.reader.resolutions([question_ref(key) for key in keys])]

    async def plan(
        self, question: Question, prediction: Prediction, account: Account, *, sizing: SizingPolicy = EAGER
    ) -> OrderPlan:
        proposal = TradeProposal(
            question=question,
            predictions={"outcome": prediction},
            account=account,
            sizing=sizing,
            now=self.clock.now(),
        )
        return await PolymarketPlanner(self.settings, PolymarketClient(self.settings, self.http)).plan_order(proposal)

    def place(self, *, cash: float = 1000.0, delay_s: float = 0.0, folder: str = "paper") -> PaperBookContext:
        return PaperBookContext(
            clock=self.clock, http=self.http, folder=self.folder / folder, cash=cash, delay_s=delay_s
        )


@asynccontextmanager
async def open_paper_fixture(folder: Path) -> AsyncIterator[PaperFixture]:
    clock = FakeClock()
    venue = FakePolymarket(clock)
    limits = HttpLimits(attempts=1, deadline_s=5.0)
    async with (
        serve_service(venue) as served,
        RetryingHttpClient(clock=clock, random=SeededRandom(1), limits=limits) as http,
    ):
        given = {**venue.addresses(served), "test_host": served.url.removeprefix("http://")}
        settings = PolymarketSettings.model_validate({**given, "ends_within_d": 3650, "paper_settle_s": 0})
        yield PaperFixture(venue=venue, clock=clock, http=http, settings=settings, folder=folder)
        assert venue.rate_limit_checker.violations == []


@asynccontextmanager
async def book_of(
    client: PaperTradingSource, place: PaperBookContext, settings: PolymarketSettings | None = None
) -> AsyncIterator[PaperBook]:
    """Open a paper book on whatever is read."""
    chosen = settings or PolymarketSettings()
    async with open_paper_book(place, PolymarketPaperMarket(chosen, client, place), paper_book_terms(chosen)) as book:
        yield book


def intent_of(name: str, order: Order, ref: QuestionRef) -> Intent:
    return Intent(
        id=name,
        account="default",
        ref=ref,
        forecast=f"forecast of {name}",
        action=IntentAction.ORDER,
        predictions={"outcome": EVEN},
        batch=name,
        order=order,
    )


async def send(book: Any, name: str, order: Order, ref: QuestionRef) -> WriteReceipt:
    """Seal and submit one order."""
    intents = (intent_of(name, order, ref),)
    sealed = await book.seal_requests(SubmissionBatch(key=name, intents=intents, questions=()))
    receipts: Sequence[WriteReceipt] = await book.submit(
        SubmissionBatch(key=name, intents=intents, questions=(), sealed=tuple(sealed))
    )
    (receipt,) = receipts
    return receipt
