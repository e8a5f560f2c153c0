"""Questions, models and desks that the tests of the court share."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.api import quoted
from bot.domain.forecast import Limits
from bot.domain.prediction import Binary, BinaryShape, Shape
from bot.domain.prompt import Completion, Prompt, Tool
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.step import Json, Step
from bot.errors import FoxcastError
from bot.testing.desk import Said, ScriptedDesk, ScriptedModel, ScriptedTool, call, offered, tool_that_says
from plugins.society.forecaster import Court
from plugins.society.settings import CourtSettings

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
TEXT: Json = {"type": "string"}
MAIN = "main"


def found(*results: tuple[str, str, str]) -> str:
    """Return what the desk's search says of results: title, address, excerpt."""
    shown = [
        quoted(f"{title}\n{url} (2025-12-20)\n{excerpt}", f"search_1_result_{place}")
        for place, (title, url, excerpt) in enumerate(results, 1)
    ]
    return "\n".join((f"search_1: {len(results)} results.", *shown))


RESULTS = found(
    ("Ship leaves port", "https://news.example/ship", "It sailed on Monday."),
    ("Harbour closed", "https://port.example/closed", "Storm until Friday."),
)


def question(shape: Shape | None = None, *, targets: Sequence[str] = ("outcome",), **more: Any) -> Question:
    due = CUTOFF + timedelta(days=30)
    return Question(
        ref=QuestionRef("harbour", "q"),
        title="Will the ship come in?",
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=due) for key in targets),
        **more,
    )


def priced(price: float) -> Question:
    return question(crowd=Crowd(prediction=Binary(price), at=CUTOFF - timedelta(days=1)))


@dataclass
class Actor:
    """Plays a role: fills in whatever call it is offered; ``answers`` are the numbers it gives, the last one for ever.

    ``says`` replaces arguments by the name of the call, or all that is said to it where it is an answer or an error.
    """

    answers: Sequence[Any] = (0.7,)
    says: Mapping[str, Any] = field(default_factory=dict)
    given: int = 0

    def __call__(self, prompt: Prompt) -> Said:
        tool = wanted(prompt)
        override = self.says.get(tool.name, {})
        if isinstance(override, Completion | Exception):
            return override
        properties: Any = tool.parameters["properties"]
        arguments = {name: self.value(tool.name, name, schema) for name, schema in properties.items()}
        return call(tool.name, json.dumps({**arguments, **override}))

    def value(self, tool: str, name: str, schema: Any) -> Any:
        plain = {"confidence": "medium", "relevance": 6, "objectivity": 6, "queries": ["Ship, harbour?"]}
        if name in plain:
            return plain[name]
        if name in {"statement", "finding"}:
            return f"words to {tool}"
        if name == "points":
            return [{"text": "it sailed", "source": "search_1_result_1"}]
        if name == "jurors":
            fields = schema["items"]["properties"]
            return [{field: f"{field} {n}" for field in fields} for n in range(1, schema["maxItems"] + 1)]
        self.given += 1
        return self.answers[min(self.given, len(self.answers)) - 1]


def wanted(prompt: Prompt) -> Tool:
    """Return the one call that a prompt asks for."""
    (name,) = offered(prompt)
    return next(tool for tool in prompt.tools if tool.name == name)


def desk(main: Callable[[Prompt], Said] | None = None, /, *, text: str = RESULTS, **more: Any) -> ScriptedDesk:
    """Return a desk with a model for every role and, as further keywords, models of their own: juror_1=Actor(...)."""
    roles = {name: more.pop(name) for name in [*more] if callable(more[name])}
    models = {name: ScriptedModel(script, name=f"scripted:{name}") for name, script in roles.items()}
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "models": {MAIN: ScriptedModel(main or Actor()), **models},
        "bench": [searches(text), reads()],
        "limits": Limits(steps=200),
        **more,
    }
    return ScriptedDesk(**given)


def searches(text: str = RESULTS, uses: int | None = None) -> ScriptedTool:
    tool = tool_that_says("web_search", text, query=TEXT)
    return ScriptedTool(tool.tool, tool.run, uses)


def reads(text: str = "The whole story.") -> ScriptedTool:
    return tool_that_says("lookup_url", quoted(text, "page_1"), url=TEXT)


async def steps_of(
    at: ScriptedDesk, settings: CourtSettings | None = None, asked: Question | None = None
) -> tuple[list[Step], FoxcastError | None]:
    """Return all steps, and the error with which the trial ended, if it did."""
    steps: list[Step] = []
    try:
        async with aclosing(Court(settings or CourtSettings()).steps(asked or question(), at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


async def done(at: ScriptedDesk, settings: CourtSettings | None = None, asked: Question | None = None) -> list[Step]:
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
    assert isinstance(prediction, Binary)
    return prediction.probability


def told(step: Step, key: str) -> Any:
    """Return one of the arguments of a step."""
    return step.action.arguments[key]


def heard(at: ScriptedDesk, role: str) -> str:
    """Return everything that a role was told in its last request."""
    return "\n".join(message.text for message in [one for one in at.asked if one.role == role][-1].prompt.messages)


def silence() -> Completion:
    return Completion(text="")
