"""Moves of a trial as steps of the engine: one each, or several in one where the engine allows fewer than there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import aclosing
from functools import reduce
from operator import add
from typing import Any, TypeVar

from bot.api import Action, FoxcastError, Json, Observation, Step, Usage

T = TypeVar("T")

# The action of a step that holds several moves.
SEVERAL = "proceedings"


async def paced(moves: AsyncGenerator[Step, None], planned: int, allowed: int) -> AsyncGenerator[Step, None]:
    """Yield the moves as at most ``allowed`` steps, as even as can be; ``planned`` is how many moves there will be.

    Nothing is cut off: what would not fit shares a step with its neighbours, so that the last one is always reached.
    An error of the moves is raised after the steps before it.
    """
    group: list[Step] = []
    made = 0
    failure: FoxcastError | None = None
    async with aclosing(_to_the_end(moves)) as stream:
        async for move in stream:
            if isinstance(move, FoxcastError):
                failure = move
                continue
            group.append(move)
            made += 1
            if planned <= allowed or (made - 1) * allowed // planned != made * allowed // planned:
                yield joined(group)
                group = []
    if group:
        yield joined(group)
    if failure is not None:
        raise failure


async def _to_the_end(moves: AsyncGenerator[Step, None]) -> AsyncGenerator[Step | FoxcastError, None]:
    """Yield the moves, and last the error that ended them, if one did."""
    async with aclosing(moves) as stream:
        try:
            async for move in stream:
                yield move
        except FoxcastError as error:
            yield error


def joined(moves: Sequence[Step]) -> Step:
    """Return one step that holds these moves; a single one stays what it is."""
    if len(moves) == 1:
        return moves[0]
    told: list[Json] = [
        {"name": move.action.name, "arguments": dict(move.action.arguments), "text": move.observation.text}
        for move in moves
    ]
    return Step(
        action=Action(name=SEVERAL, arguments={"did": ", ".join(_name(move.action) for move in moves), "moves": told}),
        observation=Observation(
            text="\n\n".join(move.observation.text for move in moves),
            documents=tuple(dict.fromkeys(one for move in moves for one in move.observation.documents)),
        ),
        belief=moves[-1].belief,
        usage=reduce(add, (move.usage for move in moves), Usage()),
        final=moves[-1].final,
        remarks=tuple(remark for move in moves for remark in move.remarks),
    )


def _name(action: Action) -> str:
    told = action.arguments
    return f"{told.get('step', '')} {told.get('name', action.name)} {told.get('to', '')}".strip()


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once and return what they gave, in order; where one fails, none goes on."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
