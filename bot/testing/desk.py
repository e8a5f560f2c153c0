"""A desk whose models and tools do exactly what a test tells them to, and that remembers all it was asked."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.clock import SeededRandom
from bot.domain.conduct import Conduct
from bot.domain.forecast import Limits
from bot.domain.learning import Fitted
from bot.domain.prompt import Answer, Completion, Dialect, Finish, Prompt, Tool, ToolCall
from bot.domain.research import SourcePolicy
from bot.domain.step import Json, Observation, ToolResult, Usage
from bot.errors import ConfigError, FoxcastError
from bot.ids import digest
from bot.testing.forecaster import Hang

if TYPE_CHECKING:
    import numpy as np

# A usual rule of thumb for English text.
CHARS_PER_TOKEN = 4

Said = Completion | Exception | Hang
Script = Callable[[Prompt], Said]


def in_turn(*said: Said) -> Script:
    """Return a script that says these things one after the other; asked once more it fails the test."""
    left = iter(said)

    def script(_prompt: Prompt) -> Said:
        try:
            return next(left)
        except StopIteration:
            message = f"asked {len(said) + 1} times, the script has {len(said)} answers"
            raise AssertionError(message) from None

    return script


def call(name: str, arguments: str, *, identity: str = "call") -> Completion:
    """Return an answer that is one native tool call; ``arguments`` is its text, right or wrong."""
    return Completion(calls=(ToolCall(id=identity, name=name, arguments=arguments),), finish=Finish.CALLS)


def offered(prompt: Prompt) -> list[str]:
    """Return the names of what a prompt lets the model do now, read from its tools or from its schema."""
    if prompt.schema is None:
        return [tool.name for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed]
    branches: Any = prompt.schema.get("anyOf", [prompt.schema])
    return [branch["properties"]["action"]["const"] for branch in branches]


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """What plays a role: how it is asked, what it says, and the name it goes by in config.

    ``fallback`` is asked where the script says an error of Foxcast, and from then on in that conversation.
    """

    script: Script
    dialect: Dialect = Dialect.TOOLS
    name: str = "scripted:main"
    fallback: "ScriptedModel | None" = None


@dataclass(frozen=True, slots=True)
class ScriptedTool:
    """A tool and what it gives back; ``uses`` is how often it is offered, None without end."""

    tool: Tool
    run: Callable[[Mapping[str, Json]], ToolResult]
    uses: int | None = None


def tool_that_says(name: str, text: str, /, **parameters: Json) -> ScriptedTool:
    """Return a tool with these parameters (name = JSON schema, all required) that always gives the same text back."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict(parameters),
        "required": list(parameters),
        "additionalProperties": False,
    }
    result = ToolResult(observation=Observation(text=text, documents=(digest(text.encode()),)))
    return ScriptedTool(Tool(name=name, description=f"Does {name}", parameters=schema), lambda _: result)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a model."""

    role: str
    prompt: Prompt
    seed: int | None


@dataclass(slots=True, kw_only=True)
class ScriptedDesk:
    """Implements the port Desk. ``policy.tools`` and ``policy.first`` bound what is offered, as at the real one.

    ``asked``, ``used`` (tool and arguments), ``kept`` and ``graded`` hold all that happened, in order. A tool that is
    not offered gives a failed result; an answer costs what its completion says, or one call and a quarter of a token
    per character. ``seconds_left`` stands still until a test or a script sets it.
    """

    cutoff: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    trial: int = 1
    fitted: Fitted | None = None
    limits: Limits = field(default_factory=Limits)
    policy: SourcePolicy = field(default_factory=SourcePolicy)
    models: Mapping[str, ScriptedModel] = field(default_factory=dict)
    bench: Sequence[ScriptedTool] = ()
    seed: int = 1
    seconds_left: float = math.inf
    asked: list[Asked] = field(default_factory=list)
    used: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    graded: list[Conduct] = field(default_factory=list)

    def stream(self, *labels: str) -> "np.random.Generator":
        return SeededRandom(self.seed).stream(str(self.trial), *labels)

    @property
    def tools(self) -> Sequence[Tool]:
        offered = [scripted.tool for scripted in self.bench if self._is_offered(scripted)]
        first = self.policy.first
        due = first is not None and not any(name == first for name, _ in self.used)
        return [tool for tool in offered if tool.name == first] or offered if due else offered

    @property
    def all_tools(self) -> Sequence[Tool]:
        return [scripted.tool for scripted in self.bench if self._is_permitted(scripted)]

    def is_late(self, place: str) -> bool:
        return self.seconds_left <= self.limits.final_seconds

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        offered = [item.name for item in self.tools]
        if tool not in offered:
            text = f"there is no tool {tool}; there are: {', '.join(offered) or 'none'}"
            return ToolResult(observation=Observation(text=text), failed=True)
        self.used.append((tool, dict(arguments)))
        return next(scripted for scripted in self.bench if scripted.tool.name == tool).run(arguments)

    def dialect(self, role: str) -> Dialect:
        return self._model(role).dialect

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        model, said = self._said(role, prompt, seed)
        match said:
            case Hang():
                await asyncio.Event().wait()
            case Exception():
                raise said
        assert isinstance(said, Completion)  # noqa: S101 - the other cases did not come back
        usage = said.usage if said.usage.calls else _estimate(prompt, said)
        record = digest(f"{len(self.asked)} {said!r}".encode(errors="replace"))
        return Answer(completion=said, usage=usage, model=model.name, document=record)

    async def keep(self, text: str) -> str:
        self.kept.append(text)
        return digest(text.encode())

    async def grade(self, conduct: Conduct) -> None:
        self.graded.append(conduct)

    def _is_offered(self, scripted: ScriptedTool) -> bool:
        times = sum(used == scripted.tool.name for used, _ in self.used)
        return self._is_permitted(scripted) and (scripted.uses is None or times < scripted.uses)

    def _is_permitted(self, scripted: ScriptedTool) -> bool:
        return self.policy.tools is None or scripted.tool.name in self.policy.tools

    def _said(self, role: str, prompt: Prompt, seed: int | None) -> tuple[ScriptedModel, Said]:
        """Ask the role's model, or its fallback, and return who answered and what."""
        model = self._model(role)
        while model.fallback is not None and prompt.model == model.fallback.name:
            model = model.fallback
        while True:
            sent = _addressed(prompt, model.name)
            self.asked.append(Asked(role, sent, seed))
            said = model.script(sent)
            if model.fallback is None or not isinstance(said, FoxcastError):
                return model, said
            model = model.fallback

    def _model(self, role: str) -> ScriptedModel:
        if role not in self.models:
            message = f"no model plays the role {role} here"
            raise ConfigError(message)
        return self.models[role]


def prefix_faults(asked: Sequence[Asked]) -> list[str]:
    """Return where a request does not begin with the one before it: one conversation has one role and one seed.

    The tools are the same objects in each, and no message that was sent is another one later. A model that takes over
    begins anew, so its requests count from there.
    """
    found: list[str] = []
    last: dict[tuple[str, int | None], Prompt] = {}
    for number, one in enumerate(asked, 1):
        before, now = last.get((one.role, one.seed)), one.prompt
        last[one.role, one.seed] = now
        if before is None or (before.model and not now.model):
            continue
        if [*map(id, before.tools)] != [*map(id, now.tools)]:
            found.append(f"request {number} of {one.role} has other tools")
        if now.messages[: len(before.messages)] != before.messages:
            found.append(f"request {number} of {one.role} changes what was sent")
    return found


def _addressed(prompt: Prompt, name: str) -> Prompt:
    """Return what a model is sent: the conversation where it is its own, else what hands it over."""
    if prompt.model in {"", name}:
        return prompt
    stateless = tuple(replace(message, native=None) for message in prompt.messages)
    messages = prompt.handover or stateless
    return replace(prompt, messages=messages, stable=len(messages), model="", handover=())


def _estimate(prompt: Prompt, said: Completion) -> Usage:
    read = sum(len(message.text) + sum(len(part.arguments) for part in message.calls) for message in prompt.messages)
    written = len(said.text) + sum(len(part.arguments) for part in said.calls)
    return Usage(calls=1, tokens_in=read // CHARS_PER_TOKEN, tokens_out=written // CHARS_PER_TOKEN)
