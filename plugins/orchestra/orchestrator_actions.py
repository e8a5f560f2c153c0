"""The orchestrator's side of a trial: what it may call now, and the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache

from bot.api import (
    CRITIC_ROLE,
    LESSON_ACTION,
    SUBMIT,
    BeliefLoop,
    ForecastCritic,
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
    answer_tool,
    object_schema,
    read_word,
    require_text,
    submit_tool,
    text_field,
    text_result,
    word_field,
)
from plugins.orchestra import lessons, shared_memory
from plugins.orchestra.lessons import ForecastLesson
from plugins.orchestra.shared_memory import NAME_CHARS, memory_tool
from plugins.orchestra.subagent_pool import CREATE_TOOL, ORCHESTRATOR, TASK_CHARS, SubagentPool
from plugins.orchestra.subagent_run import MADE_BY, OrchestraContext, RunEnd, SubagentProfile, SubagentRun

RUN_TOOL, SUBAGENTS_TOOL, GUIDANCE_ANSWER_TOOL = "run_subagents", "subagents", "answer_guidance"
CRITIC_TOOL, LESSONS_TOOL, NOTE_TOOL = CRITIC_ROLE, "lessons", LESSON_ACTION
# Runs that one action may begin.
MOST_RUNS = 10
# A model that asks for more second opinions than these avoids deciding.
MAX_CRITIQUES = 3
DRAFT_CHARS = 2500
ANSWER_CHARS = 1000
LESSON_CHARS = 600
# A request for guidance stays open for this many actions of the orchestrator that do not answer it.
GUIDANCE_PATIENCE = 2
# Actions as large as the last one that must still fit into the trial's own limit of tokens: the present one, which is
# not counted yet, the submission, and the growth of prompts.
MOVES_AHEAD = 4


class SubagentQuery(StrEnum):
    """The operations on subagents besides making and running them."""

    LIST = "list"
    STATUS = "status"
    DELETE = "delete"


@dataclass(slots=True, kw_only=True)
class OrchestratorActions:
    """Offers the orchestrator its tools and runs its actions.

    ``lessons`` are the available lessons. ``pass_on_step`` passes on a turn of a subagent as a step of the trial.
    ``tokens`` are those of the trial so far.
    """

    context: OrchestraContext
    loop: BeliefLoop
    pool: SubagentPool
    critic: ForecastCritic
    pass_on_step: Callable[[Step], Awaitable[None]]
    lessons: Sequence[ForecastLesson] = ()
    tokens: int = 0
    notes_written: int = 0
    _last: int = 0
    _ignored: dict[int, int] = field(default_factory=dict)
    tools: tuple[ToolDefinition, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Make the tools once: all that the orchestrator will ever be offered, submitting last."""
        submit = submit_tool(self.context.question, self.loop.answer_format, self.context.answer_settings.submit_margin)
        research = self.context.all_tools() if self.context.settings.orchestrator_tools else []
        self.tools = (self.pool.create_tool(), *_fixed_tools(), *research, submit)

    @property
    def is_enough(self) -> bool:
        """Whether only submitting remains: enough forecasts were reported, or the tokens of the trial run out."""
        limit = self.context.context.limits.tokens
        nearly = limit is not None and self.tokens + MOVES_AHEAD * self._last > limit
        return nearly or self.pool.forecasts >= self.context.settings.max_forecast_reports

    def offer(self, number: int) -> tuple[ToolDefinition, ...]:
        """Return what the orchestrator may call at a step."""
        # The step of the action before this one is counted later.
        steps_left = self.context.steps_left - (number > 1)
        if number >= self.loop.steps or steps_left <= 1 or self.is_enough:
            return self.tools[-1:]
        now = {tool.name for tool in self.context.tools()} if self.context.settings.orchestrator_tools else set[str]()
        now |= {SUBMIT, *([CREATE_TOOL] if self.pool.can_create and self.pool.turns_left else [])}
        now |= {tool.name for tool in _fixed_tools() if self._is_useful(tool.name)}
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
            f"Left for subagents: {settings.subagents - len(pool.agents)} to make, {pool.turns_left} steps, "
            f"{pool.tokens_left} tokens. Forecasts reported: {pool.forecasts} of {settings.max_forecast_reports}."
        )

    def count(self, step: Step) -> None:
        """Count the usage of a step of the orchestrator; those of subagents are counted already."""
        self.context.steps_made += 1
        self._last = _count_tokens(step.usage)
        self.tokens += self._last

    async def act(self, move: ModelAction) -> ToolResult:
        """Run the orchestrator's action; a mistake in it gives a failed result."""
        self.context.moves += 1
        # A model that answers one of them, or tries to, has not forgotten the others.
        waiting = [] if move.name == GUIDANCE_ANSWER_TOOL else self.pool.waiting
        try:
            result = await self._run_action(move)
        except UnreadableAnswer as error:
            text = f"{move.name} was not done: {error}"
            result = text_result(text, failed=True)
        late = [run for run in waiting if run.end is RunEnd.WAITING and self._loses_patience(run)]
        for run in late:
            run.resume(None)
        return _join_results(result, await self._carry_out(late)) if late else result

    async def _run_action(self, move: ModelAction) -> ToolResult:
        works: Mapping[str, Callable[[Mapping[str, Json]], Awaitable[ToolResult]]] = {
            CREATE_TOOL: self._create,
            RUN_TOOL: self._run,
            SUBAGENTS_TOOL: self._query,
            GUIDANCE_ANSWER_TOOL: self._answer,
            CRITIC_TOOL: self._ask_critic,
            LESSONS_TOOL: self._search_lessons,
            NOTE_TOOL: self._keep_note,
            shared_memory.MEMORY_TOOL: self._use_memory,
        }
        work = works.get(move.name)
        return await self.loop.use_tool(move) if work is None else await work(move.arguments)

    async def _create(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.pool.create(arguments)
        return text_result(f"{agent.name} is ready: {_describe_limits(agent)}.")

    async def _run(self, arguments: Mapping[str, Json]) -> ToolResult:
        jobs = arguments.get("runs")
        if not isinstance(jobs, list) or not 1 <= len(jobs) <= MOST_RUNS:
            message = f"runs should be a list of 1 to {MOST_RUNS}"
            raise UnreadableAnswer(message)
        wanted = [self._read_job(job) for job in jobs]
        return await self._carry_out([self.pool.start(agent, task) for agent, task in wanted])

    async def _query(self, arguments: Mapping[str, Json]) -> ToolResult:
        operation = read_word(SubagentQuery, arguments.get("operation"), "operation")
        if operation is SubagentQuery.LIST:
            return text_result("\n".join(self._status(agent) for agent in self.pool.agents.values()))
        agent = self.pool.agent(arguments.get("name"))
        if operation is SubagentQuery.STATUS:
            runs = [run.result_text() for run in self.pool.runs if run.agent is agent]
            return text_result("\n".join([self._status(agent), *runs]))
        self.pool.delete(agent)
        return text_result(f"{agent.name} is deleted.")

    async def _answer(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.pool.agent(arguments.get("name"))
        run = next((run for run in self.pool.waiting if run.agent is agent), None)
        if run is None:
            message = f"{agent.name} did not ask"
            raise UnreadableAnswer(message)
        run.resume(require_text(arguments, "answer", ANSWER_CHARS))
        return await self._carry_out([run])

    async def _ask_critic(self, arguments: Mapping[str, Json]) -> ToolResult:
        case = {"draft": require_text(arguments, "draft", DRAFT_CHARS)}
        if reports := self.context.memory.newest_text():
            case["shared memory with the reports"] = reports
        return await self.critic.review(self.context.question_prompt, case)

    async def _search_lessons(self, arguments: Mapping[str, Json]) -> ToolResult:
        found = lessons.search_lessons(
            self.lessons, require_text(arguments, "text", LESSON_CHARS), self.context.settings.lessons_shown
        )
        return text_result(lessons.lessons_text(found) if found else "no lesson has these words")

    async def _keep_note(self, arguments: Mapping[str, Json]) -> ToolResult:
        require_text(arguments, "text", LESSON_CHARS)
        self.notes_written += 1
        return text_result("written down")

    async def _use_memory(self, arguments: Mapping[str, Json]) -> ToolResult:
        return self.context.memory.use(ORCHESTRATOR, arguments, step=self.context.moves)

    async def _carry_out(self, runs: Sequence[SubagentRun]) -> ToolResult:
        """Carry out runs and return their results; each of their turns is passed on as a step."""
        async with aclosing(self.pool.carry_out(runs)) as turns:
            async for run, turn in turns:
                step = self._step(run, turn)
                self.tokens += _count_tokens(step.usage)
                self.context.steps_made += 1
                await self.pass_on_step(step)
        return text_result("\n\n".join(run.result_text() for run in runs))

    def _step(self, run: SubagentRun, turn: LoopTurn) -> Step:
        """Return a turn of a subagent as a step of the trial: the belief is the orchestrator's."""
        name = run.agent.name
        valid = turn.action if turn.failure is None else None
        over = (f"{name} {run.end} after {run.usage_text}",) if run.end is not RunEnd.RUNNING else ()
        return Step(
            action=StepAction(
                name=valid.name if valid else "stop",
                arguments={**(valid.arguments if valid else {"why": run.why}), MADE_BY: name},
            ),
            observation=StepObservation(text=turn.reply or run.result_text(), documents=turn.turn_result.documents),
            belief=self.loop.state.belief,
            usage=turn.turn_result.usage,
            remarks=(*turn.notes, *over),
        )

    def _read_job(self, job: Json) -> tuple[SubagentProfile, str]:
        given = job if isinstance(job, Mapping) else {}
        return self.pool.idle_agent(given.get("name")), require_text(given, "task", TASK_CHARS)

    def _status(self, agent: SubagentProfile) -> str:
        runs = [run for run in self.pool.runs if run.agent is agent]
        went = "; ".join(f"run {number}: {run.end}" for number, run in enumerate(runs, start=1)) or "not run yet"
        return f"{agent.name}: {_describe_limits(agent)}. {went}"

    def _is_useful(self, name: str) -> bool:
        useful = {
            RUN_TOOL: self.pool.can_run,
            SUBAGENTS_TOOL: bool(self.pool.agents),
            GUIDANCE_ANSWER_TOOL: bool(self.pool.waiting),
            CRITIC_TOOL: self.critic.is_left,
            LESSONS_TOOL: bool(self.lessons),
            NOTE_TOOL: self.context.settings.lessons,
        }
        return useful.get(name, True)

    def _loses_patience(self, run: SubagentRun) -> bool:
        self._ignored[id(run)] = self._ignored.get(id(run), 0) + 1
        return self._ignored[id(run)] >= GUIDANCE_PATIENCE


def _describe_limits(agent: SubagentProfile) -> str:
    tools = ", ".join(agent.tools) or "no research tools"
    return f"{agent.kind.name}, {tools}, {agent.steps} steps and {agent.tokens} tokens for each run"


def _count_tokens(usage: ModelUsage) -> int:
    return usage.tokens_in + usage.tokens_out


def _join_results(first: ToolResult, second: ToolResult) -> ToolResult:
    text = f"{first.observation.text}\n\n{second.observation.text}"
    return replace(first, observation=replace(first.observation, text=text))


@cache
def _fixed_tools() -> tuple[ToolDefinition, ...]:
    """Return the tools whose schema never changes, in the order in which they are offered."""
    name: dict[str, Json] = {"name": text_field(NAME_CHARS)}
    lesson: dict[str, Json] = {"text": text_field(LESSON_CHARS)}
    runs: Json = {
        "type": "array",
        "items": object_schema({**name, "task": text_field(TASK_CHARS)}),
        "minItems": 1,
        "maxItems": MOST_RUNS,
    }
    return (
        answer_tool(
            RUN_TOOL,
            "Run subagents on tasks, as many at the same time as allowed, and get their reports. One subagent may get "
            "several tasks: each is a run that knows nothing of the others.",
            {"runs": runs},
        ),
        answer_tool(
            SUBAGENTS_TOOL,
            "list all subagents, see the status of one, or delete one to make room for another; its reports are kept.",
            {"operation": word_field(SubagentQuery), **name},
            required=("operation",),
        ),
        answer_tool(
            GUIDANCE_ANSWER_TOOL,
            "Answer a subagent that asked for guidance; it continues at once.",
            {**name, "answer": text_field(ANSWER_CHARS)},
        ),
        memory_tool(),
        answer_tool(
            CRITIC_TOOL,
            f"Have a critic who did none of the work review your draft and all reports, {MAX_CRITIQUES} times at most.",
            {"draft": text_field(DRAFT_CHARS, "your case, and the answer that you lean to")},
        ),
        answer_tool(LESSONS_TOOL, "Search the lessons from earlier forecasts for words.", lesson),
        answer_tool(
            NOTE_TOOL,
            "Write down what would help with other questions. Later runs can read it at once, as an unconfirmed note; "
            "it becomes a lesson once this question is resolved.",
            lesson,
        ),
    )
