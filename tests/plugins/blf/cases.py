"""Questions, answers and desks that the tests of BLF share."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.beliefs import Step
from bot.core.errors import FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import MessageRole, ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.values import Json
from bot.testing.trial_context import (
    AnswerScript,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    answer_in_turn,
    fixed_text_tool,
    tool_call_answer,
)
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
QUERY: Json = {"type": "string"}
DATES = ("2026-02-01", "2026-03-01", "2026-04-01")
GRID = tuple(float(point) for point in range(0, 101, 5))
DAYS = tuple((CUTOFF + timedelta(days=day)).timestamp() for day in range(100))
CHOICE = ChoiceShape(options=("red", "green", "blue"))
CURVE = CurveShape(grid=GRID, unit="points", open_upper=True)
DATE_CURVE = CurveShape(grid=DAYS, unit="date", open_upper=True)


def question(shape: QuestionShape | None = None, *, targets: tuple[str, ...] = ("outcome",), **more: Any) -> Question:
    given = {"ref": QuestionRef("harbour", "q"), "title": "Will the ship come in?", **more}
    return Question(
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=CUTOFF + timedelta(days=30)) for key in targets),
        **given,
    )


def priced(price: float, **more: Any) -> Question:
    return question(crowd=CrowdForecast(prediction=BinaryPrediction(price), at=CUTOFF - timedelta(days=1)), **more)


def believing(value: Any, *, field: str = "probability", **more: Any) -> dict[str, Any]:
    return {field: value, "confidence": "medium", "update_reasoning": "because", **more}


def move(name: str, arguments: Mapping[str, Any] | None = None, belief: Any = None) -> ModelCompletion:
    sent = dict(arguments or {})
    if belief is not None:
        sent["updated_belief"] = belief
    return tool_call_answer(name, json.dumps(sent))


def call_of(name: str, arguments: Mapping[str, Any]) -> ModelCompletion:
    return tool_call_answer(name, json.dumps(arguments))


def search(query: str = "ship", belief: Any = None) -> ModelCompletion:
    return move("web_search", {"query": query}, belief)


def submit(value: Any, belief: Any = None, *, field: str = "probability") -> ModelCompletion:
    return move("submit", {field: value, "reasoning": "all in all"}, belief)


def searches(text: str = "search_1_result_1: the ship left port") -> ScriptedTool:
    return fixed_text_tool("web_search", text, query=QUERY)


def create_context(
    *answer: ScriptedAnswer, script: AnswerScript | None = None, dialect: ModelDialect = ModelDialect.TOOLS, **more: Any
) -> ScriptedTrialContext:
    model = ScriptedModel(script or answer_in_turn(*answer), dialect)
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "models": {"main": model},
        "scripted_tools": [searches(), fixed_text_tool("lookup_url", "a page", url=QUERY)],
        "limits": TrialLimits(steps=10),
        **more,
    }
    return ScriptedTrialContext(**given)


async def steps_of(
    asked: Question, at: ScriptedTrialContext, settings: BlfSettings | None = None
) -> tuple[list[Step], FoxcastError | None]:
    """Return all steps, and the error that says that the trial did not come to submitting."""
    steps: list[Step] = []
    try:
        async with aclosing(BlfForecaster(settings or BlfSettings()).steps(asked, at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


def probabilities(step: Step) -> list[float]:
    return [found.probability for found in step.belief.predictions.values() if isinstance(found, BinaryPrediction)]


def probability(step: Step) -> float:
    (found,) = probabilities(step)
    return found


def announced(prompt: Prompt) -> list[str]:
    """Return the names that the prompt last named as allowed, in all that answers its last message."""
    spoken = [place for place, message in enumerate(prompt.messages) if message.speaker is MessageRole.ASSISTANT]
    heard = "".join(message.text for message in prompt.messages[max(spoken, default=-1) + 1 :])
    for opening in ("You can call now: ", "Send exactly one of: "):
        if opening in heard:
            return heard.rpartition(opening)[2].partition(".")[0].split(", ")
    return []
