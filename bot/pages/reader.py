"""Reading pages in child processes, so that a hostile page can end such a process and nothing else.

A page that ended one, or kept it busy until the end of its time, is known again by its bytes and not read a second
time: whoever offers it to many trials holds up the others once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from bot.domain.research import Fetched, Page
from bot.errors import ContractError, Unavailable
from bot.pages.worker import Broken, ReadLimits, Worker

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DEFAULT_LIMITS", "PageReader", "ReadLimits"]

DEFAULT_LIMITS = ReadLimits()


class PageReader:
    """Turns what was fetched into what a person would see of it; an async context manager."""

    def __init__(self, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.children)
        # The one that was used last is used next, so that a second one is started only for a second page at a time.
        self._idle = [Worker(limits) for _ in range(limits.children)]
        self._all = tuple(self._idle)
        self._in_line = 0
        self._broken: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the children; the next page would start a new one."""
        for worker in self._all:
            # A page that is being read ends with it, and gives up its turn.
            worker.kill()
        for _ in self._all:
            await self._turns.acquire()
        try:
            for worker in self._all:
                await worker.end()
        finally:
            for _ in self._all:
                self._turns.release()

    @property
    def process_id(self) -> int | None:
        """The number in the system of a child while there is one, for measuring it."""
        return next(iter(self.process_ids), None)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The numbers in the system of all children that there are."""
        return tuple(number for worker in self._all if (number := worker.process_id) is not None)

    async def read(self, fetched: Fetched) -> Page:
        """Return the page. Raises ContractError for one that cannot be read, Unavailable where too many wait."""
        shown = fetched.url.partition("?")[0]
        if self._in_line >= self._limits.waiting:
            message = f"{shown}: {self._in_line} pages are waiting to be read already"
            raise Unavailable(message)
        self._in_line += 1
        try:
            answer = await self._answer(fetched, shown)
        finally:
            self._in_line -= 1
        if (why := answer.get("error")) is not None:
            message = f"{shown}: the page could not be read: {why}"
            raise ContractError(message)
        return _page(fetched.url, answer)

    async def _answer(self, fetched: Fetched, shown: str) -> Mapping[str, Any]:
        name = hashlib.sha256(fetched.media_type.encode() + b"\n" + fetched.content).hexdigest()
        async with self._turns:
            # Asked only now: others with the same page may have stood before this one.
            if (why := self._broken.get(name)) is not None:
                message = f"{shown}: the page could not be read before, and is not tried again ({why})"
                raise ContractError(message)
            worker = self._idle.pop()
            try:
                return await worker.ask(fetched, shown)
            except Broken as error:
                self._remember(name, str(error).removeprefix(f"{shown}: "))
                raise
            finally:
                self._idle.append(worker)

    def _remember(self, name: str, why: str) -> None:
        self._broken[name] = why
        while len(self._broken) > self._limits.remembered:
            del self._broken[next(iter(self._broken))]


def _page(url: str, answer: Mapping[str, Any]) -> Page:
    try:
        moment = answer["published_at"]
        return Page(
            url=url,
            title=str(answer["title"]),
            text=str(answer["text"]),
            published_at=datetime.fromisoformat(moment) if moment is not None else None,
        )
    except (KeyError, TypeError, ValueError):
        message = f"{url.partition('?')[0]}: the page could not be read: its reader answered oddly"
        raise ContractError(message) from None
