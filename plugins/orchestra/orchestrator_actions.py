"""The orchestrator's side of a trial: what it may call now, and the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from bot.api import (
    SUBMIT,
    BeliefLoop,
    Json,
    LoopTurn,
    ModelAction,
    ModelUsage,
    Step,
    StepAction,
    StepObservation,
    ToolDefinition,
    ToolResult,
    UnreadableAnswer,
    submit_tool,
)
from plugins.orchestra import lessons, shared_memory
from plugins.orchestra.critic import CRITIC_ROLE, OrchestraCritic
from plugins.orchestra.lessons import ForecastLesson
from plugins.orchestra.orchestrator_tools import (
    ANSWER_CHARS,
    ANSWER_TOOL,
    BATCH_TOOL,
    LESSON_CHARS,
    LESSONS_TOOL,
    MOST_RUNS,
    NOTE_TOOL,
    PARALLEL_TOOL,
    RUN_TOOL,
    SUBAGENTS_TOOL,
    SubagentQuery,
    orchestrator_tools,
)
from plugins.orchestra.subagent_pool import CREATE_TOOL, ORCHESTRATOR, TASK_CHARS, SubagentPool
from plugins.orchestra.subagent_run import OrchestraContext, RunEnd, SubagentProfile, SubagentRun
from plugins.orchestra.tool_schemas import read_enum, require_text

# A request for guidance stays open for this many actions of the orchestrator that do not answer it.
GUIDANCE_PATIENCE = 2
# Actions as large as the last one that must still fit into the trial's own limit of tokens: the present one, which is
# not counted yet, the submission, and the growth of prompts.
MOVES_AHEAD = 4


@dataclass(slots=True, kw_only=True)
class OrchestratorActions:
    """Offers the orchestrator its tools and runs its actions.

    ``lessons`` are the available lessons. ``pass_on_step`` passes on a turn of a subagent as a step; without it
    their turns are part of the orchestrator's own step. ``tokens`` are those of the trial so far.
    """

    context: OrchestraContext
    loop: BeliefLoop
    pool: SubagentPool
    critic: OrchestraCritic
    lessons: Sequence[ForecastLesson] = ()
    pass_on_step: Callable[[Step], Awaitable[None]] | None = None
    tokens: int = 0
    notes_written: int = 0
    _last: int = 0
    _within: int = 0
    _ignored: dict[int, int] = field(default_factory=dict)
    tools: tuple[ToolDefinition, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Make the tools once: all that the orchestrator will ever be offered, submitting last."""
        submit = submit_tool(self.context.question, self.loop.answer_format, self.context.answer_settings.submit_margin)
        desk = self.context.all_tools() if self.context.settings.orchestrator_tools else []
        self.tools = (self.pool.create_tool(), *orchestrator_tools(), *desk, submit)

    @property
    def is_enough(self) -> bool:
        """Whether only submitting remains: enough forecasts were reported, or the tokens of the trial run out."""
        limit = self.context.context.limits.tokens
        nearly = limit is not None and self.tokens + MOVES_AHEAD * self._last > limit
        return nearly or self.pool.forecasts >= self.context.settings.max_forecast_reports

    def offer(self, number: int) -> tuple[ToolDefinition, ...]:
        """Return what the orchestrator may call at a step."""
        if number >= self.loop.steps or self.is_enough:
            return self.tools[-1:]
        now = {tool.name for tool in self.context.tools()} if self.context.settings.orchestrator_tools else set[str]()
        now |= {SUBMIT, *([CREATE_TOOL] if self.pool.can_create and self.pool.turns_left else [])}
        now |= {tool.name for tool in orchestrator_tools() if self._makes_sense(tool.name)}
        return tuple(tool for tool in self.tools if tool.name in now)

    def is_evidence(self, move: ModelAction, result: ToolResult) -> bool:
        """Return whether an action brought evidence: a tool of the trial did, or a subagent has reported."""
        by_hand = any(tool.name == move.name for tool in self.context.all_tools())
        reported = any(run.report is not None for run in self.pool.runs)
        return not result.failed and (by_hand or reported)

    def budget_text(self, _number: int) -> str:
        """Return the line that says what is left of each budget."""
        pool, settings = self.pool, self.context.settings
        return (
            f"Left for subagents: {settings.subagents - pool.created} to make, {pool.turns_left} moves, "
            f"{pool.tokens_left} tokens. Forecasts reported: {pool.forecasts} of {settings.max_forecast_reports}."
        )

    def count(self, step: Step) -> None:
        """Count the usage of a step of the orchestrator; turns of subagents in it are counted already."""
        self._last = _count_tokens(step.usage) - self._within
        self.tokens += self._last
        self._within = 0

    async def act(self, move: ModelAction) -> ToolResult:
        """Run the orchestrator's action; a mistake in it gives a failed result."""
        self.context.moves += 1
        # A model that answers one of them, or tries to, has not forgotten the others.
        waiting = [] if move.name == ANSWER_TOOL else self.pool.waiting
        try:
            result = await self._done(move)
        except UnreadableAnswer as error:
            text = f"{move.name} was not done: {error}"
            result = ToolResult(observation=StepObservation(text=text), failed=True)
        late = [run for run in waiting if run.end is RunEnd.WAITING and self._loses_patience(run)]
        for run in late:
            run.resume(None)
        return _join_results(result, await self._carry_out(late)) if late else result

    async def _done(self, move: ModelAction) -> ToolResult:
        works: Mapping[str, Callable[[Mapping[str, Json]], Awaitable[ToolResult]]] = {
            CREATE_TOOL: self._create,
            RUN_TOOL: self._run,
            PARALLEL_TOOL: self._parallel,
            BATCH_TOOL: self._batch,
            SUBAGENTS_TOOL: self._look,
            ANSWER_TOOL: self._answer,
            CRITIC_ROLE: self.critic.ask_critic,
            LESSONS_TOOL: self._lessons,
            NOTE_TOOL: self._keep,
            shared_memory.MEMORY_TOOL: self._memory,
        }
        work = works.get(move.name)
        return await self.loop.use_tool(move) if work is None else await work(move.arguments)

    async def _create(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.pool.create(arguments)
        return _text_result(f"{agent.name} is there: {_describe_limits(agent)}.")

    async def _run(self, arguments: Mapping[str, Json]) -> ToolResult:
        return await self._carry_out([self._start_run(dict(arguments))])

    async def _parallel(self, arguments: Mapping[str, Json]) -> ToolResult:
        jobs = _read_list(arguments, "runs")
        names = [self._checked(job)[0].name for job in jobs]
        if len(set(names)) < len(names):
            message = f"each of the runs needs a subagent of its own; {BATCH_TOOL} runs one on several tasks"
            raise UnreadableAnswer(message)
        return await self._carry_out([self._start_run(job) for job in jobs])

    async def _batch(self, arguments: Mapping[str, Json]) -> ToolResult:
        tasks = [{"name": arguments.get("name"), "task": task} for task in _read_list(arguments, "tasks")]
        for task in tasks:
            self._checked(task)
        result = await self._carry_out([self._start_run(tasks[0])])
        for task in tasks[1:]:
            # It waits for guidance, or the common budget is used up.
            if self.pool.waiting or not self.pool.can_run:
                return _join_results(
                    result, _text_result(f"{len(tasks) - tasks.index(task)} of the tasks were not begun.")
                )
            result = _join_results(result, await self._carry_out([self._start_run(task)]))
        return result

    async def _look(self, arguments: Mapping[str, Json]) -> ToolResult:
        operation = read_enum(SubagentQuery, arguments.get("operation"), "operation")
        if operation is SubagentQuery.LIST:
            return _text_result("\n".join(self._status(agent) for agent in self.pool.agents.values()))
        agent = self.pool.agent(arguments.get("name"))
        if operation is SubagentQuery.STATUS:
            runs = [run.result_text() for run in self.pool.runs if run.agent is agent]
            return _text_result("\n".join([self._status(agent), *runs]))
        self.pool.delete(agent)
        return _text_result(f"{agent.name} is gone.")

    async def _answer(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.pool.agent(arguments.get("name"))
        run = next((run for run in self.pool.waiting if run.agent is agent), None)
        if run is None:
            message = f"{agent.name} did not ask"
            raise UnreadableAnswer(message)
        run.resume(require_text(arguments, "answer", ANSWER_CHARS))
        return await self._carry_out([run])

    async def _lessons(self, arguments: Mapping[str, Json]) -> ToolResult:
        found = lessons.search_lessons(
            self.lessons, require_text(arguments, "text", LESSON_CHARS), self.context.settings.lessons_shown
        )
        return _text_result(lessons.lessons_text(found) if found else "no lesson has these words")

    async def _keep(self, arguments: Mapping[str, Json]) -> ToolResult:
        require_text(arguments, "text", LESSON_CHARS)
        self.notes_written += 1
        return _text_result("written down")

    async def _memory(self, arguments: Mapping[str, Json]) -> ToolResult:
        return self.context.memory.use(ORCHESTRATOR, arguments, step=self.context.moves)

    async def _carry_out(self, runs: Sequence[SubagentRun]) -> ToolResult:
        """Carry out runs and return their results; their turns are passed on, or counted with this result."""
        usage, documents = ModelUsage(), list[str]()
        async with aclosing(self.pool.carry_out(runs)) as turns:
            async for run, turn in turns:
                step = self._step(run, turn)
                self.tokens += _count_tokens(step.usage)
                if self.pass_on_step is not None:
                    await self.pass_on_step(step)
                else:
                    self._within += _count_tokens(step.usage)
                    usage += step.usage
                    documents += step.observation.documents
        text = "\n\n".join(run.result_text() for run in runs)
        return ToolResult(observation=StepObservation(text=text, documents=tuple(documents)), usage=usage)

    def _step(self, run: SubagentRun, turn: LoopTurn) -> Step:
        """Return a turn of a subagent as a step of the trial: the belief is the orchestrator's."""
        name = run.agent.name
        valid = turn.action if turn.failure is None else None
        arguments = {**(valid.arguments if valid else {"why": run.why}), "agent": name}
        over = (f"{name} {run.end} after {run.usage_text}",) if run.end is not RunEnd.NOT else ()
        return Step(
            action=StepAction(name=valid.name if valid else "stop", arguments=arguments),
            observation=StepObservation(text=turn.reply or run.result_text(), documents=turn.turn_result.documents),
            belief=self.loop.state.belief,
            usage=turn.turn_result.usage,
            remarks=(*turn.notes, *over),
        )

    def _start_run(self, job: Json) -> SubagentRun:
        agent, task = self._checked(job)
        return self.pool.start(agent, task)

    def _checked(self, job: Json) -> tuple[SubagentProfile, str]:
        given = job if isinstance(job, Mapping) else {}
        return self.pool.idle_agent(given.get("name")), require_text(given, "task", TASK_CHARS)

    def _status(self, agent: SubagentProfile) -> str:
        runs = [run for run in self.pool.runs if run.agent is agent]
        went = "; ".join(f"run {number}: {run.end}" for number, run in enumerate(runs, start=1)) or "not run yet"
        return f"{agent.name}: {_describe_limits(agent)}. {went}"

    def _makes_sense(self, name: str) -> bool:
        pool, settings = self.pool, self.context.settings
        sense = {
            RUN_TOOL: pool.can_run,
            BATCH_TOOL: pool.can_run,
            PARALLEL_TOOL: pool.can_run and len(pool.agents) > 1 and settings.concurrency > 1,
            SUBAGENTS_TOOL: bool(pool.agents),
            ANSWER_TOOL: bool(pool.waiting),
            CRITIC_ROLE: self.critic.is_left,
            LESSONS_TOOL: bool(self.lessons),
            NOTE_TOOL: settings.lessons,
        }
        return sense.get(name, True)

    def _loses_patience(self, run: SubagentRun) -> bool:
        self._ignored[id(run)] = self._ignored.get(id(run), 0) + 1
        return self._ignored[id(run)] >= GUIDANCE_PATIENCE


def _describe_limits(agent: SubagentProfile) -> str:
    tools = ", ".join(agent.tools) or "no tools of the desk"
    return f"{agent.kind.name}, {tools}, {agent.steps} moves and {agent.tokens} tokens for each run"


def _count_tokens(usage: ModelUsage) -> int:
    return usage.tokens_in + usage.tokens_out


def _read_list(arguments: Mapping[str, Json], name: str) -> list[Json]:
    given = arguments.get(name)
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_RUNS:
        message = f"{name} should be a list of 1 to {MOST_RUNS}"
        raise UnreadableAnswer(message)
    return given


def _text_result(text: str) -> ToolResult:
    return ToolResult(observation=StepObservation(text=text))


def _join_results(first: ToolResult, second: ToolResult) -> ToolResult:
    text = f"{first.observation.text}\n\n{second.observation.text}"
    documents = (*first.observation.documents, *second.observation.documents)
    return replace(first, observation=StepObservation(text=text, documents=documents), usage=first.usage + second.usage)
