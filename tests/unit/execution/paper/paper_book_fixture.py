"""Intents, orders and a paper book for tests of paper books."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.core.orders import ContractSide, Fill, Order, OrderSide
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution
from bot.core.permissions import ExposureGroups
from bot.core.plugin_specs import PaperBookContext
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import Intent, IntentAction, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.paper import accounting
from bot.execution.paper.paper_book import PaperBook, PaperBookTerms, open_paper_book
from bot.testing.clock import START, FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.paper_market import FakePaperMarket

COINS = "COIN"


def ref(key: str = "rain") -> QuestionRef:
    return QuestionRef("lantern", key)


def question(key: str = "rain", **changes: Any) -> Question:
    given: dict[str, Any] = {
        "ref": ref(key),
        "title": f"Will there be {key}?",
        "shape": BinaryShape(),
        "targets": (Target(),),
    }
    return Question(**(given | changes))


def order(shares: float = 10.0, limit: float = 0.5, **changes: Any) -> Order:
    side = changes.get("side", OrderSide.BUY)
    given: dict[str, Any] = {
        "contract": "rain",
        "leg": ContractSide.YES,
        "side": side,
        "shares": shares,
        "limit": limit,
        "cost": shares * limit if side is OrderSide.BUY else 0.0,
        "expected": limit,
        "currency": COINS,
    }
    return Order(**(given | changes))


def intent(name: str, wanted: Order, key: str = "rain") -> Intent:
    return Intent(
        id=name,
        account="default",
        ref=ref(key),
        forecast=f"forecast of {name}",
        action=IntentAction.ORDER,
        predictions={"outcome": BinaryPrediction(0.7)},
        batch=name,
        order=wanted,
        exposure=ExposureGroups(event=f"weather {key}"),
    )


def outcome(value: Outcome | float, key: str = "rain") -> Resolution:
    what = BinaryOutcome(value) if isinstance(value, float) else value
    return Resolution(ref=ref(key), target="outcome", outcome=what, resolved_at=START)


@dataclass
class PaperBookFixture:
    """A paper book with its market and clock."""

    book: PaperBook
    market: FakePaperMarket
    clock: FakeClock
    _sealed: dict[str, SealedRequest] = field(default_factory=dict)

    async def seal(self, wanted: Intent) -> SubmissionBatch:
        alone = SubmissionBatch(key=wanted.batch, intents=(wanted,), questions=(question(wanted.ref.key),))
        sealed = await self.book.seal_requests(alone)
        return SubmissionBatch(key=wanted.batch, intents=(wanted,), questions=alone.questions, sealed=tuple(sealed))

    async def write(self, batch: SubmissionBatch) -> WriteReceipt:
        (receipt,) = await self.book.submit(batch)
        return receipt

    async def send(self, name: str, wanted: Order, key: str = "rain") -> WriteReceipt:
        return await self.write(await self.seal(intent(name, wanted, key)))

    async def stands(self, name: str, key: str = "rain") -> WriteReceipt:
        wanted = intent(name, order(), key)
        (receipt,) = await self.book.read_submissions(SubmissionBatch(key=name, intents=(wanted,), questions=()))
        return receipt

    async def cash(self) -> float:
        return (await self.book.account()).cash

    async def shares(self) -> dict[tuple[str, str], float]:
        return {(one.contract, one.leg.value): one.shares for one in (await self.book.account()).positions}

    async def faults(self) -> list[str]:
        return await self.book.database.writer.run(accounting.find_faults)


def moved(fills: tuple[Fill, ...]) -> float:
    return sum(one.cash for one in fills)


@asynccontextmanager
async def open_paper_book_fixture(
    folder: Path,
    market: FakePaperMarket,
    *,
    redeems: bool = False,
    cash: float = 100.0,
    delay_s: float = 0.0,
    clock: FakeClock | None = None,
) -> AsyncIterator[PaperBookFixture]:
    clock = clock or FakeClock()
    place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=folder, cash=cash, delay_s=delay_s)
    async with open_paper_book(place, market, PaperBookTerms(currency=COINS, redeems=redeems)) as book:
        yield PaperBookFixture(book, market, clock)
        assert await book.database.writer.run(accounting.find_faults) == []
