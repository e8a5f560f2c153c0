"""A story of trading that can be taken up again wherever it ended, told by a process that kills itself on request.

As the outbox would: what has no answer is read back, and what is provably absent is sent again under another name.
"""

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

from bot.domain.order import Account, Leg, Order, Side
from bot.domain.resolution import Void
from bot.domain.submission import IntentState
from bot.paper import tickets
from bot.paper.book import BOOK_FILE, BookTerms, begun
from bot.paper.files import BookFile, open_file
from bot.paper.schema import MIGRATIONS
from bot.specs import PaperPlace
from bot.store.runs import Runs
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from bot.testing.paper import UNDONE, MemoryMarket
from tests.unit.paper.stall import COINS, Stall, order, outcome

T = TypeVar("T")

PLACES = ("before", "within", "after")
# Steps that are orders: the first rests in part, the third closes pairs, the last sells.
ORDERS = {
    "one": order(10.0, 0.5),
    "two": order(6.0, 0.5, contract="snow"),
    "three": order(5.0, 0.7, leg=Leg.NO),
    "four": order(3.0, 0.1, side=Side.SELL),
}


@dataclass
class Killing:
    """Writes like the other, but for one write at which this process ends: before it, within it, or after it."""

    inner: Runs
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
    market = MemoryMarket(prices={"rain": 0.4, "snow": 0.5}, size=7.0, rests=timedelta(hours=1))
    clock = FakeClock()
    here = PaperPlace(clock=clock, http=DictHttp({}), folder=folder, cash=100.0, delay_s=0.0)
    async with open_file(folder / BOOK_FILE, MIGRATIONS, now=clock.now()) as file:
        killing = Killing(file.writer, at, place)
        watched = BookFile(writer=killing, readers=file.readers)
        book = await begun(watched, here, market, BookTerms(currency=COINS, redeems=True))
        stall = Stall(book, market, clock)
        for name, wanted in ORDERS.items():
            key = "snow" if wanted.contract == "snow" else "rain"
            await _sent(stall, name, wanted, key)
            _say(name)
            if name == "one":
                await book.advance()
        await book.settle([outcome(1.0)])
        _say("paid")
        await book.settle([outcome(Void(UNDONE))])
        await book.settle([outcome(0.25), outcome(Void("off"), "snow")])
        _say("corrected")
        return await book.account(), killing.count


async def _sent(stall: Stall, name: str, wanted: Order, key: str) -> None:
    for number in range(1, 10):
        intent = f"{name} {number}"
        receipt = await stall.stands(intent, key)
        if receipt.state is IntentState.ACKED:
            return
        if await stall.book.file.writer.run(partial(tickets.get, intent=intent)) is None:
            receipt = await stall.send(intent, wanted, key)
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
