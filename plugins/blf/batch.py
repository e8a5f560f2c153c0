"""The batch ablation: all searches in one move, then one answer, instead of one action after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from bot.api import SEARCH, Action, Course, Json, Move, Observation, Step, Tool, ToolResult, Usage, Way, submit_tool
from plugins.blf import wording
from plugins.blf.settings import BlfSettings


async def steps(course: Course, settings: BlfSettings, asked: str) -> AsyncGenerator[Step, None]:
    """Yield at most three steps: what the policy wants first, the searches, the answer."""
    submit = submit_tool(course.question, course.ballot, course.manner.submit_margin)
    searches = wording.batch_tool(settings)
    begin = 1
    searched = False
    led = await _lead(course, settings) if course.steps > 1 else None
    if led is not None:
        yield led
        begin, asked = 2, f"{asked}\n\n## What {led.action.name} brought\n{led.observation.text}"
    still = 2 if _first(course, settings) and not _can_search(course, settings) else 1
    course.steps = min(course.steps, begin + still)

    def offer(number: int) -> tuple[Tool, ...]:
        if number >= course.steps or searched:
            return (submit,)
        return (searches,) if _can_search(course, settings) else _first(course, settings) or (submit,)

    async def act(move: Move) -> ToolResult:
        nonlocal searched
        if move.name != searches.name:
            return await course.desk.use(move.name, move.arguments)
        searched = True
        return await _search_all(course, settings, move.arguments.get("queries"))

    await course.open(wording.system(course, settings), asked, wording.version(course.question, settings))
    tools = (*_first(course, settings), searches, submit)
    async with aclosing(course.walk(Way(offer=offer, act=act, tools=tools, repeats=None), begin=begin)) as stream:
        async for step in stream:
            yield step


async def _lead(course: Course, settings: BlfSettings) -> Step | None:
    """Use the tool that the policy wants first, where it needs nothing that a model would have to say."""
    first = _first(course, settings)
    if _can_search(course, settings) or not any(not tool.parameters.get("required") for tool in first):
        return None
    name = first[0].name
    result = await course.desk.use(name, {})
    course.seen_evidence = not result.failed
    return Step(
        action=Action(name=name),
        observation=result.observation,
        belief=course.state.belief,
        usage=result.usage,
    )


def _first(course: Course, settings: BlfSettings) -> tuple[Tool, ...]:
    return tuple(tool for tool in settings.allowed(course.desk.tools) if tool.name == course.desk.policy.first)


def _can_search(course: Course, settings: BlfSettings) -> bool:
    return any(tool.name == SEARCH for tool in settings.allowed(course.desk.tools))


async def _search_all(course: Course, settings: BlfSettings, raw: Json) -> ToolResult:
    queries = [query for query in raw if isinstance(query, str) and query] if isinstance(raw, list) else []
    if not queries:
        return ToolResult(observation=Observation(text="There was no query to search for."), failed=True)
    texts: list[str] = []
    documents: tuple[str, ...] = ()
    usage = Usage()
    failed = True
    for query in dict.fromkeys(queries[: settings.queries]):
        # The desk may run out of searches in between.
        if not _can_search(course, settings):
            texts.append(f"{query}: no search is left")
            continue
        result = await course.desk.use(SEARCH, {"query": query})
        texts.append(result.observation.text)
        documents += result.observation.documents
        usage += result.usage
        failed = failed and result.failed
        course.state = course.state.having_searched((query,))
    told = Observation(text="\n\n".join(texts), documents=documents)
    return ToolResult(observation=told, usage=usage, failed=failed)
