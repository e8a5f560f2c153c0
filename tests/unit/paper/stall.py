"""Makes intents, orders and places for tests of paper books."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.domain.order import Fill, Leg, Order, Side
from bot.domain.permission import Exposure
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.resolution import Happened, Outcome, Resolution
from bot.domain.submission import Batch, Intent, IntentAction, Receipt, Sealed
from bot.paper import check
from bot.paper.book import BookTerms, PaperBook, open_book
from bot.specs import PaperPlace
from bot.testing.clock import START, FakeClock
from bot.testing.http import DictHttp
from bot.testing.paper import MemoryMarket

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
    side = changes.get("side", Side.BUY)
    given: dict[str, Any] = {
        "contract": "rain",
        "leg": Leg.YES,
        "side": side,
        "shares": shares,
        "limit": limit,
        "cost": shares * limit if side is Side.BUY else 0.0,
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
        predictions={"outcome": Binary(0.7)},
        batch=name,
        order=wanted,
        exposure=Exposure(event=f"weather {key}"),
    )


def outcome(value: Outcome | float, key: str = "rain") -> Resolution:
    what = Happened(value) if isinstance(value, float) else value
    return Resolution(ref=ref(key), target="outcome", outcome=what, resolved_at=START)


@dataclass
class Stall:
    """A paper book with its market and clock."""

    book: PaperBook
    market: MemoryMarket
    clock: FakeClock
    _sealed: dict[str, Sealed] = field(default_factory=dict)

    async def seal(self, wanted: Intent) -> Batch:
        alone = Batch(key=wanted.batch, intents=(wanted,), questions=(question(wanted.ref.key),))
        sealed = await self.book.seal(alone)
        return Batch(key=wanted.batch, intents=(wanted,), questions=alone.questions, sealed=tuple(sealed))

    async def write(self, batch: Batch) -> Receipt:
        (receipt,) = await self.book.submit(batch)
        return receipt

    async def send(self, name: str, wanted: Order, key: str = "rain") -> Receipt:
        return await self.write(await self.seal(intent(name, wanted, key)))

    async def stands(self, name: str, key: str = "rain") -> Receipt:
        wanted = intent(name, order(), key)
        (receipt,) = await self.book.standing(Batch(key=name, intents=(wanted,), questions=()))
        return receipt

    async def cash(self) -> float:
        return (await self.book.account()).cash

    async def shares(self) -> dict[tuple[str, str], float]:
        return {(one.contract, one.leg.value): one.shares for one in (await self.book.account()).positions}

    async def faults(self) -> list[str]:
        return await self.book.file.writer.run(check.faults)


def moved(fills: tuple[Fill, ...]) -> float:
    return sum(one.cash for one in fills)


@asynccontextmanager
async def open_stall(
    folder: Path,
    market: MemoryMarket,
    *,
    redeems: bool = False,
    cash: float = 100.0,
    delay_s: float = 0.0,
) -> AsyncIterator[Stall]:
    clock = FakeClock()
    place = PaperPlace(clock=clock, http=DictHttp({}), folder=folder, cash=cash, delay_s=delay_s)
    async with open_book(place, market, BookTerms(currency=COINS, redeems=redeems)) as book:
        yield Stall(book, market, clock)
        assert await book.file.writer.run(check.faults) == []
