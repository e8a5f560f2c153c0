"""The scripted desk offers what its policy allows, remembers what happened, and lets no script run dry unseen."""

import pytest

from bot.domain.prompt import Completion, Message, Prompt, Speaker
from bot.domain.research import SourcePolicy
from bot.domain.step import Usage
from bot.errors import ConfigError, Unavailable
from bot.testing.desk import Asked, ScriptedDesk, ScriptedModel, ScriptedTool, in_turn, tool_that_says

PROMPT = Prompt(messages=(Message(speaker=Speaker.USER, text="x" * 40),))
LOOK = tool_that_says("look", "seen", where={"type": "string"})
LISTEN = tool_that_says("listen", "heard")


async def test_a_script_speaks_in_turn_and_everything_is_remembered() -> None:
    spent = Completion(text="two", usage=Usage(calls=3, cost_usd=0.5))
    desk = ScriptedDesk(models={"main": ScriptedModel(in_turn(Completion(text="one" * 4), spent))})
    first = await desk.ask("main", PROMPT, seed=7)
    second = await desk.ask("main", PROMPT)
    assert (first.usage.tokens_in, first.usage.tokens_out) == (10, 3)
    assert second.usage.cost_usd == 0.5
    assert first.document != second.document
    assert desk.asked == [Asked("main", PROMPT, 7), Asked("main", PROMPT, None)]
    with pytest.raises(AssertionError, match="asked 3 times"):
        await desk.ask("main", PROMPT)


async def test_an_error_in_a_script_is_raised_and_a_role_without_a_model_is_a_matter_of_config() -> None:
    desk = ScriptedDesk(models={"main": ScriptedModel(in_turn(Unavailable("down")))})
    with pytest.raises(Unavailable):
        await desk.ask("main", PROMPT)
    with pytest.raises(ConfigError):
        desk.dialect("critic")


async def test_the_policy_bounds_the_tools() -> None:
    desk = ScriptedDesk(bench=[LOOK, LISTEN], policy=SourcePolicy(tools=("look", "listen"), first="listen"))
    assert [tool.name for tool in desk.tools] == ["listen"]
    assert desk.all_tools == [LOOK.tool, LISTEN.tool]
    assert (await desk.use("look", {"where": "up"})).failed
    assert (await desk.use("listen", {})).observation.text == "heard"
    assert [tool.name for tool in desk.tools] == ["look", "listen"]
    desk = ScriptedDesk(bench=[LOOK, LISTEN], policy=SourcePolicy(tools=("look",), first="listen"))
    assert [tool.name for tool in desk.tools] == ["look"]
    assert desk.all_tools == [LOOK.tool]


async def test_a_tool_with_so_many_uses_is_not_offered_after_them() -> None:
    desk = ScriptedDesk(bench=[ScriptedTool(LOOK.tool, LOOK.run, uses=1)])
    assert not (await desk.use("look", {"where": "up"})).failed
    assert desk.tools == []
    assert desk.all_tools == [LOOK.tool]
    assert (await desk.use("look", {"where": "up"})).failed
    assert desk.used == [("look", {"where": "up"})]


def test_chance_belongs_to_the_trial_and_its_labels() -> None:
    draws = [ScriptedDesk(trial=trial).stream(label).integers(2**31) for trial in (1, 2) for label in ("a", "a", "b")]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 4
