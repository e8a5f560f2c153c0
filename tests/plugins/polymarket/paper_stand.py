"""The fake venue on a real port, and what planner and paper book are given to read it: no key, and no wire."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bot.api import (
    Account,
    Appetite,
    Batch,
    Binary,
    Intent,
    IntentAction,
    Order,
    PaperBook,
    PaperPlace,
    Plan,
    Prediction,
    Question,
    QuestionRef,
    Receipt,
    Resolution,
    Wish,
    Workplace,
    open_book,
)
from bot.clock import SeededRandom
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.testing.clock import FakeClock
from bot.testing.venues.kit import serve
from bot.testing.venues.polymarket import FakePolymarket
from plugins.polymarket.client import Client
from plugins.polymarket.paper_market import PaperMarket, Watches, book_terms
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.questions import ref_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.venue import PolymarketVenue
from tests.plugins.polymarket.trading import EAGER

EVEN = Binary(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperStand:
    """The venue, and the reading half of the plugin in front of it."""

    venue: FakePolymarket
    clock: FakeClock
    http: RetryingHttpClient
    settings: PolymarketSettings
    folder: Path

    def with_settings(self, **changes: Any) -> "PaperStand":
        given = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return replace(self, settings=PolymarketSettings.model_validate({**given, **changes}))

    @property
    def reader(self) -> PolymarketVenue:
        return PolymarketVenue(self.settings, Workplace(clock=self.clock, http=self.http, folder=self.folder))

    async def question(self, key: str) -> Question:
        return await self.reader.find(key)

    async def resolutions(self, *keys: str) -> list[Resolution]:
        return [one async for one in self.reader.resolutions([ref_of(key) for key in keys])]

    async def plan(
        self, question: Question, prediction: Prediction, account: Account, *, appetite: Appetite = EAGER
    ) -> Plan:
        wish = Wish(
            question=question,
            predictions={"outcome": prediction},
            account=account,
            appetite=appetite,
            now=self.clock.now(),
        )
        return await PolymarketPlanner(self.settings, Client(self.settings, self.http)).plan(wish)

    def place(self, *, cash: float = 1000.0, delay_s: float = 0.0, folder: str = "paper") -> PaperPlace:
        return PaperPlace(clock=self.clock, http=self.http, folder=self.folder / folder, cash=cash, delay_s=delay_s)


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[PaperStand]:
    clock = FakeClock()
    venue = FakePolymarket(clock)
    limits = HttpLimits(attempts=1, deadline_s=5.0)
    async with serve(venue) as served, RetryingHttpClient(clock=clock, random=SeededRandom(1), limits=limits) as http:
        given = {**venue.addresses(served), "test_host": served.url.removeprefix("http://")}
        settings = PolymarketSettings.model_validate({**given, "ends_within_d": 3650, "paper_settle_s": 0})
        yield PaperStand(venue=venue, clock=clock, http=http, settings=settings, folder=folder)
        assert venue.judge.violations == []


@asynccontextmanager
async def book_of(
    client: Watches, place: PaperPlace, settings: PolymarketSettings | None = None
) -> AsyncIterator[PaperBook]:
    """Open a paper book on whatever is read."""
    chosen = settings or PolymarketSettings()
    async with open_book(place, PaperMarket(chosen, client, place), book_terms(chosen)) as book:
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


async def send(book: Any, name: str, order: Order, ref: QuestionRef) -> Receipt:
    """Seal and submit one order."""
    intents = (intent_of(name, order, ref),)
    sealed = await book.seal(Batch(key=name, intents=intents, questions=()))
    receipts: Sequence[Receipt] = await book.submit(
        Batch(key=name, intents=intents, questions=(), sealed=tuple(sealed))
    )
    (receipt,) = receipts
    return receipt
