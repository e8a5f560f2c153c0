"""Questions, players and trial contexts that the tests of the team share."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.beliefs import ModelUsage, ShownSource, Step, ToolResult
from bot.core.errors import FoxcastError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import MessageRole, ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import BinaryPrediction, BinaryShape, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.values import Json
from bot.testing.trial_context import (
    AnswerScript,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    fixed_text_tool,
    offered_tool_names,
    show_sources,
    tool_call_answer,
)
from plugins.team.forecaster import TeamForecaster
from plugins.team.settings import TeamSettings

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
QUERY: Json = {"type": "string", "maxLength": 1600}
Answer = Callable[[Prompt], ScriptedAnswer]


def question(shape: QuestionShape | None = None, *, targets: tuple[str, ...] = ("outcome",), **more: Any) -> Question:
    given = {"ref": QuestionRef("harbour", "q"), "title": "Will the ship come in?", **more}
    return Question(
        shape=shape or BinaryShape(),
        targets=tuple(Target(key=key, resolves_at=CUTOFF + timedelta(days=30)) for key in targets),
        **given,
    )


def priced(price: float) -> Question:
    return question(crowd=CrowdForecast(prediction=BinaryPrediction(price), at=CUTOFF - timedelta(days=1)))


def results(search: int, *titles: str) -> tuple[ShownSource, ...]:
    """Return what a search shows."""
    return tuple(
        ShownSource(
            name=f"search_{search}_result_{place}",
            search=search,
            place=place,
            url=f"https://news.example/{search}/{place}",
            title=title,
            date="2025-12-01",
            text="an excerpt",
        )
        for place, title in enumerate(titles, 1)
    )


def search_tool(*, hits: int = 2, uses: int | None = None) -> ScriptedTool:
    """Return a search that numbers its searches as the real tool does."""
    count = 0

    def run(arguments: Mapping[str, Json]) -> ToolResult:
        nonlocal count
        count += 1
        found = results(count, *(f"Ship news {count}-{place}" for place in range(1, hits + 1)))
        shown = show_sources(f"search_{count}: {hits} results.", *found)
        return replace(shown, observation=replace(shown.observation, documents=(f"search-{arguments['query']}",)))

    return ScriptedTool(fixed_text_tool("web_search", "", query=QUERY).tool, run, uses)


def summary_tool() -> ScriptedTool:
    number: Json = {"type": "integer", "minimum": 1}
    places: Json = {"type": "array", "items": number}
    return fixed_text_tool(
        "summarize_results", "It has left port.", search_index=number, result_indices=places, question=QUERY
    )


def form_of(prompt: Prompt) -> str:
    """Return the name of what a prompt asks for."""
    (name,) = offered_tool_names(prompt)
    return name


def told(prompt: Prompt) -> str:
    """Return what the conversation of a joint step has said to the member so far."""
    return "\n\n".join(one.text for one in prompt.messages[1:] if one.speaker is not MessageRole.ASSISTANT)


def member_name(prompt: Prompt) -> str:
    return told(prompt).partition("\nYou are ")[2].partition(".")[0]


def list_in(prompt: Prompt) -> list[str]:
    """Return the options that a prompt lists, without their letters."""
    lines = told(prompt).partition("These are the actions that you can do now:\n")[2].partition("\n\n")[0]
    return [line.partition(". ")[2] for line in lines.splitlines() if line[1:3] == ". "]


@dataclass(slots=True)
class ScriptedMember:
    """Plays a member: what it says to each form, by name; ``picks`` are beginnings of options, in order of liking.

    Without ``words`` of its own it says others each time. Every prompt it saw is kept in ``saw``, with the form.
    """

    picks: tuple[str, ...] = ("read", "search", "submit")
    probability: Any = 0.7
    facts: Callable[[Prompt], list[dict[str, Any]]] = lambda _: []
    message: Callable[[Prompt], str] = lambda _: ""
    words: Callable[[Prompt], str] | None = None
    instead: Mapping[str, Answer] = field(default_factory=dict)
    field_name: str = "probability"
    confidence: str = "medium"
    dialect: ModelDialect = ModelDialect.TOOLS
    saw: list[tuple[str, Prompt]] = field(default_factory=list)

    def __call__(self, prompt: Prompt) -> ScriptedAnswer:
        name = form_of(prompt)
        self.saw.append((name, prompt))
        if name in self.instead:
            return self.instead[name](prompt)
        return self.say(name, self._given(name, prompt))

    def _given(self, name: str, prompt: Prompt) -> dict[str, Any]:
        match name:
            case "draft_message":
                return {"text": self.message(prompt)}
            case "think_aloud":
                return {"thoughts": "One thing after the other."}
            case "choose":
                return {"option": self.pick(prompt), "words": self._words(prompt)}
        belief = {"reasoning": "so it seems", "confidence": self.confidence, self.field_name: self.probability}
        return {"facts": self.facts(prompt), **belief}

    def say(self, name: str, arguments: Mapping[str, Any]) -> ModelCompletion:
        usage = ModelUsage(calls=1, tokens_in=100, tokens_out=10)
        if self.dialect is ModelDialect.JSON:
            return ModelCompletion(text=json.dumps({"action": name, "arguments": arguments}), usage=usage)
        return replace(tool_call_answer(name, json.dumps(arguments)), usage=usage)

    def lists(self) -> list[list[str]]:
        return [list_in(prompt) for name, prompt in self.saw if name == "choose"]

    def model(self) -> ScriptedModel:
        return ScriptedModel(self, self.dialect)

    def _words(self, prompt: Prompt) -> str:
        name = member_name(prompt)
        return f"the ship, {name} {len(self.saw)}" if self.words is None else self.words(prompt)

    def pick(self, prompt: Prompt) -> str:
        options = list_in(prompt)
        liked = (place for pick in self.picks for place, option in enumerate(options) if option.startswith(pick))
        return chr(ord("A") + next(liked, len(options) - 1))


def fact(text: str, source: str, settles: str = "none", speaks: str = "for") -> dict[str, Any]:
    return {"text": text, "source": source, "settles": settles, "speaks": speaks}


def team_context(*players: ScriptedMember | AnswerScript, **more: Any) -> ScriptedTrialContext:
    """Return a trial context in which these play team_1, team_2, ..."""
    models = {
        f"team_{number}": player.model() if isinstance(player, ScriptedMember) else ScriptedModel(player)
        for number, player in enumerate(players, 1)
    }
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "models": models,
        "scripted_tools": [search_tool(), summary_tool()],
        "limits": TrialLimits(steps=60),
        **more,
    }
    return ScriptedTrialContext(**given)


async def steps_of(
    asked: Question, at: ScriptedTrialContext, **settings: Any
) -> tuple[list[Step], FoxcastError | None]:
    steps: list[Step] = []
    try:
        async with aclosing(TeamForecaster(TeamSettings(**settings)).steps(asked, at)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


def remarks(steps: Iterable[Step]) -> str:
    return "\n".join(remark for step in steps for remark in step.remarks)


def probability(step: Step) -> float:
    (found,) = step.belief.predictions.values()
    assert isinstance(found, BinaryPrediction)
    return found.probability


def done(steps: Iterable[Step]) -> list[tuple[str, str]]:
    """Return who did what."""
    return [(str(step.action.arguments["agent"]), step.action.name) for step in steps]


def finder(goal: str, **more: Any) -> ScriptedMember:
    """Return a player that notes a fact of the first result that it is shown, and settles a sub-goal by it."""

    def facts(prompt: Prompt) -> list[dict[str, Any]]:
        shown = [f"search_{number}_result_1" for number in range(1, 9) if f"search_{number}_result_1" in came(prompt)]
        return [fact(f"{goal} is found", shown[0], goal)] if shown else []

    return ScriptedMember(facts=facts, **more)


def came(prompt: Prompt) -> str:
    return told(prompt).partition("The result:")[2]


def asked_for(player: ScriptedMember) -> list[str]:
    return [name for name, _ in player.saw]
