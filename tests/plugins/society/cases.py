"""Questions, models and trial contexts that the tests of the court share."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.api import fence_text
from bot.core.beliefs import ShownSource, Step, StepObservation, ToolResult
from bot.core.errors import FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, Prompt, ToolDefinition
from bot.core.predictions import BinaryPrediction, BinaryShape, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.values import Json
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    fixed_text_tool,
    offered_tool_names,
    show_sources,
    tool_call_answer,
)
from plugins.society.forecaster import CourtForecaster
from plugins.society.settings import CourtSettings

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
TEXT: Json = {"type": "string"}
MAIN = "main"


def found(*results: tuple[str, str, str]) -> ToolResult:
    """Return the search tool's text on results: title, address, excerpt."""
    sources = (
        ShownSource(name=f"search_1_result_{place}", url=url, title=title, date="2025-12-20", text=excerpt)
        for place, (title, url, excerpt) in enumerate(results, 1)
    )
    return show_sources(f"search_1: {len(results)} results.", *sources)


RESULTS = found(
    ("Ship leaves port", "https://news.example/ship", "It sailed on Monday."),
    ("Harbour closed", "https://port.example/closed", "Storm until Friday."),
)


def question(shape: QuestionShape | None = None, *, targets: Sequence[str] = ("outcome",), **more: Any) -> Question:
    due = CUTOFF + timedelta(days=30)
    return Question(
        ref=QuestionRef("harbour", "q"),
        title="Will the ship come in?",
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=due) for key in targets),
        **more,
    )


def priced(price: float) -> Question:
    return question(crowd=CrowdForecast(prediction=BinaryPrediction(price), at=CUTOFF - timedelta(days=1)))


@dataclass
class ScriptedParticipant:
    """Plays a role: fills in whatever call it is offered; ``answers`` are the numbers it gives, the last one for ever.

    ``says`` replaces arguments by the name of the call, or all that is said to it where it is an answer or an error.
    """

    answers: Sequence[Any] = (0.7,)
    says: Mapping[str, Any] = field(default_factory=dict)
    given: int = 0

    def __call__(self, prompt: Prompt) -> ScriptedAnswer:
        tool = wanted(prompt)
        override = self.says.get(tool.name, {})
        if isinstance(override, ModelCompletion | Exception):
            return override
        properties: Any = tool.parameters["properties"]
        arguments = {name: self.value(tool.name, name, schema) for name, schema in properties.items()}
        return tool_call_answer(tool.name, json.dumps({**arguments, **override}))

    def value(self, tool: str, name: str, schema: Any) -> Any:
        plain = {"confidence": "medium", "queries": ["Ship, harbour?"]}
        if name in plain:
            return plain[name]
        if name == "statement":
            return f"words to {tool}"
        if name == "ratings":
            return ratings(*[(6, 6)] * schema["maxItems"])
        if name == "points":
            return [{"text": "it sailed", "source": "search_1_result_1"}]
        if name == "jurors":
            fields = schema["items"]["properties"]
            return [{field: f"{field} {n}" for field in fields} for n in range(1, schema["maxItems"] + 1)]
        self.given += 1
        return self.answers[min(self.given, len(self.answers)) - 1]


def ratings(*grades: tuple[Any, Any], finding: str = "words to rate") -> list[Any]:
    """Return the answer of a rater: relevance and objectivity of each text."""
    return [
        {"number": number, "finding": finding, "relevance": relevance, "objectivity": objectivity}
        for number, (relevance, objectivity) in enumerate(grades, 1)
    ]


def wanted(prompt: Prompt) -> ToolDefinition:
    """Return the one call that a prompt asks for."""
    (name,) = offered_tool_names(prompt)
    return next(tool for tool in prompt.tools if tool.name == name)


def scripted_context(
    main: Callable[[Prompt], ScriptedAnswer] | None = None, /, *, results: ToolResult = RESULTS, **more: Any
) -> ScriptedTrialContext:
    """Return a trial context with a model for every role; add models by keyword: juror_1=ScriptedParticipant(...)."""
    roles = {name: more.pop(name) for name in [*more] if callable(more[name])}
    models = {name: ScriptedModel(script, name=f"scripted:{name}") for name, script in roles.items()}
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "models": {MAIN: ScriptedModel(main or ScriptedParticipant()), **models},
        "scripted_tools": [searches(results), reads()],
        "limits": TrialLimits(steps=200),
        **more,
    }
    return ScriptedTrialContext(**given)


def searches(results: ToolResult = RESULTS, uses: int | None = None) -> ScriptedTool:
    return ScriptedTool(fixed_text_tool("web_search", "", query=TEXT).tool, lambda _: results, uses)


def reads(text: str = "The whole story.") -> ScriptedTool:
    page = ToolResult(
        observation=StepObservation(text=fence_text(text, "page_1"), documents=("d" * 64,)),
        sources=(ShownSource(name="page_1", text=text),),
    )
    return ScriptedTool(fixed_text_tool("lookup_url", "", url=TEXT).tool, lambda _: page)


async def steps_of(
    at: ScriptedTrialContext, settings: CourtSettings | None = None, asked: Question | None = None
) -> tuple[list[Step], FoxcastError | None]:
    """Return all steps, and the error with which the trial ended, if it did."""
    steps: list[Step] = []
    try:
        async with aclosing(CourtForecaster(settings or CourtSettings()).steps(asked or question(), at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


async def done(
    at: ScriptedTrialContext, settings: CourtSettings | None = None, asked: Question | None = None
) -> list[Step]:
    """Return all steps of a trial that came to its end."""
    steps, error = await steps_of(at, settings, asked)
    assert error is None
    assert steps[-1].final
    return steps


def named(steps: Sequence[Step], name: str) -> list[Step]:
    """Return the moves of a step of the scenario, by its name."""
    return [step for step in steps if step.action.arguments.get("name") == name]


def probability(step: Step) -> float:
    (prediction,) = step.belief.predictions.values()
    assert isinstance(prediction, BinaryPrediction)
    return prediction.probability


def told(step: Step, key: str) -> Any:
    """Return one of the arguments of a step."""
    return step.action.arguments[key]


def heard(at: ScriptedTrialContext, role: str) -> str:
    """Return everything that a role was told in its last request."""
    return "\n".join(message.text for message in [one for one in at.prompts if one.role == role][-1].prompt.messages)


def silence() -> ModelCompletion:
    return ModelCompletion(text="")
