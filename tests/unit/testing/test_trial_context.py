"""The scripted context offers what its policy allows, remembers what happened, and lets no script run dry unseen."""

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError, ServiceUnavailableError
from bot.core.language_models import Message, MessageRole, ModelCompletion, Prompt
from bot.core.research import SourcePolicy
from bot.testing.trial_context import (
    RecordedPrompt,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    answer_in_turn,
    fixed_text_tool,
)

PROMPT = Prompt(messages=(Message(speaker=MessageRole.USER, text="x" * 40),))
LOOK = fixed_text_tool("look", "seen", where={"type": "string"})
LISTEN = fixed_text_tool("listen", "heard")


async def test_a_script_speaks_in_turn_and_everything_is_remembered() -> None:
    spent = ModelCompletion(text="two", usage=ModelUsage(calls=3, cost_usd=0.5))
    context = ScriptedTrialContext(
        models={"main": ScriptedModel(answer_in_turn(ModelCompletion(text="one" * 4), spent))}
    )
    first = await context.ask_model("main", PROMPT, seed=7)
    second = await context.ask_model("main", PROMPT)
    assert (first.usage.tokens_in, first.usage.tokens_out) == (10, 3)
    assert second.usage.cost_usd == 0.5
    assert first.document != second.document
    assert context.prompts == [RecordedPrompt("main", PROMPT, 7), RecordedPrompt("main", PROMPT, None)]
    with pytest.raises(AssertionError, match="asked 3 times"):
        await context.ask_model("main", PROMPT)


async def test_an_error_in_a_script_is_raised_and_a_role_without_a_model_is_a_matter_of_config() -> None:
    context = ScriptedTrialContext(models={"main": ScriptedModel(answer_in_turn(ServiceUnavailableError("down")))})
    with pytest.raises(ServiceUnavailableError):
        await context.ask_model("main", PROMPT)
    with pytest.raises(ConfigError):
        context.dialect("critic")


async def test_the_policy_bounds_the_tools() -> None:
    context = ScriptedTrialContext(
        scripted_tools=[LOOK, LISTEN], policy=SourcePolicy(tools=("look", "listen"), first="listen")
    )
    assert [tool.name for tool in context.tools] == ["listen"]
    assert context.all_tools == [LOOK.tool, LISTEN.tool]
    assert (await context.use_tool("look", {"where": "up"})).failed
    assert (await context.use_tool("listen", {})).observation.text == "heard"
    assert [tool.name for tool in context.tools] == ["look", "listen"]
    context = ScriptedTrialContext(scripted_tools=[LOOK, LISTEN], policy=SourcePolicy(tools=("look",), first="listen"))
    assert [tool.name for tool in context.tools] == ["look"]
    assert context.all_tools == [LOOK.tool]


async def test_a_tool_with_so_many_uses_is_not_offered_after_them() -> None:
    context = ScriptedTrialContext(scripted_tools=[ScriptedTool(LOOK.tool, LOOK.run, use_limit=1)])
    assert not (await context.use_tool("look", {"where": "up"})).failed
    assert context.tools == []
    assert context.all_tools == [LOOK.tool]
    assert (await context.use_tool("look", {"where": "up"})).failed
    assert context.tool_calls == [("look", {"where": "up"})]


def test_chance_belongs_to_the_trial_and_its_labels() -> None:
    draws = [
        ScriptedTrialContext(trial=trial).stream(label).integers(2**31) for trial in (1, 2) for label in ("a", "a", "b")
    ]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 4
