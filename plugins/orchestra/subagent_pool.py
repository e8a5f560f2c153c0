"""The subagents of one trial: made, run in rounds, and kept within the settings, whatever a model asks for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bot.api import (
    Json,
    LoopTurn,
    ToolDefinition,
    UnreadableAnswer,
    answer_tool,
    gather_all,
    parsing,
    require_text,
    text_field,
    word_field,
)
from plugins.orchestra.shared_memory import NAME_CHARS, NAME_TEXT, normalize_name
from plugins.orchestra.subagent_kinds import CUSTOM_KIND, SubagentKind, load_kinds
from plugins.orchestra.subagent_run import OrchestraContext, RunEnd, SubagentProfile, SubagentRun, open_subagent_session

CREATE_TOOL = "create_subagent"
PART_CHARS = 1500
TASK_CHARS = 1000
# Names that no subagent may have.
ORCHESTRATOR = "orchestrator"


class TurnOrder:
    """The order in which concurrent actions take effect: each waits until all before it have finished."""

    def __init__(self, places: int) -> None:
        """Begin at the first place."""
        self._open = [asyncio.Event() for _ in range(places + 1)]
        self._open[0].set()

    async def wait_for_turn(self, place: int) -> None:
        """Wait for this position's turn."""
        await self._open[place].wait()

    def end_turn(self, place: int) -> None:
        """Let the next one continue."""
        self._open[place + 1].set()


@dataclass(slots=True)
class SubagentRound:
    """The round under way: its order, the place of each run in it by its index, and whether all report in it."""

    line: TurnOrder = field(default_factory=lambda: TurnOrder(0))
    places: dict[int, int] = field(default_factory=dict)
    must_report: bool = False

    async def wait_for_turn(self, index: int) -> None:
        """Wait for the turn of a run in this round."""
        await self.line.wait_for_turn(self.places[index])


@dataclass(slots=True, kw_only=True)
class SubagentPool:
    """All subagents and runs of one trial. Code enforces all of its limits."""

    context: OrchestraContext
    agents: dict[str, SubagentProfile] = field(default_factory=dict)
    runs: list[SubagentRun] = field(default_factory=list)
    created: int = 0
    most_at_once: int = 0
    _current: SubagentRound = field(default_factory=SubagentRound)

    @property
    def turns_left(self) -> int:
        """How many steps all subagents have left together: two are kept, for this action and to submit."""
        left = self.context.settings.total_agent_steps - sum(run.turns for run in self.runs)
        return max(0, min(left, self.context.steps_left - 2))

    @property
    def tokens_left(self) -> int:
        """How many tokens all subagents together have left."""
        return max(0, self.most_tokens - sum(run.tokens for run in self.runs))

    @property
    def most_tokens(self) -> int:
        """How many tokens all subagents together may use: the orchestrator keeps half of a trial's own limit."""
        own = self.context.context.limits.tokens
        return (
            self.context.settings.total_agent_tokens
            if own is None
            else min(self.context.settings.total_agent_tokens, own // 2)
        )

    @property
    def waiting(self) -> list[SubagentRun]:
        """The runs that wait for guidance."""
        return [run for run in self.runs if run.end is RunEnd.WAITING]

    @property
    def forecasts(self) -> int:
        """How many reports with a forecast were received."""
        return sum(run.report is not None and run.report.forecast is not None for run in self.runs)

    @property
    def can_create(self) -> bool:
        """Whether another subagent may be made."""
        return len(self.agents) < self.context.settings.subagents

    @property
    def can_run(self) -> bool:
        """Whether any subagent may be run."""
        return bool(self.agents) and self.turns_left > 0 and self.tokens_left > 0

    def create_tool(self) -> ToolDefinition:
        """Return the tool that makes a subagent, with its options."""
        settings = self.context.settings
        properties: dict[str, Json] = {
            "name": text_field(NAME_CHARS, "small letters, digits and _"),
            "kind": word_field([*load_kinds()]),
            "instructions": text_field(PART_CHARS, "its part in your words; needed for custom, added for the others"),
            "steps": {"type": "integer", "minimum": 1, "maximum": settings.agent_steps},
            "tokens": {"type": "integer", "minimum": 1, "maximum": settings.agent_tokens},
        }
        if settings.models:
            properties["model"] = word_field(settings.models, "who plays it; left out: who plays its kind")
        if available := [tool.name for tool in self.context.all_tools()]:
            properties["tools"] = {"type": "array", "items": word_field(available), "maxItems": len(available)}
        return answer_tool(
            CREATE_TOOL,
            "Make a subagent, to be run later. tools: those it may use (left out: what its kind usually has); steps "
            "and tokens: its limits for each run.",
            properties,
            required=("name", "kind"),
        )

    def create(self, arguments: Mapping[str, Json]) -> SubagentProfile:
        """Make a subagent; raises UnreadableAnswer in words for the model if that is not possible or not allowed."""
        settings = self.context.settings
        if not self.can_create:
            message = f"there are {settings.subagents} subagents, the most there may be; run one of them, or delete one"
            raise UnreadableAnswer(message)
        kind = _read_kind(arguments)
        agent = SubagentProfile(
            name=self._new_name(arguments),
            kind=kind,
            instructions=_read_instructions(kind, arguments),
            tools=self._granted(kind, arguments.get("tools")),
            steps=_read_limit(arguments, "steps", settings.agent_steps),
            tokens=_read_limit(arguments, "tokens", settings.agent_tokens),
            model=self._model(arguments),
        )
        self.agents[agent.name] = agent
        self.created += 1
        return agent

    def agent(self, name: Json) -> SubagentProfile:
        """Return a subagent by name; raises UnreadableAnswer."""
        found = self.agents.get(normalize_name(parsing.read_text(name, NAME_TEXT)))
        if found is None:
            known = ", ".join(self.agents) or "none yet"
            message = f"there is no subagent {parsing.abbreviate_json(name)}; there are: {known}"
            raise UnreadableAnswer(message)
        return found

    def idle_agent(self, name: Json) -> SubagentProfile:
        """Return a subagent that waits for nothing, by name; raises UnreadableAnswer."""
        agent = self.agent(name)
        if any(run.agent is agent for run in self.waiting):
            message = f"{agent.name} waits for guidance; answer it first"
            raise UnreadableAnswer(message)
        return agent

    def delete(self, agent: SubagentProfile) -> None:
        """Delete a subagent, which frees its place; its reports are kept. Raises UnreadableAnswer."""
        del self.agents[self.idle_agent(agent.name).name]

    def start(self, agent: SubagentProfile, task: str) -> SubagentRun:
        """Return a new run of a free subagent, which ``play`` will carry out."""
        agent.runs += 1
        session, answer_format = open_subagent_session(agent, task, self.context)
        # Not of the pool: that and its runs would keep each other, with all messages.
        current = self._current
        run = SubagentRun(
            agent=agent,
            task=task,
            context=self.context,
            session=session,
            answer_format=answer_format,
            wait_for_turn=partial(current.wait_for_turn, len(self.runs)),
            must_report=lambda: current.must_report,
            steps=agent.steps,
        )
        self.runs.append(run)
        return run

    async def carry_out(self, runs: Sequence[SubagentRun]) -> AsyncGenerator[tuple[SubagentRun, LoopTurn], None]:
        """Carry out runs, no more at once than allowed, and yield each turn of each in a fixed order.

        They run in rounds: all requests of a round are made at once, and take effect one after the other.
        """
        waiting, under_way = deque(runs), list[SubagentRun]()
        try:
            while waiting or under_way:
                while waiting and len(under_way) < self.context.settings.concurrency:
                    under_way.append(waiting.popleft())
                allowed = self.turns_left if self.tokens_left else 0
                for run in under_way[allowed:]:
                    await run.finish(RunEnd.BUDGET)
                del under_way[allowed:]
                for run, turn in await self._round(under_way, len(waiting)):
                    yield run, turn
                under_way = [run for run in under_way if run.end is RunEnd.RUNNING]
        finally:
            for run in under_way:
                if run.end is RunEnd.RUNNING:
                    await run.finish()

    async def _round(self, runs: Sequence[SubagentRun], waiting: int) -> list[tuple[SubagentRun, LoopTurn]]:
        self.most_at_once = max(self.most_at_once, len(runs))
        current = self._current
        current.line = TurnOrder(len(runs))
        current.places = {self._index(run): place for place, run in enumerate(runs)}
        # After the next round some may have none left: then all of them report in that round.
        ahead = 2 * min(len(runs) + waiting, self.context.settings.concurrency)
        spent = max((run.last for run in runs), default=0) * ahead
        late = self.context.context.is_final_answer_time(f"subagents after {sum(run.turns for run in self.runs)} moves")
        current.must_report = late or self.turns_left - len(runs) < ahead or self.tokens_left < spent
        for run in runs:
            run.open()
        made = await gather_all([self._move(run, place) for place, run in enumerate(runs)])
        for run in runs:
            if run.end not in {RunEnd.RUNNING, RunEnd.WAITING}:
                await run.finish()
        return [*zip(runs, made, strict=True)]

    async def _move(self, run: SubagentRun, place: int) -> LoopTurn:
        turn = await run.turn()
        line = self._current.line
        await line.wait_for_turn(place)
        run.count(turn)
        self.context.moves += 1
        line.end_turn(place)
        return turn

    def _index(self, run: SubagentRun) -> int:
        return next(index for index, one in enumerate(self.runs) if one is run)

    def _new_name(self, arguments: Mapping[str, Json]) -> str:
        asked = require_text(arguments, "name", NAME_TEXT)
        name = normalize_name(asked)
        taken = {ORCHESTRATOR, *self.agents, *(run.agent.name for run in self.runs)}
        if not name[:1].isalpha() or name in taken:
            kept = f", which is kept as {name}," if name and name != asked else ""
            why = "is taken" if name in taken else "should begin with a letter from a to z"
            message = f"the name {parsing.abbreviate_json(asked)}{kept} {why}"
            raise UnreadableAnswer(message)
        return name

    def _model(self, arguments: Mapping[str, Json]) -> str:
        name, models = parsing.read_text(arguments.get("model"), NAME_CHARS), self.context.settings.models
        if name and name not in models:
            message = f"model should be one of {', '.join(models)}" if models else "there is no choice of models"
            raise UnreadableAnswer(message)
        return name

    def _granted(self, kind: SubagentKind, raw: Json) -> tuple[str, ...]:
        available = [tool.name for tool in self.context.all_tools()]
        if raw is None:
            return kind.granted_tools(available)
        asked = [parsing.read_text(name, 100) for name in raw] if isinstance(raw, list) else ["?"]
        if strange := [name for name in asked if name not in available]:
            message = f"{', '.join(strange)} cannot be given; tools that there are: {', '.join(available) or 'none'}"
            raise UnreadableAnswer(message)
        return tuple(dict.fromkeys(asked))


def _read_kind(arguments: Mapping[str, Json]) -> SubagentKind:
    name = require_text(arguments, "kind", NAME_CHARS).lower()
    if name not in load_kinds():
        message = f"kind should be one of {', '.join(load_kinds())}, not {parsing.abbreviate_json(name)}"
        raise UnreadableAnswer(message)
    return load_kinds()[name]


def _read_instructions(kind: SubagentKind, arguments: Mapping[str, Json]) -> str:
    own = parsing.read_text(arguments.get("instructions"), PART_CHARS)
    if kind.name == CUSTOM_KIND and not own:
        message = "instructions is missing: what is the part of a custom subagent?"
        raise UnreadableAnswer(message)
    return "\n\n".join(filter(None, (kind.text, own)))


def _read_limit(arguments: Mapping[str, Json], name: str, most: int) -> int:
    raw = arguments.get(name)
    return most if raw is None else parsing.read_whole_number(raw, name, most)
