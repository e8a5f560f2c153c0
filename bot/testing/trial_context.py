"""Scripted trial context.

Its models and tools follow the script of a test, and it records every request.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.core.beliefs import ModelUsage, ShownSource, StepObservation, ToolResult
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError, FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.ids import sha256_hex
from bot.core.language_models import (
    FinishReason,
    ModelAnswer,
    ModelCompletion,
    ModelDialect,
    ModelPerformance,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.research import SourcePolicy
from bot.core.values import Json
from bot.forecasting.untrusted_text import fence_text
from bot.testing.forecaster import HangingStep

if TYPE_CHECKING:
    import numpy as np

# A usual rule of thumb for English text.
CHARS_PER_TOKEN = 4

ScriptedAnswer = ModelCompletion | Exception | HangingStep
AnswerScript = Callable[[Prompt], ScriptedAnswer]


def answer_in_turn(*answer: ScriptedAnswer) -> AnswerScript:
    """Return a script that says these things one after the other; one request more fails the test."""
    left = iter(answer)

    def script(_prompt: Prompt) -> ScriptedAnswer:
        try:
            return next(left)
        except StopIteration:
            message = f"asked {len(answer) + 1} times, the script has {len(answer)} answers"
            raise AssertionError(message) from None

    return script


def tool_call_answer(name: str, arguments: str, *, identity: str = "call") -> ModelCompletion:
    """Return an answer that is one native tool call; ``arguments`` is its text, right or wrong."""
    return ModelCompletion(calls=(ToolCall(id=identity, name=name, arguments=arguments),), finish=FinishReason.CALLS)


def offered_tool_names(prompt: Prompt) -> list[str]:
    """Return the names of the tools that a prompt allows now, read from its tools or from its schema."""
    if prompt.schema is None:
        return [tool.name for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed]
    branches: Any = prompt.schema.get("anyOf", [prompt.schema])
    return [branch["properties"]["action"]["const"] for branch in branches]


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """The model of a role: its dialect, its answers, and its name in config.

    ``fallback`` is asked where the script gives an error of Foxcast, and from then on in that conversation.
    """

    script: AnswerScript
    dialect: ModelDialect = ModelDialect.TOOLS
    name: str = "scripted:main"
    fallback: "ScriptedModel | None" = None


@dataclass(frozen=True, slots=True)
class ScriptedTool:
    """A tool and its result; ``use_limit`` is how often it is offered, None without end."""

    tool: ToolDefinition
    run: Callable[[Mapping[str, Json]], ToolResult]
    use_limit: int | None = None


def fixed_text_tool(name: str, text: str, /, **parameters: Json) -> ScriptedTool:
    """Return a tool with these parameters (name = JSON schema, all required) that always returns the same text."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict(parameters),
        "required": list(parameters),
        "additionalProperties": False,
    }
    result = ToolResult(observation=StepObservation(text=text, documents=(sha256_hex(text.encode()),)))
    return ScriptedTool(ToolDefinition(name=name, description=f"Does {name}", parameters=schema), lambda _: result)


def show_sources(head: str, *sources: ShownSource) -> ToolResult:
    """Return a tool's text for these sources, each in its fence, as the engine's own search does."""
    shown = (
        fence_text(f"{source.title}\n{source.url} ({source.date or 'no date'})\n{source.text}", source.name)
        for source in sources
    )
    text = "\n".join((head, *shown))
    observation = StepObservation(text=text, documents=(sha256_hex(text.encode()),))
    return ToolResult(observation=observation, sources=sources)


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """One request to a model."""

    role: str
    prompt: Prompt
    seed: int | None


@dataclass(slots=True, kw_only=True)
class ScriptedTrialContext:
    """Implements TrialContext. ``policy.tools`` and ``policy.first`` limit what is offered, as in the real one.

    ``prompts``, ``tool_calls`` (tool and arguments), ``stored_texts`` and ``reported_performances`` hold all events, in
    order. A tool that is not offered gives a failed result; an answer costs what its completion says, or one call and a
    quarter of a token per character. ``seconds_left`` does not change until a test or a script sets it.
    """

    cutoff: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    trial: int = 1
    fitted: FittedParameters | None = None
    limits: TrialLimits = field(default_factory=TrialLimits)
    policy: SourcePolicy = field(default_factory=SourcePolicy)
    models: Mapping[str, ScriptedModel] = field(default_factory=dict)
    scripted_tools: Sequence[ScriptedTool] = ()
    seed: int = 1
    seconds_left: float = math.inf
    prompts: list[RecordedPrompt] = field(default_factory=list)
    tool_calls: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    stored_texts: list[str] = field(default_factory=list)
    reported_performances: list[ModelPerformance] = field(default_factory=list)

    def stream(self, *labels: str) -> "np.random.Generator":
        return SeededRandom(self.seed).stream(str(self.trial), *labels)

    def draw_seed(self, *labels: str) -> int:
        return SeededRandom(self.seed).draw_seed(str(self.trial), *labels)

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        offered = [scripted.tool for scripted in self.scripted_tools if self._is_offered(scripted)]
        first = self.policy.first
        due = first is not None and not any(name == first for name, _ in self.tool_calls)
        return [tool for tool in offered if tool.name == first] or offered if due else offered

    @property
    def all_tools(self) -> Sequence[ToolDefinition]:
        return [scripted.tool for scripted in self.scripted_tools if self._is_permitted(scripted)]

    def is_final_answer_time(self, place: str) -> bool:
        return self.seconds_left <= self.limits.final_seconds

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        offered = [item.name for item in self.tools]
        if tool not in offered:
            text = f"there is no tool {tool}; there are: {', '.join(offered) or 'none'}"
            return ToolResult(observation=StepObservation(text=text), failed=True)
        self.tool_calls.append((tool, dict(arguments)))
        return next(scripted for scripted in self.scripted_tools if scripted.tool.name == tool).run(arguments)

    def dialect(self, role: str) -> ModelDialect:
        return self._model(role).dialect

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        model, answer = self._scripted_answer(role, prompt, seed)
        match answer:
            case HangingStep():
                await asyncio.Event().wait()
            case Exception():
                raise answer
        assert isinstance(answer, ModelCompletion)  # noqa: S101 - the other cases did not come back
        usage = answer.usage if answer.usage.calls else _estimated_usage(prompt, answer)
        record = sha256_hex(f"{len(self.prompts)} {answer!r}".encode(errors="replace"))
        return ModelAnswer(completion=answer, usage=usage, model=model.name, document=record)

    async def store_text(self, text: str) -> str:
        self.stored_texts.append(text)
        return sha256_hex(text.encode())

    async def report_performance(self, performance: ModelPerformance) -> None:
        self.reported_performances.append(performance)

    def _is_offered(self, scripted: ScriptedTool) -> bool:
        times = sum(used == scripted.tool.name for used, _ in self.tool_calls)
        return self._is_permitted(scripted) and (scripted.use_limit is None or times < scripted.use_limit)

    def _is_permitted(self, scripted: ScriptedTool) -> bool:
        return self.policy.tools is None or scripted.tool.name in self.policy.tools

    def _scripted_answer(self, role: str, prompt: Prompt, seed: int | None) -> tuple[ScriptedModel, ScriptedAnswer]:
        """Ask the role's model, or its fallback, and return which one answered and its answer."""
        model = self._model(role)
        while model.fallback is not None and prompt.model == model.fallback.name:
            model = model.fallback
        while True:
            sent = _prompt_for_model(prompt, model.name)
            self.prompts.append(RecordedPrompt(role, sent, seed))
            answer = model.script(sent)
            if model.fallback is None or not isinstance(answer, FoxcastError):
                return model, answer
            model = model.fallback

    def _model(self, role: str) -> ScriptedModel:
        if role not in self.models:
            message = f"no model plays the role {role} here"
            raise ConfigError(message)
        return self.models[role]


def changed_prefixes(asked: Sequence[RecordedPrompt]) -> list[str]:
    """Return the requests that do not begin with the one before them: one conversation has one role and one seed.

    The tools are the same objects in each, and no message changes after it was sent. A model that takes over begins
    anew, so its requests count from there.
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


def _prompt_for_model(prompt: Prompt, name: str) -> Prompt:
    """Return what is sent to a model: the conversation where it is its own, else the handover."""
    if prompt.model in {"", name}:
        return prompt
    stateless = tuple(replace(message, native=None) for message in prompt.messages)
    messages = prompt.handover or stateless
    return replace(prompt, messages=messages, stable=len(messages), model="", handover=())


def _estimated_usage(prompt: Prompt, answer: ModelCompletion) -> ModelUsage:
    read = sum(len(message.text) + sum(len(part.arguments) for part in message.calls) for message in prompt.messages)
    written = len(answer.text) + sum(len(part.arguments) for part in answer.calls)
    return ModelUsage(calls=1, tokens_in=read // CHARS_PER_TOKEN, tokens_out=written // CHARS_PER_TOKEN)
