"""A ledger, an outbox and a paper book in the folder of a run: how orders go on paper."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.domain.order import Leg, Order, Side
from bot.domain.permission import Exposure
from bot.domain.question import Question
from bot.domain.submission import Intent, IntentAction, Mode, Send
from bot.gate.brake import Brake
from bot.ids import derive_id
from bot.jobs.cancel import Cancelling
from bot.jobs.settle import Accounts
from bot.outbox.outbox import Outbox
from bot.paper.book import BookTerms, PaperBook, open_book
from bot.specs import PaperPlace
from bot.store.ledger import Ledger, open_ledger
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from bot.testing.paper import MemoryMarket
from tests.unit.store.conftest import Scribe

ACCOUNT = "default"
COINS = "COIN"


async def _ready(*_: object) -> bool:
    return True


@dataclass
class Floor:
    """The parts; ``venue`` is whose questions are traded."""

    folder: Path
    ledger: Ledger
    book: PaperBook
    market: MemoryMarket
    clock: FakeClock
    venue: str
    scribe: Scribe = field(init=False)

    def __post_init__(self) -> None:
        self.scribe = Scribe(self.ledger, self.folder / "ledger.sqlite", now=self.clock.now())

    @property
    def outbox(self) -> Outbox:
        return Outbox(
            ledger=self.ledger,
            submitters={self.venue: self.book},
            clock=self.clock,
            brake=Brake(stop_file=self.folder / "STOP", ledger=self.folder / "ledger.sqlite"),
            ready=_ready,
            modes={self.venue: Mode.PAPER},
        )

    @property
    def accounts(self) -> Accounts:
        return Accounts(
            ledger=self.ledger,
            submitters={self.venue: self.book},
            names={self.venue: ACCOUNT},
            clock=self.clock,
            paper={self.venue},
        )

    @property
    def cancelling(self) -> Cancelling:
        return Cancelling(
            folder=self.folder,
            ledger=self.ledger,
            submitters={self.venue: self.book},
            modes={self.venue: Mode.PAPER},
            clock=self.clock,
        )

    async def plan(self, key: str, *, shares: float = 10.0, limit: float = 0.5, **changes: Any) -> Intent:
        """Let an order on a question's own contract go; nothing is sent yet."""
        question = await self.ask(key)
        forecast = await self.scribe.forecast(question, 0.7, now=self.clock.now(), cutoff=self.clock.now())
        order = Order(
            contract=key,
            leg=Leg.YES,
            side=Side.BUY,
            shares=shares,
            limit=limit,
            cost=shares * limit,
            expected=limit,
            currency=COINS,
        )
        name = derive_id("intent", forecast.id)
        intent = Intent(
            id=name,
            account=ACCOUNT,
            ref=question.ref,
            forecast=forecast.id,
            action=IntentAction.ORDER,
            predictions=forecast.predictions,
            batch=name,
            order=replace(order, **changes),
            exposure=Exposure(event="weather"),
        )
        send = Send(intent=intent, mode=Mode.PAPER, why="the edge is wide", state="{}")
        await self.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=self.clock.now())
        return intent

    async def ask(self, key: str) -> Question:
        question = self.scribe.question(key, batch=None)
        question = replace(question, ref=replace(question.ref, venue=self.venue))
        await self.ledger.questions.record([question], seen_at=self.clock.now())
        return question

    async def row(self, intent: Intent) -> tuple[str, float]:
        """Return the state of an intent, and what it still counts for."""
        (found,) = self.scribe.rows(f"select state, cost from intent where id = '{intent.id}'")  # noqa: S608 - our id
        return str(found[0]), float(found[1])


@asynccontextmanager
async def open_floor(
    folder: Path, market: MemoryMarket, *, venue: str = "lantern", start: datetime | None = None
) -> AsyncIterator[Floor]:
    clock = FakeClock() if start is None else FakeClock(start)
    place = PaperPlace(clock=clock, http=DictHttp({}), folder=folder / venue, cash=100.0, delay_s=0.0)
    async with (
        open_ledger(folder / "ledger.sqlite", now=clock.now()) as ledger,
        open_book(place, market, BookTerms(currency=COINS)) as book,
    ):
        floor = Floor(folder, ledger, book, market, clock, venue)
        yield floor
        assert floor.scribe.faults() == {}
