"""Work at the same time, all of it or so much at once; the first failure ends the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from bot.core.clock import yield_to_event_loop

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def gather_all(works: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """Return the results in the order of the works; the first failure cancels the rest and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def map_concurrently(
    work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT], *, places: int
) -> list[ResultT]:
    """Run the work on each item, on at most ``places`` of them at once; results and failures as ``gather_all``.

    It can be cancelled between two items even where none of them ever waits, so that Ctrl-C ends it soon.
    """
    free = asyncio.Semaphore(places)

    async def one(item: ItemT) -> ResultT:
        async with free:
            await yield_to_event_loop()
            return await work(item)

    return await gather_all(one(item) for item in items)
