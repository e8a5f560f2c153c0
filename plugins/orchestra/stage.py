"""The orchestrator's side of a trial: what it may call now, and what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from bot.api import (
    SUBMIT,
    Action,
    Course,
    Json,
    Misread,
    Move,
    Observation,
    Step,
    Tool,
    ToolResult,
    Turn,
    Usage,
    submit_tool,
)
from plugins.orchestra import lessons, memory
from plugins.orchestra.crew import CREATE, ORCHESTRATOR, TASK_CHARS, Crew
from plugins.orchestra.critic import CRITIC, Critic
from plugins.orchestra.lessons import Lesson
from plugins.orchestra.run import Agent, End, Run, Scene
from plugins.orchestra.shapes import one_of, wanted
from plugins.orchestra.tools import (
    ANSWER,
    ANSWER_CHARS,
    BATCH,
    KEEP,
    LESSON_CHARS,
    LESSONS,
    LOOK,
    MOST_RUNS,
    PARALLEL,
    RUN,
    Look,
    own_tools,
)

# A request for guidance stays open for so many moves of the orchestrator that do not answer it.
PATIENCE = 2
# Moves as large as the last one that must still fit into the trial's own limit of tokens: the one under way, which is
# not counted yet, the one that submits, and what prompts grow by.
AHEAD = 4


@dataclass(slots=True, kw_only=True)
class Stage:
    """Offers the orchestrator its tools and acts on its moves.

    ``told`` are the lessons that there are. ``put`` passes on a turn of a subagent as a step; without it their turns
    are part of the orchestrator's own step. ``tokens`` are those of the trial so far.
    """

    scene: Scene
    course: Course
    crew: Crew
    critic: Critic
    told: Sequence[Lesson] = ()
    put: Callable[[Step], Awaitable[None]] | None = None
    tokens: int = 0
    noted: int = 0
    _last: int = 0
    _within: int = 0
    _ignored: dict[int, int] = field(default_factory=dict)
    tools: tuple[Tool, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Make the tools once: all that the orchestrator will ever be offered, submitting last."""
        submit = submit_tool(self.scene.question, self.course.ballot, self.scene.manner.submit_margin)
        desk = self.scene.all_tools() if self.scene.settings.hands_on else []
        self.tools = (self.crew.create_tool(), *own_tools(), *desk, submit)

    @property
    def is_enough(self) -> bool:
        """Whether nothing is left but to submit: enough forecasts came, or the tokens of the trial come to an end."""
        limit = self.scene.desk.limits.tokens
        nearly = limit is not None and self.tokens + AHEAD * self._last > limit
        return nearly or self.crew.forecasts >= self.scene.settings.forecasts

    def offer(self, number: int) -> tuple[Tool, ...]:
        """Return what the orchestrator may call at a step."""
        if number >= self.course.steps or self.is_enough:
            return self.tools[-1:]
        now = {tool.name for tool in self.scene.tools()} if self.scene.settings.hands_on else set[str]()
        now |= {SUBMIT, *([CREATE] if self.crew.can_make and self.crew.turns_left else [])}
        now |= {tool.name for tool in own_tools() if self._makes_sense(tool.name)}
        return tuple(tool for tool in self.tools if tool.name in now)

    def is_evidence(self, move: Move, result: ToolResult) -> bool:
        """Return whether a move brought evidence: a tool of the desk did, or a subagent has reported."""
        by_hand = any(tool.name == move.name for tool in self.scene.all_tools())
        reported = any(run.report is not None for run in self.crew.runs)
        return not result.failed and (by_hand or reported)

    def left(self, _number: int) -> str:
        """Return the line that says what is left of each budget."""
        crew, settings = self.crew, self.scene.settings
        return (
            f"Left for subagents: {settings.subagents - crew.made} to make, {crew.turns_left} moves, "
            f"{crew.tokens_left} tokens. Forecasts reported: {crew.forecasts} of {settings.forecasts}."
        )

    def count(self, step: Step) -> None:
        """Count what a step of the orchestrator used; what turns of subagents in it used is counted already."""
        self._last = _tokens(step.usage) - self._within
        self.tokens += self._last
        self._within = 0

    async def act(self, move: Move) -> ToolResult:
        """Do what the orchestrator asked for; what is wrong with it comes as a failed result."""
        self.scene.moves += 1
        # Whoever answers one of them, or tries to, has not forgotten the others.
        waiting = [] if move.name == ANSWER else self.crew.waiting
        try:
            result = await self._done(move)
        except Misread as error:
            text = f"{move.name} was not done: {error}"
            result = ToolResult(observation=Observation(text=text), failed=True)
        late = [run for run in waiting if run.end is End.WAITING and self._loses_patience(run)]
        for run in late:
            run.resume(None)
        return _both(result, await self._played(late)) if late else result

    async def _done(self, move: Move) -> ToolResult:
        works: Mapping[str, Callable[[Mapping[str, Json]], Awaitable[ToolResult]]] = {
            CREATE: self._create,
            RUN: self._run,
            PARALLEL: self._parallel,
            BATCH: self._batch,
            LOOK: self._look,
            ANSWER: self._answer,
            CRITIC: self.critic.asked,
            LESSONS: self._lessons,
            KEEP: self._keep,
            memory.NAME: self._memory,
        }
        work = works.get(move.name)
        return await self.course.use(move) if work is None else await work(move.arguments)

    async def _create(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.crew.create(arguments)
        return _said(f"{agent.name} is there: {_granted(agent)}.")

    async def _run(self, arguments: Mapping[str, Json]) -> ToolResult:
        return await self._played([self._started(dict(arguments))])

    async def _parallel(self, arguments: Mapping[str, Json]) -> ToolResult:
        jobs = _listed(arguments, "runs")
        names = [self._checked(job)[0].name for job in jobs]
        if len(set(names)) < len(names):
            message = f"each of the runs needs a subagent of its own; {BATCH} runs one on several tasks"
            raise Misread(message)
        return await self._played([self._started(job) for job in jobs])

    async def _batch(self, arguments: Mapping[str, Json]) -> ToolResult:
        tasks = [{"name": arguments.get("name"), "task": task} for task in _listed(arguments, "tasks")]
        for task in tasks:
            self._checked(task)
        result = await self._played([self._started(tasks[0])])
        for task in tasks[1:]:
            # It waits for guidance, or the budget of all is used up.
            if self.crew.waiting or not self.crew.can_run:
                return _both(result, _said(f"{len(tasks) - tasks.index(task)} of the tasks were not begun."))
            result = _both(result, await self._played([self._started(task)]))
        return result

    async def _look(self, arguments: Mapping[str, Json]) -> ToolResult:
        operation = one_of(Look, arguments.get("operation"), "operation")
        if operation is Look.LIST:
            return _said("\n".join(self._status(agent) for agent in self.crew.agents.values()))
        agent = self.crew.agent(arguments.get("name"))
        if operation is Look.STATUS:
            runs = [run.shown() for run in self.crew.runs if run.agent is agent]
            return _said("\n".join([self._status(agent), *runs]))
        self.crew.delete(agent)
        return _said(f"{agent.name} is gone.")

    async def _answer(self, arguments: Mapping[str, Json]) -> ToolResult:
        agent = self.crew.agent(arguments.get("name"))
        run = next((run for run in self.crew.waiting if run.agent is agent), None)
        if run is None:
            message = f"{agent.name} did not ask"
            raise Misread(message)
        run.resume(wanted(arguments, "answer", ANSWER_CHARS))
        return await self._played([run])

    async def _lessons(self, arguments: Mapping[str, Json]) -> ToolResult:
        found = lessons.found(self.told, wanted(arguments, "text", LESSON_CHARS), self.scene.settings.lessons_shown)
        return _said(lessons.shown(found) if found else "no lesson has these words")

    async def _keep(self, arguments: Mapping[str, Json]) -> ToolResult:
        wanted(arguments, "text", LESSON_CHARS)
        self.noted += 1
        return _said("written down")

    async def _memory(self, arguments: Mapping[str, Json]) -> ToolResult:
        return self.scene.memory.use(ORCHESTRATOR, arguments, step=self.scene.moves)

    async def _played(self, runs: Sequence[Run]) -> ToolResult:
        """Carry out runs and return how they went; their turns are passed on, or counted with this result."""
        usage, documents = Usage(), list[str]()
        async with aclosing(self.crew.play(runs)) as turns:
            async for run, turn in turns:
                step = self._step(run, turn)
                self.tokens += _tokens(step.usage)
                if self.put is not None:
                    await self.put(step)
                else:
                    self._within += _tokens(step.usage)
                    usage += step.usage
                    documents += step.observation.documents
        text = "\n\n".join(run.shown() for run in runs)
        return ToolResult(observation=Observation(text=text, documents=tuple(documents)), usage=usage)

    def _step(self, run: Run, turn: Turn) -> Step:
        """Return a turn of a subagent as a step of the trial: the belief is the orchestrator's."""
        name = run.agent.name
        valid = turn.move if turn.failure is None else None
        arguments = {**(valid.arguments if valid else {"why": run.why}), "agent": name}
        over = (f"{name} {run.end} after {run.used}",) if run.end is not End.NOT else ()
        return Step(
            action=Action(name=valid.name if valid else "stop", arguments=arguments),
            observation=Observation(text=turn.told or run.shown(), documents=turn.heard.documents),
            belief=self.course.state.belief,
            usage=turn.heard.usage,
            remarks=(*turn.notes, *over),
        )

    def _started(self, job: Json) -> Run:
        agent, task = self._checked(job)
        return self.crew.start(agent, task)

    def _checked(self, job: Json) -> tuple[Agent, str]:
        given = job if isinstance(job, Mapping) else {}
        return self.crew.free(given.get("name")), wanted(given, "task", TASK_CHARS)

    def _status(self, agent: Agent) -> str:
        runs = [run for run in self.crew.runs if run.agent is agent]
        went = "; ".join(f"run {number}: {run.end}" for number, run in enumerate(runs, start=1)) or "not run yet"
        return f"{agent.name}: {_granted(agent)}. {went}"

    def _makes_sense(self, name: str) -> bool:
        crew, settings = self.crew, self.scene.settings
        sense = {
            RUN: crew.can_run,
            BATCH: crew.can_run,
            PARALLEL: crew.can_run and len(crew.agents) > 1 and settings.concurrency > 1,
            LOOK: bool(crew.agents),
            ANSWER: bool(crew.waiting),
            CRITIC: self.critic.is_left,
            LESSONS: bool(self.told),
            KEEP: settings.lessons,
        }
        return sense.get(name, True)

    def _loses_patience(self, run: Run) -> bool:
        self._ignored[id(run)] = self._ignored.get(id(run), 0) + 1
        return self._ignored[id(run)] >= PATIENCE


def _granted(agent: Agent) -> str:
    tools = ", ".join(agent.tools) or "no tools of the desk"
    return f"{agent.kind.name}, {tools}, {agent.steps} moves and {agent.tokens} tokens for each run"


def _tokens(usage: Usage) -> int:
    return usage.tokens_in + usage.tokens_out


def _listed(arguments: Mapping[str, Json], name: str) -> list[Json]:
    given = arguments.get(name)
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_RUNS:
        message = f"{name} should be a list of 1 to {MOST_RUNS}"
        raise Misread(message)
    return given


def _said(text: str) -> ToolResult:
    return ToolResult(observation=Observation(text=text))


def _both(first: ToolResult, second: ToolResult) -> ToolResult:
    told = f"{first.observation.text}\n\n{second.observation.text}"
    documents = (*first.observation.documents, *second.observation.documents)
    return replace(first, observation=Observation(text=told, documents=documents), usage=first.usage + second.usage)
