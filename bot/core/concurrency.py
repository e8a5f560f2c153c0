"""Runs work concurrently, with or without a limit; the first failure cancels the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from bot.core.clock import yield_to_event_loop
from bot.core.errors import MalformedDataError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def reject_unrequested_cancellation(what: str) -> "CancellationGuard":
    """Return a block that raises MalformedDataError for a CancelledError of the code within that nobody asked for.

    As it is, it would end the task without a word, as if somebody had cancelled it.
    """
    return CancellationGuard(what)


class CancellationGuard:
    """The block of ``reject_unrequested_cancellation``."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        """Name the code within."""
        self._what = what

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the other error where nobody cancelled the task."""
        if not isinstance(error, asyncio.CancelledError):
            return
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            message = f"{self._what} raised CancelledError, and nobody cancelled it"
            raise MalformedDataError(message) from error


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """Return the results in the order of the coroutines; the first failure cancels the rest and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def map_concurrently(
    work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT], *, places: int
) -> list[ResultT]:
    """Run the work on each item, at most ``places`` at a time; results and failures as for ``gather_all``.

    It can be cancelled between two items even if none of them ever waits, so that Ctrl-C ends it soon.
    """
    slots = asyncio.Semaphore(places)

    async def run_item(item: ItemT) -> ResultT:
        async with slots:
            await yield_to_event_loop()
            return await work(item)

    return await gather_all(run_item(item) for item in items)
