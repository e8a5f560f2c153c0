"""Trading on paper that can be resumed wherever it was killed, by a process that kills itself on request."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database

from bot.core.orders import Account, ContractSide, Order, OrderSide
from bot.core.outcomes import VoidOutcome
from bot.core.plugin_specs import PaperBookContext
from bot.core.submissions import IntentState
from bot.execution.paper import paper_orders
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS, BookDatabase, open_book_database
from bot.execution.paper.paper_book import PAPER_BOOK_FILE, PaperBookTerms, begin_paper_book
from bot.store.connections import TransactionRunner
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.paper_market import WITHDRAWN_REASON, FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import COINS, PaperBookFixture, order, outcome

T = TypeVar("T")

PLACES = ("before", "within", "after")
# Steps that are orders: the first rests in part, the third closes pairs, the last sells.
ORDERS = {
    "one": order(10.0, 0.5),
    "two": order(6.0, 0.5, contract="snow"),
    "three": order(5.0, 0.7, leg=ContractSide.NO),
    "four": order(3.0, 0.1, side=OrderSide.SELL),
}


@dataclass
class KillableRuns:
    """Writes like the other, but for one write at which this process ends: before it, within it, or after it."""

    inner: TransactionRunner
    at: int
    place: str
    count: int = 0

    async def run(self, work: Callable[[Database], T]) -> T:
        self.count += 1
        if self.count != self.at:
            return await self.inner.run(work)
        if self.place == "before":
            _end()
        if self.place == "within":
            await self.inner.run(lambda database: _ended(work(database)))
        done = await self.inner.run(work)
        _end()
        return done


async def tell(folder: Path, at: int = 0, place: str = "") -> tuple[Account, int]:
    """Tell the story from wherever it ended; return the account at its end, and how many writes that took."""
    market = FakePaperMarket(prices={"rain": 0.4, "snow": 0.5}, size=7.0, resting_time=timedelta(hours=1))
    clock = FakeClock()
    here = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=folder, cash=100.0, delay_s=0.0)
    async with open_book_database(folder / PAPER_BOOK_FILE, PAPER_BOOK_MIGRATIONS, now=clock.now()) as file:
        killing = KillableRuns(file.writer, at, place)
        watched = BookDatabase(writer=killing, readers=file.readers)
        book = await begin_paper_book(watched, here, market, PaperBookTerms(currency=COINS, redeems=True))
        paper = PaperBookFixture(book, market, clock)
        for name, wanted in ORDERS.items():
            key = "snow" if wanted.contract == "snow" else "rain"
            await _sent(paper, name, wanted, key)
            _say(name)
            if name == "one":
                await book.advance()
        await book.settle([outcome(1.0)])
        _say("paid")
        await book.settle([outcome(VoidOutcome(WITHDRAWN_REASON))])
        await book.settle([outcome(0.25), outcome(VoidOutcome("off"), "snow")])
        _say("corrected")
        return await book.account(), killing.count


async def _sent(paper: PaperBookFixture, name: str, wanted: Order, key: str) -> None:
    for number in range(1, 10):
        intent = f"{name} {number}"
        receipt = await paper.stands(intent, key)
        if receipt.state is IntentState.ACKED:
            return
        if await paper.book.database.writer.run(partial(paper_orders.find_order, intent=intent)) is None:
            receipt = await paper.send(intent, wanted, key)
            assert receipt.state is IntentState.ACKED, receipt
            return


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def _ended(_done: object) -> None:
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Fork a teller for each line ``folder number place``: a kill then costs no start of Python."""
    for line in sys.stdin:
        folder, at, place = line.split()
        child = os.fork()
        if child == 0:
            with suppress(BrokenPipeError):
                asyncio.run(tell(Path(folder), int(at), place))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
