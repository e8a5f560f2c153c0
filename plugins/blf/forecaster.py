"""BLF (arXiv 2604.18576v3): a model that works in steps, states its belief at each of them, and submits.

Also its batch mode (all searches at once), and the bypass that submits the estimate of a statistical tool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from bot.api import (
    SEARCH_TOOL,
    SUBMIT,
    AnswerFormat,
    BeliefLoop,
    BeliefState,
    BinaryShape,
    ConfigError,
    Json,
    LoopSettings,
    MalformedDataError,
    ModelAction,
    ModelUsage,
    PluginContext,
    Question,
    SourcePolicy,
    StartingPoint,
    Step,
    StepAction,
    StepObservation,
    ToolDefinition,
    ToolResult,
    TrialContext,
    UnreadableAnswer,
    create_answer_format,
    create_belief_loop,
    derive_seed,
    initial_belief_state,
    narrow_margins,
    open_session,
    question_text,
    submit_tool,
    text_result,
)
from plugins.blf import prompt_texts
from plugins.blf.base_rates import choose_starting_point, trial_prior
from plugins.blf.settings import PAGE_TOOL_PREFIX, BlfSettings, EarlyStopMode, SearchMode, ZeroShotMode


def bypass_applies(question: Question, policy: SourcePolicy, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the policy answers this question by its first tool, and that tool is available."""
    return policy.bypass and policy.first in {tool.name for tool in tools} and isinstance(question.shape, BinaryShape)


async def run_bypass(
    question: Question, context: TrialContext, settings: BlfSettings, anchor: StartingPoint
) -> AsyncGenerator[Step, None]:
    """Yield the use of the tool, then the submission of its estimate.

    Raises MalformedDataError after the first step where the tool gave none: the prior of the trial is no answer.
    """
    manner = narrow_margins(question, anchor, settings.answer_settings)
    ballot = create_answer_format(question, manner, percent=False)
    state = initial_belief_state(anchor, question, ballot, manner.step_margin)
    tool = context.policy.first or ""
    result = await context.use_tool(tool, {})
    why = ""
    try:
        state = _apply_estimate(state, result, ballot, manner.submit_margin, tool)
    except MalformedDataError as error:
        why = str(error)
    one = not why and min(settings.steps, context.limits.steps) == 1
    yield Step(
        action=StepAction(name=tool),
        observation=replace(result.observation, text="\n".join(filter(None, (result.observation.text, why)))),
        belief=state.belief,
        usage=result.usage,
        final=one,
    )
    if why:
        raise MalformedDataError(why)
    if not one:
        submitted = StepObservation(text=f"submitted {ballot.format(state.predictions)}, as {tool} has it")
        yield Step(action=StepAction(name=SUBMIT), observation=submitted, belief=state.belief, final=True)


def _apply_estimate(
    state: BeliefState, result: ToolResult, ballot: AnswerFormat, margin: float, tool: str
) -> BeliefState:
    """Return the state with the estimate of the tool; raises MalformedDataError where there is none."""
    given: Json = result.data.get("probabilities") if isinstance(result.data, dict) else None
    if result.failed or not isinstance(given, dict):
        message = f"{tool} gave no estimate, so the question has no answer"
        raise MalformedDataError(message)
    try:
        predictions = ballot.clamp(ballot.read({"probabilities": given}), margin)
    except UnreadableAnswer as error:
        message = f"{tool} gave no usable estimate ({error}), so the question has no answer"
        raise MalformedDataError(message) from error
    anchor, reason = f"the estimate of {tool}", f"{tool} says so"
    return replace(state, predictions=predictions, anchor=anchor, reason=reason, stated=True, informed=True)


async def run_batch(loop: BeliefLoop, settings: BlfSettings, asked: str) -> AsyncGenerator[Step, None]:
    """Yield at most three steps: the first tool of the policy, the searches, the answer."""
    submit = submit_tool(loop.question, loop.answer_format, loop.settings.submit_margin)
    searches = prompt_texts.batch_tool(settings)
    begin = 1
    searched = False
    led = await _use_first_tool(loop, settings) if loop.steps > 1 else None
    if led is not None:
        yield led
        begin, asked = 2, f"{asked}\n\n## What {led.action.name} brought\n{led.observation.text}"
    still = 2 if _first_tools(loop, settings) and not _can_search(loop, settings) else 1
    loop.steps = min(loop.steps, begin + still)

    def offer(number: int) -> tuple[ToolDefinition, ...]:
        if number >= loop.steps or searched:
            return (submit,)
        return (searches,) if _can_search(loop, settings) else _first_tools(loop, settings) or (submit,)

    async def act(move: ModelAction) -> ToolResult:
        nonlocal searched
        if move.name != searches.name:
            return await loop.context.use_tool(move.name, move.arguments)
        searched = True
        return await _search_all(loop, settings, move.arguments.get("queries"))

    await loop.begin(
        prompt_texts.system_prompt(loop, settings), asked, prompt_texts.prompt_version(loop.question, settings)
    )
    tools = (*_first_tools(loop, settings), searches, submit)
    async with aclosing(loop.run(LoopSettings(offer=offer, act=act, tools=tools, repeats=None), begin=begin)) as stream:
        async for step in stream:
            yield step


async def _use_first_tool(loop: BeliefLoop, settings: BlfSettings) -> Step | None:
    """Use the first tool of the policy, where it needs no arguments from a model."""
    first = _first_tools(loop, settings)
    if _can_search(loop, settings) or not any(not tool.parameters.get("required") for tool in first):
        return None
    name = first[0].name
    result = await loop.context.use_tool(name, {})
    loop.seen_evidence = not result.failed
    return Step(
        action=StepAction(name=name),
        observation=result.observation,
        belief=loop.state.belief,
        usage=result.usage,
    )


def _first_tools(loop: BeliefLoop, settings: BlfSettings) -> tuple[ToolDefinition, ...]:
    return tuple(tool for tool in settings.allowed_tools(loop.context.tools) if tool.name == loop.context.policy.first)


def _can_search(loop: BeliefLoop, settings: BlfSettings) -> bool:
    return any(tool.name == SEARCH_TOOL for tool in settings.allowed_tools(loop.context.tools))


async def _search_all(loop: BeliefLoop, settings: BlfSettings, raw: Json) -> ToolResult:
    queries = [query for query in raw if isinstance(query, str) and query] if isinstance(raw, list) else []
    if not queries:
        return text_result("There was no query to search for.", failed=True)
    texts: list[str] = []
    documents: tuple[str, ...] = ()
    usage = ModelUsage()
    failed = True
    for query in dict.fromkeys(queries[: settings.queries]):
        # The trial may run out of searches in between.
        if not _can_search(loop, settings):
            texts.append(f"{query}: no search is left")
            continue
        result = await loop.context.use_tool(SEARCH_TOOL, {"query": query})
        texts.append(result.observation.text)
        documents += result.observation.documents
        usage += result.usage
        failed = failed and result.failed
        loop.state = loop.state.add_searches((query,))
    observation = StepObservation(text="\n\n".join(texts), documents=documents)
    return ToolResult(observation=observation, usage=usage, failed=failed)


MAIN_ROLE = "main"


class BlfForecaster:
    """Implements Forecaster. The whole state of a trial is in its stream."""

    def __init__(self, settings: BlfSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step per action; raises after the last one where the trial did not submit.

        Raises ConfigError before any step where no model plays the role main, or where a tool is named that reads pages
        of a source that is not configured.
        """
        settings = self.settings
        _require_page_tools(context, settings)
        anchor = choose_starting_point(question, context, settings)
        if bypass_applies(question, context.policy, settings.allowed_tools(context.tools)):
            passed = run_bypass(question, context, settings, anchor)
        else:
            session = open_session(context, MAIN_ROLE, seed=derive_seed(context, "seed"), folder=settings.prompts)
            manner = narrow_margins(question, anchor, settings.answer_settings)
            loop = create_belief_loop(question, session, anchor, steps=settings.most_steps, settings=manner)
            asked = _question_prompt(loop, anchor, settings)
            is_batch = settings.mode is SearchMode.BATCH and settings.zero_shot is ZeroShotMode.OFF
            passed = run_batch(loop, settings, asked) if is_batch else await _begin_sequential(loop, settings, asked)
        prior = trial_prior(anchor)
        async with aclosing(passed) as stream:
            async for step in stream:
                yield step if prior is None else replace(step, prior=prior)
                prior = None


@asynccontextmanager
async def open_blf(settings: BlfSettings, _place: PluginContext) -> AsyncIterator[BlfForecaster]:
    """Open BLF; it holds no connection: models and tools come from the trial context."""
    yield BlfForecaster(settings)


def _question_prompt(loop: BeliefLoop, anchor: StartingPoint, settings: BlfSettings) -> str:
    context = loop.context
    return question_text(
        loop.question,
        loop.answer_format,
        anchor,
        cutoff=context.cutoff,
        crowd=settings.crowd,
        advice=context.policy.advice,
        folder=settings.prompts,
    )


async def _begin_sequential(loop: BeliefLoop, settings: BlfSettings, asked: str) -> AsyncGenerator[Step, None]:
    """Begin the conversation and return its steps."""
    submit = submit_tool(loop.question, loop.answer_format, loop.settings.submit_margin)

    def offer(number: int) -> tuple[ToolDefinition, ...]:
        if number >= loop.steps or _has_settled(loop, settings):
            return (submit,)
        return (*settings.allowed_tools(loop.context.tools), submit)

    await loop.begin(
        prompt_texts.system_prompt(loop, settings), asked, prompt_texts.prompt_version(loop.question, settings)
    )
    tools = (*settings.allowed_tools(loop.context.all_tools), submit)
    return loop.run(LoopSettings(offer=offer, act=loop.use_tool, tools=tools, repeats=None))


def _has_settled(loop: BeliefLoop, settings: BlfSettings) -> bool:
    """Return whether the last actions together moved the answer by less than another action is worth."""
    if settings.early_stop is not EarlyStopMode.FORCED:
        return False
    moved = loop.recent_shift(settings.early_stop_after)
    return moved is not None and moved < settings.early_stop_shift


def _require_page_tools(context: TrialContext, settings: BlfSettings) -> None:
    policy = context.policy
    # Where the policy withholds tools, a tool that is not offered proves nothing.
    if settings.tools is None or policy.tools is not None or policy.first is not None:
        return
    there = [tool.name for tool in context.tools]
    if missing := [name for name in settings.tools if name.startswith(PAGE_TOOL_PREFIX) and name not in there]:
        pages = (
            ", ".join(name for name in there if name.startswith(PAGE_TOOL_PREFIX))
            or "none that reads pages of a source"
        )
        message = f"the setting tools names {', '.join(missing)}, which is not available here; there is {pages}"
        raise ConfigError(message)
