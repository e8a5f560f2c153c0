"""The subagents of one trial: made, run in rounds, and held to what the settings allow, whatever anybody asks for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bot.api import Json, Misread, Tool, Turn, reading
from plugins.orchestra.at_once import at_once
from plugins.orchestra.catalogue import CUSTOM, Kind, kinds
from plugins.orchestra.run import Agent, End, Run, Scene, voiced
from plugins.orchestra.shapes import NAME_CHARS, NAME_TEXT, described, plain_name, text_of, wanted, whole, words_of

CREATE = "create_subagent"
PART_CHARS = 1500
TASK_CHARS = 1000
# What nobody else in the work may be called.
ORCHESTRATOR = "orchestrator"


class Line:
    """The order in which those who move at once take effect: each waits until all before it are done with theirs."""

    def __init__(self, places: int) -> None:
        """Begin at the first place."""
        self._open = [asyncio.Event() for _ in range(places + 1)]
        self._open[0].set()

    async def reach(self, place: int) -> None:
        """Wait until it is this place's turn."""
        await self._open[place].wait()

    def leave(self, place: int) -> None:
        """Let the next one go on."""
        self._open[place + 1].set()


@dataclass(slots=True, kw_only=True)
class Crew:
    """All subagents and runs of one trial. Of its limits none is left to the models."""

    scene: Scene
    agents: dict[str, Agent] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    made: int = 0
    most_at_once: int = 0
    _line: Line = field(default_factory=lambda: Line(0))
    _places: dict[int, int] = field(default_factory=dict)
    _hurry: bool = False

    @property
    def turns_left(self) -> int:
        """How many moves all subagents together have left."""
        return max(0, self.scene.settings.turns - sum(run.turns for run in self.runs))

    @property
    def tokens_left(self) -> int:
        """How many tokens all subagents together have left."""
        return max(0, self.most_tokens - sum(run.tokens for run in self.runs))

    @property
    def most_tokens(self) -> int:
        """How many tokens all subagents together may use: of a trial's own limit the orchestrator keeps a half."""
        own = self.scene.desk.limits.tokens
        return self.scene.settings.tokens if own is None else min(self.scene.settings.tokens, own // 2)

    @property
    def waiting(self) -> list[Run]:
        """The runs that wait for guidance."""
        return [run for run in self.runs if run.end is End.WAITING]

    @property
    def forecasts(self) -> int:
        """How many reports with a forecast came."""
        return sum(run.report is not None and run.report.forecast is not None for run in self.runs)

    @property
    def can_make(self) -> bool:
        """Whether another subagent may be made."""
        return self.made < self.scene.settings.subagents

    @property
    def can_run(self) -> bool:
        """Whether any subagent may be run."""
        return bool(self.agents) and self.turns_left > 0 and self.tokens_left > 0

    def create_tool(self) -> Tool:
        """Return the tool that makes a subagent, with what it may be given."""
        settings = self.scene.settings
        properties: dict[str, Json] = {
            "name": text_of(NAME_CHARS, "small letters, digits and _"),
            "kind": words_of([*kinds()]),
            "instructions": text_of(PART_CHARS, "its part in your words; needed for custom, added for the others"),
            "steps": {"type": "integer", "minimum": 1, "maximum": settings.agent_steps},
            "tokens": {"type": "integer", "minimum": 1, "maximum": settings.agent_tokens},
        }
        if settings.models:
            properties["model"] = words_of(settings.models, "who plays it; left out: who plays its kind")
        if there := [tool.name for tool in self.scene.all_tools()]:
            properties["tools"] = {"type": "array", "items": words_of(there), "maxItems": len(there)}
        return described(
            CREATE,
            "Make a subagent, to be run later. tools: those it may use (left out: what its kind usually has); steps "
            "and tokens: its limits for each run.",
            properties,
            required=("name", "kind"),
        )

    def create(self, arguments: Mapping[str, Json]) -> Agent:
        """Make a subagent; raises Misread in words for the model for what cannot be, or must not."""
        settings = self.scene.settings
        if not self.can_make:
            message = f"all {settings.subagents} subagents were made; run one of those that there are"
            raise Misread(message)
        kind = _kind(arguments)
        agent = Agent(
            name=self._new_name(arguments),
            kind=kind,
            part=_part(kind, arguments),
            tools=self._granted(kind, arguments.get("tools")),
            steps=whole(arguments, "steps", settings.agent_steps),
            tokens=whole(arguments, "tokens", settings.agent_tokens),
            model=self._model(arguments),
        )
        self.agents[agent.name] = agent
        self.made += 1
        return agent

    def agent(self, name: Json) -> Agent:
        """Return a subagent by name; raises Misread."""
        found = self.agents.get(plain_name(reading.text(name, NAME_TEXT)))
        if found is None:
            message = f"there is no subagent {reading.short(name)}; there are: {', '.join(self.agents) or 'none yet'}"
            raise Misread(message)
        return found

    def free(self, name: Json) -> Agent:
        """Return a subagent that waits for nothing, by name; raises Misread."""
        agent = self.agent(name)
        if any(run.agent is agent for run in self.waiting):
            message = f"{agent.name} waits for guidance; answer it first"
            raise Misread(message)
        return agent

    def delete(self, agent: Agent) -> None:
        """Take a subagent away; its place is not free again, and what it reported stays. Raises Misread."""
        del self.agents[self.free(agent.name).name]

    def start(self, agent: Agent, task: str) -> Run:
        """Return a new run of a free subagent, which ``play`` will carry out."""
        agent.runs += 1
        voice, ballot = voiced(agent, task, self.scene)
        place = len(self.runs)
        run = Run(
            agent=agent,
            task=task,
            scene=self.scene,
            voice=voice,
            ballot=ballot,
            reach=partial(self._reach, place),
            hurry=lambda: self._hurry,
            steps=agent.steps,
        )
        self.runs.append(run)
        return run

    async def play(self, runs: Sequence[Run]) -> AsyncGenerator[tuple[Run, Turn], None]:
        """Carry out runs, no more at once than allowed, and yield each turn of each in a fixed order.

        They move in rounds: all of a round are heard at once, and take effect one after the other.
        """
        waiting, under_way = deque(runs), list[Run]()
        try:
            while waiting or under_way:
                while waiting and len(under_way) < self.scene.settings.concurrency:
                    under_way.append(waiting.popleft())
                allowed = self.turns_left if self.tokens_left else 0
                for run in under_way[allowed:]:
                    await run.finish(End.BUDGET)
                del under_way[allowed:]
                for run, turn in await self._round(under_way, len(waiting)):
                    yield run, turn
                under_way = [run for run in under_way if run.end is End.NOT]
        finally:
            for run in under_way:
                if run.end is End.NOT:
                    await run.finish()

    async def _round(self, runs: Sequence[Run], waiting: int) -> list[tuple[Run, Turn]]:
        self.most_at_once = max(self.most_at_once, len(runs))
        self._line = Line(len(runs))
        self._places = {self._index(run): place for place, run in enumerate(runs)}
        # After the next round there may be none for some of them: then all of them report in that one.
        ahead = 2 * min(len(runs) + waiting, self.scene.settings.concurrency)
        spent = max((run.last for run in runs), default=0) * ahead
        late = self.scene.desk.is_late(f"subagents after {sum(run.turns for run in self.runs)} moves")
        self._hurry = late or self.turns_left - len(runs) < ahead or self.tokens_left < spent
        for run in runs:
            run.open()
        made = await at_once([self._move(run, place) for place, run in enumerate(runs)])
        for run in runs:
            if run.end not in {End.NOT, End.WAITING}:
                await run.finish()
        return [*zip(runs, made, strict=True)]

    async def _move(self, run: Run, place: int) -> Turn:
        turn = await run.turn()
        await self._line.reach(place)
        run.count(turn)
        self.scene.moves += 1
        self._line.leave(place)
        return turn

    async def _reach(self, index: int) -> None:
        await self._line.reach(self._places[index])

    def _index(self, run: Run) -> int:
        return next(index for index, one in enumerate(self.runs) if one is run)

    def _new_name(self, arguments: Mapping[str, Json]) -> str:
        asked = wanted(arguments, "name", NAME_TEXT)
        name = plain_name(asked)
        taken = {ORCHESTRATOR, *self.agents, *(run.agent.name for run in self.runs)}
        if not name[:1].isalpha() or name in taken:
            kept = f", which is kept as {name}," if name and name != asked else ""
            why = "is taken" if name in taken else "should begin with a letter from a to z"
            message = f"the name {reading.short(asked)}{kept} {why}"
            raise Misread(message)
        return name

    def _model(self, arguments: Mapping[str, Json]) -> str:
        name, models = reading.text(arguments.get("model"), NAME_CHARS), self.scene.settings.models
        if name and name not in models:
            message = f"model should be one of {', '.join(models)}" if models else "there is no choice of models"
            raise Misread(message)
        return name

    def _granted(self, kind: Kind, raw: Json) -> tuple[str, ...]:
        there = [tool.name for tool in self.scene.all_tools()]
        if raw is None:
            return kind.given(there)
        asked = [reading.text(name, 100) for name in raw] if isinstance(raw, list) else ["?"]
        if strange := [name for name in asked if name not in there]:
            message = f"{', '.join(strange)} cannot be given; tools that there are: {', '.join(there) or 'none'}"
            raise Misread(message)
        return tuple(dict.fromkeys(asked))


def _kind(arguments: Mapping[str, Json]) -> Kind:
    name = wanted(arguments, "kind", NAME_CHARS).lower()
    if name not in kinds():
        message = f"kind should be one of {', '.join(kinds())}, not {reading.short(name)}"
        raise Misread(message)
    return kinds()[name]


def _part(kind: Kind, arguments: Mapping[str, Json]) -> str:
    own = reading.text(arguments.get("instructions"), PART_CHARS)
    if kind.name == CUSTOM and not own:
        message = "instructions is missing: what is the part of a custom subagent?"
        raise Misread(message)
    return "\n\n".join(filter(None, (kind.text, own)))
