"""A conversation belongs to the model that spoke in it; state of one model reaches no other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import AuthenticationError, RequestRejectedError
from bot.core.language_models import (
    Message,
    MessageRole,
    ModelCompletion,
    ModelPerformance,
    NativeMessage,
    Prompt,
    ToolDefinition,
)
from bot.core.redaction import register_secrets, temporary_secrets
from bot.llm.call_records import load_prompt
from bot.llm.gateway import prompt_for_model
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import MAIN, SPARE, GatewayFixture, charge, inquiry, section, with_fallback

LOOK = ToolDefinition(name="look", description="Look.", parameters={"type": "object"})
QUESTION = Message(speaker=MessageRole.USER, text="Will it rain?")
SUMMARY = Message(speaker=MessageRole.USER, text="Will it rain? So far 30 % is believed.")


def native(model: str) -> NativeMessage:
    return NativeMessage(provider="prime/chat", model=model, text=f'{{"signature": "of {model}"}}')


def spoken(text: str, model: str) -> Message:
    return Message(speaker=MessageRole.ASSISTANT, text=text, native=native(model))


# What the main model said in two steps.
BEGUN = (QUESTION, spoken("first", "big"), Message(speaker=MessageRole.USER, text="And?"), spoken("second", "big"))
ONGOING = Prompt(messages=BEGUN, tools=(LOOK,), stable=1, model=MAIN, handover=(SUMMARY,), cache_key="rain")


def test_the_model_that_spoke_gets_all_it_said_as_it_said_it() -> None:
    assert prompt_for_model(ONGOING, MAIN) == replace(ONGOING, handover=())


def test_another_model_gets_the_handover_as_a_conversation_of_its_own() -> None:
    assert prompt_for_model(ONGOING, SPARE) == Prompt(messages=(SUMMARY,), tools=(LOOK,), stable=1, cache_key="rain")


def test_without_a_handover_another_model_gets_the_words_alone() -> None:
    got = prompt_for_model(replace(ONGOING, handover=()), SPARE)
    assert [message.text for message in got.messages] == ["Will it rain?", "first", "And?", "second"]
    assert [message.native for message in got.messages] == [None] * 4
    assert got.model == ""


def test_a_prompt_without_state_is_the_same_object() -> None:
    plain = Prompt(messages=(QUESTION,))
    assert prompt_for_model(plain, MAIN) is plain


MESSAGES = st.builds(
    Message,
    speaker=st.sampled_from(MessageRole),
    text=st.text(max_size=3),
    native=st.one_of(st.none(), st.builds(native, st.sampled_from(["big", "small", "another"]))),
)


@given(
    st.lists(MESSAGES, max_size=5),
    st.lists(MESSAGES, max_size=3),
    st.sampled_from(["", MAIN, SPARE, "prime:another"]),
    st.sampled_from([MAIN, SPARE]),
)
def test_whatever_a_prompt_holds_no_model_gets_state_of_another(
    messages: list[Message], handover: list[Message], spoke: str, model: str
) -> None:
    got = prompt_for_model(Prompt(messages=tuple(messages), handover=tuple(handover), model=spoke), model)
    own = {"prime:big": "big", "other:small": "small"}[model]
    assert {message.native.model for message in got.messages if message.native is not None} <= {own}
    assert got.handover == ()


async def asked_of(rig: GatewayFixture, prompt: Prompt) -> str:
    return (await rig.gateway.ask(inquiry(prompt), deadline_s=60)).model


async def test_where_the_main_model_dies_the_fallback_takes_over_with_the_handover_and_keeps_the_conversation(
    open_rig: OpenRig,
) -> None:
    answer = ModelCompletion(text="third", usage=text_completion("x").usage, native=native("small"))
    llms = {
        "prime": ScriptedModelProvider(turns=[RequestRejectedError("gone"), text_completion("back")]),
        "other": ScriptedModelProvider(turns=[answer]),
    }
    async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
        first = await rig.gateway.ask(inquiry(ONGOING), deadline_s=60)
        assert (first.model, first.completion.native) == (SPARE, native("small"))
        (to_main,), (to_spare,) = rig.prime.requests, rig.other.requests
        assert to_main.prompt.messages == BEGUN
        assert to_spare.prompt.messages == (SUMMARY,)
        # What is on record is what was really sent to the one that answered.
        record = await rig.call_record(first.document)
        assert (await load_prompt(record.asked, rig.ledger.documents, scope="forecast-1")).messages == (SUMMARY,)
        assert record.completion.native == native("small")

        # From now on it is the fallback's conversation, though the main model is back.
        taken_over = (SUMMARY, spoken("third", "small"), Message(speaker=MessageRole.USER, text="And?"))
        ongoing = replace(ONGOING, messages=taken_over, model=SPARE)
        assert await asked_of(rig, ongoing) == SPARE
        assert (len(rig.prime.requests), rig.other.requests[-1].prompt.messages) == (1, taken_over)
        # A conversation that nobody spoke in begins with the main model.
        assert await asked_of(rig, Prompt(messages=(QUESTION,))) == MAIN


async def test_a_fallback_that_dies_in_its_turn_hands_over_to_the_main_model(open_rig: OpenRig) -> None:
    llms = {
        "prime": ScriptedModelProvider(turns=[text_completion("back")]),
        "other": ScriptedModelProvider(turns=[AuthenticationError("old key")]),
    }
    ongoing = replace(ONGOING, messages=(SUMMARY, spoken("third", "small")), model=SPARE, handover=(QUESTION,))
    async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
        assert await asked_of(rig, ongoing) == MAIN
        assert rig.prime.requests[0].prompt.messages == (QUESTION,)
        assert len(rig.other.requests) == 1


async def test_a_model_found_wanting_amid_its_conversation_hands_over(open_rig: OpenRig) -> None:
    health = {"window": 5, "min_trials": 5}
    bad = ModelPerformance(role="main", model=MAIN, asked=1, unparsed=0, submitted=False)
    async with open_rig(section(roles=with_fallback(), health=health)) as rig:
        for trial in range(5):
            await rig.gateway.grade(bad, charge(trial=trial))
        assert await asked_of(rig, ONGOING) == SPARE
        assert rig.other.requests[0].prompt.messages == (SUMMARY,)
        assert rig.prime.requests == []


async def test_a_model_that_plays_the_role_no_more_hands_over_to_those_that_do(open_rig: OpenRig) -> None:
    async with open_rig(section(roles=with_fallback())) as rig:
        assert await asked_of(rig, replace(ONGOING, model="prime:retired")) == MAIN
        assert rig.prime.requests[0].prompt.messages == (SUMMARY,)


async def test_the_trials_of_a_question_share_a_key_of_the_cache_and_other_questions_do_not(open_rig: OpenRig) -> None:
    asked = [
        inquiry("a", to=charge("f1", trial=1)),
        inquiry("b", to=charge("f2", trial=2)),
        inquiry("c", to=replace(charge(), ref="lantern:snow")),
        inquiry(Prompt(messages=(QUESTION,), cache_key="mine")),
    ]
    async with open_rig() as rig:
        for one in asked:
            await rig.gateway.ask(one, deadline_s=60)
        first, second, third, own = (request.prompt.cache_key for request in rig.prime.requests)
    assert first == second != third
    assert (own, "lantern" in first, 0 < len(first) <= 64) == ("mine", False, True)


async def test_a_secret_is_kept_from_the_handover_too(open_rig: OpenRig) -> None:
    told = Message(speaker=MessageRole.USER, text="A page said hunter2-and-more.")
    llms = {"prime": ScriptedModelProvider(turns=[RequestRejectedError("gone")]), "other": ScriptedModelProvider()}
    with temporary_secrets():
        register_secrets("hunter2-and-more")
        async with open_rig(section(roles=with_fallback()), llms=llms) as rig:
            await asked_of(rig, replace(ONGOING, handover=(told,)))
            assert "hunter2" not in rig.other.requests[0].prompt.messages[0].text


@pytest.mark.parametrize("role", ["main", "filter"])
async def test_roles_keep_their_caches_apart(open_rig: OpenRig, role: str) -> None:
    roles = {name: {"model": MAIN} for name in ("main", "filter")}
    async with open_rig(section(roles=roles)) as rig:
        for name in ("main", role):
            await rig.gateway.ask(inquiry(name, role=name), deadline_s=60)
        keys = {request.prompt.cache_key for request in rig.prime.requests}
    assert len(keys) == len({"main", role})
