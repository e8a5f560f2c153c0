"""Do many small things side by side, so many at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from bot.clock import breathe

T = TypeVar("T")
R = TypeVar("R")


async def together(work: Callable[[T], Awaitable[R]], items: Sequence[T], *, places: int) -> list[R]:
    """Return the results in the order of the items; the first failure cancels the rest and is raised alone.

    It can be cancelled between two items even where none of them ever waits, so that Ctrl-C ends it soon.
    """
    free = asyncio.Semaphore(places)

    async def one(item: T) -> R:
        async with free:
            await breathe()
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
