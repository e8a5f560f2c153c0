"""One run of a subagent on one task: its limits, what it may call, how it ended, and what it handed back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.api import (
    Anchor,
    Ballot,
    Desk,
    Heard,
    Manner,
    Misread,
    Move,
    Observation,
    Question,
    Tool,
    ToolResult,
    Turn,
    Voice,
    Way,
    ballot_for,
    question_text,
    quoted,
    reading,
    seed_of,
    template,
    voice_for,
    walk,
)
from plugins.orchestra import memory
from plugins.orchestra.catalogue import HERE, Kind
from plugins.orchestra.memory import SharedMemory, memory_tool
from plugins.orchestra.report import ASK, REPORT, Report, Request, ask_tool, read_report, read_request, report_tool
from plugins.orchestra.settings import OrchestraSettings

ROLE, MAIN = "subagent", "main"


class End(StrEnum):
    """How a run ended; ``NOT`` is one that did not."""

    NOT = "under way"
    WAITING = "waits for guidance"
    REPORTED = "reported"
    SILENT = "gave no valid answer"
    UNASKED = "could not be asked"
    STEPS = "used up its steps without a report"
    TOKENS = "used up its tokens without a report"
    REPEATS = "made the same call again and again"
    BUDGET = "was stopped: the budget of all subagents is used up"
    DISMISSED = "was still waiting for guidance when the work ended"


_ENDS = {
    "closed": End.REPORTED,
    "silent": End.SILENT,
    "unasked": End.UNASKED,
    "steps": End.STEPS,
    "tokens": End.TOKENS,
    "repeats": End.REPEATS,
}


@dataclass(slots=True, kw_only=True)
class Scene:
    """What all runs of a trial have in common; ``moves`` counts everybody's moves and is the time of the memory."""

    question: Question
    desk: Desk
    anchor: Anchor
    settings: OrchestraSettings
    manner: Manner
    memory: SharedMemory
    moves: int = 0

    def tools(self) -> list[Tool]:
        """Return the tools of the desk that it offers now and the settings leave."""
        named = self.settings.tools
        return [tool for tool in self.desk.tools if named is None or tool.name in named]

    def all_tools(self) -> list[Tool]:
        """Return the tools of the desk that it may ever offer and the settings leave."""
        named = self.settings.tools
        return [tool for tool in self.desk.all_tools if named is None or tool.name in named]

    def asked(self, ballot: Ballot) -> str:
        """Return the question as it is put to a model."""
        settings = self.settings
        return question_text(self.question, ballot, self.anchor, cutoff=self.desk.cutoff, crowd=settings.crowd)


@dataclass(slots=True, kw_only=True)
class Agent:
    """A subagent as it was made: its part in words, the tools it was granted, and the limits of each of its runs.

    ``model`` is the name that the orchestrator chose for who plays it, if it chose one.
    """

    name: str
    kind: Kind
    part: str
    tools: tuple[str, ...]
    steps: int
    tokens: int
    model: str = ""
    runs: int = 0

    @property
    def roles(self) -> Sequence[str]:
        """The roles in which it is asked: the first that a model plays counts."""
        return (*([f"{ROLE}_{self.model}"] if self.model else []), self.kind.name, ROLE, MAIN)


@dataclass(slots=True, kw_only=True)
class Run:
    """A run under way or over. ``turns`` and ``tokens`` are what it used; ``hurry`` leaves it only its report."""

    agent: Agent
    task: str
    scene: Scene
    voice: Voice
    ballot: Ballot
    reach: Callable[[], Awaitable[None]]
    hurry: Callable[[], bool]
    steps: int
    turns: int = 0
    tokens: int = 0
    requests: int = 0
    end: End = End.NOT
    why: str = ""
    report: Report | None = None
    request: Request | None = None
    moves: list[str] = field(default_factory=list)
    _report: Tool = field(init=False)
    _memory: Tool = field(default_factory=memory_tool)
    _ask: Tool = field(default_factory=ask_tool)
    _stream: AsyncGenerator[Turn, None] | None = None
    _concluding: bool = False
    last: int = 0

    def __post_init__(self) -> None:
        """Make the tool that ends the run."""
        margin, forecasts = self.scene.manner.step_margin, self.agent.kind.forecasts
        self._report = report_tool(self.ballot, margin, forecasts=forecasts)

    def open(self) -> None:
        """Begin, or go on after guidance; what is offered first is decided now, before anybody else makes a move."""
        if self._stream is None:
            first = self._offered(self.turns + 1)
            way = Way(
                offer=lambda number: first if number == self.turns + 1 else self._offered(number),
                act=self._act,
                tools=self._all_tools(),
                closing=frozenset({REPORT, ASK}),
                fault=self._fault,
                tokens=max(1, self.agent.tokens - self.tokens),
                settle=self._settle,
                again=frozenset({memory.NAME}),
            )
            self._stream = walk(self.voice, way, steps=self.steps, begin=self.turns + 1)

    async def turn(self) -> Turn:
        """Make one move."""
        assert self._stream is not None  # noqa: S101 - the crew opens a run before its turn
        return await anext(self._stream)

    def count(self, turn: Turn) -> None:
        """Take into account what came of a turn."""
        self.turns += 1
        if turn.result is None:
            self._spend(turn.heard)
        self.moves.append(self._named(turn))
        if not turn.over:
            return
        self._stream = None
        if turn.why == "closed" and turn.move is not None and turn.move.name == ASK:
            self.end, self.request, self.requests = End.WAITING, read_request(turn.move.arguments), self.requests + 1
            return
        self.end, self.why = _ENDS[turn.why], reading.text(str(turn.failure or ""), 300)
        if turn.why == "closed" and turn.move is not None:
            self.report = self._read(turn.move)

    def resume(self, answer: str | None) -> None:
        """Go on with the answer to its request; without one it has one more move, to conclude."""
        said = template(HERE, "conclude" if answer is None else "guidance").safe_substitute(answer=answer)
        self.voice.say(said)
        self.end, self.request = End.NOT, None
        if answer is None:
            self._concluding, self.steps = True, min(self.steps, self.turns + 1)

    async def finish(self, end: End | None = None) -> None:
        """End for good, for a reason of others where one is given; tells how its model did."""
        self.end = end or self.end
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
        await self.voice.grade()

    def shown(self) -> str:
        """Return how the run went, and its report or request, as the orchestrator reads it."""
        name = self.agent.name
        parts = [f"{name} {self.end} after {self.used}."]
        # An answer that could not stand is quoted in the reason why not.
        if self.why:
            parts.append(quoted(self.why, f"why {name} ended"))
        if self.report is not None:
            parts.append(self.report.shown(name, self.ballot))
        if self.request is not None:
            parts.append(self.request.shown(name))
        return "\n".join(parts)

    @property
    def used(self) -> str:
        """What the run used so far, in words."""
        made = ", ".join(f"{name} {count}" if count > 1 else name for name, count in Counter(self.moves).items())
        return f"{self.turns} of {self.agent.steps} moves ({made or 'none'}), {self.tokens} tokens"

    def _named(self, turn: Turn) -> str:
        """Return what a turn was in a word that no model chose: whoever reads it must not be given orders by it."""
        if turn.move is None or turn.failure is not None:
            return "nothing valid"
        known = (*self.agent.tools, memory.NAME, ASK, REPORT)
        return turn.move.name if turn.move.name in known else "an unknown call"

    def _all_tools(self) -> tuple[Tool, ...]:
        granted = [tool for tool in self.scene.all_tools() if tool.name in self.agent.tools]
        ask = [self._ask] if self.scene.settings.guidance else []
        return (*granted, self._memory, *ask, self._report)

    def _offered(self, number: int) -> tuple[Tool, ...]:
        # Two more moves as large as the last one would not fit.
        nearly = self.tokens + 2 * self.last > self.agent.tokens
        if self._concluding or nearly or number >= self.steps or self.hurry():
            return (self._report,)
        granted = [tool for tool in self.scene.tools() if tool.name in self.agent.tools]
        may_ask = self.requests < self.scene.settings.guidance
        return (*granted, self._memory, *([self._ask] if may_ask else []), self._report)

    async def _settle(self, heard: Heard) -> tuple[str, ...]:
        self._spend(heard)
        return ()

    def _spend(self, heard: Heard) -> None:
        self.last = heard.usage.tokens_in + heard.usage.tokens_out
        self.tokens += self.last

    async def _act(self, move: Move) -> ToolResult:
        # All that runs at once hears at once and acts in its order, so that a replay finds the same.
        await self.reach()
        if move.name == memory.NAME:
            return self.scene.memory.use(self.agent.name, move.arguments, step=self.scene.moves)
        if move.name not in self.agent.tools:
            return ToolResult(observation=Observation(text=f"You were not given {move.name}."), failed=True)
        return await self.scene.desk.use(move.name, move.arguments)

    def _fault(self, move: Move) -> str | None:
        try:
            if move.name == REPORT:
                self._read(move)
            elif move.name == ASK:
                read_request(move.arguments)
        except Misread as error:
            return str(error)
        return None

    def _read(self, move: Move) -> Report:
        return read_report(move.arguments, self.ballot, forecasts=self.agent.kind.forecasts)


def voiced(agent: Agent, task: str, scene: Scene) -> tuple[Voice, Ballot]:
    """Return a voice for a new run, its conversation begun; raises ConfigError where no model plays its roles."""
    desk = scene.desk
    seed = seed_of(desk, "subagent", agent.name, str(agent.runs))
    voice = voice_for(desk, *agent.roles, seed=seed)
    ballot = ballot_for(scene.question, scene.manner, percent=voice.percent)
    system = template(HERE, "member").substitute(name=agent.name, part=agent.part, steps=agent.steps)
    voice.begin(system, template(HERE, "task").substitute(question=scene.asked(ballot), task=task))
    return voice, ballot
