"""A price feed in memory: what is quoted is whatever the test says."""

import asyncio
from collections.abc import AsyncIterator, Collection

from bot.domain.question import QuestionRef
from bot.domain.research import Quote


class MemoryFeed:
    """Implements the port PriceFeed; ``opened`` is what it was asked for, in that order, one entry an opening.

    It quotes what ``say`` is told, wanted or not, and raises what ``fail`` is told; both also when nobody listens yet.
    """

    def __init__(self) -> None:
        self.opened: list[tuple[QuestionRef, ...]] = []
        self.listening = 0
        self._items: asyncio.Queue[Quote | Exception | None] = asyncio.Queue()

    def say(self, *quotes: Quote) -> None:
        """Quote prices."""
        for quote in quotes:
            self._items.put_nowait(quote)

    def fail(self, error: Exception) -> None:
        """End what is open with an error."""
        self._items.put_nowait(error)

    def end(self) -> None:
        """End what is open without a word."""
        self._items.put_nowait(None)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        self.opened.append(tuple(refs))
        self.listening += 1
        try:
            while (item := await self._items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.listening -= 1
