"""The batch ablation: all searches in one move, then one answer, instead of one action after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from bot.api import Action, Json, Observation, Step, Tool, ToolResult, Usage
from plugins.blf import wording
from plugins.blf.course import SEARCH, Course, Way
from plugins.blf.dialects.move import Move


async def steps(course: Course, asked: str) -> AsyncGenerator[Step, None]:
    """Yield at most three steps: what the policy wants first, the searches, the answer."""
    submit = wording.submit_tool(course.question, course.settings, course.ballot)
    searches = wording.batch_tool(course.settings)
    begin = 1
    searched = False
    led = await _lead(course) if course.steps > 1 else None
    if led is not None:
        yield led
        begin, asked = 2, f"{asked}\n\n## What {led.action.name} brought\n{led.observation.text}"
    still = 2 if _first(course) and not _can_search(course) else 1
    course.steps = min(course.steps, begin + still)

    def offer(number: int) -> tuple[Tool, ...]:
        if number >= course.steps or searched:
            return (submit,)
        return (searches,) if _can_search(course) else _first(course) or (submit,)

    async def act(move: Move) -> ToolResult:
        nonlocal searched
        if move.name != searches.name:
            return await course.desk.use(move.name, move.arguments)
        searched = True
        return await _search_all(course, move.arguments.get("queries"))

    system = wording.system(course.question, course.settings, course.ballot, steps=course.steps)
    await course.open(system, asked, course.turn_line(begin, offer(begin)))
    async with aclosing(course.walk(Way(offer=offer, act=act), begin=begin)) as stream:
        async for step in stream:
            yield step


async def _lead(course: Course) -> Step | None:
    """Use the tool that the policy wants first, where it needs nothing that a model would have to say."""
    if _can_search(course) or not any(not tool.parameters.get("required") for tool in _first(course)):
        return None
    first = _first(course)[0].name
    result = await course.desk.use(first, {})
    return Step(
        action=Action(name=first),
        observation=result.observation,
        belief=course.state.belief,
        usage=result.usage,
    )


def _first(course: Course) -> tuple[Tool, ...]:
    return tuple(tool for tool in course.allowed() if tool.name == course.desk.policy.first)


def _can_search(course: Course) -> bool:
    return any(tool.name == SEARCH for tool in course.allowed())


async def _search_all(course: Course, raw: Json) -> ToolResult:
    queries = [query for query in raw if isinstance(query, str) and query] if isinstance(raw, list) else []
    if not queries:
        return ToolResult(observation=Observation(text="There was no query to search for."), failed=True)
    texts: list[str] = []
    documents: tuple[str, ...] = ()
    usage = Usage()
    for query in dict.fromkeys(queries[: course.settings.queries]):
        # The desk may run out of searches in between.
        if not _can_search(course):
            texts.append(f"{query}: no search is left")
            continue
        result = await course.desk.use(SEARCH, {"query": query})
        texts.append(result.observation.text)
        documents += result.observation.documents
        usage += result.usage
        course.state = course.state.having_searched((query,))
    return ToolResult(observation=Observation(text="\n\n".join(texts), documents=documents), usage=usage)
