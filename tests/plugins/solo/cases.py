"""Questions, answers and trial contexts that the tests of Solo share."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.beliefs import ShownSource, Step, StepObservation, ToolResult
from bot.core.errors import FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.values import Json
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    answer_in_turn,
    fixed_text_tool,
    show_sources,
    tool_call_answer,
)
from plugins.solo.forecaster import SoloForecaster
from plugins.solo.settings import SoloSettings

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)
TEXT: Json = {"type": "string"}
CRITERIA = "Resolves yes if the harbour office logs the ship Aurora as moored in the inner basin by 31 January 2026."
RESTATED = (
    "Yes needs the harbour office to log the Aurora as moored in the inner basin at any time up to 31 January 2026."
)
CHOICE = ChoiceShape(options=("red", "green", "blue"))
CURVE = CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points", open_upper=True)
FOUND = (
    ShownSource(
        name="search_1_result_1", url="https://www.harbour.example/a", title="Bay", date="2026-01-02", text="x"
    ),
    ShownSource(name="search_1_result_2", url="https://news.pier.co.uk/a", title="News", date="2026-01-03", text="y"),
)


def question(shape: QuestionShape | None = None, *, targets: tuple[str, ...] = ("outcome",), **more: Any) -> Question:
    given = {"ref": QuestionRef("harbour", "q"), "title": "Will the ship come in?", "criteria": CRITERIA, **more}
    return Question(
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=CUTOFF + timedelta(days=30)) for key in targets),
        **given,
    )


def priced(price: float, **more: Any) -> Question:
    return question(crowd=CrowdForecast(prediction=BinaryPrediction(price), at=CUTOFF - timedelta(days=1)), **more)


def move(name: str, **arguments: Any) -> ModelCompletion:
    return tool_call_answer(name, json.dumps(arguments))


def update(value: Any, *, field: str = "probability", **more: Any) -> ModelCompletion:
    said = {"bottom_line": "It will.", "rationale": "It is on its way.", "confidence": "high", field: value, **more}
    return move("update", **said)


def submit(value: Any, *, field: str = "probability", **more: Any) -> ModelCompletion:
    return move("submit", **{"bottom_line": "It will.", "rationale": "All in all.", field: value, **more})


def critique(objections: str, *, change: str = "as it is") -> ModelCompletion:
    return move("give_critique", verdict="Not yet.", objections=objections, probability_change=change)


def search(query: str = "ship") -> ModelCompletion:
    return move("web_search", query=query)


def evidence(*sources: str) -> list[dict[str, str]]:
    return [{"text": f"fact {number}", "source": source} for number, source in enumerate(sources)]


def earlier(**data: Any) -> ScriptedTool:
    """Return the tool that tells of an own forecast of 0.25, two days old, on a price of 0.3."""
    given: dict[str, Any] = {
        "count": 1,
        "made_at": (CUTOFF - timedelta(days=2)).isoformat(),
        "since": (CUTOFF - timedelta(days=2)).isoformat(),
        "predictions": {"outcome": {"kind": "binary", "probability": 0.25}},
        "crowd": {"kind": "binary", "probability": 0.3},
        "same_text": True,
        "why": "stale",
        **data,
    }
    tool = fixed_text_tool("earlier_forecasts", "")
    result = ToolResult(observation=StepObservation(text="2026-01-08: 0.250", documents=("d" * 64,)), data=given)
    return ScriptedTool(tool.tool, lambda _: result)


def scripted_context(
    *said: ScriptedAnswer,
    critic: tuple[ScriptedAnswer, ...] | None = None,
    tools: tuple[ScriptedTool, ...] = (),
    **more: Any,
) -> Any:
    dialect = more.pop("dialect", ModelDialect.TOOLS)
    read = more.pop("read", fixed_text_tool("lookup_url", "page", url=TEXT))
    found = show_sources("search_1: 2 results.", *FOUND)
    searches = ScriptedTool(fixed_text_tool("web_search", "", query=TEXT).tool, lambda _: found)
    models: dict[str, ScriptedModel] = {"main": ScriptedModel(answer_in_turn(*said), dialect)}
    if critic is not None:
        models["critic"] = ScriptedModel(answer_in_turn(*critic), dialect, "scripted:critic")
    return ScriptedTrialContext(
        cutoff=CUTOFF,
        models=models,
        scripted_tools=[searches, read, *tools],
        limits=more.pop("limits", TrialLimits(steps=10)),
        **more,
    )


async def steps_of(
    asked: Question, at: ScriptedTrialContext, settings: SoloSettings | None = None
) -> tuple[list[Step], FoxcastError | None]:
    """Return all steps, and the error with which the stream told that the trial did not come to submitting."""
    steps: list[Step] = []
    try:
        async with aclosing(SoloForecaster(settings or SoloSettings()).steps(asked, at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


async def final(asked: Question, at: ScriptedTrialContext, settings: SoloSettings | None = None) -> Step:
    """Return the last step of a trial that came to its end."""
    steps, error = await steps_of(asked, at, settings)
    assert error is None
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    return steps[-1]


def probability(step: Step) -> float:
    (found,) = step.belief.predictions.values()
    assert isinstance(found, BinaryPrediction)
    return found.probability


def last_said(prompt: Prompt) -> str:
    return prompt.messages[-1].text


def arguments_of(step: Step) -> Mapping[str, Json]:
    return step.action.arguments
