"""A model that takes over in mid-conversation begins one of its own: told what was done, given no state of another."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot.core.errors import ServiceUnavailableError
from bot.core.language_models import (
    Message,
    MessageRole,
    ModelCompletion,
    ModelDialect,
    NativeMessage,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from bot.core.research import SourcePolicy
from bot.core.values import Json
from bot.forecasting.agent.chat_session import open_session
from bot.forecasting.agent.prompt_texts import TRANSCRIPT_CHARS, TRANSCRIPT_PART_CHARS, transcript_text
from bot.forecasting.untrusted_text import fence_text
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTrialContext,
    answer_in_turn,
    changed_prefixes,
    tool_call_answer,
)
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import believing, move, probability, question, search, steps_of, submit
from tests.plugins.blf.cases import create_context as context

MAIN, SPARE = "scripted:main", "scripted:spare"
DOWN = ServiceUnavailableError("down")
VOTE = ToolDefinition(
    name="vote",
    description="Vote",
    parameters={"type": "object", "properties": {"percent": {"type": "integer"}}, "required": ["percent"]},
)


def signed(said: ModelCompletion, model: str) -> ModelCompletion:
    native = NativeMessage(provider="scripted", model=model, text=json.dumps({"signature": f"of {model}"}))
    return replace(said, native=native)


def evidence(text: str) -> dict[str, Any]:
    return believing(0.62, evidence_for=[{"text": text, "source": "search_1_result_1"}])


def two(
    main: list[ScriptedAnswer], spare: list[ScriptedAnswer], dialect: ModelDialect = ModelDialect.TOOLS
) -> dict[str, ScriptedModel]:
    """Return the main model and the one behind it, each of which signs what it says."""
    said = {
        name: [signed(one, name) if isinstance(one, ModelCompletion) else one for one in lines]
        for name, lines in ((MAIN, main), (SPARE, spare))
    }
    behind = ScriptedModel(answer_in_turn(*said[SPARE]), dialect, SPARE)
    return {"main": ScriptedModel(answer_in_turn(*said[MAIN]), dialect, MAIN, behind)}


def natives(prompt: Prompt) -> set[str]:
    return {message.native.model for message in prompt.messages if message.native is not None}


async def test_a_fallback_takes_a_trial_over_from_its_belief_and_goes_on_to_the_end() -> None:
    main: list[ScriptedAnswer] = [
        search("ship", evidence("the ship sailed")),
        move("lookup_url", {"url": "a"}, believing(0.64)),
    ]
    spare: list[ScriptedAnswer] = [search("storm", believing(0.7)), submit(0.8, believing(0.8))]
    at = context(models=two([*main, DOWN], spare))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert [step.action.name for step in steps] == ["web_search", "lookup_url", "web_search", "submit"]
    assert probability(steps[-1]) == 0.8
    assert f"{SPARE} took over from {MAIN}" in steps[2].remarks

    failed, first, second = (one.prompt for one in at.prompts[2:])
    assert (failed.model, natives(failed)) == (MAIN, {MAIN})
    # It begins a conversation of its own, with the same tools.
    assert [message.speaker for message in first.messages] == [MessageRole.SYSTEM, MessageRole.USER]
    assert first.messages[0] == at.prompts[0].prompt.messages[0]
    assert [*map(id, first.tools)] == [*map(id, failed.tools)]
    told = first.messages[1].text
    opening = at.prompts[0].prompt.messages[1].text
    assert told.startswith(f"{opening}\n\n## Work so far\n")
    for part in (
        '- web_search({"query": "ship"})',
        '- lookup_url({"url": "a"})',
        "Belief state after step 2 of 10\nprobability: 0.64",
        "[search_1_result_1] the ship sailed",
    ):
        assert part in told
    assert told.endswith("Step 3 of 10. You can call now: web_search, lookup_url, submit.")
    # What it says afterwards comes behind that, and nothing of the other model.
    assert second.model == SPARE
    assert second.messages[:2] == first.messages
    assert natives(second) == {SPARE}
    assert "Belief state after step 3 of 10\nprobability: 0.7" in second.messages[-1].text
    assert changed_prefixes(at.prompts) == []
    assert [(one.model, one.asked, one.errors, one.submitted) for one in at.reported_performances] == [
        (MAIN, 2, 1, None),
        (SPARE, 2, 0, True),
    ]


async def test_without_a_belief_the_one_who_takes_over_reads_what_was_found() -> None:
    at = context(models=two([search("ship"), DOWN], [submit(0.8)]))
    _, error = await steps_of(question(), at, BlfSettings(belief=False))
    assert error is None
    told = at.prompts[-1].prompt.messages[-1].text
    assert 'Call: web_search({"query": "ship"})' in told
    assert "Result:\nsearch_1_result_1: the ship left port" in told


async def test_nothing_is_handed_over_before_anything_was_said() -> None:
    at = context(models=two([DOWN], [submit(0.8, believing(0.8))]))
    steps, error = await steps_of(question(), at)
    assert error is None
    failed, first = (one.prompt for one in at.prompts)
    assert first.messages == failed.messages
    assert not any("took over" in remark for remark in steps[0].remarks)


async def test_in_json_each_action_is_described_once_to_the_one_who_takes_over() -> None:
    def say(name: str, arguments: Mapping[str, Json], percent: int) -> ModelCompletion:
        said = {"action": name, "arguments": dict(arguments), "updated_belief": believing(percent, field="percent")}
        return ModelCompletion(text=json.dumps(said))

    main: list[ScriptedAnswer] = [say("lookup_url", {"url": "a"}, 60), say("web_search", {"query": "ship"}, 62), DOWN]
    spare: list[ScriptedAnswer] = [say("web_search", {"query": "storm"}, 64), DOWN]
    at = context(models=two(main, spare, ModelDialect.JSON), policy=SourcePolicy(first="lookup_url"))
    await steps_of(question(), at)
    first = at.prompts[0].prompt.messages[-1].text
    assert ("- lookup_url:" in first, "- web_search:" in first) == (True, False)
    took_over = at.prompts[3].prompt
    told = took_over.messages[-1].text
    assert [told.count(f"- {name}:") for name in ("lookup_url", "submit", "web_search")] == [1, 1, 1]
    assert "Step 3 of 10. You can call now: web_search, lookup_url, submit." in told
    # Whoever comes after that one is told no more than once either.
    assert at.prompts[4].prompt.model == SPARE
    again = at.prompts[4].prompt.handover[-1].text
    assert [again.count(f"- {name}:") for name in ("lookup_url", "submit", "web_search")] == [1, 1, 1]


def share(arguments: Mapping[str, Json]) -> Json:
    return arguments["percent"]


async def test_a_person_without_a_belief_hands_over_what_was_said() -> None:
    vote = signed(tool_call_answer("vote", '{"percent": 40}', identity="x" * 50), MAIN)
    spare = ScriptedModel(answer_in_turn(tool_call_answer("vote", '{"percent": 60}')), ModelDialect.TOOLS, SPARE)
    at = ScriptedTrialContext(
        models={"juror": ScriptedModel(answer_in_turn(vote, DOWN), ModelDialect.TOOLS, MAIN, spare)}
    )
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    await session.ask_structured(VOTE, share)
    session.say("The others said 30 %.")
    assert (await session.ask_structured(VOTE, share)).value == 60
    first = at.prompts[-1].prompt
    assert first.messages[1].text == (
        "Will it rain?\n\nAnswer with one call of vote.\n\n"
        "## Work so far\nAnother model began this work. Continue from here; do not repeat what was done.\n\n"
        'Assistant:\nCall: vote({"percent": 40})\n\n'
        "Result:\nThe others said 30 %.\n\nAnswer with one call of vote.\n\n"
        "Answer with one call of vote."
    )
    assert session.messages[:2] == [*first.messages]
    assert session.model == SPARE


async def test_an_answer_that_is_not_kept_hands_nothing_over() -> None:
    spare = ScriptedModel(answer_in_turn(tool_call_answer("vote", '{"percent": 60}')), ModelDialect.TOOLS, SPARE)
    lines = answer_in_turn(tool_call_answer("vote", '{"percent": 40}'), DOWN)
    at = ScriptedTrialContext(models={"juror": ScriptedModel(lines, ModelDialect.TOOLS, MAIN, spare)})
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    await session.ask_structured(VOTE, share)
    session.say("Vote again.")
    before = list(session.messages)
    assert (await session.ask_structured(VOTE, share, keep=False)).value == 60
    assert (session.messages, session.model) == (before, MAIN)


def test_a_text_of_others_that_is_cut_stays_fenced() -> None:
    long, short = fence_text("x" * 9000, "page_1"), fence_text("short", "page_2")
    told = transcript_text([Message(speaker=MessageRole.TOOL, text=f"{short}\n{long}\n\nStep 2 of 3.", answers="a")])
    assert "Step 2" not in told
    for fenced in (long, short):
        opening, closing = fenced.partition(" ")[0], fenced.rpartition("\n")[2]
        assert (told.count(opening), told.count(closing)) == (1, 1)
    assert told.endswith(long.rpartition("\n")[2])


def test_of_a_long_conversation_the_end_is_told_and_no_message_fills_it_alone() -> None:
    long = "x" * (3 * TRANSCRIPT_CHARS)
    spoken = Message(speaker=MessageRole.ASSISTANT, text=long, calls=(ToolCall(id="a", name="look", arguments=long),))
    told = transcript_text([spoken, *[Message(speaker=MessageRole.USER, text=f"{n} {long}") for n in range(20)]])
    assert len(told) <= TRANSCRIPT_CHARS + 100
    assert told.startswith("(what came before is left out)")
    assert "User:\n19 xxx" in told
    assert len(transcript_text([spoken])) < 2 * TRANSCRIPT_PART_CHARS + 100
