"""An orchestra in a scripted trial: the models, their answers in order, and the results."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.beliefs import Step
from bot.core.errors import FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.values import Json
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    fixed_text_tool,
    tool_call_answer,
)
from bot.testing.trial_context import offered_tool_names as names_offered
from plugins.orchestra.forecaster import OrchestraForecaster
from plugins.orchestra.settings import OrchestraSettings

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
QUERY: Json = {"type": "string"}
CHOICE = ChoiceShape(options=("red", "green", "blue"))
CURVE = CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points", open_upper=True)
LEADER = "orchestrator"
# Far above what any orchestra here needs, so that every turn is a step of its own.
ROOMY = TrialLimits(steps=1000)
_NAME = re.compile(r"^You are (\w+)\. ", re.MULTILINE)
_OPENINGS = {
    "You review a forecast": "critic",
    "all that a group of researchers": "candidate",
    "several answers": "merger",
}


def question(shape: QuestionShape | None = None, *, targets: tuple[str, ...] = ("outcome",), **more: Any) -> Question:
    given = {"ref": QuestionRef("harbour", "q"), "title": "Will the ship come in?", **more}
    return Question(
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=CUTOFF + timedelta(days=30)) for key in targets),
        **given,
    )


def speaker(prompt: Prompt) -> str:
    """Return who is asked: the name of a subagent, or what the one is for who is none."""
    system = prompt.messages[0].text
    if "You are one of several subagents" in system and (named := _NAME.search(prompt.messages[1].text)):
        return named[1]
    return next((who for opening, who in _OPENINGS.items() if opening in system), LEADER)


def move(name: str, arguments: Mapping[str, Any] | None = None, belief: Any = None) -> ModelCompletion:
    sent = dict(arguments or {})
    if belief is not None:
        sent["updated_belief"] = belief
    return tool_call_answer(name, json.dumps(sent))


def as_json(said: ModelCompletion) -> ModelCompletion:
    """Return a native call as a model says it that answers with one JSON object."""
    arguments = json.loads(said.calls[0].arguments)
    belief = arguments.pop("updated_belief", None)
    whole = {"action": said.calls[0].name, "arguments": arguments}
    return ModelCompletion(text=json.dumps(whole | ({} if belief is None else {"updated_belief": belief})))


def believing(value: Any, *, field_name: str = "probability", **more: Any) -> dict[str, Any]:
    return {field_name: value, "confidence": "medium", "update_reasoning": "because", **more}


def make(name: str, kind: str = "researcher", **more: Any) -> ModelCompletion:
    return move("create_subagent", {"name": name, "kind": kind, **more})


def run(name: str, task: str = "find out") -> ModelCompletion:
    return move("run_subagents", {"runs": [{"name": name, "task": task}]})


def parallel(*names: str, task: str = "find out") -> ModelCompletion:
    return move("run_subagents", {"runs": [{"name": name, "task": f"{task} {name}"} for name in names]})


def batch(name: str, *tasks: str) -> ModelCompletion:
    return move("run_subagents", {"runs": [{"name": name, "task": task} for task in tasks]})


def critique(**more: str) -> ModelCompletion:
    given = {"verdict": "thin", "probability_change": "lower", "objections": "one source"}
    return move("give_critique", {**given, **more})


def search(query: str = "ship") -> ModelCompletion:
    return move("web_search", {"query": query})


def store(text: str, category: str = "research", **more: Any) -> ModelCompletion:
    return move("shared_memory", {"operation": "store", "text": text, "category": category, **more})


def report(findings: str = "it sailed", **more: Any) -> ModelCompletion:
    return move("report_results", {"task_status": "complete", "findings": findings, "confidence": 70, **more})


def ask(question: str = "which ship?") -> ModelCompletion:
    return move("request_guidance", {"question": question, "urgency": "high"})


def submit(value: Any = 0.7, *, field_name: str = "probability", belief: Any = None) -> ModelCompletion:
    return move("submit", {field_name: value, "reasoning": "all in all"}, belief)


Line = ScriptedAnswer | Callable[[Prompt], ScriptedAnswer]


@dataclass
class ScriptedSpeakers:
    """Says for each speaker one line after the other; a single function says all lines of one."""

    lines: Mapping[str, Sequence[Line] | Callable[[Prompt], ScriptedAnswer]]
    said: dict[str, int] = field(default_factory=dict)

    def __call__(self, prompt: Prompt) -> ScriptedAnswer:
        who = speaker(prompt)
        known = self.lines[who]
        if callable(known):
            return known(prompt)
        number = self.said[who] = self.said.get(who, 0) + 1
        assert number <= len(known), f"{who} was asked {number} times and has {len(known)} lines"
        line = known[number - 1]
        return line(prompt) if callable(line) else line


def searches(text: str = "search_1_result_1: the ship left port") -> ScriptedTool:
    return fixed_text_tool("web_search", text, query=QUERY)


def scripted_context(
    *leader: Line, dialect: ModelDialect = ModelDialect.TOOLS, others: Mapping[str, Any] | None = None, **more: Any
) -> ScriptedTrialContext:
    """Return a trial context in which one model plays all roles."""
    model = ScriptedModel(ScriptedSpeakers({LEADER: leader, **(others or {})}), dialect)
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "models": {"main": model},
        "scripted_tools": [searches(), fixed_text_tool("lookup_url", "a page", url=QUERY)],
        "limits": ROOMY,
        **more,
    }
    return ScriptedTrialContext(**given)


async def steps_of(
    asked: Question, at: ScriptedTrialContext, settings: OrchestraSettings | None = None
) -> tuple[list[Step], FoxcastError | None]:
    """Return all steps, and the error with which the stream told that nothing was submitted."""
    steps: list[Step] = []
    try:
        async with aclosing(OrchestraForecaster(settings or OrchestraSettings()).steps(asked, at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


def moves(steps: Sequence[Step]) -> list[tuple[Json, str]]:
    """Return who made which move, in order."""
    return [(step.action.arguments.get("made_by", LEADER), step.action.name) for step in steps]


def probability(step: Step) -> float:
    (found,) = step.belief.predictions.values()
    assert isinstance(found, BinaryPrediction)
    return found.probability


def offered(at: ScriptedTrialContext, who: str) -> list[list[str]]:
    """Return what each prompt to a speaker lets it call, read from its tools or its schema."""
    return [names_offered(asked.prompt) for asked in at.prompts if speaker(asked.prompt) == who]


def told(at: ScriptedTrialContext, who: str) -> list[str]:
    """Return the last message of each prompt to a speaker."""
    return [asked.prompt.messages[-1].text for asked in at.prompts if speaker(asked.prompt) == who]


async def refusals(*leader: ModelCompletion, **more: Any) -> list[str]:
    """Return what the orchestrator was told of each of its moves but the last."""
    at = scripted_context(*leader, submit(), **more)
    steps, error = await steps_of(question(), at)
    assert error is None
    return [step.observation.text for step in steps[:-1]]
