"""Moves as steps: never more of them than are allowed, none lost, and an error only after what came before it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.belief import Belief
from bot.domain.prediction import Binary
from bot.domain.step import Action, Observation, Step, Usage
from bot.errors import Unavailable
from plugins.society.pacing import SEVERAL, joined, paced, together


def move(number: int, *, final: bool = False) -> Step:
    return Step(
        action=Action(name="message", arguments={"step": number}),
        observation=Observation(text=f"said {number}", documents=("shared", f"own {number}")),
        belief=Belief(predictions={"outcome": Binary(number / 100)}),
        usage=Usage(calls=1, tokens_in=number),
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
    steps = await collected(paced(moves(planned), planned, allowed), [])
    assert len(steps) == min(planned, allowed)
    assert [number for step in steps for number in numbers(step)] == list(range(1, planned + 1))
    sizes = [len(numbers(step)) for step in steps]
    assert max(sizes) - min(sizes) <= 1
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    assert sum((step.usage for step in steps), Usage()).tokens_in == planned * (planned + 1) // 2


def test_a_step_of_several_moves_says_all_that_they_said_and_believes_the_last() -> None:
    step = joined([move(1), move(2)])
    assert step.action.name == SEVERAL
    assert step.observation == Observation(text="said 1\n\nsaid 2", documents=("shared", "own 1", "own 2"))
    assert (step.belief, step.remarks) == (move(2).belief, ("remark 1", "remark 2"))


async def test_an_error_comes_after_the_moves_before_it() -> None:
    steps: list[Step] = []
    with pytest.raises(Unavailable, match="gone"):
        await collected(paced(moves(3, then=Unavailable("gone")), planned=9, allowed=2), steps)
    assert [numbers(step) for step in steps] == [[1, 2, 3]]


async def test_where_one_of_several_fails_none_of_the_others_goes_on() -> None:
    ended: list[str] = []
    gone = Unavailable("gone")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise gone

    with pytest.raises(Unavailable, match="gone"):
        await together([waits(), fails()])
    assert ended == ["waits"]
