"""Moves of a trial as steps of the engine: one each, or several in one if the engine allows fewer than there are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import reduce
from operator import add

from bot.api import FoxcastError, Json, ModelUsage, Step, StepAction, StepObservation

# The action of a step that holds several moves.
SEVERAL_MOVES = "proceedings"


async def pack_steps(moves: AsyncGenerator[Step, None], planned: int, allowed: int) -> AsyncGenerator[Step, None]:
    """Yield the moves as at most ``allowed`` steps, as even as can be; ``planned`` is how many moves there will be.

    Nothing is cut off: moves beyond the limit share a step with their neighbours, so that the last one is reached.
    An error of the moves is raised after the steps before it.
    """
    group: list[Step] = []
    made = 0
    failure: FoxcastError | None = None
    async with aclosing(_yield_error_last(moves)) as stream:
        async for move in stream:
            if isinstance(move, FoxcastError):
                failure = move
                continue
            group.append(move)
            made += 1
            if planned <= allowed or (made - 1) * allowed // planned != made * allowed // planned:
                yield join_steps(group)
                group = []
    if group:
        yield join_steps(group)
    if failure is not None:
        raise failure


async def _yield_error_last(moves: AsyncGenerator[Step, None]) -> AsyncGenerator[Step | FoxcastError, None]:
    """Yield the moves, and last the error that ended them, if one did."""
    async with aclosing(moves) as stream:
        try:
            async for move in stream:
                yield move
        except FoxcastError as error:
            yield error


def join_steps(moves: Sequence[Step]) -> Step:
    """Return one step that holds these moves; a single one is unchanged."""
    if len(moves) == 1:
        return moves[0]
    parts: list[Json] = [
        {"name": move.action.name, "arguments": dict(move.action.arguments), "text": move.observation.text}
        for move in moves
    ]
    return Step(
        action=StepAction(
            name=SEVERAL_MOVES, arguments={"did": ", ".join(_move_label(move.action) for move in moves), "moves": parts}
        ),
        observation=StepObservation(
            text="\n\n".join(move.observation.text for move in moves),
            documents=tuple(dict.fromkeys(one for move in moves for one in move.observation.documents)),
        ),
        belief=moves[-1].belief,
        usage=reduce(add, (move.usage for move in moves), ModelUsage()),
        final=moves[-1].final,
        remarks=tuple(remark for move in moves for remark in move.remarks),
    )


def _move_label(action: StepAction) -> str:
    arguments = action.arguments
    return f"{arguments.get('step', '')} {arguments.get('name', action.name)} {arguments.get('to', '')}".strip()
