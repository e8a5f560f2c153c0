"""Moves as steps: never more of them than are allowed, none lost, and an error only after what came before it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.beliefs import Belief, ModelUsage, Step, StepAction, StepObservation
from bot.core.errors import ServiceUnavailableError
from bot.core.predictions import BinaryPrediction
from plugins.society.step_packing import SEVERAL_MOVES, join_steps, pack_steps


def move(number: int, *, final: bool = False) -> Step:
    return Step(
        action=StepAction(name="message", arguments={"step": number}),
        observation=StepObservation(text=f"said {number}", documents=("shared", f"own {number}")),
        belief=Belief(predictions={"outcome": BinaryPrediction(number / 100)}),
        usage=ModelUsage(calls=1, tokens_in=number),
        remarks=(f"remark {number}",),
        final=final,
    )


async def moves(count: int, *, then: Exception | None = None) -> AsyncGenerator[Step, None]:
    for number in range(1, count + 1):
        yield move(number, final=number == count and then is None)
    if then is not None:
        raise then


async def collected(stream: AsyncGenerator[Step, None], into: list[Step]) -> list[Step]:
    async with aclosing(stream) as steps:
        async for step in steps:
            into.append(step)  # noqa: PERF401 - those before an error count
    return into


def numbers(step: Step) -> list[object]:
    inside = step.action.arguments.get("moves")
    return [one["arguments"]["step"] for one in inside] if isinstance(inside, list) else [step.action.arguments["step"]]  # type: ignore[index, call-overload]


@settings(max_examples=40)
@given(planned=st.integers(1, 60), allowed=st.integers(1, 60))
async def test_every_move_has_its_place_in_at_most_so_many_steps(planned: int, allowed: int) -> None:
    steps = await collected(pack_steps(moves(planned), planned, allowed), [])
    assert len(steps) == min(planned, allowed)
    assert [number for step in steps for number in numbers(step)] == list(range(1, planned + 1))
    sizes = [len(numbers(step)) for step in steps]
    assert max(sizes) - min(sizes) <= 1
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    assert sum((step.usage for step in steps), ModelUsage()).tokens_in == planned * (planned + 1) // 2


def test_a_step_of_several_moves_says_all_that_they_said_and_believes_the_last() -> None:
    step = join_steps([move(1), move(2)])
    assert step.action.name == SEVERAL_MOVES
    assert step.observation == StepObservation(text="said 1\n\nsaid 2", documents=("shared", "own 1", "own 2"))
    assert (step.belief, step.remarks) == (move(2).belief, ("remark 1", "remark 2"))


async def test_an_error_comes_after_the_moves_before_it() -> None:
    steps: list[Step] = []
    with pytest.raises(ServiceUnavailableError, match="gone"):
        await collected(pack_steps(moves(3, then=ServiceUnavailableError("gone")), planned=9, allowed=2), steps)
    assert [numbers(step) for step in steps] == [[1, 2, 3]]
