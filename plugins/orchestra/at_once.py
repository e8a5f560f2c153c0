"""Several pieces of work at once: the first that fails ends them all, and comes through as itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from bot.api import FoxcastError

T = TypeVar("T")


async def at_once(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what each of them returns, in their order."""
    try:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(work) for work in works]
    except ExceptionGroup as found:
        # What is no fault of a model: of the store, of a replay, of this code. It ends the trial as it is.
        known = [error for error in found.exceptions if isinstance(error, FoxcastError)]
        raise (known or found.exceptions)[0] from found
    return [task.result() for task in made]
