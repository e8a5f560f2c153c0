"""One run of a subagent on one task: its limits, what it may call, how it ended, and what it returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.api import (
    UNRESOLVED_NOTES_TOOL,
    AnswerFormat,
    AnswerSettings,
    ChatSession,
    LoopSettings,
    LoopTurn,
    ModelAction,
    Question,
    StartingPoint,
    ToolDefinition,
    ToolResult,
    TrialContext,
    TurnResult,
    UnreadableAnswer,
    create_answer_format,
    derive_seed,
    fence_text,
    judging_text,
    load_template,
    open_session,
    parsing,
    question_text,
    run_loop,
    text_result,
)
from plugins.orchestra import shared_memory
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.shared_memory import MemoryCategory, SharedMemory, memory_tool
from plugins.orchestra.subagent_kinds import PROMPT_PACKAGE, SubagentKind
from plugins.orchestra.subagent_reports import (
    GUIDANCE_TOOL,
    REPORT_TOOL,
    GuidanceRequest,
    SubagentReport,
    TaskStatus,
    guidance_tool,
    read_report,
    read_request,
    report_tool,
)

SUBAGENT_ROLE, MAIN_ROLE = "subagent", "main"
# The argument of a recorded action that names who did it, which no tool has; without it the orchestrator did.
MADE_BY = "made_by"


class RunEnd(StrEnum):
    """How a run ended; ``RUNNING`` is one that has not."""

    RUNNING = "under way"
    WAITING = "waits for guidance"
    REPORTED = "reported"
    NO_ANSWER = "gave no valid answer"
    NOT_ASKED = "could not be asked"
    STEPS = "used up its steps without a report"
    TOKENS = "used up its tokens without a report"
    REPEATS = "made the same call again and again"
    BUDGET = "was stopped: the budget of all subagents is used up"
    DISMISSED = "was still waiting for guidance when the work ended"


_ENDS_BY_REASON = {
    "closed": RunEnd.REPORTED,
    "silent": RunEnd.NO_ANSWER,
    "unasked": RunEnd.NOT_ASKED,
    "steps": RunEnd.STEPS,
    "tokens": RunEnd.TOKENS,
    "repeats": RunEnd.REPEATS,
}


@dataclass(slots=True, kw_only=True)
class OrchestraContext:
    """What all runs of a trial share.

    ``moves`` counts all actions and is the time of the memory; ``steps_made`` counts the steps of the trial.
    """

    question: Question
    context: TrialContext
    anchor: StartingPoint
    settings: OrchestraSettings
    answer_settings: AnswerSettings
    memory: SharedMemory
    moves: int = 0
    steps_made: int = 0

    @property
    def steps_left(self) -> int:
        """How many steps are left of the trial's own limit, without those of candidates and merges."""
        merging = self.settings.candidates + self.settings.merges
        return self.context.limits.steps - merging - self.steps_made

    def tools(self) -> list[ToolDefinition]:
        """Return the tools of the trial that it offers now and the settings allow."""
        return [tool for tool in self.context.tools if self._is_allowed(tool.name)]

    def all_tools(self) -> list[ToolDefinition]:
        """Return the tools of the trial that it may ever offer and the settings allow."""
        return [tool for tool in self.context.all_tools if self._is_allowed(tool.name)]

    def _is_allowed(self, name: str) -> bool:
        if name == UNRESOLVED_NOTES_TOOL and not self.settings.lessons:
            return False
        return self.settings.tools is None or name in self.settings.tools

    def question_prompt(self, answer_format: AnswerFormat) -> str:
        """Return the question as models see it."""
        settings = self.settings
        return question_text(
            self.question, answer_format, self.anchor, cutoff=self.context.cutoff, crowd=settings.crowd
        )


@dataclass(slots=True, kw_only=True)
class SubagentProfile:
    """A subagent as it was made: its part in words, its tools, and the limits of each of its runs.

    ``model`` is the name that the orchestrator chose for its model, if it chose one.
    """

    name: str
    kind: SubagentKind
    instructions: str
    tools: tuple[str, ...]
    steps: int
    tokens: int
    model: str = ""
    runs: int = 0

    @property
    def roles(self) -> Sequence[str]:
        """The roles in which it is asked: the first that a model plays counts."""
        return (*([f"{SUBAGENT_ROLE}_{self.model}"] if self.model else []), self.kind.name, SUBAGENT_ROLE, MAIN_ROLE)


@dataclass(slots=True, kw_only=True)
class SubagentRun:
    """A run, active or ended. ``turns`` and ``tokens`` are its usage; with ``must_report`` it can only report."""

    agent: SubagentProfile
    task: str
    context: OrchestraContext
    session: ChatSession
    answer_format: AnswerFormat
    wait_for_turn: Callable[[], Awaitable[None]]
    must_report: Callable[[], bool]
    steps: int
    turns: int = 0
    tokens: int = 0
    requests: int = 0
    end: RunEnd = RunEnd.RUNNING
    why: str = ""
    report: SubagentReport | None = None
    request: GuidanceRequest | None = None
    moves: list[str] = field(default_factory=list)
    _report: ToolDefinition = field(init=False)
    _memory: ToolDefinition = field(default_factory=memory_tool)
    _ask: ToolDefinition = field(default_factory=guidance_tool)
    _stream: AsyncGenerator[LoopTurn, None] | None = None
    _concluding: bool = False
    last: int = 0

    def __post_init__(self) -> None:
        """Make the tool that ends the run."""
        margin, forecasts = self.context.answer_settings.step_margin, self.agent.kind.forecasts
        self._report = report_tool(self.answer_format, margin, forecasts=forecasts)

    def open(self) -> None:
        """Begin, or continue after guidance; the first offer is decided now, before any other action."""
        if self._stream is None:
            first = self._offered(self.turns + 1)
            loop_settings = LoopSettings(
                offer=lambda number: first if number == self.turns + 1 else self._offered(number),
                act=self._act,
                tools=self._all_tools(),
                closing_tools=frozenset({REPORT_TOOL, GUIDANCE_TOOL}),
                find_fault=self._fault,
                tokens=max(1, self.agent.tokens - self.tokens),
                after_action=self._settle,
                repeatable=frozenset({shared_memory.MEMORY_TOOL}),
            )
            self._stream = run_loop(self.session, loop_settings, steps=self.steps, begin=self.turns + 1)

    async def turn(self) -> LoopTurn:
        """Make one action."""
        assert self._stream is not None  # noqa: S101 - the crew opens a run before its turn
        return await anext(self._stream)

    def count(self, turn: LoopTurn) -> None:
        """Apply the result of a turn."""
        self.turns += 1
        if turn.result is None:
            self._spend(turn.turn_result)
        self.moves.append(self._named(turn))
        if not turn.is_last:
            return
        self._stream = None
        if turn.end_reason == "closed" and turn.action is not None and turn.action.name == GUIDANCE_TOOL:
            self.end, self.request, self.requests = (
                RunEnd.WAITING,
                read_request(turn.action.arguments),
                self.requests + 1,
            )
            return
        self.end, self.why = _ENDS_BY_REASON[turn.end_reason], parsing.read_text(str(turn.failure or ""), 300)
        if turn.end_reason == "closed" and turn.action is not None:
            self.report = self._read(turn.action)
            self._store_report(self.report)

    def _store_report(self, report: SubagentReport) -> None:
        """Write the report to the shared memory, where all later work can read it."""
        failed = report.status is TaskStatus.FAILED
        self.context.memory.add_entry(
            author=self.agent.name,
            category=MemoryCategory.ERRORS if failed else self.agent.kind.category,
            task=self.task,
            text=f"({report.status}, confidence {report.confidence} of 100)\n{report.text(self.answer_format)}",
            step=self.context.moves,
        )

    def resume(self, answer: str | None) -> None:
        """Continue with the answer to its request; without one it has one more action, to conclude."""
        text = load_template(PROMPT_PACKAGE, "conclude" if answer is None else "guidance").safe_substitute(
            answer=answer
        )
        self.session.say(text)
        self.end, self.request = RunEnd.RUNNING, None
        if answer is None:
            self._concluding, self.steps = True, min(self.steps, self.turns + 1)

    async def finish(self, end: RunEnd | None = None) -> None:
        """End for good, for an outside reason if one is given; reports how its model performed."""
        self.end = end or self.end
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
        await self.session.report_performance()

    def result_text(self) -> str:
        """Return how the run ended, and its report or request, as the orchestrator reads it."""
        name = self.agent.name
        parts = [f"{name} {self.end} after {self.usage_text}."]
        # The reason for refusing an answer quotes the answer.
        if self.why:
            parts.append(fence_text(self.why, f"why {name} ended"))
        if self.report is not None:
            parts.append(self.report.fenced_text(name, self.answer_format))
        if self.request is not None:
            parts.append(self.request.fenced_text(name))
        return "\n".join(parts)

    @property
    def usage_text(self) -> str:
        """The usage of the run so far, in words."""
        made = ", ".join(f"{name} {count}" if count > 1 else name for name, count in Counter(self.moves).items())
        return f"{self.turns} of {self.agent.steps} steps ({made or 'none'}), {self.tokens} tokens"

    def _named(self, turn: LoopTurn) -> str:
        """Return a turn in a word that no model chose, since other models read it and must not get orders by it."""
        if turn.action is None or turn.failure is not None:
            return "nothing valid"
        known = (*self.agent.tools, shared_memory.MEMORY_TOOL, GUIDANCE_TOOL, REPORT_TOOL)
        return turn.action.name if turn.action.name in known else "an unknown call"

    def _all_tools(self) -> tuple[ToolDefinition, ...]:
        granted = [tool for tool in self.context.all_tools() if tool.name in self.agent.tools]
        ask = [self._ask] if self.context.settings.guidance_requests else []
        return (*granted, self._memory, *ask, self._report)

    def _offered(self, number: int) -> tuple[ToolDefinition, ...]:
        # Two more actions as large as the last one would not fit.
        nearly = self.tokens + 2 * self.last > self.agent.tokens
        if self._concluding or nearly or number >= self.steps or self.must_report():
            return (self._report,)
        granted = [tool for tool in self.context.tools() if tool.name in self.agent.tools]
        may_ask = self.requests < self.context.settings.guidance_requests
        return (*granted, self._memory, *([self._ask] if may_ask else []), self._report)

    async def _settle(self, turn_result: TurnResult) -> tuple[str, ...]:
        self._spend(turn_result)
        return ()

    def _spend(self, turn_result: TurnResult) -> None:
        self.last = turn_result.usage.tokens_in + turn_result.usage.tokens_out
        self.tokens += self.last

    async def _act(self, move: ModelAction) -> ToolResult:
        # Concurrent runs are asked at once and act in their order, so that a replay finds the same.
        await self.wait_for_turn()
        if move.name == shared_memory.MEMORY_TOOL:
            return self.context.memory.use(self.agent.name, move.arguments, step=self.context.moves)
        if move.name not in self.agent.tools:
            return text_result(f"You were not given {move.name}.", failed=True)
        return await self.context.context.use_tool(move.name, move.arguments)

    def _fault(self, move: ModelAction) -> str | None:
        try:
            if move.name == REPORT_TOOL:
                self._read(move)
            elif move.name == GUIDANCE_TOOL:
                read_request(move.arguments)
        except UnreadableAnswer as error:
            return str(error)
        return None

    def _read(self, move: ModelAction) -> SubagentReport:
        return read_report(move.arguments, self.answer_format, forecasts=self.agent.kind.forecasts)


def open_subagent_session(
    agent: SubagentProfile, task: str, run_context: OrchestraContext
) -> tuple[ChatSession, AnswerFormat]:
    """Return a session for a new run, its conversation begun; raises ConfigError if no model plays its roles."""
    context = run_context.context
    seed = derive_seed(context, "subagent", agent.name, str(agent.runs))
    session = open_session(context, *agent.roles, seed=seed)
    answer_format = create_answer_format(run_context.question, run_context.answer_settings, percent=session.percent)
    # What all subagents share comes first, so that providers find it in their cache.
    judging = [judging_text(run_context.question)] if agent.kind.forecasts else []
    asked = load_template(PROMPT_PACKAGE, "task").substitute(
        question=run_context.question_prompt(answer_format),
        name=agent.name,
        part="\n\n".join((agent.instructions, *judging)),
        task=task,
    )
    session.begin(load_template(PROMPT_PACKAGE, "subagent").template, asked)
    return session, answer_format
